/* SPDX-License-Identifier: MIT */
/* Numbers and blobs out of a column, held to their bounds. */
#include <stdlib.h>

#include "index_load_internal.h"

int index_load_open_col(struct load *l, enum index_column id, uint64_t rows,
			struct index_col **c, struct sc_err *err)
{
	int rc = index_col_open(l->r, id, c, err);

	if (rc < 0)
		return -1;
	if (rc == 0)
		return sc_fail(err, SC_ECORRUPT, 0,
			       "%s is damaged: column %s is missing",
			       index_name(l->r), index_column_name(id));
	if (index_col_rows(*c) == rows)
		return 0;
	index_col_bad(*c, err, "wrong number of rows");
	index_col_close(*c);
	return -1;
}

int index_load_close_col(struct index_col *c, int rc, struct sc_err *err)
{
	if (rc == 0)
		rc = index_col_done(c, err);
	index_col_close(c);
	return rc;
}

int index_load_get(struct index_col *c, uint64_t max, uint64_t *v,
		   struct sc_err *err)
{
	if (index_col_varint(c, v, err) < 0)
		return -1;
	return *v <= max ? 0 : index_col_bad(c, err, "number out of range");
}

int index_load_get_delta(struct index_col *c, uint64_t max, uint64_t *v,
			 struct sc_err *err)
{
	int64_t d;

	if (index_col_svarint(c, &d, err) < 0)
		return -1;
	*v += (uint64_t)d;
	return *v <= max ? 0 : index_col_bad(c, err, "number out of range");
}

int index_load_get_blob(struct index_col *c, size_t max, struct buf *b,
			struct sc_err *err)
{
	uint64_t len;
	size_t k;

	buf_clear(b);
	if (index_load_get(c, max, &len, err) < 0)
		return -1;
	if (len > index_col_left(c))
		return index_col_bad(c, err, "length out of range");
	for (; len > 0; len -= k) {
		k = len < 65536 ? (size_t)len : 65536;
		if (!buf_reserve(b, k))
			return sc_oom(err, "index");
		if (index_col_bytes(c, b->p + b->len, k, err) < 0)
			return -1;
		b->len += k;
	}
	return 0;
}
