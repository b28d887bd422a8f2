/* SPDX-License-Identifier: MIT */
/* What the parts of index_load share. */
#ifndef SNAPCTL_SCAN_INDEX_LOAD_INTERNAL_H
#define SNAPCTL_SCAN_INDEX_LOAD_INTERNAL_H

#include "index_internal.h"

struct load {
	struct index_reader *r;
	struct tree *t;
	struct tree_arena arena;
	uint32_t n; /* entries */
	uint64_t regular, links, sparse;
	uint64_t bytes;
	uint64_t chunks;      /* in the chunk table */
	const uint64_t *sums; /* of chunk lengths, chunks + 1; or NULL */
	struct run *runs;     /* of one entry */
	struct extent *extents;
	size_t runs_cap, extents_cap;
	struct buf scratch;
};

/* Opens a column that must be there, with that many rows. */
int index_load_open_col(struct load *l, enum index_column id, uint64_t rows,
			struct index_col **c, struct sc_err *err);
/* Closes it; -1 if rc is, or if the column goes on. */
int index_load_close_col(struct index_col *c, int rc, struct sc_err *err);
/* A number of at most max. */
int index_load_get(struct index_col *c, uint64_t max, uint64_t *v,
		   struct sc_err *err);
/* The number of the row before, moved; at most max. */
int index_load_get_delta(struct index_col *c, uint64_t max, uint64_t *v,
			 struct sc_err *err);
/* A length of at most max and so many bytes into b, in steps. */
int index_load_get_blob(struct index_col *c, size_t max, struct buf *b,
			struct sc_err *err);
/* The column PATH: names and parents of all entries. */
int index_load_paths(struct load *l, struct index_col *c, struct sc_err *err);
/* Chunks, segments, packs. */
int index_load_tables(struct load *l, struct chunk_table *t,
		      struct sc_err *err);

#endif
