/* SPDX-License-Identifier: MIT */
/* Directories of the volume and of the stage. Each is opened by one name
 * relative to its parent, so a symlink that somebody plants on the way is an
 * error and not a way out. The chain down to the last one stays open. */
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <snapctl/base/mem.h>
#include <snapctl/base/text.h>

#include "internal.h"

#define DIRS_OPEN 32
#define DIR_FLAGS (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)

int rstopped(const struct restore *r, struct sc_err *err)
{
	if (r->o.stop && atomic_load(r->o.stop))
		return sc_fail(err, SC_EINTR, 0, "interrupted");
	return 0;
}

/* -- messages ------------------------------------------------------------ */

const char *rpath_in(const struct restore *r, uint32_t dir, const char *name,
		     char out[RPATH])
{
	struct buf b = { 0 };

	/* Without memory the last name has to do. */
	if (tree_path(r->tree, dir, &b, NULL) < 0)
		buf_clear(&b);
	if (name && b.len)
		buf_u8(&b, '/');
	if (name)
		buf_put(&b, name, strlen(name));
	if (b.failed)
		text_escaped(out, RPATH, name ? name : "",
			     name ? strlen(name) : 0);
	else if (b.len == 0)
		text_escaped(out, RPATH, ".", 1);
	else
		text_escaped(out, RPATH, b.p, b.len);
	buf_free(&b);
	return out;
}

const char *rpath(const struct restore *r, uint32_t slot, char out[RPATH])
{
	return rpath_in(r, slot, NULL, out);
}

/* -- opening ------------------------------------------------------------- */

static void identity_of(const struct statx *st, struct identity *id)
{
	id->has_mnt = (st->stx_mask & STATX_MNT_ID) != 0;
	id->mnt = st->stx_mnt_id;
	id->dev = makedev(st->stx_dev_major, st->stx_dev_minor);
	id->ino = st->stx_ino;
}

int rdirs_identity(int fd, struct identity *id, struct sc_err *err)
{
	struct statx st;

	if (statx(fd, "", AT_EMPTY_PATH, STATX_BASIC_STATS | STATX_MNT_ID,
		  &st) < 0)
		return sc_fail(err, SC_EIO, errno, "stat");
	identity_of(&st, id);
	return 0;
}

/* Behind a mount point, or in a subvolume. */
bool rdirs_foreign(const struct restore *r, const struct statx *st)
{
	struct identity id;

	identity_of(st, &id);
	if (st->stx_attributes & st->stx_attributes_mask &
	    STATX_ATTR_MOUNT_ROOT)
		return true;
	if (id.has_mnt && r->root.has_mnt && id.mnt != r->root.mnt)
		return true;
	/* On overlayfs a file may show the device of its layer. */
	return S_ISDIR(st->stx_mode) && id.dev != r->root.dev;
}

/* For kernels and sandboxes without openat2. */
static int open_checked(const struct restore *r, int dir, const char *name)
{
	auto_close int fd = openat(dir, name, DIR_FLAGS);
	struct statx st;

	if (fd < 0)
		return -1;
	if (statx(fd, "", AT_EMPTY_PATH, STATX_BASIC_STATS | STATX_MNT_ID,
		  &st) < 0)
		return -1;
	if (rdirs_foreign(r, &st)) {
		errno = EXDEV;
		return -1;
	}
	return take_fd(&fd);
}

int rdirs_open(const struct restore *r, int dir, const char *name)
{
	struct open_how how = {
		.flags = DIR_FLAGS,
		.resolve =
			RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV,
	};
	long fd;

	do
		fd = syscall(SYS_openat2, dir, name, &how, sizeof(how));
	while (fd < 0 && (errno == EINTR || errno == EAGAIN));
	if (fd < 0 && (errno == ENOSYS || errno == EPERM))
		return open_checked(r, dir, name);
	return (int)fd;
}

/* -- the chain ----------------------------------------------------------- */

void rdirs_init(struct rdirs *d, struct restore *r, bool stage)
{
	*d = (struct rdirs){ .r = r, .stage = stage, .block_fd = -1 };
}

static void cut_to(struct rdirs *d, size_t n)
{
	while (d->n > n)
		mem_closep(&d->v[--d->n].fd);
}

void rdirs_free(struct rdirs *d)
{
	cut_to(d, 0);
	free(d->v);
	free(d->path);
	mem_closep(&d->block_fd);
}

/* The directory of the stage that holds slot by its number. */
static int open_block(struct rdirs *d, uint32_t slot, struct sc_err *err)
{
	uint32_t block = slot / BLOCK_SLOTS;
	char name[16];

	if (d->block_fd >= 0 && d->block == block)
		return 0;
	mem_closep(&d->block_fd);
	d->block_fd = -1;
	(void)snprintf(name, sizeof(name), "b%x", block);
	d->block_fd = rdirs_open(d->r, d->r->stagefd, name);
	if (d->block_fd < 0 && errno == ENOENT) {
		if (mkdirat(d->r->stagefd, name, 0700) < 0 && errno != EEXIST)
			return sc_fail(err, SC_EIO, errno, "make %s/%s",
				       STAGE_NAME, name);
		d->block_fd = rdirs_open(d->r, d->r->stagefd, name);
	}
	if (d->block_fd < 0)
		return sc_fail(err, SC_EIO, errno, "open %s/%s", STAGE_NAME,
			       name);
	d->block = block;
	return 0;
}

static void number(uint32_t slot, char tmp[16])
{
	(void)snprintf(tmp, 16, "%x", slot);
}

/* The chain begins beneath this one: the root, or a number in the stage. */
static bool is_top(const struct rdirs *d, uint32_t slot)
{
	return slot == 0 || (d->stage && !(d->r->op[slot] & ROP_IN));
}

static int path_to(struct rdirs *d, uint32_t slot, size_t *depth,
		   struct sc_err *err)
{
	const struct tree *t = d->r->tree;
	size_t n = 0;
	uint32_t s;

	for (s = slot; !is_top(d, s); s = tree_at(t, s)->parent)
		n++;
	n += d->stage;
	if (mem_grow(&d->path, &d->path_cap, n, sizeof(*d->path)) < 0 ||
	    mem_grow(&d->v, &d->cap, n, sizeof(*d->v)) < 0)
		return sc_oom(err, "directories");
	*depth = n;
	for (s = slot; n > 0; s = tree_at(t, s)->parent)
		d->path[--n] = s;
	return 0;
}

static int open_level(struct rdirs *d, size_t i, struct sc_err *err)
{
	uint32_t slot = d->path[i];
	const char *name = tree_at(d->r->tree, slot)->name;
	char tmp[16], path[RPATH];
	int above, fd;

	if (i > 0) {
		above = d->v[i - 1].fd;
	} else if (!d->stage) {
		above = d->r->rootfd;
	} else {
		if (open_block(d, slot, err) < 0)
			return -1;
		above = d->block_fd;
		number(slot, tmp);
		name = tmp;
	}
	fd = rdirs_open(d->r, above, name);
	if (fd < 0)
		return sc_fail(err, SC_EIO, errno, "open directory %s",
			       rpath(d->r, slot, path));
	d->v[i] = (struct level){ slot, fd };
	if (d->n < i + 1)
		d->n = i + 1;
	if (i >= DIRS_OPEN)
		mem_closep(&d->v[i - DIRS_OPEN].fd);
	if (i >= DIRS_OPEN)
		d->v[i - DIRS_OPEN].fd = -1;
	return 0;
}

int rdirs_get(struct rdirs *d, uint32_t slot, int *fd, struct sc_err *err)
{
	size_t depth = 0, same = 0, from;

	if (d->n && d->v[d->n - 1].slot == slot && d->v[d->n - 1].fd >= 0) {
		*fd = d->v[d->n - 1].fd;
		return 0;
	}
	if (path_to(d, slot, &depth, err) < 0)
		return -1;
	if (depth == 0) {
		*fd = d->r->rootfd;
		return 0;
	}
	while (same < d->n && same < depth && d->v[same].slot == d->path[same])
		same++;
	cut_to(d, same);
	for (from = same; from > 0 && d->v[from - 1].fd < 0; from--)
		;
	for (size_t i = from; i < depth; i++)
		if (open_level(d, i, err) < 0)
			return -1;
	*fd = d->v[depth - 1].fd;
	return 0;
}

int rdirs_place(struct rdirs *d, uint32_t slot, int *fd, const char **name,
		char tmp[16], struct sc_err *err)
{
	const struct entry *e = tree_at(d->r->tree, slot);

	*name = e->name;
	if (!d->stage || d->r->op[slot] & ROP_IN)
		return rdirs_get(d, e->parent, fd, err);
	if (open_block(d, slot, err) < 0)
		return -1;
	number(slot, tmp);
	*name = tmp;
	*fd = d->block_fd;
	return 0;
}
