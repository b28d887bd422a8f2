/* SPDX-License-Identifier: MIT */
/* The threads of a walk, and what they take next.
 *
 * A thread takes one subdirectory from the topmost directory of the stack,
 * opens it relative to that one's descriptor, reads it (walk_dir.c) and puts
 * it on the stack (walk_stack.c) if it has subdirectories itself. */
#include <snapctl/scan/walk.h>

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/statfs.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <snapctl/base/io.h>
#include <snapctl/base/mem.h>

#include "walk_internal.h"

int walk_go_on(struct worker *k, struct sc_err *err)
{
	const struct walker *w = k->w;

	if (w->o->stop && atomic_load(w->o->stop))
		return sc_fail(err, SC_EINTR, 0, "interrupted");
	if (group_stopping(w->group))
		return sc_fail(err, SC_EINTR, 0, "another thread failed");
	return 0;
}

/* -- one directory ------------------------------------------------------ */

static int dir_vanished(struct worker *k, uint32_t slot, struct sc_err *err)
{
	struct walker *w = k->w;
	int rc;

	k->sum.vanished += !w->o->live;
	k->sum.entries--;
	k->sum.dirs--;
	pthread_mutex_lock(&w->lock);
	rc = mem_grow(&w->gone, &w->gone_cap, w->ngone + 1, sizeof(*w->gone));
	if (rc == 0)
		w->gone[w->ngone++] = slot;
	pthread_mutex_unlock(&w->lock);
	return rc < 0 ? sc_oom(err, "vanished directories") : 0;
}

static int open_failed(struct worker *k, uint32_t slot, int sys,
		       struct sc_err *err)
{
	char path[WALK_PATH];

	switch (sys) {
	case ENOENT:
	case ENOTDIR:
	case ELOOP:
	case ESTALE:
		return dir_vanished(k, slot, err);
	case EMFILE:
	case ENFILE:
	case ENOMEM:
		return sc_fail(err, SC_EIO, sys, "open directory %s",
			       walk_dir_path(k, path, slot, NULL, 0));
	default:
		return walk_dir_unreadable(k, slot, sys, "open directory", err);
	}
}

/* Takes what is open now instead of what the parent's pass saw. 1: go on,
 * 0: not to be entered, -1. */
static int look_again(struct worker *k, int fd, uint32_t slot,
		      struct sc_err *err)
{
	struct entry *e = tree_at(k->w->tree, slot);
	struct statx st;

	if (statx(fd, "", AT_EMPTY_PATH, STATX_BASIC_STATS | STATX_MNT_ID,
		  &st) < 0)
		return walk_dir_unreadable(k, slot, errno, "stat", err);
	walk_dir_fill(e, &st);
	if (!walk_dir_foreign(k->w, &st))
		return 1;
	walk_dir_mount(k, slot);
	return 0;
}

static int go_deeper(struct worker *k, int *fd, uint32_t slot,
		     const char *leave_out, uint32_t *sub, uint32_t nsub,
		     struct sc_err *err)
{
	struct node *n = calloc(1, sizeof(*n));

	if (!n) {
		free(sub);
		return sc_oom(err, "directory");
	}
	n->fd = take_fd(fd);
	n->slot = slot;
	n->leave_out = leave_out;
	n->sub = sub;
	n->nsub = nsub;
	walk_stack_push(k->w, n);
	return 0;
}

static int read_dir(struct worker *k, int *fd, uint32_t slot,
		    const char *leave_out, struct sc_err *err)
{
	uint32_t *sub, nsub;

	if (walk_dir(k, *fd, slot, leave_out, &sub, &nsub, err) < 0)
		return -1;
	if (nsub == 0)
		return 0;
	return go_deeper(k, fd, slot, leave_out, sub, nsub, err);
}

/* What is left of leave_out beneath the child called e. */
static const char *leave_out_in(const char *leave_out, const struct entry *e)
{
	if (!leave_out || strncmp(leave_out, e->name, e->name_len) != 0 ||
	    leave_out[e->name_len] != '/')
		return NULL;
	return leave_out + e->name_len + 1;
}

static int visit(struct worker *k, struct node *n, uint32_t slot,
		 struct sc_err *err)
{
	const struct entry *e = tree_at(k->w->tree, slot);
	const char *leave_out = leave_out_in(n->leave_out, e);
	auto_close int fd = walk_stack_open(k->w, n, slot);
	int sys = errno, rc;

	walk_stack_release(k->w, n);
	if (fd < 0)
		return open_failed(k, slot, sys, err);
	rc = look_again(k, fd, slot, err);
	return rc > 0 ? read_dir(k, &fd, slot, leave_out, err) : rc;
}

static int visit_root(struct worker *k, struct sc_err *err)
{
	const char *leave_out = k->w->o->leave_out;
	auto_close int fd = walk_stack_open_root(k->w);

	if (fd < 0)
		return walk_dir_unreadable(k, 0, errno, "open directory", err);
	while (leave_out && *leave_out == '/')
		leave_out++;
	return read_dir(k, &fd, 0, leave_out, err);
}

/* -- large directories -------------------------------------------------- */

static int wide_share(struct worker *k, struct wide *d, struct sc_err *err)
{
	uint32_t from;

	while ((from = atomic_fetch_add(&d->at, WALK_STEP)) < d->n) {
		uint32_t left = d->n - from;

		if (walk_dir_stat(k, d, from,
				  from + (left < WALK_STEP ? left : WALK_STEP),
				  err) < 0)
			return -1;
	}
	return 0;
}

int walk_wide(struct worker *k, struct wide *d, struct sc_err *err)
{
	struct walker *w = k->w;
	struct wide **p;
	int rc;

	pthread_mutex_lock(&w->lock);
	d->next = w->wide;
	w->wide = d;
	pthread_cond_broadcast(&w->changed);
	pthread_mutex_unlock(&w->lock);

	rc = wide_share(k, d, err);

	pthread_mutex_lock(&w->lock);
	for (p = &w->wide; *p != d; p = &(*p)->next)
		;
	*p = d->next;
	while (d->helpers)
		pthread_cond_wait(&w->changed, &w->lock);
	pthread_mutex_unlock(&w->lock);
	return rc;
}

/* With the lock held: one that still has entries for another thread. */
static struct wide *wide_open(const struct walker *w)
{
	struct wide *d = w->wide;

	while (d && atomic_load(&d->at) >= d->n)
		d = d->next;
	return d;
}

/* -- threads ------------------------------------------------------------ */

/* With the lock held, which it lets go while it works. */
static int help(struct worker *k, struct wide *d, struct sc_err *err)
{
	struct walker *w = k->w;
	int rc;

	d->helpers++;
	pthread_mutex_unlock(&w->lock);
	rc = wide_share(k, d, err);
	pthread_mutex_lock(&w->lock);
	d->helpers--;
	pthread_cond_broadcast(&w->changed);
	return rc;
}

static int visit_next(struct worker *k, struct sc_err *err)
{
	struct walker *w = k->w;
	bool root = w->root_pending;
	struct node *n = NULL;
	uint32_t slot = 0;
	int rc;

	if (!root)
		n = walk_stack_take(w, &slot);
	w->root_pending = false;
	w->active++;
	pthread_mutex_unlock(&w->lock);
	rc = root ? visit_root(k, err) : visit(k, n, slot, err);
	if (rc == 0)
		rc = walk_go_on(k, err);
	pthread_mutex_lock(&w->lock);
	w->active--;
	w->closed++;
	if (w->starving || (w->active == 0 && !w->top))
		pthread_cond_broadcast(&w->changed);
	return rc;
}

static int work(void *arg, struct sc_err *err)
{
	struct worker *k = arg;
	struct walker *w = k->w;
	struct wide *d;
	int rc = 0;

	k->dents = malloc(WALK_BUF);
	if (!k->dents)
		return sc_oom(err, "directory buffer");
	pthread_mutex_lock(&w->lock);
	while (rc == 0 && !group_stopping(w->group)) {
		d = wide_open(w);
		if (d)
			rc = help(k, d, err);
		else if (w->root_pending || w->top)
			rc = visit_next(k, err);
		else if (w->active == 0)
			break;
		else
			pthread_cond_wait(&w->changed, &w->lock);
	}
	pthread_mutex_unlock(&w->lock);
	return rc;
}

static void wake(void *arg)
{
	struct walker *w = arg;

	pthread_mutex_lock(&w->lock);
	pthread_cond_broadcast(&w->changed);
	pthread_mutex_unlock(&w->lock);
}

static int run_workers(struct walker *w, struct worker *k, struct sc_err *err)
{
	struct sc_err start = { 0 };
	int rc = 0;

	if (group_new(&w->group, err) < 0)
		return -1;
	group_on_stop(w->group, wake, w);
	for (unsigned i = 0; rc == 0 && i < w->o->threads; i++)
		rc = group_start(w->group, work, &k[i], &start);
	if (group_join(w->group, err) < 0 && rc == 0)
		return -1;
	if (rc < 0 && err)
		*err = start;
	return rc;
}

static void add_sums(struct walk_result *to, const struct walk_result *s)
{
	to->entries += s->entries;
	to->files += s->files;
	to->dirs += s->dirs;
	to->bytes += s->bytes;
	to->sockets += s->sockets;
	to->mounts += s->mounts;
	to->unreadable += s->unreadable;
	to->vanished += s->vanished;
}

static int walk_below(struct walker *w, struct walk_result *out,
		      struct sc_err *err)
{
	struct worker *k = calloc(w->o->threads, sizeof(*k));
	int rc;

	if (!k)
		return sc_oom(err, "threads");
	for (unsigned i = 0; i < w->o->threads; i++)
		k[i].w = w;
	rc = run_workers(w, k, err);
	for (unsigned i = 0; i < w->o->threads; i++) {
		add_sums(out, &k[i].sum);
		names_free(&k[i].names);
		free(k[i].dents);
		buf_free(&k[i].path);
	}
	free(k);
	walk_stack_clear(w);
	return rc;
}

/* -- the whole ---------------------------------------------------------- */

static void raise_limit(void)
{
	struct rlimit r;

	/* Best effort: with few descriptors the walk is slower, not wrong. */
	if (getrlimit(RLIMIT_NOFILE, &r) < 0 || r.rlim_cur == r.rlim_max)
		return;
	r.rlim_cur = r.rlim_max;
	(void)setrlimit(RLIMIT_NOFILE, &r);
}

/* The ids that a map of /proc/self/{uid,gid}_map leaves out. */
static bool map_is_partial(const char *path)
{
	unsigned long long inside, outside, n, sum = 0;
	FILE *f = fopen(path, "re");

	/* Not to be seen: rather say too much than a wrong owner. */
	if (!f)
		return true;
	while (fscanf(f, "%llu %llu %llu", &inside, &outside, &n) == 3)
		sum += n;
	(void)fclose(f);
	return sum < UINT32_MAX;
}

static uint32_t overflow_id(const char *path)
{
	unsigned long v = 65534;
	FILE *f = fopen(path, "re");

	if (!f)
		return 65534;
	if (fscanf(f, "%lu", &v) != 1)
		v = 65534;
	(void)fclose(f);
	return (uint32_t)v;
}

static void look_at_ids(struct walker *w)
{
	w->partial_map = map_is_partial("/proc/self/uid_map") ||
			 map_is_partial("/proc/self/gid_map");
	w->overflow_uid = overflow_id("/proc/sys/kernel/overflowuid");
	w->overflow_gid = overflow_id("/proc/sys/kernel/overflowgid");
}

static uint64_t fsid_of(const struct statfs *fs)
{
	uint64_t id;

	static_assert(sizeof(fs->f_fsid) == sizeof(id), "fsid");
	memcpy(&id, &fs->f_fsid, sizeof(id));
	return id;
}

static int take_root(struct walker *w, struct walk_result *out,
		     struct sc_err *err)
{
	struct tree_arena arena = { 0 };
	struct worker k = { .w = w };
	struct statfs fs;
	struct statx st;
	struct entry *e;
	uint32_t slot;
	int rc;

	if (fstatfs(w->rootfd, &fs) < 0 ||
	    statx(w->rootfd, "", AT_EMPTY_PATH,
		  STATX_BASIC_STATS | STATX_MNT_ID, &st) < 0)
		return sc_fail(err, SC_EIO, errno, "stat of the volume's root");
	w->fs_type = out->fs_type = (uint64_t)fs.f_type;
	out->fs_id = fsid_of(&fs);
	w->dev = out->dev = makedev(st.stx_dev_major, st.stx_dev_minor);
	w->has_mnt_id = st.stx_mask & STATX_MNT_ID;
	w->mnt_id = w->has_mnt_id ? st.stx_mnt_id : 0;

	if (tree_alloc(w->tree, 1, &slot, err) < 0)
		return -1;
	e = tree_at(w->tree, 0);
	e->name = tree_name(w->tree, &arena, "", 0);
	if (!e->name)
		return sc_oom(err, "names");
	walk_dir_fill(e, &st);
	rc = walk_dir_owner(&k, 0, err);
	k.sum.entries = 1;
	k.sum.files = entry_is_reg(e);
	k.sum.dirs = entry_is_dir(e);
	k.sum.bytes = e->size * entry_is_reg(e);
	add_sums(out, &k.sum);
	if (w->o->entries)
		atomic_fetch_add(w->o->entries, 1);
	if (w->o->bytes)
		atomic_fetch_add(w->o->bytes, k.sum.bytes);
	buf_free(&k.path);
	return rc;
}

/* Directories that were gone when it was their turn. */
static int drop_gone(struct walker *w, struct sc_err *err)
{
	for (size_t i = 0; i < w->ngone; i++) {
		uint32_t parent = tree_at(w->tree, w->gone[i])->parent;

		tree_at(w->tree, parent)->count--;
		if (tree_give_back(w->tree, w->gone[i], 1, err) < 0)
			return -1;
	}
	return 0;
}

static int walk_all(struct walker *w, struct walk_result *out,
		    struct sc_err *err)
{
	if (tree_new(&w->tree, err) < 0 || take_root(w, out, err) < 0)
		return -1;
	w->root_pending = entry_is_dir(tree_at(w->tree, 0));
	if (w->root_pending && walk_below(w, out, err) < 0)
		return -1;
	if (drop_gone(w, err) < 0 || tree_seal(w->tree, err) < 0)
		return -1;
	out->tree = w->tree;
	w->tree = NULL;
	return 0;
}

int walk_tree(int rootfd, const struct walk_options *o, struct notes *notes,
	      struct walk_result *out, struct sc_err *err)
{
	struct walker w = { .o = o, .notes = notes, .rootfd = rootfd };
	int rc;

	*out = (struct walk_result){ 0 };
	if (o->threads == 0)
		return sc_fail(err, SC_EUSAGE, 0, "a walk needs a thread");
	pthread_mutex_init(&w.lock, NULL);
	pthread_cond_init(&w.changed, NULL);
	raise_limit();
	look_at_ids(&w);
	rc = walk_all(&w, out, err);
	tree_free(w.tree);
	free(w.gone);
	pthread_cond_destroy(&w.changed);
	pthread_mutex_destroy(&w.lock);
	return rc;
}
