/* SPDX-License-Identifier: MIT */
/* The ring of jobs: planned, taken, read, done, and emitted in order. */
#include <stdlib.h>
#include <string.h>

#include <snapctl/base/mem.h>

#include "take_internal.h"

static void wake(void *arg)
{
	struct take *k = arg;

	pthread_mutex_lock(&k->lock);
	pthread_cond_broadcast(&k->work);
	pthread_cond_broadcast(&k->step);
	pthread_mutex_unlock(&k->lock);
}

/* Enough jobs under way that a worker seldom waits for its turn to emit, few
 * enough that what they hold and what is read ahead stays at some tens of
 * megabytes. */
int order_init(struct take *k, struct sc_err *err)
{
	pthread_mutex_init(&k->lock, NULL);
	pthread_cond_init(&k->work, NULL);
	pthread_cond_init(&k->step, NULL);
	k->window = k->o->threads + 6;
	k->out_cap = zst_bound(2 * SEGMENT_TARGET + 2 * k->chunker.max);
	k->ring = calloc(k->window, sizeof(*k->ring));
	if (!k->ring)
		return sc_oom(err, "jobs");
	group_on_stop(k->group, wake, k);
	return 0;
}

static void job_free(struct job *j)
{
	for (size_t i = 0; i < j->nsegs; i++)
		free(j->segs[i].p);
	free(j->segs);
	free(j->chunks);
	free(j->files);
	free(j->blob);
	buf_free(&j->blobs);
}

void order_free(struct take *k)
{
	struct bigfile *f;

	while ((f = k->bigs) != NULL) {
		k->bigs = f->next;
		bigfile_free(f);
	}
	for (unsigned i = 0; k->ring && i < k->window; i++)
		job_free(&k->ring[i]);
	for (size_t i = 0; i < k->nspare; i++)
		free(k->spare[i].p);
	free(k->spare);
	free(k->ring);
	pthread_mutex_destroy(&k->lock);
	pthread_cond_destroy(&k->work);
	pthread_cond_destroy(&k->step);
}

int order_stopped(const struct take *k, struct sc_err *err)
{
	if (k->o->stop && atomic_load(k->o->stop))
		return sc_fail(err, SC_EINTR, 0, "interrupted");
	return 0;
}

static struct job *job_at(struct take *k, uint64_t seq)
{
	return &k->ring[seq % k->window];
}

static void job_clear(struct job *j)
{
	struct job old = *j;

	*j = (struct job){
		.segs = old.segs,
		.segs_cap = old.segs_cap,
		.chunks = old.chunks,
		.chunks_cap = old.chunks_cap,
		.files = old.files,
		.files_cap = old.files_cap,
		.blob = old.blob,
		.blobs_cap = old.blobs_cap,
		.blobs = old.blobs,
	};
	buf_clear(&j->blobs);
}

/* -- planner ------------------------------------------------------------ */

struct job *order_plan(struct take *k)
{
	struct job *j;

	pthread_mutex_lock(&k->lock);
	while (k->planned - k->emitted >= k->window &&
	       !group_stopping(k->group))
		pthread_cond_wait(&k->step, &k->lock);
	j = job_at(k, k->planned);
	pthread_mutex_unlock(&k->lock);
	if (group_stopping(k->group))
		return NULL;
	job_clear(j);
	j->seq = k->planned;
	return j;
}

void order_add(struct take *k, struct job *j)
{
	(void)j;
	pthread_mutex_lock(&k->lock);
	k->planned++;
	k->unread++;
	pthread_cond_signal(&k->work);
	pthread_mutex_unlock(&k->lock);
}

/* Says once that everything was read. Called with the lock; gives it back. */
static void tell_read(struct take *k)
{
	bool now = k->plan_done && k->unread == 0 && !k->told;

	if (now)
		k->told = true;
	pthread_mutex_unlock(&k->lock);
	if (now && k->sink->read_done)
		k->sink->read_done(k->sink->arg);
}

void order_end(struct take *k)
{
	pthread_mutex_lock(&k->lock);
	k->plan_done = true;
	pthread_cond_broadcast(&k->work);
	tell_read(k);
}

/* -- workers ------------------------------------------------------------ */

struct job *order_take(struct take *k)
{
	struct job *j = NULL;

	pthread_mutex_lock(&k->lock);
	while (k->taken == k->planned && !k->plan_done &&
	       !group_stopping(k->group))
		pthread_cond_wait(&k->work, &k->lock);
	if (k->taken < k->planned && !group_stopping(k->group))
		j = job_at(k, k->taken++);
	pthread_mutex_unlock(&k->lock);
	return j;
}

void order_read(struct take *k, struct job *j)
{
	pthread_mutex_lock(&k->lock);
	j->read = true;
	k->unread--;
	pthread_cond_broadcast(&k->step);
	tell_read(k);
}

bool order_wait_read(struct take *k, uint64_t seq)
{
	bool read;

	pthread_mutex_lock(&k->lock);
	while (!(read = seq < k->emitted || job_at(k, seq)->read) &&
	       !group_stopping(k->group))
		pthread_cond_wait(&k->step, &k->lock);
	pthread_mutex_unlock(&k->lock);
	return read;
}

int order_spare(struct take *k, size_t n, struct segment_out *out,
		struct sc_err *err)
{
	*out = (struct segment_out){ 0 };
	pthread_mutex_lock(&k->lock);
	if (k->nspare)
		*out = k->spare[--k->nspare];
	pthread_mutex_unlock(&k->lock);
	if (out->cap >= n)
		return 0;
	free(out->p);
	out->cap = n > k->out_cap ? n : k->out_cap;
	out->p = malloc(out->cap);
	return out->p ? 0 : sc_oom(err, "compressed segment");
}

/* Keeps the buffers of j's segments for others; odd large ones are freed. */
static void give_spares(struct take *k, struct job *j)
{
	pthread_mutex_lock(&k->lock);
	for (size_t i = 0; i < j->nsegs; i++) {
		if (j->segs[i].cap > k->out_cap ||
		    mem_grow(&k->spare, &k->spare_cap, k->nspare + 1,
			     sizeof(*k->spare)) < 0)
			free(j->segs[i].p);
		else
			k->spare[k->nspare++] = j->segs[i];
	}
	pthread_mutex_unlock(&k->lock);
	j->nsegs = 0;
}

/* -- emitting ----------------------------------------------------------- */

static int emit_chunks(struct take *k, const struct job *j, struct sc_err *err)
{
	struct chunk_table *c = k->chunks;
	size_t need = c->nchunks + j->nchunks;

	if (need > UINT32_MAX)
		return sc_fail(err, SC_EREFUSED, 0,
			       "the volume has more than %u chunks",
			       UINT32_MAX);
	if (mem_grow(&c->chunks, &c->chunks_cap, need, sizeof(*c->chunks)) < 0)
		return sc_oom(err, "chunks");
	for (size_t i = 0; i < j->nchunks; i++) {
		c->chunks[c->nchunks] = j->chunks[i];
		c->chunks[c->nchunks++].segment += k->res.segments;
	}
	return 0;
}

static int emit_files(struct take *k, const struct job *j, size_t base,
		      struct sc_err *err)
{
	for (size_t i = 0; i < j->nfiles; i++) {
		const struct job_file *f = &j->files[i];
		struct run r = { (uint32_t)base + f->first, f->count };

		if (tree_set_runs(k->t, tree_at(k->t, f->slot), &r, 1, err) < 0)
			return -1;
	}
	return 0;
}

static int emit_blobs(struct take *k, const struct job *j, struct sc_err *err)
{
	for (size_t i = 0; i < j->nblobs; i++) {
		const struct job_blob *b = &j->blob[i];
		struct entry *e = tree_at(k->t, b->slot);
		const char *p = "";

		if (b->len)
			p = (const char *)j->blobs.p + b->at;
		if (b->target) {
			e->count = 0;
			if (tree_target_add(k->t, p, b->len, &e->first, err) <
			    0)
				return -1;
		} else if (tree_xattrs_add(k->t, p, b->len, &e->xattrs, err) <
			   0) {
			return -1;
		}
	}
	return 0;
}

void order_big(struct take *k, struct bigfile *f)
{
	pthread_mutex_lock(&k->lock);
	f->next = k->bigs;
	k->bigs = f;
	pthread_mutex_unlock(&k->lock);
}

static void drop_big(struct take *k, struct bigfile *f)
{
	struct bigfile **at;

	pthread_mutex_lock(&k->lock);
	for (at = &k->bigs; *at != f; at = &(*at)->next)
		;
	*at = f->next;
	pthread_mutex_unlock(&k->lock);
	bigfile_free(f);
}

/* One run for all chunks of a file taken in blocks, after its last. */
static int emit_big(struct take *k, struct job *j, size_t base,
		    struct sc_err *err)
{
	struct bigfile *f = j->f;
	struct run r;
	int rc = 0;

	if (j->block == 0)
		f->first_chunk = base;
	if (j->block + 1 < f->blocks)
		return 0;
	r.first = (uint32_t)f->first_chunk;
	r.count = (uint32_t)(k->chunks->nchunks - f->first_chunk);
	if (!f->unreadable)
		rc = tree_set_runs(k->t, tree_at(k->t, f->slot), &r, 1, err);
	drop_big(k, f);
	return rc;
}

static int emit_segments(struct take *k, const struct job *j,
			 struct sc_err *err)
{
	for (size_t i = 0; i < j->nsegs; i++) {
		const struct segment_out *s = &j->segs[i];

		k->res.plain += s->plain;
		k->res.segments++;
		if (k->sink->segment(k->sink->arg, s->p, s->n, s->plain, err) <
		    0)
			return -1;
	}
	return 0;
}

static int emit(struct take *k, struct job *j, struct sc_err *err)
{
	size_t base = k->chunks->nchunks;

	if (emit_chunks(k, j, err) < 0 || emit_files(k, j, base, err) < 0 ||
	    emit_blobs(k, j, err) < 0 || emit_segments(k, j, err) < 0 ||
	    (j->f && emit_big(k, j, base, err) < 0))
		return -1;
	k->res.bytes += j->sum.bytes;
	k->res.files += j->sum.files;
	k->res.unreadable += j->sum.unreadable;
	k->res.changed += j->sum.changed;
	k->res.vanished += j->sum.vanished;
	give_spares(k, j);
	return 0;
}

/* Whoever finishes the oldest job emits it and all done ones behind it; the
 * others only leave theirs. */
int order_done(struct take *k, struct job *j, struct sc_err *err)
{
	int rc = 0;

	pthread_mutex_lock(&k->lock);
	j->done = true;
	if (k->emitting) {
		pthread_mutex_unlock(&k->lock);
		return 0;
	}
	k->emitting = true;
	while (rc == 0 && k->emitted < k->planned &&
	       (j = job_at(k, k->emitted))->done && !group_stopping(k->group)) {
		pthread_mutex_unlock(&k->lock);
		rc = emit(k, j, err);
		pthread_mutex_lock(&k->lock);
		k->emitted += rc == 0; /* else the slot is not free */
		pthread_cond_broadcast(&k->step);
	}
	k->emitting = false;
	pthread_mutex_unlock(&k->lock);
	return rc;
}
