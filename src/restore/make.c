/* SPDX-License-Identifier: MIT */
/* One entry of the stage: made, finished, looked at again. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include <snapctl/base/mem.h>

#include "internal.h"

#define FILE_FLAGS (O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC)

void rmake_init(struct stager *s, struct restore *r)
{
	*s = (struct stager){ .r = r, .meta = { .r = r } };
	rdirs_init(&s->dirs, r, true);
}

void rmake_free(struct stager *s)
{
	rdirs_free(&s->dirs);
	rmeta_free(&s->meta);
}

static int failed(struct stager *s, uint32_t slot, const char *what,
		  struct sc_err *err)
{
	char path[RPATH];
	int sys = errno;

	return sc_fail(err, SC_EIO, sys, "%s for %s in the stage", what,
		       rpath(s->r, slot, path));
}

/* -- what a file was left as ---------------------------------------------- */

static uint64_t mix(uint64_t h, uint64_t v)
{
	h = (h ^ v) * UINT64_C(0x9e3779b97f4a7c15);
	return h ^ h >> 29;
}

static uint64_t stamp_of(const struct stat *st)
{
	uint64_t h = mix(1, st->st_ino);

	h = mix(h, (uint64_t)st->st_size);
	h = mix(h, (uint64_t)st->st_mtim.tv_sec);
	h = mix(h, (uint64_t)st->st_mtim.tv_nsec);
	h = mix(h, (uint64_t)st->st_ctim.tv_sec);
	return mix(h, (uint64_t)st->st_ctim.tv_nsec);
}

static int stat_staged(struct stager *s, uint32_t slot, struct stat *st,
		       struct sc_err *err)
{
	const char *name;
	char tmp[16];
	int dir;

	if (rdirs_place(&s->dirs, slot, &dir, &name, tmp, err) < 0)
		return -1;
	if (fstatat(dir, name, st, AT_SYMLINK_NOFOLLOW) < 0)
		return failed(s, slot, "stat", err);
	return 0;
}

int rmake_same(struct stager *s, uint32_t slot, struct sc_err *err)
{
	struct stat st;

	if (stat_staged(s, slot, &st, err) < 0)
		return -1;
	return stamp_of(&st) == s->r->stamp[slot];
}

/* -- files ---------------------------------------------------------------- */

int rmake_open(struct stager *s, uint32_t slot, bool fresh, int *fd,
	       struct sc_err *err)
{
	const char *name;
	char tmp[16];
	int dir;

	if (rdirs_place(&s->dirs, slot, &dir, &name, tmp, err) < 0)
		return -1;
	*fd = openat(dir, name, FILE_FLAGS | (fresh ? O_EXCL : 0), 0600);
	if (*fd < 0)
		return failed(s, slot, "create a file", err);
	if (rmeta_early(&s->meta, *fd, slot, err) < 0) {
		mem_closep(fd);
		return -1;
	}
	return 0;
}

int rmake_finish(struct stager *s, int fd, uint32_t slot, struct sc_err *err)
{
	const struct entry *e = tree_at(s->r->tree, slot);
	char path[RPATH];
	struct stat st;

	if (e->bits & ENTRY_SPARSE && ftruncate(fd, (off_t)e->size) < 0)
		return failed(s, slot, "set the size", err);
	if (rmeta_fresh(&s->meta, fd, slot, &st, err) < 0)
		return -1;
	if ((uint64_t)st.st_size != e->size)
		return sc_fail(err, SC_ECORRUPT, 0,
			       "%s came out with %llu bytes instead of %llu",
			       rpath(s->r, slot, path),
			       (unsigned long long)st.st_size,
			       (unsigned long long)e->size);
	s->r->stamp[slot] = stamp_of(&st);
	if (s->r->o.files)
		atomic_fetch_add(s->r->o.files, 1);
	return 0;
}

static int make_empty(struct stager *s, uint32_t slot, struct sc_err *err)
{
	int fd, rc;

	if (rmake_open(s, slot, true, &fd, err) < 0)
		return -1;
	rc = rmake_finish(s, fd, slot, err);
	mem_closep(&fd);
	return rc;
}

/* -- the rest ------------------------------------------------------------- */

static int make_node(struct stager *s, int dir, const char *name, uint32_t slot)
{
	const struct entry *e = tree_at(s->r->tree, slot);

	if (S_ISLNK(e->mode))
		return symlinkat(tree_target(s->r->tree, e->first), dir, name);
	return mknodat(dir, name, (e->mode & S_IFMT) | 0600,
		       S_ISFIFO(e->mode) ? 0 : (dev_t)e->size);
}

int rmake_plain(struct stager *s, uint32_t slot, struct sc_err *err)
{
	const char *name;
	char tmp[16];
	int dir;

	if (entry_is_reg(tree_at(s->r->tree, slot)))
		return make_empty(s, slot, err);
	if (rdirs_place(&s->dirs, slot, &dir, &name, tmp, err) < 0)
		return -1;
	if (make_node(s, dir, name, slot) < 0)
		return failed(s, slot, "make", err);
	return rmeta_fresh_at(&s->meta, dir, name, slot, err);
}

int rmake_dir(struct stager *s, uint32_t slot, struct sc_err *err)
{
	const char *name;
	char tmp[16];
	int dir;

	if (rdirs_place(&s->dirs, slot, &dir, &name, tmp, err) < 0)
		return -1;
	if (mkdirat(dir, name, 0700) < 0)
		return failed(s, slot, "make a directory", err);
	return 0;
}

int rmake_dir_meta(struct stager *s, uint32_t slot, struct sc_err *err)
{
	struct stat st;
	int fd;

	if (rdirs_get(&s->dirs, slot, &fd, err) < 0)
		return -1;
	return rmeta_fresh(&s->meta, fd, slot, &st, err);
}

/* The link moves the ctime of all names. */
int rmake_link(struct stager *s, uint32_t slot, struct sc_err *err)
{
	uint32_t leader = rlinks_leader(s->r, slot);
	const char *from, *to;
	char tmp1[16], tmp2[16];
	auto_close int dir = -1;
	struct stat st;
	int dir2, fd;

	if (rdirs_place(&s->dirs, leader, &fd, &from, tmp1, err) < 0)
		return -1;
	dir = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	if (dir < 0)
		return failed(s, leader, "keep a directory", err);
	if (rdirs_place(&s->dirs, slot, &dir2, &to, tmp2, err) < 0)
		return -1;
	if (linkat(dir, from, dir2, to, 0) < 0)
		return failed(s, slot, "make a hard link", err);
	if (fstatat(dir2, to, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return failed(s, slot, "stat", err);
	s->r->stamp[leader] = stamp_of(&st);
	return 0;
}
