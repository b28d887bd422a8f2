/* SPDX-License-Identifier: MIT */
/* One pass over two sorted trees: the names of a live directory beside the
 * children that the index has for it. Threads take directories from a stack;
 * each entry is decided once, by the thread that has its directory, so the
 * operations need no lock. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <snapctl/base/mem.h>

#include "merge.h"

struct merge {
	struct restore *r;
	pthread_cond_t changed;
	uint32_t *stack;
	size_t n, cap;
	unsigned active;
	struct group *group;
};

struct merger {
	struct merge *m;
	struct rdirs dirs;
	struct live_names names;
	char target[4096 + 1];
	struct restore_summary sum;
	bool locked; /* the directory is immutable or append-only */
};

#define LOCKS (STATX_ATTR_IMMUTABLE | STATX_ATTR_APPEND)

static int refuse(const struct restore *r, uint32_t dir, const char *name,
		  const char *why, struct sc_err *err)
{
	char path[RPATH];

	return sc_fail(err, SC_EREFUSED, 0, "%s %s",
		       rpath_in(r, dir, name, path), why);
}

static int refuse_locked(const struct restore *r, uint32_t dir,
			 const char *name, struct sc_err *err)
{
	return refuse(r, dir, name,
		      "would have to change, but is immutable or append-only "
		      "(chattr -ia)",
		      err);
}

/* -- comparing ------------------------------------------------------------ */

static bool same_stamps(const struct entry *e, const struct statx *st)
{
	return st->stx_ino == e->ino && st->stx_uid == e->uid &&
	       st->stx_gid == e->gid && st->stx_mode == e->mode &&
	       (!entry_is_reg(e) || st->stx_size == e->size) &&
	       st->stx_mtime.tv_sec == e->mtime &&
	       st->stx_mtime.tv_nsec == e->mtime_ns &&
	       st->stx_ctime.tv_sec == e->ctime &&
	       st->stx_ctime.tv_nsec == e->ctime_ns;
}

/* Nobody writes to an immutable file, and taking the flag away moves its
 * ctime: equal stamps prove equal data, without a clock. */
static bool still_immutable(const struct entry *e, const struct statx *st)
{
	return e->flags & FS_IMMUTABLE_FL &&
	       st->stx_attributes & STATX_ATTR_IMMUTABLE && same_stamps(e, st);
}

static bool same_device(const struct entry *e, const struct statx *st)
{
	return e->size == makedev(st->stx_rdev_major, st->stx_rdev_minor);
}

static int same_target(struct merger *k, int dir, const struct entry *e,
		       struct sc_err *err)
{
	const char *want = tree_target(k->m->r->tree, e->first);
	ssize_t n = readlinkat(dir, e->name, k->target, sizeof(k->target));

	if (n < 0)
		return sc_fail(err, SC_EIO, errno, "read a symlink");
	return (size_t)n == strlen(want) && memcmp(k->target, want, n) == 0;
}

/* A symlink, fifo or device that needs no new inode: 1, 0, -1. */
static int same_thing(struct merger *k, int dir, uint32_t slot,
		      const struct statx *st, struct sc_err *err)
{
	const struct restore *r = k->m->r;
	const struct entry *e = tree_at(r->tree, slot);

	/* Another name of the live inode must not change with it. */
	if (st->stx_nlink > 1 || rlinks_leader(r, slot) != TREE_NONE)
		return 0;
	if (S_ISLNK(e->mode))
		return same_target(k, dir, e, err);
	return S_ISFIFO(e->mode) || same_device(e, st);
}

/* -- deciding ------------------------------------------------------------- */

static int look_below(struct merger *k, int dir, uint32_t parent,
		      const char *name, bool refuse_mounts, bool *kept,
		      struct sc_err *err)
{
	struct rremove x = { .r = k->m->r,
			     .dry = true,
			     .refuse = refuse_mounts };
	char path[RPATH];

	if (rremove(&x, dir, name, rpath_in(x.r, parent, name, path), err) < 0)
		return -1;
	k->sum.remove += x.n;
	*kept = x.kept;
	return 0;
}

/* Something is there, and an inode of the stage takes its name. */
static int replaced(struct merger *k, int dir, uint32_t slot,
		    const struct statx *st, struct sc_err *err)
{
	struct restore *r = k->m->r;
	const struct entry *e = tree_at(r->tree, slot);
	unsigned op = ROP_REPLACE;
	bool kept;

	if (r->rechecking && entry_is_dir(e) && !(r->op[slot] & ROP_FLAT))
		op = ROP_MKDIR;
	if (st->stx_attributes & LOCKS)
		return refuse_locked(r, e->parent, e->name, err);
	k->sum.change++;
	if (S_ISDIR(st->stx_mode) || entry_is_dir(e)) {
		op |= ROP_CLEAR;
		if (look_below(k, dir, e->parent, e->name, true, &kept, err) <
		    0)
			return -1;
	}
	rmerge_set(r, slot, op);
	return 0;
}

static void mended(struct merger *k, uint32_t slot, const struct statx *st)
{
	bool same = same_stamps(tree_at(k->m->r->tree, slot), st);

	k->sum.kept += same;
	k->sum.change += !same;
	rmerge_set(k->m->r, slot, ROP_META);
}

static int both(struct merger *k, int dir, uint32_t slot,
		const struct statx *st, struct sc_err *err)
{
	struct restore *r = k->m->r;
	const struct entry *e = tree_at(r->tree, slot);
	bool staged = (r->op[slot] & ROP_FLAT) != 0;
	int same = 0;

	if (rdirs_foreign(r, st))
		return refuse(r, e->parent, e->name,
			      "is a mount point, but the snapshot has "
			      "something else there",
			      err);
	if ((st->stx_mode & S_IFMT) != (e->mode & S_IFMT) || staged)
		return replaced(k, dir, slot, st, err);
	if (entry_is_dir(e)) {
		if (st->stx_attributes & LOCKS && !same_stamps(e, st))
			return refuse_locked(r, e->parent, e->name, err);
		mended(k, slot, st);
		return 0;
	}
	if (still_immutable(e, st) && rlinks_leader(r, slot) == TREE_NONE) {
		k->sum.kept++;
		rmerge_set(r, slot, ROP_KEEP);
		return 0;
	}
	if (!entry_is_reg(e))
		same = same_thing(k, dir, slot, st, err);
	if (same < 0)
		return -1;
	if (!same)
		return replaced(k, dir, slot, st, err);
	mended(k, slot, st);
	return 0;
}

static void not_there(struct merger *k, uint32_t slot)
{
	struct restore *r = k->m->r;
	const struct entry *e = tree_at(r->tree, slot);

	k->sum.create++;
	if (r->rechecking && entry_is_dir(e) && !(r->op[slot] & ROP_FLAT))
		rmerge_set(r, slot, ROP_MKDIR);
	else
		rmerge_set(r, slot, ROP_REPLACE);
}

static int add_removal(struct restore *r, uint32_t parent, const char *name,
		       struct sc_err *err)
{
	size_t len = strlen(name);
	int rc;

	pthread_mutex_lock(&r->lock);
	rc = mem_grow(&r->rm, &r->rm_cap, r->nrm + 1, sizeof(*r->rm));
	if (rc == 0)
		r->rm[r->nrm++] = (struct removal){ parent, (uint32_t)len,
						    r->rm_names.len };
	buf_put(&r->rm_names, name, len + 1);
	if (r->rm_names.failed)
		rc = -1;
	pthread_mutex_unlock(&r->lock);
	return rc < 0 ? sc_oom(err, "removals") : 0;
}

static int extra(struct merger *k, int dir, uint32_t parent, const char *name,
		 const struct statx *st, struct sc_err *err)
{
	struct restore *r = k->m->r;
	char path[RPATH];
	bool kept = false;

	/* Not in snapshots, so not known to be superfluous. */
	if (S_ISSOCK(st->stx_mode) || rdirs_foreign(r, st))
		return 0;
	if (S_ISDIR(st->stx_mode) && r->leave_out.ino &&
	    st->stx_ino == r->leave_out.ino)
		return 0;
	if (k->locked)
		return refuse_locked(r, parent, NULL, err);
	if (look_below(k, dir, parent, name, false, &kept, err) < 0)
		return -1;
	if (kept && !r->rechecking)
		notes_add(r->notes, NOTE_WARN,
			  "%s is not in the snapshot, but stays: a mount point "
			  "or the repository lies in it",
			  rpath_in(r, parent, name, path));
	return add_removal(r, parent, name, err);
}

/* -- one directory -------------------------------------------------------- */

static bool left_out(const struct restore *r, uint32_t slot)
{
	const struct entry *e = tree_at(r->tree, slot);

	return rop_of(r, slot) == ROP_SKIP ||
	       e->bits & (ENTRY_UNREADABLE | ENTRY_MOUNT);
}

static int decide(struct merger *k, int dir, uint32_t slot,
		  const struct statx *st, struct sc_err *err)
{
	struct restore *r = k->m->r;
	const struct entry *e = tree_at(r->tree, slot);
	char path[RPATH];

	if (e->parent == 0 && strcmp(e->name, STAGE_NAME) == 0)
		return sc_fail(err, SC_ECORRUPT, 0,
			       "index: %s is among the entries", STAGE_NAME);
	if (left_out(r, slot)) {
		if (!r->rechecking)
			notes_add(r->notes, NOTE_WARN,
				  "%s was not read into the snapshot: left as "
				  "it is",
				  rpath(r, slot, path));
		rmerge_set(r, slot, ROP_SKIP);
		return 0;
	}
	if (!st)
		not_there(k, slot);
	else if (both(k, dir, slot, st, err) < 0)
		return -1;
	if (k->locked && rop_of(r, slot) != ROP_META &&
	    rop_of(r, slot) != ROP_KEEP)
		return refuse_locked(r, e->parent, NULL, err);
	return 0;
}

/* 1: seen, 0: gone, -1. */
static int look(struct merger *k, int dir, uint32_t parent, const char *name,
		struct statx *st, struct sc_err *err)
{
	char path[RPATH];

	if (statx(dir, name,
		  AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT | AT_STATX_SYNC_AS_STAT,
		  STATX_BASIC_STATS | STATX_MNT_ID, st) == 0)
		return 1;
	if (errno == ENOENT)
		return 0;
	return sc_fail(err, SC_EIO, errno, "stat %s",
		       rpath_in(k->m->r, parent, name, path));
}

/* The live name i (or none) against the child c (or none); whichever comes
 * first is dealt with, or both when they are the same. */
static int step(struct merger *k, int dir, uint32_t parent, size_t *i,
		uint32_t *c, struct sc_err *err)
{
	struct tree *t = k->m->r->tree;
	const struct live_names *l = &k->names;
	const struct entry *e = *c != TREE_NONE ? tree_at(t, *c) : NULL;
	uint32_t slot = *c;
	struct statx st;
	int order, there = 0;
	const char *name = NULL;

	if (*i < l->n)
		name = rname(l, *i);
	if (!name)
		order = 1;
	else if (!e)
		order = -1;
	else
		order = tree_name_cmp(name, l->v[*i].len, e->name, e->name_len);
	if (order >= 0)
		*c = tree_next_sibling(t, *c);
	if (order <= 0) {
		(*i)++;
		there = look(k, dir, parent, name, &st, err);
		if (there < 0)
			return -1;
	}
	if (order < 0)
		return there ? extra(k, dir, parent, name, &st, err) : 0;
	return decide(k, dir, slot, there ? &st : NULL, err);
}

static int is_locked(struct merger *k, int fd, struct sc_err *err)
{
	struct statx st;

	if (statx(fd, "", AT_EMPTY_PATH, STATX_BASIC_STATS, &st) < 0)
		return sc_fail(err, SC_EIO, errno, "stat a directory");
	k->locked = (st.stx_attributes & LOCKS) != 0;
	return 0;
}

/* The stage is ours, and neither an extra nor an entry. */
static void drop_stage(struct live_names *l)
{
	size_t to = 0;

	for (size_t i = 0; i < l->n; i++)
		if (strcmp(rname(l, i), STAGE_NAME) != 0)
			l->v[to++] = l->v[i];
	l->n = to;
}

static int merge_dir(struct merger *k, uint32_t slot, struct sc_err *err)
{
	uint32_t c = tree_first_child(k->m->r->tree, slot);
	size_t i = 0;
	int fd;

	if (rstopped(k->m->r, err) < 0 ||
	    rdirs_get(&k->dirs, slot, &fd, err) < 0 ||
	    is_locked(k, fd, err) < 0 || rnames_read(&k->names, fd, err) < 0)
		return -1;
	if (slot == 0)
		drop_stage(&k->names);
	while (i < k->names.n || c != TREE_NONE)
		if (step(k, fd, slot, &i, &c, err) < 0)
			return -1;
	return 0;
}

/* -- threads -------------------------------------------------------------- */

/* With the lock held. */
static int push_dirs(struct merge *m, uint32_t dir, struct sc_err *err)
{
	struct tree *t = m->r->tree;

	for (uint32_t c = tree_first_child(t, dir); c != TREE_NONE;
	     c = tree_next_sibling(t, c)) {
		if (!entry_is_dir(tree_at(t, c)) || rop_of(m->r, c) != ROP_META)
			continue;
		if (mem_grow(&m->stack, &m->cap, m->n + 1, sizeof(*m->stack)) <
		    0)
			return sc_oom(err, "directories");
		m->stack[m->n++] = c;
	}
	return 0;
}

static void add_sums(struct restore_summary *to,
		     const struct restore_summary *s)
{
	to->create += s->create;
	to->remove += s->remove;
	to->change += s->change;
	to->kept += s->kept;
}

static int merge_some(struct merger *k, struct sc_err *err)
{
	struct merge *m = k->m;
	uint32_t slot;
	int rc = 0;

	pthread_mutex_lock(&m->r->lock);
	while (rc == 0 && !group_stopping(m->group)) {
		if (m->n == 0 && m->active == 0)
			break;
		if (m->n == 0) {
			pthread_cond_wait(&m->changed, &m->r->lock);
			continue;
		}
		slot = m->stack[--m->n];
		m->active++;
		pthread_mutex_unlock(&m->r->lock);
		rc = merge_dir(k, slot, err);
		pthread_mutex_lock(&m->r->lock);
		m->active--;
		if (rc == 0)
			rc = push_dirs(m, slot, err);
		pthread_cond_broadcast(&m->changed);
	}
	add_sums(&m->r->sum, &k->sum);
	pthread_mutex_unlock(&m->r->lock);
	return rc;
}

static int work(void *arg, struct sc_err *err)
{
	struct merger *k = calloc(1, sizeof(*k));
	int rc;

	if (!k)
		return sc_oom(err, "merge");
	k->m = arg;
	rdirs_init(&k->dirs, k->m->r, false);
	rc = merge_some(k, err);
	rdirs_free(&k->dirs);
	rnames_free(&k->names);
	free(k);
	return rc;
}

static void wake(void *arg)
{
	struct merge *m = arg;

	pthread_mutex_lock(&m->r->lock);
	pthread_cond_broadcast(&m->changed);
	pthread_mutex_unlock(&m->r->lock);
}

static int run(struct merge *m, struct sc_err *err)
{
	struct sc_err start = { 0 };
	int rc = 0;

	if (group_new(&m->group, err) < 0)
		return -1;
	group_on_stop(m->group, wake, m);
	for (unsigned i = 0; rc == 0 && i < m->r->o.threads; i++)
		rc = group_start(m->group, work, m, &start);
	if (group_join(m->group, err) < 0)
		return -1;
	if (rc < 0 && err)
		*err = start;
	return rc;
}

int rmerge_run(struct restore *r, struct sc_err *err)
{
	struct merge m = { .r = r };
	int rc;

	rmerge_set(r, 0, ROP_META);
	if (mem_grow(&m.stack, &m.cap, 1, sizeof(*m.stack)) < 0)
		return sc_oom(err, "directories");
	m.stack[m.n++] = 0;
	pthread_cond_init(&m.changed, NULL);
	rc = run(&m, err);
	pthread_cond_destroy(&m.changed);
	free(m.stack);
	return rc;
}
