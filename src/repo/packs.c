/* SPDX-License-Identifier: MIT */
/* A pack's digest is known only when it is sealed, so each table that has
 * segments in the open pack gets an empty row first; sealing fills them. */
#include "internal.h"

#include <stdlib.h>

#include <snapctl/base/mem.h>

struct user {
	struct chunk_table *table; /* borrowed until packs_finish */
	uint32_t row;		   /* of the open pack in its packs */
};

struct packs {
	struct repo *repo;
	enum pack_kind kind;
	uint64_t max;
	struct blob_writer *blob; /* the open pack, or NULL */
	struct user *users;
	size_t nusers, users_cap;
};

int packs_new(struct repo *r, enum pack_kind kind, uint64_t max_size,
	      struct packs **out, struct sc_err *err)
{
	struct packs *p = calloc(1, sizeof(*p));

	if (!p)
		return sc_oom(err, "packs");
	p->repo = r;
	p->kind = kind;
	p->max = max_size;
	*out = p;
	return 0;
}

void packs_free(struct packs *p)
{
	if (!p)
		return;
	blob_discard(p->blob);
	free(p->users);
	free(p);
}

static int seal(struct packs *p, struct sc_err *err)
{
	struct pack_ref ref = { .kind = p->kind };
	struct blob_writer *w = take_ptr(p->blob);

	if (blob_seal(w, &ref.digest, &ref.length, err) < 0)
		return -1;
	for (size_t i = 0; i < p->nusers; i++)
		p->users[i].table->packs[p->users[i].row] = ref;
	p->nusers = 0;
	return 0;
}

static int row_of(struct packs *p, struct chunk_table *t, uint32_t *row,
		  struct sc_err *err)
{
	for (size_t i = p->nusers; i-- > 0;)
		if (p->users[i].table == t) {
			*row = p->users[i].row;
			return 0;
		}
	if (mem_grow(&p->users, &p->users_cap, p->nusers + 1,
		     sizeof(*p->users)) < 0 ||
	    mem_grow(&t->packs, &t->packs_cap, t->npacks + 1,
		     sizeof(*t->packs)) < 0)
		return sc_oom(err, "packs");
	*row = (uint32_t)t->npacks;
	t->packs[t->npacks++] = (struct pack_ref){ .kind = p->kind };
	p->users[p->nusers++] = (struct user){ t, *row };
	return 0;
}

int packs_append(struct packs *p, const void *stored, size_t n, uint32_t plain,
		 struct chunk_table *t, struct sc_err *err)
{
	struct segment s = { .stored = (uint32_t)n, .plain = plain };

	if (n == 0 || n > SEGMENT_STORED_MAX || plain > SEGMENT_PLAIN_MAX)
		return sc_fail(
			err, SC_EPROTO, 0,
			"segment of %zu bytes (%u plain) is out of bounds", n,
			plain);
	/* At least one segment in each, however small the maximum. */
	if (p->blob && blob_length(p->blob) + n > p->max && seal(p, err) < 0)
		return -1;
	if (!p->blob && blob_new(p->repo, &p->blob, err) < 0)
		return -1;
	s.offset = blob_length(p->blob);
	if (row_of(p, t, &s.pack, err) < 0)
		return -1;
	if (mem_grow(&t->segments, &t->segments_cap, t->nsegments + 1,
		     sizeof(*t->segments)) < 0)
		return sc_oom(err, "segments");
	if (blob_write(p->blob, stored, n, err) < 0)
		return -1;
	t->segments[t->nsegments++] = s;
	return 0;
}

int packs_finish(struct packs *p, struct chunk_table *t, struct sc_err *err)
{
	(void)t;
	return p->blob ? seal(p, err) : 0;
}
