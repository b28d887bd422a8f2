/* SPDX-License-Identifier: MIT */
/* The stage's header: what makes a directory called STAGE_NAME ours, and what
 * is known after a crash.
 *
 *   magic "SNAPSTG\n", u32 version, u32 state, u64 seconds and u32
 *   nanoseconds of the root's mtime before the stage, u32 0, 32 bytes digest
 *   of the index (zero: not recorded), 32 bytes SHA-256 of all before
 *
 * The names of an unfinished commit's plan will follow; a version 1 header
 * has none. */
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <snapctl/base/hash.h>
#include <snapctl/base/io.h>
#include <snapctl/base/mem.h>

#include "internal.h"

#define MAGIC	    "SNAPSTG\n"
#define VERSION	    1
#define HEADER_BODY 64
#define HEADER_LEN  (HEADER_BODY + DIGEST_LEN)
#define JOURNAL	    "journal"

static int digest_of(const void *p, size_t n, struct digest *out,
		     struct sc_err *err)
{
	auto_hash struct hash *h = NULL;

	if (hash_new(&h, err) < 0)
		return -1;
	return hash_once(h, p, n, out, err);
}

int rjournal_state(struct restore *r, enum rjournal_state s, struct sc_err *err)
{
	auto_buf struct buf b = { 0 };
	struct digest d;

	buf_put(&b, MAGIC, 8);
	buf_u32(&b, VERSION);
	buf_u32(&b, s);
	buf_u64(&b, (uint64_t)r->root_before.tv_sec);
	buf_u32(&b, (uint32_t)r->root_before.tv_nsec);
	buf_u32(&b, 0);
	buf_zero(&b, DIGEST_LEN);
	if (b.failed)
		return sc_oom(err, "journal");
	if (digest_of(b.p, b.len, &d, err) < 0)
		return -1;
	buf_put(&b, &d, sizeof(d));
	if (b.failed)
		return sc_oom(err, "journal");
	if (io_write_file(r->stagefd, JOURNAL, b.p, b.len, err) < 0)
		return sc_wrap(err, STAGE_NAME);
	return 0;
}

static int root_mtime(const struct restore *r, struct timespec *t,
		      struct sc_err *err)
{
	struct stat st;

	if (fstat(r->rootfd, &st) < 0)
		return sc_fail(err, SC_EIO, errno, "stat the volume's root");
	*t = st.st_mtim;
	return 0;
}

static int set_root_mtime(const struct restore *r, const struct timespec *t,
			  struct sc_err *err)
{
	const struct timespec both[2] = { { .tv_nsec = UTIME_OMIT }, *t };

	if (futimens(r->rootfd, both) < 0)
		return sc_fail(err, SC_EIO, errno,
			       "set the time of the volume's root");
	return 0;
}

/* -- making -------------------------------------------------------------- */

/* Nothing of the root may be inherited: its default ACL, a setgid group,
 * inode flags. */
static int bare(int fd, struct sc_err *err)
{
	int flags, none;

	if (fremovexattr(fd, "system.posix_acl_default") < 0 &&
	    errno != ENODATA && errno != EOPNOTSUPP)
		return sc_fail(err, SC_EIO, errno, "default ACL of %s",
			       STAGE_NAME);
	if (fremovexattr(fd, "system.posix_acl_access") < 0 &&
	    errno != ENODATA && errno != EOPNOTSUPP)
		return sc_fail(err, SC_EIO, errno, "ACL of %s", STAGE_NAME);
	if (fchown(fd, 0, 0) < 0 || fchmod(fd, 0700) < 0)
		return sc_fail(err, SC_EIO, errno, "owner of %s", STAGE_NAME);
	none = FS_COMPR_FL | FS_SYNC_FL | FS_NODUMP_FL | FS_NOATIME_FL |
	       FS_NOCOMP_FL | FS_JOURNAL_DATA_FL | FS_NOTAIL_FL |
	       FS_DIRSYNC_FL | FS_NOCOW_FL | FS_PROJINHERIT_FL;
	if (ioctl(fd, FS_IOC_GETFLAGS, &flags) < 0 || !(flags & none))
		return 0;
	flags &= ~none;
	/* Where it does not work, staged files say which flags they miss. */
	(void)ioctl(fd, FS_IOC_SETFLAGS, &flags);
	return 0;
}

static int empty_stage(struct restore *r, struct sc_err *err);

/* The stage of a restore that did not end becomes ours, its journal as it
 * is. */
static int begin_again(struct restore *r, struct sc_err *err)
{
	r->stagefd = rdirs_open(r, r->rootfd, STAGE_NAME);
	if (r->stagefd < 0)
		return sc_fail(err, SC_EIO, errno, "open %s", STAGE_NAME);
	if (empty_stage(r, err) < 0)
		return -1;
	return root_mtime(r, &r->root_staged, err);
}

int rjournal_begin(struct restore *r, struct sc_err *err)
{
	if (root_mtime(r, &r->root_before, err) < 0)
		return -1;
	if (r->unfinished)
		return begin_again(r, err);
	if (mkdirat(r->rootfd, STAGE_NAME, 0700) < 0)
		return sc_fail(err, SC_EIO, errno, "make %s", STAGE_NAME);
	r->stagefd = rdirs_open(r, r->rootfd, STAGE_NAME);
	if (r->stagefd < 0) {
		(void)sc_fail(err, SC_EIO, errno, "open %s", STAGE_NAME);
		(void)unlinkat(r->rootfd, STAGE_NAME, AT_REMOVEDIR);
		(void)set_root_mtime(r, &r->root_before, NULL);
		return -1;
	}
	if (bare(r->stagefd, err) < 0 || rjournal_state(r, RJ_STAGING, err) < 0)
		return -1;
	return root_mtime(r, &r->root_staged, err);
}

/* -- finding one --------------------------------------------------------- */

static int not_ours(struct sc_err *err)
{
	return sc_fail(err, SC_EREFUSED, 0,
		       "the volume holds a %s that is not snapctl's; move it "
		       "away first",
		       STAGE_NAME);
}

/* 1: read, 0: not a header. */
static int read_header(int fd, struct buf *b, struct sc_err *err)
{
	struct digest d;
	struct stat st;

	/* A fifo would make us wait. */
	if (fstatat(fd, JOURNAL, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
	    !S_ISREG(st.st_mode) || st.st_size != HEADER_LEN)
		return 0;
	if (io_read_file(fd, JOURNAL, HEADER_LEN, b, err) <= 0 ||
	    b->len != HEADER_LEN || memcmp(b->p, MAGIC, 8) != 0)
		return 0;
	if (digest_of(b->p, HEADER_BODY, &d, err) < 0)
		return -1;
	return memcmp(b->p + HEADER_BODY, &d, sizeof(d)) == 0;
}

static int take_over(struct restore *r, const struct buf *b, struct sc_err *err)
{
	struct cur c = cur_of(b->p + 8, b->len - 8);
	uint32_t version = cur_u32(&c), state = cur_u32(&c);
	struct timespec before;

	before.tv_sec = (time_t)cur_u64(&c);
	before.tv_nsec = cur_u32(&c);
	if (version != VERSION)
		return sc_fail(err, SC_EREFUSED, 0,
			       "%s was made by a newer snapctl", STAGE_NAME);
	/* A mixture: whatever is restored now mends it. Until that is done the
	 * journal goes on saying so. */
	if (state == RJ_COMMITTING) {
		r->unfinished = true;
		notes_add(r->notes, NOTE_INFO,
			  "an earlier restore of a volume did not end; this "
			  "one takes its place");
		return 0;
	}
	if (rjournal_remove(r, err) < 0)
		return -1;
	return set_root_mtime(r, &before, err);
}

/* 1: a stage of ours, its header in b, *fd open; 0: none at all; -1. */
static int find_stage(int rootfd, int *fd, struct buf *b, struct sc_err *err)
{
	struct stat st;
	int rc = 0;

	*fd = openat(rootfd, STAGE_NAME,
		     O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (*fd < 0)
		return errno == ENOENT ? 0 : not_ours(err);
	if (fstat(*fd, &st) < 0)
		rc = sc_fail(err, SC_EIO, errno, "stat %s", STAGE_NAME);
	else if (st.st_uid == 0 && (st.st_mode & 07777) == 0700)
		rc = read_header(*fd, b, err);
	if (rc > 0)
		return 1;
	mem_closep(fd);
	*fd = -1;
	return rc < 0 ? -1 : not_ours(err);
}

int restore_unfinished(int rootfd, struct sc_err *err)
{
	auto_buf struct buf b = { 0 };
	auto_close int fd = -1;
	struct cur c;
	int rc = find_stage(rootfd, &fd, &b, err);

	if (rc <= 0)
		return rc;
	c = cur_of(b.p + 8, b.len - 8);
	(void)cur_u32(&c);
	return cur_u32(&c) == RJ_COMMITTING;
}

int rjournal_look(struct restore *r, struct sc_err *err)
{
	auto_buf struct buf b = { 0 };
	int rc = find_stage(r->rootfd, &r->stagefd, &b, err);

	if (rc <= 0)
		return rc;
	rc = take_over(r, &b, err);
	mem_closep(&r->stagefd);
	r->stagefd = -1;
	return rc;
}

/* -- removing ------------------------------------------------------------ */

/* All but the journal. */
static int empty_stage(struct restore *r, struct sc_err *err)
{
	struct rremove x = { .r = r, .force = true };
	struct live_names l = { 0 };
	int rc = rnames_read(&l, r->stagefd, err);

	for (size_t i = 0; rc == 0 && i < l.n; i++)
		if (strcmp(rname(&l, i), JOURNAL) != 0)
			rc = rremove(&x, r->stagefd, rname(&l, i), STAGE_NAME,
				     err);
	rnames_free(&l);
	return rc;
}

/* The journal last: until then what is there can be told to be ours. */
int rjournal_remove(struct restore *r, struct sc_err *err)
{
	if (empty_stage(r, err) < 0)
		return -1;
	if (unlinkat(r->stagefd, JOURNAL, 0) < 0 && errno != ENOENT)
		return sc_fail(err, SC_EIO, errno, "remove %s/%s", STAGE_NAME,
			       JOURNAL);
	if (unlinkat(r->rootfd, STAGE_NAME, AT_REMOVEDIR) < 0 &&
	    errno != ENOENT)
		return sc_fail(err, SC_EIO, errno, "remove %s", STAGE_NAME);
	return 0;
}

static bool same_time(const struct timespec *a, const struct timespec *b)
{
	return a->tv_sec == b->tv_sec && a->tv_nsec == b->tv_nsec;
}

int restore_abort(struct restore *r, struct sc_err *err)
{
	struct timespec now;

	if (r->committing)
		return sc_fail(err, SC_EPARTIAL, 0,
			       "the commit has begun and cannot be undone");
	if (r->stagefd < 0)
		return 0;
	/* The mixture that was found stays one, and stays marked. */
	if (r->unfinished) {
		if (empty_stage(r, err) < 0)
			return -1;
		mem_closep(&r->stagefd);
		r->stagefd = -1;
		return 0;
	}
	if (root_mtime(r, &now, err) < 0)
		return -1;
	/* Who changed the root while we staged keeps that time. */
	if (r->root_staged.tv_nsec < 0 || same_time(&now, &r->root_staged))
		now = r->root_before;
	if (rjournal_remove(r, err) < 0 || set_root_mtime(r, &now, err) < 0)
		return -1;
	mem_closep(&r->stagefd);
	r->stagefd = -1;
	return 0;
}
