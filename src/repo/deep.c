/* SPDX-License-Identifier: MIT */
/* Every chunk against its hash. Segments are independent frames, so each is
 * a job. Indexes of one stack mostly name the same chunks in the same
 * segments: what was checked once is remembered by a digest over the
 * segment's place and its chunks. */
#include "internal.h"

#include <stdlib.h>
#include <string.h>

#include <snapctl/base/io.h>
#include <snapctl/base/mem.h>
#include <snapctl/base/zst.h>

struct deep {
	struct verify *v;
	const struct chunk_table *t;
	struct touched snapshots;
	uint32_t *order; /* chunks sorted by segment */
	size_t *first;	 /* of each segment in order; one more at the end */
	uint32_t *jobs;	 /* segments to check */
	size_t njobs;
};

/* -- what was seen ----------------------------------------------------------
 */

void deep_seen_free(struct deep_seen *s)
{
	free(s->v);
	*s = (struct deep_seen){ 0 };
}

static const struct digest none;

static size_t slot_of(const struct deep_seen *s, const struct digest *d)
{
	size_t i;

	memcpy(&i, d->b, sizeof(i));
	for (i &= s->cap - 1;
	     digest_cmp(&s->v[i], &none) != 0 && digest_cmp(&s->v[i], d) != 0;)
		i = (i + 1) & (s->cap - 1);
	return i;
}

static int seen_grow(struct deep_seen *s, struct sc_err *err)
{
	struct deep_seen more = { .cap = s->cap ? s->cap * 2 : 1024 };

	if (s->n * 2 < s->cap)
		return 0;
	more.v = calloc(more.cap, sizeof(*more.v));
	if (!more.v)
		return sc_oom(err, "segments");
	for (size_t i = 0; i < s->cap; i++)
		if (digest_cmp(&s->v[i], &none) != 0)
			more.v[slot_of(&more, &s->v[i])] = s->v[i];
	more.n = s->n;
	free(s->v);
	*s = more;
	return 0;
}

/* 1: new, and seen from now on; 0: seen before; -1. */
static int see(struct deep_seen *s, const struct digest *d, struct sc_err *err)
{
	size_t i;

	if (seen_grow(s, err) < 0)
		return -1;
	i = slot_of(s, d);
	if (digest_cmp(&s->v[i], d) == 0)
		return 0;
	s->v[i] = *d;
	s->n++;
	return 1;
}

/* -- jobs -------------------------------------------------------------------
 */

static int sort_chunks(struct deep *d, struct sc_err *err)
{
	const struct chunk_table *t = d->t;

	d->order = malloc((t->nchunks + 1) * sizeof(*d->order));
	d->first = calloc(t->nsegments + 2, sizeof(*d->first));
	d->jobs = malloc((t->nsegments + 1) * sizeof(*d->jobs));
	if (!d->order || !d->first || !d->jobs)
		return sc_oom(err, "segments");
	/* Counted two places up, summed, then moved down by filling. */
	for (size_t i = 0; i < t->nchunks; i++)
		d->first[t->chunks[i].segment + 2]++;
	for (size_t i = 2; i < t->nsegments + 2; i++)
		d->first[i] += d->first[i - 1];
	for (size_t i = 0; i < t->nchunks; i++)
		d->order[d->first[t->chunks[i].segment + 1]++] = (uint32_t)i;
	return 0;
}

static int fingerprint(const struct deep *d, size_t i, struct hash *h,
		       struct digest *out, struct sc_err *err)
{
	const struct segment *s = &d->t->segments[i];
	auto_buf struct buf b = { 0 };

	buf_put(&b, d->t->packs[s->pack].digest.b, DIGEST_LEN);
	buf_u64(&b, s->offset);
	buf_u32(&b, s->stored);
	buf_u32(&b, s->plain);
	for (size_t k = d->first[i]; k < d->first[i + 1]; k++) {
		const struct chunk *c = &d->t->chunks[d->order[k]];

		buf_put(&b, c->hash.b, DIGEST_LEN);
		buf_u32(&b, c->offset);
		buf_u32(&b, c->len);
	}
	if (b.failed)
		return sc_oom(err, "segments");
	return hash_once(h, b.p, b.len, out, err);
}

static int choose_jobs(struct deep *d, struct deep_seen *seen,
		       struct sc_err *err)
{
	auto_hash struct hash *h = NULL;
	uint64_t bytes = 0;

	if (hash_new(&h, err) < 0)
		return -1;
	for (size_t i = 0; i < d->t->nsegments; i++) {
		struct digest id;
		int rc = fingerprint(d, i, h, &id, err);

		if (rc == 0)
			rc = see(seen, &id, err);
		if (rc < 0)
			return -1;
		if (rc > 0) {
			d->jobs[d->njobs++] = (uint32_t)i;
			bytes += d->t->segments[i].stored;
		}
	}
	if (d->v->o->total)
		atomic_fetch_add(d->v->o->total, bytes);
	return 0;
}

/* -- checking ---------------------------------------------------------------
 */

struct tools {
	struct zst_dec *dec;
	struct hash *hash;
	struct buf stored, plain;
};

static int read_segment(struct deep *d, const struct segment *s,
			const char *pack, struct tools *k, struct sc_err *err)
{
	auto_close int fd = -1;
	int rc = blob_open(d->v->repo, &d->t->packs[s->pack].digest, &fd, NULL,
			   err);

	if (rc < 0)
		return -1;
	if (rc == 0)
		return sc_fail(err, SC_ECORRUPT, 0, "blob %s is missing", pack);
	buf_clear(&k->stored);
	buf_clear(&k->plain);
	if (!buf_reserve(&k->stored, s->stored) ||
	    !buf_reserve(&k->plain, (size_t)s->plain + 1))
		return sc_oom(err, "segment");
	if (io_pread_all(fd, k->stored.p, s->stored, s->offset, pack, err) < 0)
		return -1;
	return zst_decode(k->dec, k->stored.p, s->stored, k->plain.p, s->plain,
			  pack, err);
}

static int check_segment(struct deep *d, size_t i, const char *pack,
			 struct tools *k, struct sc_err *err)
{
	const struct segment *s = &d->t->segments[i];
	struct digest got;

	if (read_segment(d, s, pack, k, err) < 0)
		return sc_wrap(err, "segment at byte %llu",
			       (unsigned long long)s->offset);
	for (size_t n = d->first[i]; n < d->first[i + 1]; n++) {
		const struct chunk *c = &d->t->chunks[d->order[n]];

		if (hash_once(k->hash, k->plain.p + c->offset, c->len, &got,
			      err) < 0)
			return -1;
		if (digest_cmp(&got, &c->hash) != 0)
			return sc_fail(err, SC_ECORRUPT, 0,
				       "%s, segment at byte %llu: the chunk at "
				       "%u is not what its hash says",
				       pack, (unsigned long long)s->offset,
				       c->offset);
	}
	return 0;
}

static int work(struct deep *d, struct tools *k, struct sc_err *err)
{
	struct verify *v = d->v;

	for (;;) {
		size_t job = atomic_fetch_add(&v->next, 1);
		const struct segment *s;
		struct sc_err why = { 0 };
		char pack[DIGEST_STR];

		if (job >= d->njobs || atomic_load(&v->stop))
			return 0;
		if (cancel_check(v->o->cancel, err) < 0)
			return -1;
		s = &d->t->segments[d->jobs[job]];
		digest_str(&d->t->packs[s->pack].digest, pack);
		if (check_segment(d, d->jobs[job], pack, k, &why) < 0 &&
		    verify_found(v, pack, d->snapshots, &why, err) < 0)
			return -1;
		if (v->o->bytes)
			atomic_fetch_add_explicit(v->o->bytes, s->stored,
						  memory_order_relaxed);
	}
}

static int worker(void *arg, struct sc_err *err)
{
	struct tools k = { 0 };
	int rc = zst_dec_new(&k.dec, err);

	if (rc == 0)
		rc = hash_new(&k.hash, err);
	if (rc == 0)
		rc = work(arg, &k, err);
	hash_free(k.hash);
	zst_dec_free(k.dec);
	buf_free(&k.stored);
	buf_free(&k.plain);
	return rc;
}

int deep_check(struct verify *v, struct deep_seen *seen,
	       const struct chunk_table *t, struct touched snapshots,
	       struct sc_err *err)
{
	struct deep d = { .v = v, .t = t, .snapshots = snapshots };
	int rc = sort_chunks(&d, err);

	if (rc == 0)
		rc = choose_jobs(&d, seen, err);
	if (rc == 0)
		rc = verify_threads(v, d.njobs, worker, &d, err);
	free(d.order);
	free(d.first);
	free(d.jobs);
	return rc;
}
