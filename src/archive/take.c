/* SPDX-License-Identifier: MIT */
/* The planner, which divides the entries into jobs, and the workers. */
#include <snapctl/archive/take.h>

#include <stdlib.h>
#include <string.h>

#include <snapctl/base/mem.h>

#include "take_internal.h"

/* What a header takes at most in the usual case: an extended header with
 * records, and the entry's own. */
#define HEADER_LEN 1536u

#define THREADS_MAX 1024u

struct planner {
	struct take *k;
	struct worker w;
	struct links *links;
	struct job *j; /* the batch in the making, or NULL */
	size_t len;    /* how long its segment will be */
};

/* -- workers ------------------------------------------------------------ */

int worker_init(struct worker *w, struct take *k, struct sc_err *err)
{
	size_t most = 2 * (size_t)SEGMENT_TARGET;

	memset(w, 0, sizeof(*w));
	w->k = k;
	w->dirs.tree = k->t;
	w->dirs.rootfd = k->rootfd;
	w->cand = malloc(chunker_cand_max(most) * sizeof(*w->cand));
	w->lens = malloc((most / k->chunker.min + 16) * sizeof(*w->lens));
	if (!w->cand || !w->lens)
		return sc_oom(err, "chunker");
	if (!buf_reserve(&w->plain, most))
		return sc_oom(err, "segment");
	if (meta_init(&w->meta, err) < 0 || tarhdr_new(&w->hdr, err) < 0 ||
	    hash_new(&w->hash, err) < 0)
		return -1;
	return zst_enc_new(k->o->level, &w->enc, err);
}

void worker_free(struct worker *w)
{
	dirs_free(&w->dirs);
	meta_free(&w->meta);
	tarhdr_free(w->hdr);
	hash_free(w->hash);
	zst_enc_free(w->enc);
	buf_free(&w->plain);
	buf_free(&w->path);
	buf_free(&w->path2);
	free(w->cand);
	free(w->lens);
}

static int work(struct worker *w, struct sc_err *err)
{
	struct job *j;

	while ((j = order_take(w->k)) != NULL) {
		if (order_stopped(w->k, err) < 0 ||
		    (j->f ? block_run(w, j, err) : batch_run(w, j, err)) < 0 ||
		    order_done(w->k, j, err) < 0)
			return -1;
	}
	return 0;
}

static int worker_main(void *arg, struct sc_err *err)
{
	struct worker w;
	int rc;

	rc = worker_init(&w, arg, err);
	if (rc == 0)
		rc = work(&w, err);
	worker_free(&w);
	return rc;
}

/* -- planner ------------------------------------------------------------ */

/* 0: p->j is a batch to add to; 1: the group stops. */
static int need_job(struct planner *p, uint32_t rank)
{
	if (p->j)
		return 0;
	p->j = order_plan(p->k);
	p->len = 0;
	if (!p->j)
		return 1;
	p->j->rank = rank;
	return 0;
}

static void flush(struct planner *p)
{
	if (!p->j)
		return;
	ahead_batch(&p->w, p->j);
	order_add(p->k, p->j);
	p->j = NULL;
}

static void add_to_batch(struct planner *p, uint64_t header, uint64_t data)
{
	p->j->count++;
	p->len += (size_t)(header + ((data + 511) & ~UINT64_C(511)));
	if (p->len >= SEGMENT_TARGET)
		flush(p);
}

/* p->j becomes the first block of f; the others follow. */
static int plan_blocks(struct planner *p, struct bigfile *f)
{
	uint64_t blocks = f->blocks; /* f is gone after the last one */

	order_big(p->k, f);
	for (uint64_t b = 0; b < blocks; b++) {
		if (b && need_job(p, 0))
			return 1;
		p->j->f = f;
		p->j->block = b;
		ahead_block(p->k, f, b);
		order_add(p->k, p->j);
		p->j = NULL;
	}
	return 0;
}

/* Is slot a first name that others may follow? Then they wait for p->j. */
static int note_first(struct planner *p, uint32_t slot, struct sc_err *err)
{
	const struct entry *e = tree_at(p->k->t, slot);

	if (entry_is_dir(e) || e->nlink < 2 ||
	    e->bits & (ENTRY_UNREADABLE | ENTRY_MOUNT | ENTRY_LINK))
		return 0;
	return links_first(p->links, p->k->t, slot, p->j->seq, err);
}

static int plan_big(struct planner *p, uint32_t rank, uint32_t slot,
		    uint64_t header, struct sc_err *err)
{
	struct bigfile *f = NULL;
	uint64_t data = 0;
	int rc;

	flush(p);
	if (need_job(p, rank))
		return 1;
	if (note_first(p, slot, err) < 0)
		return -1;
	rc = block_open(&p->w, p->j, slot, &f, &data, err);
	if (rc == 1)
		return plan_blocks(p, f);
	if (rc == 0)
		add_to_batch(p, header, data);
	else if (rc == 2)
		p->j->rank = rank + 1;
	return rc < 0 ? -1 : 0;
}

static int plan_small(struct planner *p, uint32_t rank, uint32_t slot,
		      uint64_t header, uint64_t data, struct sc_err *err)
{
	if (p->len > SEGMENT_TARGET / 2 &&
	    p->len + data > SEGMENT_TARGET + SEGMENT_TARGET / 4)
		flush(p);
	if (need_job(p, rank))
		return 1;
	if (note_first(p, slot, err) < 0)
		return -1;
	add_to_batch(p, header, data);
	return 0;
}

/* 0, 1 when the group stops, -1. */
static int plan_entry(struct planner *p, uint32_t rank, struct sc_err *err)
{
	uint32_t slot = tree_order(p->k->t, rank);
	const struct entry *e = tree_at(p->k->t, slot);
	uint64_t header = HEADER_LEN + e->name_len, data = 0;
	bool skip = e->bits & (ENTRY_UNREADABLE | ENTRY_MOUNT);
	int later = 0;

	if (!skip && !entry_is_dir(e) && e->nlink > 1)
		later = links_later(p->links, p->k->t, slot, err);
	if (later < 0)
		return -1;
	if (entry_is_reg(e) && !skip && !later)
		data = e->size;
	if (data > BIG_ABOVE)
		return plan_big(p, rank, slot, header, err);
	return plan_small(p, rank, slot, header, data, err);
}

static int plan_all(struct planner *p, struct sc_err *err)
{
	uint32_t n = tree_count(p->k->t);
	int rc;

	for (uint32_t rank = 0; rank < n; rank++) {
		if (order_stopped(p->k, err) < 0)
			return -1;
		rc = plan_entry(p, rank, err);
		if (rc)
			return rc < 0 ? -1 : 0;
	}
	if (need_job(p, n))
		return 0;
	p->j->last = true;
	flush(p);
	order_end(p->k);
	return 0;
}

/* The planner is a member of the group: its failure stops the workers. */
static int planner_main(void *arg, struct sc_err *err)
{
	struct planner *p = arg;
	int rc;

	rc = worker_init(&p->w, p->k, err);
	if (rc == 0)
		rc = plan_all(p, err);
	worker_free(&p->w);
	return rc;
}

/* -- all of it ----------------------------------------------------------- */

static int run(struct take *k, struct sc_err *err)
{
	struct planner p = { .k = k };
	int rc = 0;

	if (group_new(&k->group, err) < 0)
		return -1;
	if (order_init(k, err) < 0 || links_new(&p.links, err) < 0)
		rc = -1;
	if (rc == 0)
		rc = group_start(k->group, planner_main, &p, err);
	for (unsigned i = 0; rc == 0 && i < k->o->threads; i++)
		rc = group_start(k->group, worker_main, k, err);
	if (group_join(k->group, rc ? NULL : err) < 0)
		rc = -1;
	if (rc == 0)
		rc = links_finish(p.links, k, err);
	links_free(p.links);
	order_free(k);
	return rc;
}

int take_full(int rootfd, struct tree *t, const struct take_options *o,
	      const struct take_sink *sink, struct notes *notes,
	      struct chunk_table *chunks, struct take_result *out,
	      struct sc_err *err)
{
	struct take k = {
		.rootfd = rootfd,
		.t = t,
		.o = o,
		.sink = sink,
		.notes = notes,
		.chunks = chunks,
		.cold = true,
	};

	if (o->threads == 0 || o->threads > THREADS_MAX || tree_count(t) == 0)
		return sc_fail(err, SC_EUSAGE, 0,
			       "cannot take %u entries with %u threads",
			       tree_count(t), o->threads);
	if (o->chunk_avg < CHUNK_AVG_DEFAULT || o->chunk_avg > CHUNK_AVG_MAX ||
	    (o->chunk_avg & (o->chunk_avg - 1)))
		return sc_fail(err, SC_EUSAGE, 0,
			       "chunks of %u bytes on average", o->chunk_avg);
	chunker_init(&k.chunker, o->chunk_avg);
	if (run(&k, err) < 0)
		return -1;
	*out = k.res;
	return 0;
}
