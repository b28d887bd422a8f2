/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include <snapctl/base/io.h>
#include <snapctl/base/mem.h>

#include "index_internal.h"

struct column {
	unsigned id, codec;
	uint64_t rows, offset, stored, plain;
};

struct index_writer {
	int fd;
	struct hash *hash;
	uint64_t pos;
	struct column cols[INDEX_COLUMNS_MAX];
	size_t n;
	bool open; /* cols[n] has begun */
};

static int append(struct index_writer *w, const void *p, size_t n,
		  struct sc_err *err)
{
	if (io_write_all(w->fd, p, n, "index", err) < 0 ||
	    hash_update(w->hash, p, n, err) < 0)
		return -1;
	w->pos += n;
	return 0;
}

int index_writer_new(int fd, enum index_kind kind, struct index_writer **out,
		     struct sc_err *err)
{
	struct index_writer *w = calloc(1, sizeof(*w));
	auto_buf struct buf b = { 0 };

	if (!w)
		return sc_oom(err, "index");
	w->fd = fd;
	buf_put(&b, INDEX_MAGIC, 8);
	buf_u32(&b, INDEX_VERSION);
	buf_u32(&b, kind);
	if (b.failed) {
		free(w);
		return sc_oom(err, "index");
	}
	if (hash_new(&w->hash, err) < 0 || append(w, b.p, b.len, err) < 0) {
		index_writer_free(w);
		return -1;
	}
	*out = w;
	return 0;
}

void index_writer_free(struct index_writer *w)
{
	if (!w)
		return;
	hash_free(w->hash);
	free(w);
}

/* The column's pieces may come from a helper that lies about their order. */
static int begin(struct index_writer *w, unsigned id, struct sc_err *err)
{
	if (w->open && w->cols[w->n].id == id)
		return 0;
	if (w->open)
		return sc_fail(err, SC_EPROTO, 0,
			       "index columns %u and %u are mixed up",
			       w->cols[w->n].id, id);
	for (size_t i = 0; i < w->n; i++)
		if (w->cols[i].id == id)
			return sc_fail(err, SC_EPROTO, 0,
				       "index column %u came twice", id);
	if (w->n == INDEX_COLUMNS_MAX)
		return sc_fail(err, SC_EPROTO, 0, "too many index columns");
	w->cols[w->n] = (struct column){ .id = id, .offset = w->pos };
	w->open = true;
	return 0;
}

static int writer_piece(void *arg, unsigned id, const void *p, size_t n,
			struct sc_err *err)
{
	struct index_writer *w = arg;

	if (begin(w, id, err) < 0)
		return -1;
	return append(w, p, n, err);
}

static int writer_end(void *arg, unsigned id, unsigned codec, uint64_t rows,
		      uint64_t plain, struct sc_err *err)
{
	struct index_writer *w = arg;
	struct column *c;

	if (begin(w, id, err) < 0) /* a column may be empty */
		return -1;
	c = &w->cols[w->n++];
	c->codec = codec;
	c->rows = rows;
	c->plain = plain;
	c->stored = w->pos - c->offset;
	w->open = false;
	return 0;
}

struct index_sink index_writer_sink(struct index_writer *w)
{
	return (struct index_sink){ writer_piece, writer_end, w };
}

int index_writer_finish(struct index_writer *w, struct digest *digest,
			uint64_t *length, struct sc_err *err)
{
	auto_buf struct buf b = { 0 };
	size_t len;

	if (w->open)
		return sc_fail(err, SC_EPROTO, 0, "index column %u has no end",
			       w->cols[w->n].id);
	buf_varint(&b, w->n);
	for (size_t i = 0; i < w->n; i++) {
		const struct column *c = &w->cols[i];

		buf_varint(&b, c->id);
		buf_varint(&b, c->codec);
		buf_varint(&b, c->rows);
		buf_varint(&b, c->offset);
		buf_varint(&b, c->stored);
		buf_varint(&b, c->plain);
	}
	len = b.len;
	buf_u64(&b, w->pos);
	buf_u32(&b, (uint32_t)len);
	buf_u32(&b, 0);
	buf_put(&b, INDEX_END_MAGIC, 8);
	if (b.failed)
		return sc_oom(err, "index");
	if (append(w, b.p, b.len, err) < 0 ||
	    hash_final(w->hash, digest, err) < 0)
		return -1;
	*length = w->pos;
	return 0;
}
