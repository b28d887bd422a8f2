/* SPDX-License-Identifier: MIT */
/* What is known of an entry besides its data: stat, inode flags, extended
 * attributes, a link's target, the extents of a sparse file. */
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

#include "take_internal.h"

#define LIST_LEN   (64u << 10) /* XATTR_LIST_MAX */
#define VALUE_LEN  (64u << 10) /* XATTR_SIZE_MAX */
#define NAMES_MAX  (LIST_LEN / 2)
#define TARGET_LEN 4096u
/* All of one entry: they lie in one segment, with all else in it. */
#define ATTRS_MAX  (8u << 20)

int meta_init(struct meta *m, struct sc_err *err)
{
	m->list = malloc(LIST_LEN);
	m->value = malloc(VALUE_LEN);
	return m->list && m->value ? 0 : sc_oom(err, "attributes");
}

void meta_free(struct meta *m)
{
	free(m->list);
	free(m->value);
	free(m->x);
	buf_free(&m->xattrs);
	buf_free(&m->target);
}

bool stat_same(const struct stat *a, const struct stat *b)
{
	return a->st_ino == b->st_ino && a->st_mode == b->st_mode &&
	       a->st_size == b->st_size &&
	       a->st_mtim.tv_sec == b->st_mtim.tv_sec &&
	       a->st_mtim.tv_nsec == b->st_mtim.tv_nsec &&
	       a->st_ctim.tv_sec == b->st_ctim.tv_sec &&
	       a->st_ctim.tv_nsec == b->st_ctim.tv_nsec;
}

bool stat_is_entry(const struct stat *st, const struct entry *e)
{
	return st->st_ino == e->ino && st->st_mode == e->mode &&
	       (!entry_is_reg(e) || (uint64_t)st->st_size == e->size) &&
	       st->st_mtim.tv_sec == e->mtime &&
	       st->st_mtim.tv_nsec == (long)e->mtime_ns &&
	       st->st_ctim.tv_sec == e->ctime &&
	       st->st_ctim.tv_nsec == (long)e->ctime_ns;
}

void stat_to_entry(const struct stat *st, struct entry *e)
{
	e->size = 0;
	if (S_ISREG(st->st_mode))
		e->size = (uint64_t)st->st_size;
	if (S_ISCHR(st->st_mode) || S_ISBLK(st->st_mode))
		e->size = st->st_rdev;
	e->mtime = st->st_mtim.tv_sec;
	e->mtime_ns = (uint32_t)st->st_mtim.tv_nsec;
	e->ctime = st->st_ctim.tv_sec;
	e->ctime_ns = (uint32_t)st->st_ctim.tv_nsec;
	e->ino = st->st_ino;
	e->uid = st->st_uid;
	e->gid = st->st_gid;
	e->nlink = (uint32_t)st->st_nlink;
	e->mode = (uint16_t)st->st_mode;
}

/* -- flags and attributes ----------------------------------------------- */

/* A file system without them is none the worse for it. */
static uint32_t read_flags(int fd, const struct stat *st)
{
	int flags = 0;

	if (!S_ISREG(st->st_mode) && !S_ISDIR(st->st_mode))
		return 0;
	if (ioctl(fd, FS_IOC_GETFLAGS, &flags) < 0)
		return 0;
	return (uint32_t)flags;
}

/* A descriptor opened with O_PATH has no attributes itself, but its name in
 * /proc leads to the inode, a symlink included. */
struct source {
	int fd;
	char proc[40]; /* "" : by fd */
};

static ssize_t list_names(const struct source *s, char *p, size_t n)
{
	return s->proc[0] ? listxattr(s->proc, p, n) : flistxattr(s->fd, p, n);
}

static ssize_t get_value(const struct source *s, const char *name, void *p,
			 size_t n)
{
	return s->proc[0] ? getxattr(s->proc, name, p, n)
			  : fgetxattr(s->fd, name, p, n);
}

static int name_cmp(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static int put_values(struct meta *m, const struct source *s, char **names,
		      size_t n, struct sc_err *err)
{
	qsort(names, n, sizeof(*names), name_cmp);
	for (size_t i = 0; i < n; i++) {
		ssize_t len = get_value(s, names[i], m->value, VALUE_LEN);

		if (len < 0 && errno == ENODATA)
			continue; /* went away; ctime tells */
		if (len < 0)
			return sc_fail(err, SC_EIO, errno,
				       "read extended attribute %.255s",
				       names[i]);
		buf_bytes(&m->xattrs, names[i], strlen(names[i]));
		buf_bytes(&m->xattrs, m->value, (size_t)len);
		if (m->xattrs.len > ATTRS_MAX)
			return sc_fail(err, SC_EIO, E2BIG,
				       "read extended attributes");
	}
	return m->xattrs.failed ? sc_oom(err, "attributes") : 0;
}

static int read_xattrs(struct meta *m, const struct source *s, bool trusted,
		       struct sc_err *err)
{
	ssize_t len = list_names(s, m->list, LIST_LEN);
	auto_free char **names = NULL;
	size_t n = 0;

	if (len < 0 && (errno == ENOTSUP || errno == ENOSYS))
		return 0;
	if (len < 0)
		return sc_fail(err, SC_EIO, errno, "list extended attributes");
	if (len == 0)
		return 0;
	names = malloc(NAMES_MAX * sizeof(*names));
	if (!names)
		return sc_oom(err, "attributes");
	for (char *p = m->list; p < m->list + len; p += strlen(p) + 1)
		if (trusted || strncmp(p, "trusted.", 8) != 0)
			names[n++] = p;
	return put_values(m, s, names, n, err);
}

static int read_target(struct meta *m, int fd, struct sc_err *err)
{
	unsigned char *p = buf_reserve(&m->target, TARGET_LEN + 1);
	ssize_t n;

	if (!p)
		return sc_oom(err, "link target");
	n = readlinkat(fd, "", (char *)p, TARGET_LEN + 1);
	if (n < 0)
		return sc_fail(err, SC_EIO, errno, "read link");
	if (n > (ssize_t)TARGET_LEN)
		return sc_fail(err, SC_EIO, ENAMETOOLONG, "read link");
	m->target.len = (size_t)n;
	return 0;
}

/* -- extents ------------------------------------------------------------ */

/* Fewer extents: fills the holes that are smaller than some power of two. */
static void merge_extents(struct meta *m)
{
	for (uint64_t hole = 8192; m->nx > EXTENTS_MAX / 2; hole *= 2) {
		uint32_t to = 0;

		for (uint32_t i = 1; i < m->nx; i++) {
			struct extent *a = &m->x[to], *b = &m->x[i];

			if (b->off - (a->off + a->len) < hole)
				a->len = b->off + b->len - a->off;
			else
				m->x[++to] = *b;
		}
		m->nx = to + 1;
	}
}

static int add_extent(struct meta *m, uint64_t from, uint64_t to,
		      struct sc_err *err)
{
	if (m->nx >= EXTENTS_MAX)
		merge_extents(m);
	if (mem_grow(&m->x, &m->xcap, m->nx + 1, sizeof(*m->x)) < 0)
		return sc_oom(err, "extents");
	m->x[m->nx++] = (struct extent){ from, to - from };
	m->data += to - from;
	return 0;
}

/* Extents of a file that occupies less than its size. Where the file system
 * cannot tell, the file is one extent: not sparse. */
static int read_extents(struct meta *m, int fd, struct sc_err *err)
{
	off_t size = m->st.st_size, from, to = 0;

	m->data = 0;
	while (to < size) {
		from = lseek(fd, to, SEEK_DATA);
		if (from < 0 && errno == ENXIO)
			break;
		if (from < 0 && (errno == EINVAL || errno == EOPNOTSUPP))
			return add_extent(m, 0, (uint64_t)size, err);
		if (from < 0 || (to = lseek(fd, from, SEEK_HOLE)) < 0)
			return sc_fail(err, SC_EIO, errno, "find holes");
		if (from >= size)
			break;
		if (to > size)
			to = size;
		if (to <= from)
			break; /* it is being cut; stat will tell */
		if (add_extent(m, (uint64_t)from, (uint64_t)to, err) < 0)
			return -1;
	}
	return 0;
}

static int look_for_holes(struct meta *m, int fd, struct sc_err *err)
{
	uint64_t size = (uint64_t)m->st.st_size;

	m->data = size;
	if ((uint64_t)m->st.st_blocks * 512 >= size || size == 0)
		return 0;
	if (read_extents(m, fd, err) < 0)
		return -1;
	m->sparse = m->nx != 1 || m->x[0].off != 0 || m->x[0].len != size;
	m->data = 0;
	for (uint32_t i = 0; i < m->nx; i++)
		m->data += m->x[i].len;
	return 0;
}

int meta_read(struct meta *m, int fd, bool path_fd, bool trusted,
	      struct sc_err *err)
{
	struct source s = { fd, "" };

	m->sparse = false;
	m->data = 0;
	m->nx = 0;
	buf_clear(&m->xattrs);
	buf_clear(&m->target);
	if (fstat(fd, &m->st) < 0)
		return sc_fail(err, SC_EIO, errno, "stat");
	if (path_fd)
		snprintf(s.proc, sizeof(s.proc), "/proc/self/fd/%d", fd);
	m->flags = path_fd ? 0 : read_flags(fd, &m->st);
	if (read_xattrs(m, &s, trusted, err) < 0)
		return -1;
	if (S_ISLNK(m->st.st_mode))
		return read_target(m, fd, err);
	if (S_ISREG(m->st.st_mode))
		return look_for_holes(m, fd, err);
	return 0;
}

/* -- data --------------------------------------------------------------- */

static int read_full(int fd, unsigned char *p, size_t n, uint64_t off,
		     bool *missing)
{
	while (n) {
		ssize_t k = pread(fd, p, n, (off_t)off);

		if (k < 0 && errno == EINTR)
			continue;
		if (k < 0)
			return -1;
		if (k == 0)
			break;
		p += k;
		n -= (size_t)k;
		off += (uint64_t)k;
	}
	if (n) {
		memset(p, 0, n);
		*missing = true;
	}
	return 0;
}

int data_read(int fd, const struct extent *x, uint32_t nx, uint64_t off,
	      unsigned char *p, size_t n, bool *missing)
{
	if (!x)
		return read_full(fd, p, n, off, missing);
	for (uint32_t i = 0; i < nx && n; i++) {
		uint64_t len = x[i].len;

		if (off >= len) {
			off -= len;
			continue;
		}
		len -= off;
		if (len > n)
			len = n;
		if (read_full(fd, p, (size_t)len, x[i].off + off, missing) < 0)
			return -1;
		p += len;
		n -= (size_t)len;
		off = 0;
	}
	return 0;
}
