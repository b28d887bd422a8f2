/* SPDX-License-Identifier: MIT */
/* The plan: what becomes of each entry of the index, and what goes.
 *
 * Nothing is held of the live volume: merge.c decides directory by directory,
 * here the threads that do so are run and the rest is derived from the
 * directories' operations. */
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <snapctl/base/mem.h>

#include "merge.h"

/* -- from directories to what lies in them ------------------------------- */

static int absent(struct restore *r, uint32_t slot)
{
	/* When all is staged already, a directory is made where it goes. */
	if (r->rechecking && entry_is_dir(tree_at(r->tree, slot)) &&
	    !(r->op[slot] & ROP_FLAT))
		return ROP_MKDIR;
	return ROP_REPLACE;
}

/* For entries whose directory has no live counterpart to merge with. */
static void derive(struct restore *r)
{
	for (uint32_t s = 1; s < r->n; s++) {
		const struct entry *e = tree_at(r->tree, s);
		enum rop above = rop_of(r, e->parent), op;

		if (above == ROP_META || rop_of(r, s) == ROP_SKIP)
			continue;
		if (above == ROP_SKIP ||
		    (e->bits & (ENTRY_UNREADABLE | ENTRY_MOUNT)))
			op = ROP_SKIP;
		else if (above == ROP_MKDIR)
			op = absent(r, s);
		else
			op = ROP_INSIDE;
		rmerge_set(r, s, op);
	}
}

static void place(struct restore *r)
{
	for (uint32_t s = 1; s < r->n; s++) {
		if (rop_of(r, s) == ROP_REPLACE)
			r->op[s] |= ROP_FLAT;
		else if (rop_of(r, s) == ROP_INSIDE)
			r->op[s] |= ROP_IN;
	}
}

static uint64_t data_len(const struct restore *r, uint32_t slot)
{
	const struct entry *e = tree_at(r->tree, slot);
	const struct extent *x;
	uint64_t sum = 0;
	uint32_t n;

	if (!(e->bits & ENTRY_SPARSE))
		return e->size;
	x = tree_extents(r->tree, slot, &n);
	for (uint32_t i = 0; i < n; i++)
		sum += x[i].len;
	return sum;
}

static void count(struct restore *r)
{
	for (uint32_t s = 0; s < r->n; s++) {
		const struct entry *e = tree_at(r->tree, s);

		if (!is_staged(r, s) || !entry_is_reg(e) || is_link(e))
			continue;
		r->sum.stage_files++;
		r->sum.stage_bytes += data_len(r, s);
	}
	for (size_t i = 0; i < r->nneeds; i++)
		r->sum.stored_bytes += r->chunks->segments[r->needs[i]].stored;
	r->sum.segments = r->nneeds;
}

/* -- a group goes as a whole --------------------------------------------- */

int rplan_check(const struct restore *r, struct sc_err *err)
{
	char path[RPATH];

	for (uint32_t s = 0; s < r->n; s++) {
		uint32_t leader;

		if (!is_link(tree_at(r->tree, s)))
			continue;
		leader = rlinks_leader(r, s);
		if ((rop_of(r, s) == ROP_SKIP) !=
		    (rop_of(r, leader) == ROP_SKIP))
			return sc_fail(
				err, SC_EREFUSED, 0,
				"hard link %s: another name of it was left out",
				rpath(r, s, path));
	}
	return 0;
}

/* -- room ---------------------------------------------------------------- */

static int check_room(const struct restore *r, struct sc_err *err)
{
	uint64_t blocks = 0, inodes = 0, block;
	struct statfs fs;

	if (fstatfs(r->rootfd, &fs) < 0)
		return sc_fail(err, SC_EIO, errno, "statfs of the volume");
	block = fs.f_bsize > 0 ? (uint64_t)fs.f_bsize : 4096;
	for (uint32_t s = 0; s < r->n; s++) {
		const struct entry *e = tree_at(r->tree, s);

		if (!is_staged(r, s) || is_link(e))
			continue;
		inodes++;
		if (entry_is_reg(e))
			blocks += (data_len(r, s) + block - 1) / block;
		blocks += entry_is_dir(e);
	}
	/* Zero in all: a file system that does not say. */
	if (fs.f_blocks && blocks > fs.f_bavail)
		return sc_fail(err, SC_EREFUSED, 0,
			       "no room for the stage: %llu MiB needed, %llu "
			       "MiB free in the volume",
			       (unsigned long long)(blocks * block >> 20),
			       (unsigned long long)(fs.f_bavail * block >> 20));
	if (fs.f_files && inodes > fs.f_ffree)
		return sc_fail(err, SC_EREFUSED, 0,
			       "no room for the stage: %llu files to be made, "
			       "%llu inodes free in the volume",
			       (unsigned long long)inodes,
			       (unsigned long long)fs.f_ffree);
	return 0;
}

/* -- the volume's root --------------------------------------------------- */

static int check_root(struct restore *r, struct sc_err *err)
{
	struct statx st;

	if (statx(r->rootfd, "", AT_EMPTY_PATH,
		  STATX_BASIC_STATS | STATX_MNT_ID, &st) < 0)
		return sc_fail(err, SC_EIO, errno, "stat the volume's root");
	if (r->n == 0)
		return sc_fail(err, SC_ECORRUPT, 0, "index: no entries");
	if (!S_ISDIR(st.stx_mode) || !entry_is_dir(tree_at(r->tree, 0)))
		return sc_fail(err, SC_EREFUSED, 0,
			       "the volume is a single file: restoring one in "
			       "place is not supported yet");
	if (st.stx_attributes & (STATX_ATTR_IMMUTABLE | STATX_ATTR_APPEND))
		return sc_fail(err, SC_EREFUSED, 0,
			       "the volume's root is immutable or append-only "
			       "(chattr)");
	return rdirs_identity(r->rootfd, &r->root, err);
}

/* The live directory by its identity: 1, 0 when it is not there, -1. */
static int find_live(struct restore *r, const char *path, struct identity *id,
		     struct sc_err *err)
{
	auto_close int fd = -1;
	auto_free char *copy = strdup(path);
	char *at = copy, *name;
	int next;

	if (!copy)
		return sc_oom(err, "path");
	while ((name = strsep(&at, "/"))) {
		if (!*name)
			continue;
		next = rdirs_open(r, fd < 0 ? r->rootfd : fd, name);
		mem_closep(&fd);
		fd = next;
		if (fd < 0)
			return 0;
	}
	if (fd < 0)
		return 0;
	return rdirs_identity(fd, id, err) < 0 ? -1 : 1;
}

static uint32_t find_entry(const struct tree *t, const char *path)
{
	uint32_t s = 0;
	size_t len;

	for (;; path += len) {
		path += strspn(path, "/");
		len = strcspn(path, "/");
		if (len == 0)
			return s;
		for (s = tree_first_child(t, s); s != TREE_NONE;
		     s = tree_next_sibling(t, s)) {
			const struct entry *e = tree_at(t, s);

			if (e->name_len == len &&
			    memcmp(e->name, path, len) == 0)
				break;
		}
		if (s == TREE_NONE)
			return s;
	}
}

static int leave_out(struct restore *r, struct sc_err *err)
{
	uint32_t s;

	if (!r->o.leave_out)
		return 0;
	if (find_live(r, r->o.leave_out, &r->leave_out, err) < 0)
		return -1;
	s = find_entry(r->tree, r->o.leave_out);
	if (s == 0)
		return sc_fail(err, SC_EREFUSED, 0,
			       "the repository is the volume itself");
	if (s != TREE_NONE)
		r->op[s] = ROP_SKIP;
	return 0;
}

/* -- all ----------------------------------------------------------------- */

static int removal_cmp(const void *a, const void *b)
{
	const struct removal *x = a, *y = b;

	return x->parent < y->parent ? -1 : x->parent > y->parent;
}

int rplan_merge(struct restore *r, struct sc_err *err)
{
	r->nrm = 0;
	buf_clear(&r->rm_names);
	memset(&r->sum, 0, sizeof(r->sum));
	for (uint32_t s = 0; s < r->n; s++)
		r->op[s] &= ROP_FLAT | ROP_IN;
	if (leave_out(r, err) < 0 || rmerge_run(r, err) < 0)
		return -1;
	derive(r);
	if (r->nrm)
		qsort(r->rm, r->nrm, sizeof(*r->rm), removal_cmp);
	return rplan_check(r, err);
}

static int plan(struct restore *r, struct sc_err *err)
{
	if (check_root(r, err) < 0 || rjournal_look(r, err) < 0)
		return -1;
	r->op = calloc(r->n, 1);
	r->stamp = calloc(r->n, sizeof(*r->stamp));
	if (!r->op || !r->stamp)
		return sc_oom(err, "plan");
	if (rlinks_build(r, err) < 0 || rplan_merge(r, err) < 0)
		return -1;
	place(r);
	r->direct = rdirect_volume(r);
	if (check_room(r, err) < 0 || rwork_build(r, err) < 0)
		return -1;
	count(r);
	return 0;
}

int restore_plan(int rootfd, struct tree *tree,
		 const struct chunk_table *chunks,
		 const struct restore_options *o, struct notes *notes,
		 struct restore **out, struct restore_summary *sum,
		 struct sc_err *err)
{
	struct restore *r = calloc(1, sizeof(*r));

	if (!r)
		return sc_oom(err, "restore");
	r->rootfd = rootfd;
	r->stagefd = -1;
	r->tree = tree;
	r->chunks = chunks;
	r->o = *o;
	r->o.threads = o->threads ? o->threads : 1;
	r->notes = notes;
	r->n = tree_count(tree);
	r->root_staged.tv_nsec = -1;
	pthread_mutex_init(&r->lock, NULL);
	if (plan(r, err) < 0) {
		restore_free(r);
		return -1;
	}
	*sum = r->sum;
	*out = r;
	return 0;
}

const uint32_t *restore_needs(const struct restore *r, size_t *n)
{
	*n = r->nneeds;
	return r->needs;
}

void restore_free(struct restore *r)
{
	if (!r)
		return;
	mem_closep(&r->stagefd);
	free(r->op);
	free(r->stamp);
	free(r->rm);
	buf_free(&r->rm_names);
	free(r->links);
	free(r->needs);
	free(r->ref_end);
	free(r->refs);
	free(r->partial);
	pthread_mutex_destroy(&r->lock);
	free(r);
}
