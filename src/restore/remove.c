/* SPDX-License-Identifier: MIT */
/* Removing a tree: deepest first, by descriptors, never into a mount point
 * nor the directory that holds the repository. What stays keeps the
 * directories above it. Looked at first (dry), so that what could not be
 * removed is a refusal and not half a commit. */
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <snapctl/base/mem.h>

#include "internal.h"

#define DEPTH_MAX 10000

static int keep(struct rremove *x, const char *what, struct sc_err *err)
{
	x->kept = true;
	if (x->refuse)
		return sc_fail(err, SC_EREFUSED, 0,
			       "%s would have to be removed, but a mount point "
			       "or the repository lies in it",
			       what);
	return 0;
}

static bool is_leave_out(const struct restore *r, const struct identity *id)
{
	return r->leave_out.ino && id->ino == r->leave_out.ino &&
	       id->dev == r->leave_out.dev;
}

/* Takes immutable and append-only away; what has no flags has none. */
static void unlock_fd(int fd)
{
	int flags;

	if (ioctl(fd, FS_IOC_GETFLAGS, &flags) < 0)
		return;
	flags &= ~RMETA_LOCKS;
	/* The removal that follows says whether it worked. */
	(void)ioctl(fd, FS_IOC_SETFLAGS, &flags);
}

static int remove_below(struct rremove *x, int fd, const char *what,
			struct sc_err *err)
{
	struct live_names l = { 0 };
	int rc = rnames_read(&l, fd, err);

	x->depth++;
	for (size_t i = 0; rc == 0 && i < l.n; i++)
		rc = rremove(x, fd, rname(&l, i), what, err);
	x->depth--;
	rnames_free(&l);
	return rc;
}

static int remove_dir(struct rremove *x, int dir, const char *name,
		      const char *what, struct sc_err *err)
{
	auto_close int fd = rdirs_open(x->r, dir, name);
	bool before = x->kept;
	struct identity id;

	if (fd < 0 && errno == ENOENT)
		return 0;
	if (fd < 0 && errno == EXDEV)
		return keep(x, what, err);
	if (fd < 0)
		return sc_fail(err, SC_EIO, errno, "open directory in %s",
			       what);
	if (rdirs_identity(fd, &id, err) < 0)
		return -1;
	if (is_leave_out(x->r, &id))
		return keep(x, what, err);
	if (x->depth > DEPTH_MAX)
		return sc_fail(err, SC_EREFUSED, 0,
			       "directories in %s are too deep", what);
	if (x->force)
		unlock_fd(fd);
	x->kept = false;
	if (remove_below(x, fd, what, err) < 0)
		return -1;
	if (!x->kept && !x->dry && unlinkat(dir, name, AT_REMOVEDIR) < 0) {
		if (errno == EBUSY)
			return keep(x, what, err);
		if (errno != ENOENT)
			return sc_fail(err, SC_EIO, errno,
				       "remove directory in %s", what);
	}
	x->n += !x->kept;
	x->kept |= before;
	return 0;
}

/* 1: as unlink, 0: a directory, -1. */
static int look(struct rremove *x, int dir, const char *name, const char *what,
		struct sc_err *err)
{
	struct statx st;

	if (statx(dir, name, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT,
		  STATX_BASIC_STATS | STATX_MNT_ID, &st) < 0) {
		if (errno == ENOENT)
			return 1;
		return sc_fail(err, SC_EIO, errno, "stat in %s", what);
	}
	if (rdirs_foreign(x->r, &st))
		return keep(x, what, err) < 0 ? -1 : 1;
	if (st.stx_attributes & (STATX_ATTR_IMMUTABLE | STATX_ATTR_APPEND))
		return sc_fail(
			err, SC_EREFUSED, 0,
			"%s would have to be removed, but it is or holds what "
			"is immutable or append-only (chattr)",
			what);
	if (S_ISDIR(st.stx_mode))
		return 0;
	x->n++;
	return 1;
}

static int unlink_any(struct rremove *x, int dir, const char *name)
{
	int fd;

	if (unlinkat(dir, name, 0) == 0)
		return 0;
	if (errno != EPERM || !x->force)
		return -1;
	fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd >= 0) {
		unlock_fd(fd);
		mem_closep(&fd);
	}
	return unlinkat(dir, name, 0);
}

int rremove(struct rremove *x, int dir, const char *name, const char *what,
	    struct sc_err *err)
{
	int rc;

	if (x->dry) {
		rc = look(x, dir, name, what, err);
		if (rc != 0)
			return rc < 0 ? -1 : 0;
		return remove_dir(x, dir, name, what, err);
	}
	if (unlink_any(x, dir, name) == 0) {
		x->n++;
		return 0;
	}
	switch (errno) {
	case ENOENT:
		return 0;
	case EISDIR:
		return remove_dir(x, dir, name, what, err);
	case EBUSY:
		return keep(x, what, err);
	default:
		return sc_fail(err, SC_EIO, errno, "remove %s", what);
	}
}
