/* SPDX-License-Identifier: MIT */
#include "internal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <snapctl/base/io.h>
#include <snapctl/base/mem.h>
#include <snapctl/base/text.h>

#define LAYOUT "{\"imageLayoutVersion\":\"1.0.0\"}"
#define EMPTY_INDEX                                                  \
	"{\"schemaVersion\":2,"                                      \
	"\"mediaType\":\"application/vnd.oci.image.index.v1+json\"," \
	"\"manifests\":[]}"
#define NAME_MAX_SHOWN 256
#define LOCK_PATIENCE  60 /* seconds; the lock "index" is held for moments */

static const char *shown(char out[NAME_MAX_SHOWN], const char *path)
{
	return text_escaped(out, NAME_MAX_SHOWN, path, strlen(path));
}

static struct repo *repo_new(void)
{
	struct repo *r = calloc(1, sizeof(*r));

	if (!r)
		return NULL;
	r->dir = r->blobs = r->run = r->run_lock = -1;
	if (pthread_mutex_init(&r->mutex, NULL)) {
		free(r);
		return NULL;
	}
	return r;
}

void repo_close(struct repo *r)
{
	if (!r)
		return;
	run_end(r);
	mem_closep(&r->blobs);
	mem_closep(&r->dir);
	pthread_mutex_destroy(&r->mutex);
	free(r->sealed);
	free(r->path);
	free(r);
}

const char *repo_path(const struct repo *r)
{
	return r->path;
}

int repo_free_space(const struct repo *r, uint64_t *bytes, struct sc_err *err)
{
	struct statvfs v;

	if (fstatvfs(r->dir, &v) < 0)
		return sc_fail(err, SC_EIO, errno, "free space of %s", r->path);
	*bytes = (uint64_t)v.f_bavail * v.f_frsize;
	return 0;
}

/* -- looking ----------------------------------------------------------------
 */

static bool exists(struct repo *r, const char *name)
{
	return faccessat(r->dir, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

int repo_check_layout(struct repo *r, bool strict, struct sc_err *err)
{
	auto_buf struct buf text = { 0 };
	json_t *doc = NULL;
	const char *version;
	int rc = io_read_file(r->dir, "oci-layout", 4096, &text, err);

	if (rc < 0)
		return -1;
	if (rc == 0)
		return sc_fail(err, SC_ECORRUPT, 0, "oci-layout is missing");
	if (layout_parse(&text, "oci-layout", &doc, err) < 0)
		return -1;
	version = layout_str(doc, "imageLayoutVersion");
	if (!version)
		rc = sc_fail(err, SC_ECORRUPT, 0,
			     "oci-layout names no imageLayoutVersion");
	else if (strcmp(version, "1.0.0") != 0)
		rc = sc_fail(err, SC_ECORRUPT, 0,
			     "oci-layout: unknown layout version");
	else if (strict && json_object_size(doc) != 1)
		rc = sc_fail(err, SC_ECORRUPT, 0,
			     "oci-layout has an unknown field");
	else
		rc = 0;
	json_decref(doc);
	return rc;
}

static int open_dirs(struct repo *r, const char *path, struct sc_err *err)
{
	char name[NAME_MAX_SHOWN];

	r->dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (r->dir < 0 && errno == ENOENT)
		return sc_fail(
			err, SC_ENOTFOUND, 0,
			"no repository at %s (--repo DIR or SNAPCTL_REPO names "
			"another place; create makes one)",
			shown(name, path));
	if (r->dir < 0 && errno == ENOTDIR)
		return sc_fail(err, SC_EREFUSED, 0, "%s is not a directory",
			       shown(name, path));
	if (r->dir < 0)
		return sc_fail(err, SC_EIO, errno, "open repository %s",
			       shown(name, path));
	r->path = realpath(path, NULL);
	if (!r->path)
		return sc_fail(err, SC_EIO, errno, "resolve %s",
			       shown(name, path));
	return 0;
}

static int open_blobs(struct repo *r, struct sc_err *err)
{
	r->blobs = openat(r->dir, "blobs/sha256",
			  O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (r->blobs < 0 && errno == ENOENT)
		return sc_fail(err, SC_ECORRUPT, 0, "blobs/sha256 is missing");
	if (r->blobs < 0)
		return sc_fail(err, SC_EIO, errno, "open blobs/sha256");
	return 0;
}

static int open_read(struct repo *r, const char *path, struct sc_err *err)
{
	char name[NAME_MAX_SHOWN];

	if (open_dirs(r, path, err) < 0)
		return -1;
	if (!exists(r, "oci-layout") && !exists(r, "blobs") &&
	    !exists(r, "index.json"))
		return sc_fail(err, SC_ENOTFOUND, 0,
			       "%s is no repository (create makes one)",
			       shown(name, path));
	if (repo_check_layout(r, false, err) < 0 || open_blobs(r, err) < 0)
		return sc_wrap(err, "repository %s", shown(name, path));
	return 0;
}

/* -- making -----------------------------------------------------------------
 */

static int make_parents(const char *path, struct sc_err *err)
{
	auto_buf struct buf b = { 0 };
	char *p;

	buf_printf(&b, "%s", path);
	if (!buf_cstr(&b))
		return sc_oom(err, "path");
	p = (char *)b.p;
	for (char *at = p + 1; (at = strchr(at, '/')); *at++ = '/') {
		*at = 0;
		if (mkdir(p, 0700) < 0 && errno != EEXIST)
			return sc_fail(err, SC_EIO, errno,
				       "create directory for the repository");
	}
	return 0;
}

/* Only what an interrupted repo_open can have left. */
static int check_unused(struct repo *r, struct sc_err *err)
{
	static const char *const own[] = { ".",		 "..",	  "blobs",
					   "index.json", "locks", "state",
					   "lost+found" };
	int fd = openat(r->dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	char name[NAME_MAX_SHOWN];
	struct dirent *e;
	int rc = 0;

	if (!d) {
		rc = sc_fail(err, SC_EIO, errno, "read %s",
			     shown(name, r->path));
		mem_closep(&fd);
		return rc;
	}
	while (rc == 0 && (e = readdir(d))) {
		bool known = strncmp(e->d_name, ".tmp-", 5) == 0;

		for (size_t i = 0; i < ARRAY_LEN(own); i++)
			known |= strcmp(e->d_name, own[i]) == 0;
		if (!known)
			rc = sc_fail(err, SC_EREFUSED, 0,
				     "%s is not empty and no repository; "
				     "nothing is put there",
				     shown(name, r->path));
	}
	closedir(d);
	return rc;
}

/* The lock is held: another run may be making the same repository. */
static int make_layout(struct repo *r, struct sc_err *err)
{
	if (exists(r, "oci-layout"))
		return 0;
	if (io_mkdir(r->dir, "blobs", 0700, err) < 0 ||
	    io_mkdir(r->dir, "blobs/sha256", 0700, err) < 0)
		return -1;
	/* Durable before the file that says "this is a repository". */
	auto_close int blobs =
		openat(r->dir, "blobs", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (blobs < 0)
		return sc_fail(err, SC_EIO, errno, "open blobs");
	if (io_fsync(blobs, "blobs", err) < 0)
		return -1;
	if (!exists(r, "index.json") &&
	    io_write_file(r->dir, "index.json", EMPTY_INDEX,
			  strlen(EMPTY_INDEX), err) < 0)
		return -1;
	return io_write_file(r->dir, "oci-layout", LAYOUT, strlen(LAYOUT), err);
}

static int make(struct repo *r, struct sc_err *err)
{
	struct repo_lock *lock;
	int rc;

	if (io_mkdir(r->dir, "locks", 0700, err) < 0 ||
	    io_mkdir(r->dir, "state", 0700, err) < 0 ||
	    io_mkdir(r->dir, "state/partial", 0700, err) < 0)
		return -1;
	if (exists(r, "oci-layout"))
		return 0;
	if (repo_lock(r, "index", LOCK_EXCLUSIVE, "create a repository",
		      LOCK_PATIENCE, NULL, &lock, err) < 0)
		return -1;
	rc = make_layout(r, err);
	repo_unlock(lock);
	return rc;
}

/* Files are 0600 and owned by the caller: in somebody else's repository its
 * owner could not read them. */
static int check_owner(const struct repo *r, struct sc_err *err)
{
	char name[NAME_MAX_SHOWN];
	struct stat st;

	if (fstat(r->dir, &st) < 0)
		return sc_fail(err, SC_EIO, errno, "stat %s",
			       shown(name, r->path));
	if (st.st_uid == geteuid())
		return 0;
	return sc_fail(err, SC_EREFUSED, 0,
		       "repository %s belongs to user %u: run snapctl as that "
		       "user, or give it to user %u (chown -R)",
		       shown(name, r->path), (unsigned)st.st_uid,
		       (unsigned)geteuid());
}

static int open_write(struct repo *r, const char *path, struct sc_err *err)
{
	char name[NAME_MAX_SHOWN];
	json_t *doc = NULL;

	if (make_parents(path, err) < 0)
		return -1;
	if (mkdir(path, 0700) < 0 && errno != EEXIST)
		return sc_fail(err, SC_EIO, errno, "create repository %s",
			       shown(name, path));
	if (open_dirs(r, path, err) < 0 || check_owner(r, err) < 0)
		return -1;
	if (!exists(r, "oci-layout") && check_unused(r, err) < 0)
		return -1;
	/* A damaged list is found now rather than after a stack was down. */
	if (make(r, err) < 0 || repo_check_layout(r, false, err) < 0 ||
	    open_blobs(r, err) < 0 || layout_read(r, &doc, NULL, err) < 0 ||
	    run_sweep(r, err) < 0) {
		json_decref(doc);
		return sc_wrap(err, "repository %s", shown(name, path));
	}
	json_decref(doc);
	r->writable = true;
	return 0;
}

int repo_open(const char *path, int mode, struct repo **out, struct sc_err *err)
{
	struct repo *r = repo_new();
	int rc;

	if (!r)
		return sc_oom(err, "repository");
	rc = mode == REPO_WRITE ? open_write(r, path, err)
				: open_read(r, path, err);
	if (rc < 0) {
		repo_close(r);
		return -1;
	}
	*out = r;
	return 0;
}
