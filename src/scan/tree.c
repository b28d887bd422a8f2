/* SPDX-License-Identifier: MIT */
#include <snapctl/scan/tree.h>

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include <snapctl/base/mem.h>

#define SLAB_BITS   16
#define SLAB_LEN    (1u << SLAB_BITS)
#define ENTRIES_MAX (1u << 30)
#define SLABS	    (ENTRIES_MAX >> SLAB_BITS)
#define BLOCK_LEN   (64u << 10)

/* A table that grows without moving: piece k holds 2^(k + 10) elements. So a
 * reader needs no lock for an element it was told of, while others add. */
#define PIECE0_BITS 10
#define PIECES	    (32 - PIECE0_BITS)

struct table {
	char *piece[PIECES];
	uint32_t n;
};

/* Names, targets and blobs lie in blocks that are freed with the tree. */
struct block {
	struct block *next;
	char data[];
};

struct extents {
	uint32_t n;
	struct extent x[];
};

struct gap {
	uint32_t first, n;
};

struct slab {
	struct entry *entries;
	struct extents **extents; /* by slot; NULL while there are none */
};

struct xset {
	const char *blob;
	size_t len;
	uint64_t hash;
};

struct tree {
	pthread_mutex_t lock; /* all below but slabs' entries and blocks */
	atomic_uint count;
	_Atomic(struct block *) blocks;
	struct tree_arena arena;
	struct table targets; /* const char *; element 0 unused */
	struct table xsets;   /* struct xset; element 0 unused */
	struct table runs;    /* struct run */
	uint32_t *xhash;      /* ids, open addressing; 0 is free */
	uint32_t xhash_len;   /* power of two, or 0 */
	uint32_t *order;      /* NULL: slot == rank */
	bool preorder;
	struct gap *gaps; /* given back, sorted by slot when sealed */
	size_t ngaps, gaps_cap;
	struct slab slabs[SLABS];
};

/* -- tables ------------------------------------------------------------- */

static unsigned piece_of(uint32_t i)
{
	uint64_t k = ((uint64_t)i >> PIECE0_BITS) + 1;

	return 63 - (unsigned)__builtin_clzll(k);
}

static uint64_t piece_start(unsigned k)
{
	return ((UINT64_C(1) << k) - 1) << PIECE0_BITS;
}

static void *table_at(const struct table *t, uint32_t i, size_t size)
{
	unsigned k = piece_of(i);

	return t->piece[k] + (i - piece_start(k)) * size;
}

/* Takes n elements that lie side by side; skips the rest of a piece that is
 * too short for them. NULL: out of memory or numbers. */
static void *table_take(struct table *t, uint32_t n, size_t size,
			uint32_t *first)
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
	return table_at(t, *first, size);
}

static void table_free(struct table *t)
{
	for (unsigned k = 0; k < PIECES; k++)
		free(t->piece[k]);
}

/* -- memory ------------------------------------------------------------- */

static void *block_new(struct tree *t, size_t n)
{
	struct block *b = malloc(sizeof(*b) + n);

	if (!b)
		return NULL;
	b->next = atomic_load(&t->blocks);
	while (!atomic_compare_exchange_weak(&t->blocks, &b->next, b))
		;
	return b->data;
}

/* n bytes that live as long as the tree, not aligned. */
static char *arena_take(struct tree *t, struct tree_arena *a, size_t n)
{
	char *p;

	if (n > BLOCK_LEN / 4)
		return block_new(t, n);
	if (n > a->left) {
		p = block_new(t, BLOCK_LEN);
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

static char *arena_str(struct tree *t, struct tree_arena *a, const char *s,
		       size_t len)
{
	char *p = len < SIZE_MAX ? arena_take(t, a, len + 1) : NULL;

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
	table_free(&t->targets);
	table_free(&t->xsets);
	table_free(&t->runs);
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
	return arena_str(t, a, name, len);
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

/* -- what hangs on entries ---------------------------------------------- */

int tree_target_add(struct tree *t, const char *target, size_t len,
		    uint32_t *id, struct sc_err *err)
{
	const char **at = NULL, *s;

	pthread_mutex_lock(&t->lock);
	s = arena_str(t, &t->arena, target, len);
	if (s)
		at = table_take(&t->targets, 1, sizeof(*at), id);
	if (at)
		*at = s;
	pthread_mutex_unlock(&t->lock);
	return at ? 0 : sc_oom(err, "link target");
}

const char *tree_target(const struct tree *t, uint32_t id)
{
	if (id == 0)
		return "";
	return *(const char **)table_at(&t->targets, id, sizeof(char *));
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
	return table_at(&t->xsets, id, sizeof(struct xset));
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
	copy = arena_take(t, &t->arena, len);
	if (!copy || !(x = table_take(&t->xsets, 1, sizeof(*x), id)))
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
	at = table_take(&t->runs, n, sizeof(*at), &e->first);
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
	return table_at(&t->runs, e->first, sizeof(struct run));
}

static int extents_put(struct tree *t, uint32_t slot, struct extents *x)
{
	struct slab *s = &t->slabs[slot >> SLAB_BITS];

	pthread_mutex_lock(&t->lock);
	if (!s->extents)
		s->extents = calloc(SLAB_LEN, sizeof(*s->extents));
	if (s->extents)
		s->extents[slot & (SLAB_LEN - 1)] = x;
	pthread_mutex_unlock(&t->lock);
	return s->extents ? 0 : -1;
}

int tree_set_extents(struct tree *t, uint32_t slot, const struct extent *x,
		     uint32_t n, struct sc_err *err)
{
	struct extents *copy = block_new(t, sizeof(*copy) + n * sizeof(*x));

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
