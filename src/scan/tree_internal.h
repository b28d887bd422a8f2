/* SPDX-License-Identifier: MIT */
/* What tree.c (entries, order) and tree_data.c (what hangs on entries) share.
 */
#ifndef SNAPCTL_SCAN_TREE_INTERNAL_H
#define SNAPCTL_SCAN_TREE_INTERNAL_H

#include <stdatomic.h>

#include <snapctl/scan/tree.h>

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

void *tree_table_at(const struct table *t, uint32_t i, size_t size);
/* Takes n elements that lie side by side; skips the rest of a piece that is
 * too short for them. NULL: out of memory or numbers. */
void *tree_table_take(struct table *t, uint32_t n, size_t size,
		      uint32_t *first);
void tree_table_free(struct table *t);
/* n bytes that live as long as the tree; aligned, and not. NULL: no memory.
 * From any thread. */
void *tree_block_new(struct tree *t, size_t n);
char *tree_arena_take(struct tree *t, struct tree_arena *a, size_t n);
/* A copy with a NUL behind it. */
char *tree_arena_str(struct tree *t, struct tree_arena *a, const char *s,
		     size_t len);

#endif
