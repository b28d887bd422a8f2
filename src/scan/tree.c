/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include <snapctl/base/mem.h>

#include "tree_internal.h"

/* -- memory ------------------------------------------------------------- */

void *tree_block_new(struct tree *t, size_t n)
{
	struct block *b = malloc(sizeof(*b) + n);

	if (!b)
		return NULL;
	b->next = atomic_load(&t->blocks);
	while (!atomic_compare_exchange_weak(&t->blocks, &b->next, b))
		;
	return b->data;
}

char *tree_arena_take(struct tree *t, struct tree_arena *a, size_t n)
{
	char *p;

	if (n > BLOCK_LEN / 4)
		return tree_block_new(t, n);
	if (n > a->left) {
		p = tree_block_new(t, BLOCK_LEN);
		if (!p)
			return NULL;
		a->p = p;
		a->left = BLOCK_LEN;
	}
	p = a->p;
	a->p += n;
	a->left -= n;
	return p;
}

char *tree_arena_str(struct tree *t, struct tree_arena *a, const char *s,
		     size_t len)
{
	char *p = len < SIZE_MAX ? tree_arena_take(t, a, len + 1) : NULL;

	if (!p)
		return NULL;
	if (len)
		memcpy(p, s, len);
	p[len] = 0;
	return p;
}

int tree_new(struct tree **out, struct sc_err *err)
{
	struct tree *t = calloc(1, sizeof(*t));

	if (!t)
		return sc_oom(err, "tree");
	pthread_mutex_init(&t->lock, NULL);
	t->targets.n = t->xsets.n = 1;
	*out = t;
	return 0;
}

void tree_free(struct tree *t)
{
	struct block *b, *next;

	if (!t)
		return;
	for (size_t i = 0; i < SLABS && t->slabs[i].entries; i++) {
		free(t->slabs[i].entries);
		free(t->slabs[i].extents);
	}
	for (b = atomic_load(&t->blocks); b; b = next) {
		next = b->next;
		free(b);
	}
	tree_table_free(&t->targets);
	tree_table_free(&t->xsets);
	tree_table_free(&t->runs);
	free(t->xhash);
	free(t->order);
	free(t->gaps);
	pthread_mutex_destroy(&t->lock);
	free(t);
}

/* -- entries ------------------------------------------------------------ */

uint32_t tree_count(const struct tree *t)
{
	return atomic_load_explicit(&t->count, memory_order_relaxed);
}

struct entry *tree_at(const struct tree *t, uint32_t slot)
{
	return t->slabs[slot >> SLAB_BITS].entries + (slot & (SLAB_LEN - 1));
}

static int alloc_locked(struct tree *t, uint32_t n, uint32_t *first)
{
	uint32_t at = tree_count(t);

	if (n > ENTRIES_MAX - at)
		return -1;
	for (uint32_t i = at >> SLAB_BITS; (uint64_t)i * SLAB_LEN < at + n;
	     i++) {
		struct slab *s = &t->slabs[i];

		if (!s->entries)
			s->entries = calloc(SLAB_LEN, sizeof(*s->entries));
		if (!s->entries)
			return -1;
	}
	atomic_store_explicit(&t->count, at + n, memory_order_relaxed);
	*first = at;
	return 0;
}

int tree_alloc(struct tree *t, uint32_t n, uint32_t *first, struct sc_err *err)
{
	int rc;

	pthread_mutex_lock(&t->lock);
	rc = alloc_locked(t, n, first);
	pthread_mutex_unlock(&t->lock);
	return rc < 0 ? sc_oom(err, "entries") : 0;
}

int tree_give_back(struct tree *t, uint32_t first, uint32_t n,
		   struct sc_err *err)
{
	int rc = 0;

	for (uint32_t s = first; s < first + n; s++)
		memset(tree_at(t, s), 0, sizeof(struct entry));
	pthread_mutex_lock(&t->lock);
	if (first + n == tree_count(t))
		atomic_store_explicit(&t->count, first, memory_order_relaxed);
	else if (n)
		rc = mem_grow(&t->gaps, &t->gaps_cap, t->ngaps + 1,
			      sizeof(*t->gaps));
	if (rc == 0 && n && first < tree_count(t))
		t->gaps[t->ngaps++] = (struct gap){ first, n };
	pthread_mutex_unlock(&t->lock);
	return rc < 0 ? sc_oom(err, "entries") : 0;
}

const char *tree_name(struct tree *t, struct tree_arena *a, const char *name,
		      size_t len)
{
	return tree_arena_str(t, a, name, len);
}

/* -- order -------------------------------------------------------------- */

static int bad_shape(struct sc_err *err)
{
	return sc_fail(err, SC_ECORRUPT, 0, "entries do not form a tree");
}

/* The slot after s in pre-order; TREE_NONE at the end. */
static uint32_t walked_next(const struct tree *t, uint32_t s)
{
	const struct entry *e = tree_at(t, s), *dir;

	if (entry_is_dir(e) && e->count)
		return e->first;
	while (s != 0) {
		dir = tree_at(t, e->parent);
		if (s + 1 < dir->first + dir->count)
			return s + 1;
		s = e->parent;
		e = dir;
	}
	return TREE_NONE;
}

static int gap_cmp(const void *a, const void *b)
{
	const struct gap *x = a, *y = b;

	return x->first < y->first ? -1 : x->first > y->first;
}

/* The slots given back before slot s: gaps are sorted, and n sums them. */
static uint32_t gaps_before(const struct tree *t, uint32_t s)
{
	size_t lo = 0, hi = t->ngaps, mid;

	while (lo < hi) {
		mid = (lo + hi) / 2;
		if (t->gaps[mid].first < s)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo ? t->gaps[lo - 1].n : 0;
}

/* Moves entries down over the gaps. Slots keep their order, so children stay
 * side by side and behind their parents. */
static void close_gaps(struct tree *t)
{
	uint32_t n = tree_count(t), to = 0, sum = 0;
	size_t g = 0;
	struct entry *e;

	qsort(t->gaps, t->ngaps, sizeof(*t->gaps), gap_cmp);
	for (uint32_t s = 0; s < n; s++) {
		if (g < t->ngaps && s == t->gaps[g].first) {
			s += t->gaps[g].n - 1;
			sum += t->gaps[g].n;
			t->gaps[g++].n = sum;
			continue;
		}
		e = tree_at(t, to++);
		*e = *tree_at(t, s);
	}
	for (uint32_t s = 0; s < to; s++) {
		e = tree_at(t, s);
		e->parent -= gaps_before(t, e->parent);
		if (entry_is_dir(e) && e->count)
			e->first -= gaps_before(t, e->first);
	}
	atomic_store_explicit(&t->count, to, memory_order_relaxed);
	t->ngaps = 0;
}

int tree_seal(struct tree *t, struct sc_err *err)
{
	uint32_t n, s = 0, rank;
	const struct entry *e;

	if (t->ngaps)
		close_gaps(t);
	n = tree_count(t);
	free(t->order);
	t->order = NULL;
	if (n == 0)
		return 0;
	t->order = malloc((size_t)n * sizeof(*t->order));
	if (!t->order)
		return sc_oom(err, "order of entries");
	for (rank = 0; rank < n && s < n; rank++) {
		e = tree_at(t, s);
		if (s != 0 && e->parent >= s)
			break;
		t->order[rank] = s;
		s = walked_next(t, s);
	}
	return rank == n && s == TREE_NONE ? 0 : bad_shape(err);
}

int tree_seal_preorder(struct tree *t, struct sc_err *err)
{
	uint32_t n = tree_count(t);
	struct entry *e;

	for (uint32_t s = 0; s < n; s++) {
		e = tree_at(t, s);
		if (entry_is_dir(e)) {
			e->first = s + 1;
			e->count = 0;
		}
	}
	/* Last to first: a directory's end is known once all its descendants
	 * have told theirs. */
	for (uint32_t s = n; s-- > 1;) {
		struct entry *dir;
		uint32_t end;

		e = tree_at(t, s);
		if (e->parent >= s)
			return bad_shape(err);
		dir = tree_at(t, e->parent);
		if (!entry_is_dir(dir))
			return bad_shape(err);
		end = entry_is_dir(e) ? e->first : s + 1;
		if (end > dir->first)
			dir->first = end;
		dir->count++;
	}
	t->preorder = true;
	return 0;
}

uint32_t tree_order(const struct tree *t, uint32_t rank)
{
	return t->order ? t->order[rank] : rank;
}

uint32_t tree_first_child(const struct tree *t, uint32_t slot)
{
	const struct entry *e = tree_at(t, slot);

	if (!entry_is_dir(e) || e->count == 0)
		return TREE_NONE;
	return t->preorder ? slot + 1 : e->first;
}

uint32_t tree_next_sibling(const struct tree *t, uint32_t slot)
{
	const struct entry *e = tree_at(t, slot);
	const struct entry *dir = tree_at(t, e->parent);
	uint32_t next = slot + 1;

	if (slot == 0)
		return TREE_NONE;
	if (!t->preorder)
		return next < dir->first + dir->count ? next : TREE_NONE;
	if (entry_is_dir(e))
		next = e->first;
	return next < dir->first ? next : TREE_NONE;
}

int tree_path(const struct tree *t, uint32_t slot, struct buf *out,
	      struct sc_err *err)
{
	const struct entry *e;
	size_t len = 0;
	unsigned char *p;

	buf_clear(out);
	for (uint32_t s = slot; s != 0; s = e->parent) {
		e = tree_at(t, s);
		if (e->parent >= s)
			return bad_shape(err);
		len += e->name_len + (len > 0);
	}
	if (len == 0)
		return 0;
	p = buf_reserve(out, len);
	if (!p)
		return sc_oom(err, "path");
	out->len = len;
	p += len;
	for (uint32_t s = slot; s != 0; s = e->parent) {
		e = tree_at(t, s);
		if (s != slot)
			*--p = '/';
		p -= e->name_len;
		memcpy(p, e->name, e->name_len);
	}
	return 0;
}

int tree_name_cmp(const char *a, size_t alen, const char *b, size_t blen)
{
	int c = memcmp(a, b, alen < blen ? alen : blen);

	if (c)
		return c;
	return alen < blen ? -1 : alen > blen;
}
