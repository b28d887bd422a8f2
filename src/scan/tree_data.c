/* SPDX-License-Identifier: MIT */
/* What hangs on entries: link targets, sets of xattrs, runs, extents. */
#include <stdlib.h>
#include <string.h>

#include "tree_internal.h"

static unsigned piece_of(uint32_t i)
{
	uint64_t k = ((uint64_t)i >> PIECE0_BITS) + 1;

	return 63 - (unsigned)__builtin_clzll(k);
}

static uint64_t piece_start(unsigned k)
{
	return ((UINT64_C(1) << k) - 1) << PIECE0_BITS;
}

void *tree_table_at(const struct table *t, uint32_t i, size_t size)
{
	unsigned k = piece_of(i);

	return t->piece[k] + (i - piece_start(k)) * size;
}

void *tree_table_take(struct table *t, uint32_t n, size_t size, uint32_t *first)
{
	unsigned k = piece_of(t->n);
	uint64_t at = t->n;

	while (k < PIECES && at + n > piece_start(k + 1))
		at = piece_start(++k);
	if (k >= PIECES || at + n > UINT32_MAX)
		return NULL;
	if (!t->piece[k]) {
		t->piece[k] = malloc(size << (k + PIECE0_BITS));
		if (!t->piece[k])
			return NULL;
	}
	t->n = (uint32_t)(at + n);
	*first = (uint32_t)at;
	return tree_table_at(t, *first, size);
}

void tree_table_free(struct table *t)
{
	for (unsigned k = 0; k < PIECES; k++)
		free(t->piece[k]);
}

int tree_target_add(struct tree *t, const char *target, size_t len,
		    uint32_t *id, struct sc_err *err)
{
	const char **at = NULL, *s;

	pthread_mutex_lock(&t->lock);
	s = tree_arena_str(t, &t->arena, target, len);
	if (s)
		at = tree_table_take(&t->targets, 1, sizeof(*at), id);
	if (at)
		*at = s;
	pthread_mutex_unlock(&t->lock);
	return at ? 0 : sc_oom(err, "link target");
}

const char *tree_target(const struct tree *t, uint32_t id)
{
	if (id == 0)
		return "";
	return *(const char **)tree_table_at(&t->targets, id, sizeof(char *));
}

static uint64_t blob_hash(const unsigned char *p, size_t n)
{
	uint64_t h = UINT64_C(0xcbf29ce484222325) ^ n;

	for (size_t i = 0; i < n; i++)
		h = (h ^ p[i]) * UINT64_C(0x100000001b3);
	return h ^ h >> 32;
}

static const struct xset *xset_at(const struct tree *t, uint32_t id)
{
	return tree_table_at(&t->xsets, id, sizeof(struct xset));
}

static void xhash_put(struct tree *t, uint32_t id, uint64_t hash)
{
	uint32_t i = (uint32_t)hash & (t->xhash_len - 1);

	while (t->xhash[i])
		i = (i + 1) & (t->xhash_len - 1);
	t->xhash[i] = id;
}

static int xhash_room(struct tree *t)
{
	uint32_t len = t->xhash_len ? t->xhash_len * 2 : 64;
	uint32_t *h;

	if (t->xsets.n < t->xhash_len / 2)
		return 0;
	h = len ? calloc(len, sizeof(*h)) : NULL;
	if (!h)
		return -1;
	free(t->xhash);
	t->xhash = h;
	t->xhash_len = len;
	for (uint32_t id = 1; id < t->xsets.n; id++)
		xhash_put(t, id, xset_at(t, id)->hash);
	return 0;
}

/* The set's id, 0 when it is new, after xhash_room. */
static uint32_t xhash_find(const struct tree *t, const void *blob, size_t len,
			   uint64_t hash)
{
	uint32_t i = (uint32_t)hash & (t->xhash_len - 1), id;
	const struct xset *x;

	for (; (id = t->xhash[i]) != 0; i = (i + 1) & (t->xhash_len - 1)) {
		x = xset_at(t, id);
		if (x->hash == hash && x->len == len &&
		    memcmp(x->blob, blob, len) == 0)
			break;
	}
	return id;
}

static int xattrs_add_locked(struct tree *t, const void *blob, size_t len,
			     uint32_t *id)
{
	uint64_t hash = blob_hash(blob, len);
	struct xset *x;
	char *copy;

	if (xhash_room(t) < 0)
		return -1;
	*id = xhash_find(t, blob, len, hash);
	if (*id)
		return 0;
	copy = tree_arena_take(t, &t->arena, len);
	if (!copy || !(x = tree_table_take(&t->xsets, 1, sizeof(*x), id)))
		return -1;
	memcpy(copy, blob, len);
	*x = (struct xset){ copy, len, hash };
	xhash_put(t, *id, hash);
	return 0;
}

int tree_xattrs_add(struct tree *t, const void *blob, size_t len, uint32_t *id,
		    struct sc_err *err)
{
	int rc;

	*id = 0;
	if (len == 0)
		return 0;
	pthread_mutex_lock(&t->lock);
	rc = xattrs_add_locked(t, blob, len, id);
	pthread_mutex_unlock(&t->lock);
	return rc < 0 ? sc_oom(err, "extended attributes") : 0;
}

const void *tree_xattrs(const struct tree *t, uint32_t id, size_t *len)
{
	const struct xset *x;

	*len = 0;
	if (id == 0)
		return "";
	x = xset_at(t, id);
	*len = x->len;
	return x->blob;
}

uint32_t tree_xattrs_count(const struct tree *t)
{
	return t->xsets.n - 1;
}

int tree_set_runs(struct tree *t, struct entry *e, const struct run *runs,
		  uint32_t n, struct sc_err *err)
{
	struct run *at;

	e->first = e->count = 0;
	if (n == 0)
		return 0;
	pthread_mutex_lock(&t->lock);
	at = tree_table_take(&t->runs, n, sizeof(*at), &e->first);
	pthread_mutex_unlock(&t->lock);
	if (!at)
		return sc_oom(err, "runs of chunks");
	memcpy(at, runs, n * sizeof(*at));
	e->count = n;
	return 0;
}

const struct run *tree_runs(const struct tree *t, const struct entry *e)
{
	static const struct run none;

	if (!entry_is_reg(e) || e->count == 0)
		return &none;
	return tree_table_at(&t->runs, e->first, sizeof(struct run));
}

static int extents_put(struct tree *t, uint32_t slot, struct extents *x)
{
	struct slab *s = &t->slabs[slot >> SLAB_BITS];
	int rc = -1;

	pthread_mutex_lock(&t->lock);
	if (!s->extents)
		s->extents = calloc(SLAB_LEN, sizeof(*s->extents));
	if (s->extents) {
		s->extents[slot & (SLAB_LEN - 1)] = x;
		rc = 0;
	}
	pthread_mutex_unlock(&t->lock);
	return rc;
}

int tree_set_extents(struct tree *t, uint32_t slot, const struct extent *x,
		     uint32_t n, struct sc_err *err)
{
	struct extents *copy =
		tree_block_new(t, sizeof(*copy) + n * sizeof(*x));

	if (!copy || extents_put(t, slot, copy) < 0)
		return sc_oom(err, "extents");
	copy->n = n;
	if (n)
		memcpy(copy->x, x, n * sizeof(*x));
	tree_at(t, slot)->bits |= ENTRY_SPARSE;
	return 0;
}

const struct extent *tree_extents(const struct tree *t, uint32_t slot,
				  uint32_t *n)
{
	const struct slab *s = &t->slabs[slot >> SLAB_BITS];
	const struct extents *x = NULL;

	*n = 0;
	if (s->extents && tree_at(t, slot)->bits & ENTRY_SPARSE)
		x = s->extents[slot & (SLAB_LEN - 1)];
	if (!x)
		return NULL;
	*n = x->n;
	return x->x;
}
