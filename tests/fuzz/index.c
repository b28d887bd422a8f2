/* SPDX-License-Identifier: MIT */
/* Any bytes as an index: every column as a stream, then all of it into
 * memory. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <snapctl/scan/index.h>

#define STREAM_MAX (1u << 20) /* numbers read from one column */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_column(struct index_reader *r, enum index_column id)
{
	struct index_col *c;
	struct sc_err err;
	uint64_t v;

	if (index_col_open(r, id, &c, &err) <= 0)
		return;
	for (size_t i = 0; i < STREAM_MAX; i++)
		if (index_col_varint(c, &v, &err) < 0)
			break;
	(void)index_col_done(c, &err);
	index_col_close(c);
}

static void check_paths(const struct tree *t)
{
	auto_buf struct buf b = { 0 };

	for (uint32_t r = 0; r < tree_count(t); r++) {
		if (tree_path(t, tree_order(t, r), &b, NULL) < 0)
			abort();
		if (b.len && (b.p[0] == '/' || memmem(b.p, b.len, "//", 2)))
			abort();
	}
}

static void load(struct index_reader *r, struct chunk_table *c)
{
	struct tree *t;
	struct sc_err err;

	if (index_load(r, &t, c, &err) < 0)
		return;
	check_paths(t);
	tree_free(t);
	if (c)
		chunk_table_free(c);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct buf b = { .p = (unsigned char *)data, .len = size };
	struct index_source src = index_source_mem(&b);
	struct chunk_table c;
	struct index_reader *r;
	struct sc_err err;

	if (index_open(&src, "fuzz", &r, &err) < 0)
		return 0;
	for (unsigned id = COL_PATH; id <= COL_META; id++)
		read_column(r, (enum index_column)id);
	load(r, &c);
	load(r, NULL);
	index_close(r);
	return 0;
}
