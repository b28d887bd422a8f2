/* SPDX-License-Identifier: MIT */
/* Filling the stage.
 *
 * Directories are made first, by one thread. Then each worker takes a stretch
 * of entries without data until none is left, and after that segments: it
 * fetches one (under a lock, so they come in order), decompresses it, hashes
 * every chunk that is needed and writes them. So at most as many segments as
 * there are workers are in memory. A small file is created, filled, given its
 * metadata and closed in one go; a large one is opened for each segment, and
 * whoever writes its last chunk finishes it. Links and the metadata of
 * directories come last. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <snapctl/base/hash.h>
#include <snapctl/base/io.h>
#include <snapctl/base/mem.h>
#include <snapctl/base/zst.h>

#include "internal.h"

#define STRETCH	       256 /* entries without data at a time */
#define DIRECT_WAITERS 2
#define EARLY_SYNC     (1u << 18) /* writes from here on are sent off at once */

struct stage {
	struct restore *r;
	const struct restore_source *src;
	struct group *group;
	struct rflush *flush;
	atomic_uint_least32_t entry; /* the next stretch */
	size_t need;		     /* the next segment; r->lock */
};

struct worker {
	struct stage *g;
	struct stager s;
	struct zst_dec *dec;
	struct hash *hash;
	struct buf stored;
	unsigned char *mem; /* aligned */
	size_t mem_len;
	unsigned char *plain; /* the segment's bytes, in mem */
	size_t plain_len;
	uint32_t *ids; /* chunks of the segment */
	size_t ids_cap;
};

/* The refs of one segment. */
struct batch {
	uint32_t segment;
	const struct wref *refs;
	size_t n;
};

static int go_on(const struct worker *w, struct sc_err *err)
{
	if (group_stopping(w->g->group))
		return sc_fail(err, SC_EINTR, 0, "another thread failed");
	return rstopped(w->g->r, err);
}

/* -- a segment's bytes ---------------------------------------------------- */

/* 1: fetched, 0: no more, -1. */
static int fetch(struct worker *w, struct batch *b, struct sc_err *err)
{
	struct stage *g = w->g;
	struct restore *r = g->r;
	size_t from, i;
	int rc = 0;

	pthread_mutex_lock(&r->lock);
	i = g->need;
	if (i < r->nneeds && !group_stopping(g->group)) {
		g->need++;
		from = i ? r->ref_end[i - 1] : 0;
		*b = (struct batch){ r->needs[i], r->refs + from,
				     r->ref_end[i] - from };
		buf_clear(&w->stored);
		rc = g->src->next(g->src->arg, &w->stored, err) < 0 ? -1 : 1;
	}
	pthread_mutex_unlock(&r->lock);
	return rc;
}

static int corrupt(const struct worker *w, const struct batch *b, uint32_t slot,
		   const char *what, struct sc_err *err)
{
	char path[RPATH];

	return sc_fail(err, SC_ECORRUPT, 0, "segment %u: %s (it holds %s)",
		       b->segment, what, rpath(w->g->r, slot, path));
}

/* Where in a page the segment has to begin for a large file's data to lie in
 * memory as in the file. */
static size_t skew(const struct worker *w, const struct batch *b)
{
	const struct chunk *all = w->g->r->chunks->chunks;

	for (size_t i = 0; i < b->n; i++)
		if (rdirect_file(w->g->r, b->refs[i].slot))
			return (b->refs[i].off - all[b->refs[i].chunk].offset) %
			       DIRECT_ALIGN;
	return 0;
}

static int make_room(struct worker *w, size_t n, struct sc_err *err)
{
	size_t need = (n + 2ul * DIRECT_ALIGN) & ~(size_t)(DIRECT_ALIGN - 1);

	if (w->mem_len >= need)
		return 0;
	free(w->mem);
	w->mem = aligned_alloc(DIRECT_ALIGN, need);
	w->mem_len = w->mem ? need : 0;
	return w->mem ? 0 : sc_oom(err, "segment");
}

static int unpack(struct worker *w, const struct batch *b, struct sc_err *err)
{
	const struct segment *s = &w->g->r->chunks->segments[b->segment];
	char path[RPATH];

	if (w->stored.failed)
		return sc_oom(err, "segment");
	if (w->stored.len != s->stored)
		return corrupt(w, b, b->refs[0].slot, "its length is wrong",
			       err);
	if (s->plain > SEGMENT_PLAIN_MAX)
		return corrupt(w, b, b->refs[0].slot, "too long", err);
	if (make_room(w, s->plain, err) < 0)
		return -1;
	w->plain = w->mem + skew(w, b);
	if (zst_decode(w->dec, w->stored.p, w->stored.len, w->plain, s->plain,
		       "segment", err) < 0)
		return sc_wrap(err, "data of %s",
			       rpath(w->g->r, b->refs[0].slot, path));
	w->plain_len = s->plain;
	return 0;
}

/* -- hashes --------------------------------------------------------------- */

static int id_cmp(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return x < y ? -1 : x > y;
}

static int list_ids(struct worker *w, const struct batch *b, struct sc_err *err)
{
	bool sorted = true;

	if (mem_grow(&w->ids, &w->ids_cap, b->n, sizeof(*w->ids)) < 0)
		return sc_oom(err, "chunks");
	for (size_t i = 0; i < b->n; i++) {
		w->ids[i] = b->refs[i].chunk;
		sorted &= i == 0 || w->ids[i - 1] <= w->ids[i];
	}
	if (!sorted)
		qsort(w->ids, b->n, sizeof(*w->ids), id_cmp);
	return 0;
}

/* A file that needs the chunk, for the message. */
static uint32_t owner(const struct batch *b, uint32_t chunk)
{
	for (size_t i = 0; i < b->n; i++)
		if (b->refs[i].chunk == chunk)
			return b->refs[i].slot;
	return b->refs[0].slot;
}

static int check_chunk(struct worker *w, const struct batch *b, uint32_t id,
		       struct sc_err *err)
{
	const struct chunk *c = &w->g->r->chunks->chunks[id];
	struct digest d;

	if (c->offset > w->plain_len || c->len > w->plain_len - c->offset)
		return corrupt(w, b, owner(b, id), "a chunk lies outside", err);
	if (hash_once(w->hash, w->plain + c->offset, c->len, &d, err) < 0)
		return -1;
	if (digest_cmp(&d, &c->hash) != 0)
		return corrupt(w, b, owner(b, id),
			       "a chunk is not what was recorded", err);
	return 0;
}

static int check_chunks(struct worker *w, const struct batch *b,
			struct sc_err *err)
{
	if (list_ids(w, b, err) < 0)
		return -1;
	for (size_t i = 0; i < b->n; i++)
		if ((i == 0 || w->ids[i] != w->ids[i - 1]) &&
		    check_chunk(w, b, w->ids[i], err) < 0)
			return -1;
	return 0;
}

/* -- writing -------------------------------------------------------------- */

static int write_cached(struct worker *w, int fd, const unsigned char *p,
			size_t n, uint64_t off, struct sc_err *err)
{
	if (n == 0)
		return 0;
	if (io_pwrite_all(fd, p, n, off, STAGE_NAME, err) < 0)
		return -1;
	if (n >= EARLY_SYNC)
		rflush_add(w->g->flush, fd, off, n);
	return 0;
}

/* The parts of the first and the last page are shared with the segments
 * before and after. */
static int write_past_cache(struct worker *w, int fd, const unsigned char *p,
			    size_t n, uint64_t off, struct sc_err *err)
{
	size_t head = -off % DIRECT_ALIGN;

	if (head > n)
		head = n;
	if (write_cached(w, fd, p, head, off, err) < 0)
		return -1;
	p += head;
	n -= head;
	off += head;
	if (rdirect_write(fd, &p, &n, &off, err) < 0)
		return -1;
	return write_cached(w, fd, p, n, off, err);
}

static int write_at(struct worker *w, int fd, uint32_t slot,
		    const unsigned char *p, size_t n, uint64_t off,
		    struct sc_err *err)
{
	char path[RPATH];
	int rc;

	if (n >= EARLY_SYNC && rdirect_file(w->g->r, slot))
		rc = write_past_cache(w, fd, p, n, off, err);
	else
		rc = write_cached(w, fd, p, n, off, err);
	if (rc < 0)
		return sc_wrap(err, "%s", rpath(w->g->r, slot, path));
	if (w->g->r->o.bytes)
		atomic_fetch_add(w->g->r->o.bytes, n);
	return 0;
}

/* off counts data bytes; each extent that they touch gets its part. */
static int write_sparse(struct worker *w, int fd, uint32_t slot,
			const unsigned char *p, size_t n, uint64_t off,
			struct sc_err *err)
{
	uint32_t count, i;
	const struct extent *x = tree_extents(w->g->r->tree, slot, &count);
	uint64_t before = 0;
	size_t part;

	for (i = 0; i < count && off >= before + x[i].len; i++)
		before += x[i].len;
	for (; n > 0 && i < count; i++) {
		uint64_t in = off - before;

		part = x[i].len - in < n ? (size_t)(x[i].len - in) : n;
		if (write_at(w, fd, slot, p, part, x[i].off + in, err) < 0)
			return -1;
		p += part;
		n -= part;
		off += part;
		before += x[i].len;
	}
	if (n == 0)
		return 0;
	return sc_fail(err, SC_ECORRUPT, 0, "index: more data than extents");
}

static int write_data(struct worker *w, int fd, uint32_t slot,
		      const unsigned char *p, size_t n, uint64_t off,
		      struct sc_err *err)
{
	const struct entry *e = tree_at(w->g->r->tree, slot);

	if (e->bits & ENTRY_SPARSE)
		return write_sparse(w, fd, slot, p, n, off, err);
	if (off > e->size || n > e->size - off)
		return sc_fail(err, SC_ECORRUPT, 0,
			       "index: more data than the file's size");
	return write_at(w, fd, slot, p, n, off, err);
}

/* Neighbours in the segment that are neighbours in the file go in one write.
 * refs: n of one file. */
static int write_refs(struct worker *w, int fd, const struct wref *refs,
		      size_t n, struct sc_err *err)
{
	const struct chunk *all = w->g->r->chunks->chunks;

	for (size_t i = 0, j; i < n; i = j) {
		const struct chunk *c = &all[refs[i].chunk];
		size_t len = c->len;

		for (j = i + 1; j < n; j++) {
			const struct chunk *d = &all[refs[j].chunk];

			if (d->offset != c->offset + len ||
			    refs[j].off != refs[i].off + len)
				break;
			len += d->len;
		}
		if (write_data(w, fd, refs[i].slot, w->plain + c->offset, len,
			       refs[i].off, err) < 0)
			return -1;
	}
	return 0;
}

static int write_file(struct worker *w, const struct wref *refs, size_t n,
		      struct sc_err *err)
{
	uint32_t slot = refs[0].slot;
	struct partial *p = rwork_partial(w->g->r, slot);
	auto_close int fd = -1;

	if (rmake_open(&w->s, slot, !p, &fd, err) < 0 ||
	    (p && rdirect_begin(w->g->r, p, fd, err) < 0) ||
	    write_refs(w, fd, refs, n, err) < 0)
		return -1;
	if (p && atomic_fetch_sub(&p->left, (uint32_t)n) != n)
		return 0;
	return rmake_finish(&w->s, fd, slot, err);
}

static int write_batch(struct worker *w, const struct batch *b,
		       struct sc_err *err)
{
	for (size_t i = 0, j; i < b->n; i = j) {
		for (j = i + 1; j < b->n; j++)
			if (b->refs[j].slot != b->refs[i].slot)
				break;
		if (go_on(w, err) < 0 ||
		    write_file(w, b->refs + i, j - i, err) < 0)
			return -1;
	}
	return 0;
}

/* -- workers -------------------------------------------------------------- */

static bool is_plain(const struct restore *r, uint32_t slot)
{
	const struct entry *e = tree_at(r->tree, slot);

	if (!is_staged(r, slot) || entry_is_dir(e) || is_link(e))
		return false;
	return !entry_is_reg(e) || e->count == 0;
}

static int make_plain(struct worker *w, struct sc_err *err)
{
	struct restore *r = w->g->r;
	uint32_t from, to;

	while ((from = atomic_fetch_add(&w->g->entry, STRETCH)) < r->n) {
		to = r->n - from < STRETCH ? r->n : from + STRETCH;
		if (go_on(w, err) < 0)
			return -1;
		for (uint32_t s = from; s < to; s++)
			if (is_plain(r, s) && rmake_plain(&w->s, s, err) < 0)
				return -1;
	}
	return 0;
}

static int fill(struct worker *w, struct sc_err *err)
{
	struct batch b;
	int rc;

	if (make_plain(w, err) < 0)
		return -1;
	while ((rc = fetch(w, &b, err)) > 0)
		if (unpack(w, &b, err) < 0 || check_chunks(w, &b, err) < 0 ||
		    write_batch(w, &b, err) < 0)
			return -1;
	return rc;
}

static int work(void *arg, struct sc_err *err)
{
	struct worker w = { .g = arg };
	int rc = -1;

	rmake_init(&w.s, w.g->r);
	if (zst_dec_new(&w.dec, err) == 0 && hash_new(&w.hash, err) == 0)
		rc = fill(&w, err);
	rmake_free(&w.s);
	zst_dec_free(w.dec);
	hash_free(w.hash);
	buf_free(&w.stored);
	free(w.mem);
	free(w.ids);
	return rc;
}

static int run_group(struct stage *g, struct sc_err *err)
{
	struct sc_err start = { 0 };
	unsigned n = g->r->o.threads;
	int rc = 0;

	/* A direct write is waited for: others compute meanwhile. */
	if (g->r->direct && g->r->npartial)
		n += DIRECT_WAITERS;
	if (group_new(&g->group, err) < 0)
		return -1;
	if (g->src->stop)
		group_on_stop(g->group, g->src->stop, g->src->arg);
	for (unsigned i = 0; rc == 0 && i < n; i++)
		rc = group_start(g->group, work, g, &start);
	if (group_join(g->group, err) < 0)
		return -1;
	if (rc < 0 && err)
		*err = start;
	return rc;
}

static int run_workers(struct restore *r, const struct restore_source *src,
		       struct sc_err *err)
{
	struct stage g = { .r = r, .src = src };
	int rc = rflush_start(&g.flush, err);

	if (rc == 0)
		rc = run_group(&g, err);
	rflush_end(g.flush);
	return rc;
}

/* -- before and after ----------------------------------------------------- */

static int make_dirs(struct stager *s, struct sc_err *err)
{
	struct restore *r = s->r;

	for (uint32_t i = 1; i < r->n; i++) {
		if (!is_staged(r, i) || !entry_is_dir(tree_at(r->tree, i)))
			continue;
		if (rstopped(r, err) < 0 || rmake_dir(s, i, err) < 0)
			return -1;
	}
	return 0;
}

static int make_links(struct stager *s, struct sc_err *err)
{
	struct restore *r = s->r;

	if (r->nlinks == 0)
		return 0;
	for (uint32_t i = 1; i < r->n; i++) {
		if (!is_staged(r, i) || !is_link(tree_at(r->tree, i)))
			continue;
		if (rstopped(r, err) < 0 || rmake_link(s, i, err) < 0)
			return -1;
	}
	return 0;
}

/* Deepest first. */
static int finish_dirs(struct stager *s, struct sc_err *err)
{
	struct restore *r = s->r;

	for (uint32_t i = r->n; i-- > 1;) {
		if (!is_staged(r, i) || !entry_is_dir(tree_at(r->tree, i)))
			continue;
		if (rstopped(r, err) < 0 || rmake_dir_meta(s, i, err) < 0)
			return -1;
	}
	return 0;
}

static int all_finished(const struct restore *r, struct sc_err *err)
{
	for (size_t i = 0; i < r->npartial; i++)
		if (atomic_load(&r->partial[i].left) != 0)
			return sc_fail(err, SC_ECORRUPT, 0,
				       "a staged file is not complete");
	return 0;
}

int restore_stage(struct restore *r, const struct restore_source *src,
		  struct sc_err *err)
{
	struct stager s;
	int rc = 0;

	if (rjournal_begin(r, err) < 0)
		return -1;
	rmake_init(&s, r);
	if (make_dirs(&s, err) < 0 || run_workers(r, src, err) < 0 ||
	    all_finished(r, err) < 0 || make_links(&s, err) < 0 ||
	    finish_dirs(&s, err) < 0)
		rc = -1;
	rmake_free(&s);
	return rc;
}
