/* SPDX-License-Identifier: MIT */
/* Owner, mode, xattrs, flags, times: in this order, since a chown takes
 * setuid, setgid and capabilities away, an ACL and the mode share bits, and
 * all of them move the times. */
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <snapctl/base/mem.h>

#include "internal.h"

#define LIST_MAX  65536
#define VALUE_MAX 65536
#define NAME_MAX_ 255

/* Inode flags that FS_IOC_SETFLAGS takes; the others tell of the file. */
#define SETTABLE                                                            \
	(FS_SECRM_FL | FS_UNRM_FL | FS_COMPR_FL | FS_SYNC_FL |              \
	 FS_IMMUTABLE_FL | FS_APPEND_FL | FS_NODUMP_FL | FS_NOATIME_FL |    \
	 FS_NOCOMP_FL | FS_JOURNAL_DATA_FL | FS_NOTAIL_FL | FS_DIRSYNC_FL | \
	 FS_TOPDIR_FL | FS_NOCOW_FL | FS_PROJINHERIT_FL)
#define EARLY (FS_COMPR_FL | FS_NOCOMP_FL | FS_NOCOW_FL)

/* An inode: open, or by its name in a directory. */
struct inode {
	int fd; /* -1: by name */
	int dir;
	const char *name;
	char proc[64 + 256]; /* for xattrs by name */
	uint32_t slot;
};

void rmeta_free(struct rmeta *m)
{
	free(m->list);
	free(m->value);
}

static int room(struct rmeta *m, struct sc_err *err)
{
	if (!m->list)
		m->list = malloc(LIST_MAX);
	if (!m->value)
		m->value = malloc(VALUE_MAX);
	return m->list && m->value ? 0 : sc_oom(err, "attributes");
}

static int failed(const struct rmeta *m, const struct inode *i,
		  const char *what, struct sc_err *err)
{
	char path[RPATH];
	int sys = errno;

	return sc_fail(err, SC_EIO, sys, "%s of %s", what,
		       rpath(m->r, i->slot, path));
}

static void warn(const struct rmeta *m, uint32_t slot, const char *what,
		 int sys)
{
	char path[RPATH];

	notes_add(m->r->notes, NOTE_WARN, "%s of %s cannot be set%s%s", what,
		  rpath(m->r, slot, path), sys ? ": " : "",
		  sys ? strerror(sys) : "");
}

static struct inode by_fd(int fd, uint32_t slot)
{
	return (struct inode){ .fd = fd, .dir = -1, .name = "", .slot = slot };
}

static struct inode by_name(int dir, const char *name, uint32_t slot)
{
	struct inode i = { .fd = -1, .dir = dir, .name = name, .slot = slot };

	(void)snprintf(i.proc, sizeof(i.proc), "/proc/self/fd/%d/%s", dir,
		       name);
	return i;
}

/* -- owner and mode ------------------------------------------------------ */

static int set_owner(struct rmeta *m, const struct inode *i,
		     const struct entry *e, struct sc_err *err)
{
	int rc;

	if (i->fd >= 0)
		rc = fchown(i->fd, e->uid, e->gid);
	else
		rc = fchownat(i->dir, i->name, e->uid, e->gid,
			      AT_SYMLINK_NOFOLLOW);
	return rc < 0 ? failed(m, i, "set owner", err) : 0;
}

static int set_mode(struct rmeta *m, const struct inode *i,
		    const struct entry *e, struct sc_err *err)
{
	int rc;

	if (S_ISLNK(e->mode))
		return 0;
	if (i->fd >= 0)
		rc = fchmod(i->fd, e->mode & 07777);
	else
		rc = fchmodat(i->dir, i->name, e->mode & 07777,
			      AT_SYMLINK_NOFOLLOW);
	return rc < 0 ? failed(m, i, "set mode", err) : 0;
}

/* -- attributes ---------------------------------------------------------- */

static int set_xattr(const struct inode *i, const char *name, const void *p,
		     size_t n)
{
	if (i->fd >= 0)
		return fsetxattr(i->fd, name, p, n, 0);
	return lsetxattr(i->proc, name, p, n, 0);
}

static ssize_t get_xattr(const struct inode *i, const char *name, void *p)
{
	if (i->fd >= 0)
		return fgetxattr(i->fd, name, p, VALUE_MAX);
	return lgetxattr(i->proc, name, p, VALUE_MAX);
}

static int remove_xattr(const struct inode *i, const char *name)
{
	if (i->fd >= 0)
		return fremovexattr(i->fd, name);
	return lremovexattr(i->proc, name);
}

/* The next of a set. 1, 0 at the end, -1. name: 256 bytes. */
static int next_xattr(struct cur *c, char *name, const unsigned char **value,
		      size_t *n, struct sc_err *err)
{
	const unsigned char *p;
	size_t len;

	if (cur_left(c) == 0 && !c->bad)
		return 0;
	p = cur_bytes(c, NAME_MAX_, &len);
	if (p)
		*value = cur_bytes(c, VALUE_MAX, n);
	if (c->bad || !p || len == 0 || memchr(p, 0, len))
		return sc_fail(err, SC_ECORRUPT, 0,
			       "index: damaged extended attributes");
	memcpy(name, p, len);
	name[len] = 0;
	return 1;
}

static int put_xattr(struct rmeta *m, const struct inode *i, const char *name,
		     const void *p, size_t n, struct sc_err *err)
{
	char what[300];

	if (set_xattr(i, name, p, n) == 0)
		return 0;
	(void)snprintf(what, sizeof(what), "attribute %.255s", name);
	/* Not for this file system, or not for us (trusted.*, a security
	 * module): that much is lost, and said. */
	if (errno == EOPNOTSUPP || errno == EPERM || errno == EACCES) {
		warn(m, i->slot, what, errno);
		return 0;
	}
	return failed(m, i, what, err);
}

static int put_xattrs(struct rmeta *m, const struct inode *i,
		      const struct entry *e, bool compare, struct sc_err *err)
{
	const unsigned char *value;
	char name[NAME_MAX_ + 1];
	size_t len, n;
	const void *blob = tree_xattrs(m->r->tree, e->xattrs, &len);
	struct cur c = cur_of(blob, len);
	ssize_t have;
	int rc;

	while ((rc = next_xattr(&c, name, &value, &n, err)) > 0) {
		have = compare ? get_xattr(i, name, m->value) : -1;
		if (have >= 0 && (size_t)have == n &&
		    memcmp(m->value, value, n) == 0)
			continue;
		if (put_xattr(m, i, name, value, n, err) < 0)
			return -1;
	}
	return rc;
}

static bool wanted(const struct rmeta *m, const struct entry *e,
		   const char *name)
{
	const unsigned char *value;
	char have[NAME_MAX_ + 1];
	size_t len, n;
	const void *blob = tree_xattrs(m->r->tree, e->xattrs, &len);
	struct cur c = cur_of(blob, len);

	while (next_xattr(&c, have, &value, &n, NULL) > 0)
		if (strcmp(have, name) == 0)
			return true;
	return false;
}

/* What a snapshot would have seen: the rest is none of ours. */
static bool ours(const char *name)
{
	return strncmp(name, "user.", 5) == 0 ||
	       strncmp(name, "system.posix_acl_", 17) == 0 ||
	       strcmp(name, "security.capability") == 0;
}

static int drop_xattrs(struct rmeta *m, const struct inode *i,
		       const struct entry *e, struct sc_err *err)
{
	ssize_t n = i->fd >= 0 ? flistxattr(i->fd, m->list, LIST_MAX)
			       : llistxattr(i->proc, m->list, LIST_MAX);

	if (n < 0 && errno == EOPNOTSUPP)
		return 0;
	if (n < 0)
		return failed(m, i, "list attributes", err);
	for (const char *p = m->list; p < m->list + n; p += strlen(p) + 1) {
		if (!ours(p) || wanted(m, e, p))
			continue;
		if (remove_xattr(i, p) < 0 && errno != ENODATA)
			return failed(m, i, "remove attribute", err);
	}
	return 0;
}

/* -- flags --------------------------------------------------------------- */

/* Those that a file system without flags lacks are a warning. */
static int set_flags(struct rmeta *m, int fd, uint32_t slot, uint32_t mask)
{
	uint32_t want = tree_at(m->r->tree, slot)->flags & mask;
	int have;

	if (ioctl(fd, FS_IOC_GETFLAGS, &have) < 0) {
		if (want)
			warn(m, slot, "inode flags", errno);
		return 0;
	}
	if (((uint32_t)have & mask) == want)
		return 0;
	have = (int)(((uint32_t)have & ~mask) | want);
	if (ioctl(fd, FS_IOC_SETFLAGS, &have) < 0)
		warn(m, slot, "inode flags", errno);
	return 0;
}

int rmeta_early(struct rmeta *m, int fd, uint32_t slot, struct sc_err *err)
{
	(void)err;
	if (!(tree_at(m->r->tree, slot)->flags & EARLY))
		return 0;
	return set_flags(m, fd, slot, EARLY);
}

int rmeta_last_flags(struct rmeta *m, int fd, uint32_t slot, struct sc_err *err)
{
	(void)err;
	return set_flags(m, fd, slot, SETTABLE);
}

/* -- times --------------------------------------------------------------- */

static int set_times(struct rmeta *m, const struct inode *i,
		     const struct entry *e, struct sc_err *err)
{
	const struct timespec t[2] = {
		{ .tv_nsec = UTIME_OMIT },
		{ .tv_sec = e->mtime, .tv_nsec = e->mtime_ns },
	};
	int rc;

	if (i->fd >= 0)
		rc = futimens(i->fd, t);
	else
		rc = utimensat(i->dir, i->name, t, AT_SYMLINK_NOFOLLOW);
	return rc < 0 ? failed(m, i, "set time", err) : 0;
}

static int look(struct rmeta *m, const struct inode *i, struct stat *st,
		struct sc_err *err)
{
	int rc = i->fd >= 0 ? fstat(i->fd, st)
			    : fstatat(i->dir, i->name, st, AT_SYMLINK_NOFOLLOW);

	return rc < 0 ? failed(m, i, "stat", err) : 0;
}

static bool times_differ(const struct entry *e, const struct stat *st)
{
	return st->st_mtim.tv_sec != e->mtime ||
	       st->st_mtim.tv_nsec != (long)e->mtime_ns;
}

static bool owner_differs(const struct entry *e, const struct stat *st)
{
	return st->st_uid != e->uid || st->st_gid != e->gid;
}

static bool mode_differs(const struct entry *e, const struct stat *st)
{
	return !S_ISLNK(e->mode) && (st->st_mode & 07777) != (e->mode & 07777);
}

/* What was set must be what is there: file systems clamp times, servers
 * squash owners, and neither says so. */
static int confirm(struct rmeta *m, const struct inode *i,
		   const struct entry *e, struct stat *st, struct sc_err *err)
{
	if (look(m, i, st, err) < 0)
		return -1;
	if (owner_differs(e, st))
		warn(m, i->slot, "owner", 0);
	if (mode_differs(e, st))
		warn(m, i->slot, "mode", 0);
	if (times_differ(e, st))
		warn(m, i->slot, "time of change", 0);
	return 0;
}

/* -- all of it ----------------------------------------------------------- */

static int fresh(struct rmeta *m, const struct inode *i, const struct entry *e,
		 struct stat *st, struct sc_err *err)
{
	if (((e->uid || e->gid) && set_owner(m, i, e, err) < 0) ||
	    set_mode(m, i, e, err) < 0 ||
	    (e->xattrs && put_xattrs(m, i, e, false, err) < 0))
		return -1;
	if (i->fd >= 0 && e->flags & SETTABLE & ~RMETA_LOCKS)
		(void)set_flags(m, i->fd, i->slot, SETTABLE & ~RMETA_LOCKS);
	if (set_times(m, i, e, err) < 0)
		return -1;
	return confirm(m, i, e, st, err);
}

int rmeta_fresh(struct rmeta *m, int fd, uint32_t slot, struct stat *st,
		struct sc_err *err)
{
	struct inode i = by_fd(fd, slot);

	return fresh(m, &i, tree_at(m->r->tree, slot), st, err);
}

int rmeta_fresh_at(struct rmeta *m, int dir, const char *name, uint32_t slot,
		   struct sc_err *err)
{
	struct inode i = by_name(dir, name, slot);
	struct stat st;

	return fresh(m, &i, tree_at(m->r->tree, slot), &st, err);
}

static int mend(struct rmeta *m, const struct inode *i, const struct entry *e,
		struct sc_err *err)
{
	struct stat st;

	if (room(m, err) < 0 || look(m, i, &st, err) < 0)
		return -1;
	if (owner_differs(e, &st) && set_owner(m, i, e, err) < 0)
		return -1;
	if (drop_xattrs(m, i, e, err) < 0)
		return -1;
	if (e->xattrs && put_xattrs(m, i, e, true, err) < 0)
		return -1;
	/* Owner and ACL may have moved the mode. */
	if (look(m, i, &st, err) < 0)
		return -1;
	if (mode_differs(e, &st) && set_mode(m, i, e, err) < 0)
		return -1;
	if (times_differ(e, &st) && set_times(m, i, e, err) < 0)
		return -1;
	/* Last, for nothing goes on an immutable one. */
	if (i->fd >= 0)
		(void)set_flags(m, i->fd, i->slot, SETTABLE);
	return confirm(m, i, e, &st, err);
}

int rmeta_mend(struct rmeta *m, int fd, uint32_t slot, struct sc_err *err)
{
	struct inode i = by_fd(fd, slot);

	return mend(m, &i, tree_at(m->r->tree, slot), err);
}

int rmeta_mend_at(struct rmeta *m, int dir, const char *name, uint32_t slot,
		  struct sc_err *err)
{
	struct inode i = by_name(dir, name, slot);

	return mend(m, &i, tree_at(m->r->tree, slot), err);
}
