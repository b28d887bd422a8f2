/* SPDX-License-Identifier: MIT */
/* The tables of an index: packs, segments in them, chunks in those. */
#include <stdlib.h>
#include <string.h>

#include <snapctl/base/mem.h>

#include "index_load_internal.h"

static int load_packs(struct load *l, struct chunk_table *t,
		      struct index_col *c, struct sc_err *err)
{
	unsigned char row[INDEX_PACK_ROW];
	struct cur cur;

	for (uint64_t i = 0; i < index_col_rows(c); i++) {
		struct pack_ref *p;

		if (index_col_bytes(c, row, sizeof(row), err) < 0)
			return -1;
		if (mem_grow(&t->packs, &t->packs_cap, i + 1, sizeof(*p)) < 0)
			return sc_oom(err, "packs");
		p = &t->packs[t->npacks++];
		memcpy(p->digest.b, row, DIGEST_LEN);
		cur = cur_of(row + DIGEST_LEN, sizeof(row) - DIGEST_LEN);
		p->length = cur_u64(&cur);
		p->kind = (enum pack_kind)cur_u8(&cur);
		if (p->length > INT64_MAX ||
		    (p->kind != PACK_TAR && p->kind != PACK_CHUNKS))
			return index_col_bad(c, err, "not a pack");
	}
	(void)l;
	return 0;
}

static int load_segments(struct load *l, struct chunk_table *t,
			 struct index_col *c, struct sc_err *err)
{
	uint64_t pack = 0, before, end = 0, off, stored, plain;
	struct segment *s;

	(void)l;
	for (uint64_t i = 0; i < index_col_rows(c); i++) {
		before = pack;
		if (t->npacks == 0)
			return index_col_bad(c, err, "no packs");
		if (index_load_get_delta(c, t->npacks - 1, &pack, err) < 0 ||
		    index_col_varint(c, &off, err) < 0 ||
		    index_load_get(c, SEGMENT_STORED_MAX, &stored, err) < 0 ||
		    index_load_get(c, SEGMENT_PLAIN_MAX, &plain, err) < 0)
			return -1;
		if (pack == before)
			off += end; /* modulo 2^64, like the writer's */
		if (stored == 0 || plain == 0 || off > t->packs[pack].length ||
		    stored > t->packs[pack].length - off)
			return index_col_bad(c, err, "not within its pack");
		end = off + stored;
		if (mem_grow(&t->segments, &t->segments_cap, i + 1,
			     sizeof(*s)) < 0)
			return sc_oom(err, "segments");
		t->segments[t->nsegments++] = (struct segment){
			.pack = (uint32_t)pack,
			.stored = (uint32_t)stored,
			.plain = (uint32_t)plain,
			.offset = off,
		};
	}
	return 0;
}

static int load_hashes(struct load *l, struct chunk_table *t,
		       struct index_col *c, struct sc_err *err)
{
	struct digest d;

	for (uint64_t i = 0; i < l->chunks; i++) {
		if (index_col_bytes(c, d.b, DIGEST_LEN, err) < 0)
			return -1;
		if (mem_grow(&t->chunks, &t->chunks_cap, i + 1,
			     sizeof(*t->chunks)) < 0)
			return sc_oom(err, "chunks");
		t->chunks[t->nchunks++] = (struct chunk){ .hash = d };
	}
	return 0;
}

static int load_lengths(struct load *l, struct chunk_table *t,
			struct index_col *c, struct sc_err *err)
{
	uint64_t v;

	for (uint64_t i = 0; i < l->chunks; i++) {
		if (index_load_get(c, CHUNK_LEN_MAX, &v, err) < 0)
			return -1;
		if (v == 0)
			return index_col_bad(c, err, "empty chunk");
		t->chunks[i].len = (uint32_t)v;
	}
	return 0;
}

static int load_places(struct load *l, struct chunk_table *t,
		       struct index_col *c, struct sc_err *err)
{
	uint64_t segment = 0, off;

	for (uint64_t i = 0; i < l->chunks; i++) {
		if (t->nsegments == 0)
			return index_col_bad(c, err, "no segments");
		if (index_load_get_delta(c, t->nsegments - 1, &segment, err) <
			    0 ||
		    index_col_varint(c, &off, err) < 0)
			return -1;
		if (off > t->segments[segment].plain ||
		    t->chunks[i].len > t->segments[segment].plain - off)
			return index_col_bad(c, err, "not within its segment");
		t->chunks[i].segment = (uint32_t)segment;
		t->chunks[i].offset = (uint32_t)off;
	}
	return 0;
}

typedef int (*table_fn)(struct load *l, struct chunk_table *t,
			struct index_col *c, struct sc_err *err);

static int table_col(struct load *l, struct chunk_table *t,
		     enum index_column id, table_fn fn, struct sc_err *err)
{
	struct index_col *c;

	if (index_load_open_col(l, id, l->chunks, &c, err) < 0)
		return -1;
	return index_load_close_col(c, fn(l, t, c, err), err);
}

/* SEGMENT and PACK: any number of rows, none where there is no column. */
static int place_col(struct load *l, struct chunk_table *t,
		     enum index_column id, table_fn fn, struct sc_err *err)
{
	struct index_col *c;
	int rc = index_col_open(l->r, id, &c, err);

	if (rc <= 0)
		return rc;
	if (index_col_rows(c) >= UINT32_MAX)
		rc = index_col_bad(c, err, "too many rows");
	else
		rc = fn(l, t, c, err);
	return index_load_close_col(c, rc, err);
}

int index_load_tables(struct load *l, struct chunk_table *t, struct sc_err *err)
{
	if (place_col(l, t, COL_PACK, load_packs, err) < 0 ||
	    place_col(l, t, COL_SEGMENT, load_segments, err) < 0 ||
	    table_col(l, t, COL_CHASH, load_hashes, err) < 0 ||
	    table_col(l, t, COL_CLEN, load_lengths, err) < 0)
		return -1;
	return table_col(l, t, COL_CPLACE, load_places, err);
}

int index_load_places(struct index_reader *r, struct chunk_table *c,
		      struct sc_err *err)
{
	struct load l = { .r = r };

	*c = (struct chunk_table){ 0 };
	if (place_col(&l, c, COL_PACK, load_packs, err) < 0 ||
	    place_col(&l, c, COL_SEGMENT, load_segments, err) < 0) {
		chunk_table_free(c);
		return -1;
	}
	return 0;
}
