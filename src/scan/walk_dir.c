/* SPDX-License-Identifier: MIT */
/* One directory of a walk: its names are read, sorted and given slots; then
 * its entries are stat'ed in the order of their inodes. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <snapctl/base/mem.h>
#include <snapctl/base/text.h>

#include "walk_internal.h"

#define SOCKETS_NAMED 20

/* -- messages ----------------------------------------------------------- */

const char *walk_dir_path(struct worker *k, char out[WALK_PATH], uint32_t slot,
			  const char *name, size_t len)
{
	if (tree_path(k->w->tree, slot, &k->path, NULL) < 0)
		buf_clear(&k->path);
	if (name && k->path.len)
		buf_u8(&k->path, '/');
	if (name)
		buf_put(&k->path, name, len);
	if (k->path.failed || k->path.len == 0)
		return memcpy(out, ".", 2);
	return text_escaped(out, WALK_PATH, k->path.p, k->path.len);
}

int walk_dir_unreadable(struct worker *k, uint32_t slot, int sys,
			const char *what, struct sc_err *err)
{
	char path[WALK_PATH];

	walk_dir_path(k, path, slot, NULL, 0);
	if (!k->w->o->allow_incomplete)
		return sc_fail(err, SC_EIO, sys, "%s %s", what, path);
	tree_at(k->w->tree, slot)->bits |= ENTRY_UNREADABLE;
	k->sum.unreadable++;
	notes_add(k->w->notes, NOTE_WARN, "%s %s: %s; recorded as unreadable",
		  what, path, strerrordesc_np(sys));
	return 0;
}

static void note_socket(struct worker *k, uint32_t dir, const char *name,
			size_t len)
{
	char path[WALK_PATH];

	k->sum.sockets++;
	if (atomic_fetch_add(&k->w->sockets_noted, 1) < SOCKETS_NAMED)
		notes_add(k->w->notes, NOTE_INFO, "socket skipped: %s",
			  walk_dir_path(k, path, dir, name, len));
}

/* -- names -------------------------------------------------------------- */

/* The first component of leave_out is name. */
static bool leads_to(const char *leave_out, const char *name, size_t len)
{
	return leave_out && strncmp(leave_out, name, len) == 0 &&
	       (leave_out[len] == 0 || leave_out[len] == '/');
}

static bool skipped(struct worker *k, uint32_t dir, const char *leave_out,
		    const struct dirent64 *d, size_t len)
{
	char path[WALK_PATH];

	if (d->d_name[0] == '.' &&
	    (len == 1 || (len == 2 && d->d_name[1] == '.')))
		return true;
	if (dir == 0 && strcmp(d->d_name, STAGE_NAME) == 0)
		return true;
	if (leads_to(leave_out, d->d_name, len) && leave_out[len] == 0) {
		notes_add(k->w->notes, NOTE_INFO, "left out: %s",
			  walk_dir_path(k, path, dir, d->d_name, len));
		return true;
	}
	if (d->d_type == DT_SOCK) {
		note_socket(k, dir, d->d_name, len);
		return true;
	}
	return false;
}

static int add_name(struct worker *k, const struct dirent64 *d, size_t len,
		    struct sc_err *err)
{
	struct name n = { NULL, d->d_ino, (uint16_t)len, d->d_type };

	/* A broken file system may say anything; these would lead out. */
	if (len == 0 || len > 255 || memchr(d->d_name, '/', len))
		return sc_fail(err, SC_EIO, 0,
			       "the file system gave a name that is none");
	n.p = tree_name(k->w->tree, &k->arena, d->d_name, len);
	if (!n.p)
		return sc_oom(err, "names");
	return names_add(&k->names, &n, err);
}

/* 1: all read, 0: the directory is gone, -1. */
static int read_names(struct worker *k, int fd, uint32_t slot,
		      const char *leave_out, struct sc_err *err)
{
	const struct dirent64 *d;
	ssize_t got;
	size_t len;

	for (;;) {
		got = getdents64(fd, k->dents, WALK_BUF);
		if (got == 0)
			return 1;
		if (got < 0 && errno == ENOENT)
			return 0;
		if (got < 0)
			return walk_dir_unreadable(k, slot, errno,
						   "read directory", err) < 0
				       ? -1
				       : 1;
		for (ssize_t at = 0; at < got; at += d->d_reclen) {
			d = (const struct dirent64 *)(k->dents + at);
			len = strlen(d->d_name);
			if (skipped(k, slot, leave_out, d, len))
				continue;
			if (add_name(k, d, len, err) < 0)
				return -1;
		}
		if (walk_go_on(k, err) < 0)
			return -1;
	}
}

/* Slots by name; then order[] by inode, its at counting from base. */
static int assign_slots(struct worker *k, uint32_t slot, uint32_t *base,
			struct sc_err *err)
{
	struct names *s = &k->names;

	if (names_sort(s, err) < 0 ||
	    tree_alloc(k->w->tree, (uint32_t)s->n, base, err) < 0)
		return -1;
	for (uint32_t i = 0; i < s->n; i++) {
		const struct name *n = &s->v[s->order[i].at];
		struct entry *e = tree_at(k->w->tree, *base + i);

		e->name = n->p;
		e->name_len = n->len;
		e->ino = n->ino;
		e->mode = (uint16_t)DTTOIF(n->type);
		e->parent = slot;
		s->order[i] = (struct key){ n->ino, i };
	}
	names_sort_keys(s);
	return 0;
}

/* -- stat --------------------------------------------------------------- */

void walk_dir_fill(struct entry *e, const struct statx *st)
{
	e->mode = st->stx_mode;
	e->uid = st->stx_uid;
	e->gid = st->stx_gid;
	e->ino = st->stx_ino;
	e->nlink = st->stx_nlink;
	e->mtime = st->stx_mtime.tv_sec;
	e->mtime_ns = st->stx_mtime.tv_nsec;
	e->ctime = st->stx_ctime.tv_sec;
	e->ctime_ns = st->stx_ctime.tv_nsec;
	e->size = 0;
	if (S_ISREG(st->stx_mode))
		e->size = st->stx_size;
	else if (S_ISCHR(st->stx_mode) || S_ISBLK(st->stx_mode))
		e->size = makedev(st->stx_rdev_major, st->stx_rdev_minor);
}

/* Behind a mount point, or in a subvolume. */
bool walk_dir_foreign(const struct walker *w, const struct statx *st)
{
	bool has_id = w->has_mnt_id && st->stx_mask & STATX_MNT_ID;

	/* What would be mounted on entering it is as foreign as what is. */
	if (st->stx_attributes & st->stx_attributes_mask &
	    (STATX_ATTR_MOUNT_ROOT | STATX_ATTR_AUTOMOUNT))
		return true;
	if (has_id && st->stx_mnt_id != w->mnt_id)
		return true;
	if (makedev(st->stx_dev_major, st->stx_dev_minor) == w->dev)
		return false;
	/* On overlayfs a file may show the device of its layer. */
	return S_ISDIR(st->stx_mode) ||
	       (!has_id && w->fs_type != OVERLAYFS_SUPER_MAGIC);
}

/* In a user namespace that maps only some ids, all others show as the
 * overflow owner: who it is cannot be read. */
int walk_dir_owner(struct worker *k, uint32_t slot, struct sc_err *err)
{
	const struct walker *w = k->w;
	struct entry *e = tree_at(w->tree, slot);

	if (!w->partial_map ||
	    (e->uid != w->overflow_uid && e->gid != w->overflow_gid))
		return 0;
	return walk_dir_unreadable(k, slot, EOVERFLOW,
				   "owner outside this user namespace:", err);
}

void walk_dir_mount(struct worker *k, uint32_t slot)
{
	struct entry *e = tree_at(k->w->tree, slot);
	char path[WALK_PATH];

	e->bits |= ENTRY_MOUNT;
	e->size = 0;
	k->sum.mounts++;
	notes_add(k->w->notes, NOTE_WARN, "mount point not entered: %s",
		  walk_dir_path(k, path, slot, NULL, 0));
}

/* mode 0 marks an entry that has no place in the tree. */
static int stat_failed(struct worker *k, uint32_t slot, int sys,
		       struct sc_err *err)
{
	struct entry *e = tree_at(k->w->tree, slot);

	if (sys == ENOMEM)
		return sc_oom(err, "stat");
	if (sys == ENOENT) {
		k->sum.vanished += !k->w->o->live;
		e->mode = 0;
		return 0;
	}
	/* With a type it can be recorded, without one only be told of. */
	return walk_dir_unreadable(k, slot, sys, "stat", err);
}

static int stat_one(struct worker *k, int fd, uint32_t slot, struct sc_err *err)
{
	struct entry *e = tree_at(k->w->tree, slot);
	struct statx st;

	if (statx(fd, e->name,
		  AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT | AT_STATX_SYNC_AS_STAT,
		  STATX_BASIC_STATS | STATX_MNT_ID, &st) < 0)
		return stat_failed(k, slot, errno, err);
	if (S_ISSOCK(st.stx_mode)) {
		note_socket(k, e->parent, e->name, e->name_len);
		e->mode = 0;
		return 0;
	}
	walk_dir_fill(e, &st);
	if (walk_dir_foreign(k->w, &st)) {
		walk_dir_mount(k, slot);
		return 0;
	}
	return walk_dir_owner(k, slot, err);
}

int walk_dir_stat(struct worker *k, const struct wide *d, uint32_t from,
		  uint32_t to, struct sc_err *err)
{
	for (uint32_t i = from; i < to; i++) {
		if (i % WALK_STEP == 0 && walk_go_on(k, err) < 0)
			return -1;
		if (stat_one(k, d->fd, d->base + d->order[i].at, err) < 0)
			return -1;
	}
	return 0;
}

/* -- all ---------------------------------------------------------------- */

/* Moves the entries that have a place together, counts them, gives the rest
 * back. */
static int settle(struct worker *k, struct entry *dir, struct sc_err *err)
{
	struct tree *t = k->w->tree;
	uint32_t n = dir->count, to = dir->first;
	uint64_t bytes = 0;
	struct entry *e;

	for (uint32_t s = dir->first; s < dir->first + n; s++) {
		e = tree_at(t, s);
		if (e->mode == 0)
			continue;
		if (entry_is_reg(e)) {
			k->sum.files++;
			bytes += e->size;
		}
		k->sum.dirs += entry_is_dir(e);
		if (s != to)
			*tree_at(t, to) = *e;
		to++;
	}
	dir->count = to - dir->first;
	k->sum.entries += dir->count;
	k->sum.bytes += bytes;
	if (k->w->o->entries)
		atomic_fetch_add(k->w->o->entries, dir->count);
	if (k->w->o->bytes)
		atomic_fetch_add(k->w->o->bytes, bytes);
	if (dir->count == n)
		return 0;
	return tree_give_back(t, to, n - dir->count, err);
}

static bool to_enter(const struct entry *e)
{
	return entry_is_dir(e) && !(e->bits & ENTRY_MOUNT) && e->nlink;
}

static int list_subdirs(struct worker *k, const struct entry *dir,
			uint32_t **sub, uint32_t *nsub, struct sc_err *err)
{
	uint32_t end = dir->first + dir->count, n = 0;

	for (uint32_t s = dir->first; s < end; s++)
		n += to_enter(tree_at(k->w->tree, s));
	if (n == 0)
		return 0;
	*sub = malloc(n * sizeof(**sub));
	if (!*sub)
		return sc_oom(err, "subdirectories");
	for (uint32_t s = dir->first; s < end; s++)
		if (to_enter(tree_at(k->w->tree, s)))
			(*sub)[(*nsub)++] = s;
	return 0;
}

int walk_dir(struct worker *k, int fd, uint32_t slot, const char *leave_out,
	     uint32_t **sub, uint32_t *nsub, struct sc_err *err)
{
	struct entry *dir = tree_at(k->w->tree, slot);
	struct wide d = { .fd = fd, .slot = slot };
	int rc;

	*sub = NULL;
	*nsub = 0;
	names_clear(&k->names);
	rc = read_names(k, fd, slot, leave_out, err);
	if (rc < 0 || assign_slots(k, slot, &d.base, err) < 0)
		return -1;
	if (rc == 0)
		k->sum.vanished += !k->w->o->live;
	d.n = (uint32_t)k->names.n;
	d.order = k->names.order;
	dir->first = d.base;
	dir->count = d.n;
	if (d.n >= WALK_WIDE && k->w->o->threads > 1)
		rc = walk_wide(k, &d, err);
	else
		rc = walk_dir_stat(k, &d, 0, d.n, err);
	if (rc < 0 || settle(k, dir, err) < 0)
		return -1;
	return list_subdirs(k, dir, sub, nsub, err);
}
