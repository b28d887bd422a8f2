/* SPDX-License-Identifier: MIT */
/* Which chunks of which segments go where: for each needed segment its refs,
 * in the order of the files, so that a file's neighbours are written in one
 * go. 16 octets for each chunk of a staged file. */
#include <stdlib.h>
#include <string.h>

#include <snapctl/base/mem.h>

#include "internal.h"

static bool has_data(const struct restore *r, uint32_t slot)
{
	const struct entry *e = tree_at(r->tree, slot);

	return entry_is_reg(e) && is_staged(r, slot) && !is_link(e);
}

struct visit {
	struct restore *r;
	size_t *at; /* by segment */
	size_t total;
	bool fill;
	uint32_t slot, chunks, segment; /* of the file at hand */
	bool several;
	uint64_t off;
};

static int bad(const struct restore *r, uint32_t slot, struct sc_err *err)
{
	char path[RPATH];

	return sc_fail(err, SC_ECORRUPT, 0, "index: chunks of %s out of range",
		       rpath(r, slot, path));
}

static int visit_chunk(struct visit *v, uint32_t i, struct sc_err *err)
{
	const struct chunk_table *t = v->r->chunks;
	const struct chunk *c;

	if (i >= t->nchunks || t->chunks[i].segment >= t->nsegments)
		return bad(v->r, v->slot, err);
	c = &t->chunks[i];
	if (v->fill)
		v->r->refs[v->at[c->segment]] =
			(struct wref){ i, v->slot, v->off };
	v->several |= v->chunks > 0 && c->segment != v->segment;
	v->segment = c->segment;
	v->chunks++;
	v->at[c->segment]++;
	v->total++;
	v->off += c->len;
	return 0;
}

static int visit_file(struct visit *v, uint32_t slot, struct sc_err *err)
{
	const struct entry *e = tree_at(v->r->tree, slot);
	const struct run *runs = tree_runs(v->r->tree, e);

	v->slot = slot;
	v->chunks = 0;
	v->off = 0;
	v->several = false;
	for (uint32_t i = 0; i < e->count; i++)
		for (uint32_t j = 0; j < runs[i].count; j++)
			if (visit_chunk(v, runs[i].first + j, err) < 0)
				return -1;
	return 0;
}

static int add_partial(struct visit *v, struct sc_err *err)
{
	struct restore *r = v->r;
	struct partial *p;

	if (!v->several || v->fill)
		return 0;
	if (mem_grow(&r->partial, &r->partial_cap, r->npartial + 1,
		     sizeof(*r->partial)) < 0)
		return sc_oom(err, "files");
	p = &r->partial[r->npartial++];
	p->slot = v->slot;
	atomic_init(&p->left, v->chunks);
	atomic_init(&p->begun, false);
	return 0;
}

static int visit_all(struct visit *v, struct sc_err *err)
{
	for (uint32_t s = 0; s < v->r->n; s++)
		if (has_data(v->r, s) &&
		    (visit_file(v, s, err) < 0 || add_partial(v, err) < 0))
			return -1;
	return 0;
}

/* From counts to where each segment's refs begin, and the list of needs. */
static int begin_fill(struct visit *v, struct sc_err *err)
{
	struct restore *r = v->r;
	size_t sum = 0, n;

	for (uint32_t s = 0; s < r->chunks->nsegments; s++) {
		n = v->at[s];
		v->at[s] = sum;
		sum += n;
		if (n == 0)
			continue;
		if (mem_grow(&r->needs, &r->needs_cap, r->nneeds + 1,
			     sizeof(*r->needs)) < 0)
			return sc_oom(err, "segments");
		r->needs[r->nneeds++] = s;
	}
	r->refs = malloc((v->total ? v->total : 1) * sizeof(*r->refs));
	r->ref_end = malloc((r->nneeds ? r->nneeds : 1) * sizeof(*r->ref_end));
	if (!r->refs || !r->ref_end)
		return sc_oom(err, "list of chunks");
	v->fill = true;
	return 0;
}

int rwork_build(struct restore *r, struct sc_err *err)
{
	auto_free size_t *at = calloc(r->chunks->nsegments + 1, sizeof(*at));
	struct visit v = { .r = r, .at = at };

	if (!at)
		return sc_oom(err, "segments");
	if (visit_all(&v, err) < 0 || begin_fill(&v, err) < 0 ||
	    visit_all(&v, err) < 0)
		return -1;
	for (size_t i = 0; i < r->nneeds; i++)
		r->ref_end[i] = at[r->needs[i]];
	return 0;
}

struct partial *rwork_partial(struct restore *r, uint32_t slot)
{
	size_t lo = 0, hi = r->npartial, mid;

	while (lo < hi) {
		mid = (lo + hi) / 2;
		if (r->partial[mid].slot < slot)
			lo = mid + 1;
		else
			hi = mid;
	}
	if (lo < r->npartial && r->partial[lo].slot == slot)
		return &r->partial[lo];
	return NULL;
}
