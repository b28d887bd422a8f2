/* SPDX-License-Identifier: MIT */
/* An index file's directory, and its columns as streams. Every byte is
 * hostile: lengths are held against the file before anything follows from
 * them, and a column takes the same memory whatever it says. */
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#include <snapctl/base/io.h>
#include <snapctl/base/mem.h>

#include "index_internal.h"

#define IN_LEN	   (64u << 10)
#define OUT_LEN	   (128u << 10)
#define WINDOW_MAX 27

struct column {
	unsigned id, codec;
	uint64_t rows, offset, stored, plain;
};

struct index_reader {
	struct index_source src;
	char *name;
	enum index_kind kind;
	struct index_meta meta;
	struct column *cols; /* sorted by offset */
	size_t n;
};

struct index_col {
	struct index_reader *r;
	const struct column *col;
	ZSTD_DCtx *zstd; /* NULL: stored as it is */
	uint64_t read;	 /* stored bytes taken from the source */
	uint64_t made;	 /* plain bytes put into out so far */
	ZSTD_inBuffer in;
	bool frame_done;
	size_t at, n; /* in out */
	unsigned char *out;
	unsigned char inbuf[IN_LEN];
};

/* -- sources ------------------------------------------------------------ */

static int fd_pread(void *arg, void *p, size_t n, uint64_t off,
		    struct sc_err *err)
{
	return io_pread_all(*(const int *)arg, p, n, off, "index", err);
}

struct index_source index_source_fd(const int *fd, uint64_t size)
{
	return (struct index_source){ fd_pread, (void *)fd, size };
}

static int mem_pread(void *arg, void *p, size_t n, uint64_t off,
		     struct sc_err *err)
{
	const struct buf *b = arg;

	if (off > b->len || n > b->len - off)
		return sc_fail(err, SC_ECORRUPT, 0, "index is too short");
	if (n)
		memcpy(p, b->p + off, n);
	return 0;
}

struct index_source index_source_mem(const struct buf *b)
{
	return (struct index_source){ mem_pread, (void *)b, b->len };
}

/* -- opening ------------------------------------------------------------ */

static int damaged(const struct index_reader *r, struct sc_err *err,
		   const char *why)
{
	return sc_fail(err, SC_ECORRUPT, 0, "%s is damaged: %s", r->name, why);
}

static int read_head(struct index_reader *r, struct sc_err *err)
{
	unsigned char head[INDEX_HEAD_LEN];
	struct cur c = cur_of(head + 8, sizeof(head) - 8);
	uint32_t version, kind;

	if (r->src.size < INDEX_HEAD_LEN + INDEX_TAIL_LEN)
		return damaged(r, err, "too short for an index");
	if (r->src.pread(r->src.arg, head, sizeof(head), 0, err) < 0)
		return sc_wrap(err, "%s", r->name);
	if (memcmp(head, INDEX_MAGIC, 8) != 0)
		return damaged(r, err, "not an index");
	version = cur_u32(&c);
	kind = cur_u32(&c);
	if (version > INDEX_VERSION)
		return sc_fail(err, SC_EPROTO, 0,
			       "%s has index version %u; this program knows "
			       "versions up to %u: use a newer one",
			       r->name, version, INDEX_VERSION);
	if (version == 0 || (kind != INDEX_FULL && kind != INDEX_DELTA))
		return damaged(r, err, "unknown kind of index");
	r->kind = (enum index_kind)kind;
	return 0;
}

/* The directory's bytes into b; they end where the trailer begins. */
static int read_tail(struct index_reader *r, struct buf *b, uint64_t *off,
		     struct sc_err *err)
{
	uint64_t end = r->src.size - INDEX_TAIL_LEN;
	unsigned char tail[INDEX_TAIL_LEN];
	struct cur c = cur_of(tail, sizeof(tail));
	uint32_t len, zero;

	if (r->src.pread(r->src.arg, tail, sizeof(tail), end, err) < 0)
		return sc_wrap(err, "%s", r->name);
	*off = cur_u64(&c);
	len = cur_u32(&c);
	zero = cur_u32(&c);
	if (memcmp(tail + 16, INDEX_END_MAGIC, 8) != 0)
		return damaged(r, err, "its end is missing");
	if (zero != 0 || len > INDEX_DIR_MAX || *off < INDEX_HEAD_LEN ||
	    *off > end || end - *off != len)
		return damaged(r, err, "directory out of bounds");
	if (len == 0 || !buf_reserve(b, len))
		return len ? sc_oom(err, "index")
			   : damaged(r, err, "no directory");
	b->len = len;
	if (r->src.pread(r->src.arg, b->p, len, *off, err) < 0)
		return sc_wrap(err, "%s", r->name);
	return 0;
}

static int column_cmp(const void *a, const void *b)
{
	const struct column *x = a, *y = b;

	if (x->offset != y->offset)
		return x->offset < y->offset ? -1 : 1;
	return x->stored < y->stored ? -1 : x->stored > y->stored;
}

/* Within [INDEX_HEAD_LEN, end), none over another, no id twice. */
static bool columns_fit(const struct column *v, size_t n, uint64_t end)
{
	uint64_t at = INDEX_HEAD_LEN;

	for (size_t i = 0; i < n; i++) {
		if (v[i].offset < at || v[i].offset > end ||
		    v[i].stored > end - v[i].offset)
			return false;
		at = v[i].offset + v[i].stored;
		for (size_t j = 0; j < i; j++)
			if (v[j].id == v[i].id)
				return false;
	}
	return true;
}

static int parse_directory(struct index_reader *r, const struct buf *b,
			   uint64_t end, struct sc_err *err)
{
	struct cur c = cur_of(b->p, b->len);
	uint64_t n = cur_varint(&c), id, codec;

	if (c.bad || n > INDEX_COLUMNS_MAX)
		return damaged(r, err, "directory");
	r->cols = calloc(n + 1, sizeof(*r->cols));
	if (!r->cols)
		return sc_oom(err, "index");
	for (r->n = 0; r->n < n; r->n++) {
		struct column *col = &r->cols[r->n];

		id = cur_varint(&c);
		codec = cur_varint(&c);
		col->rows = cur_varint(&c);
		col->offset = cur_varint(&c);
		col->stored = cur_varint(&c);
		col->plain = cur_varint(&c);
		if (c.bad || id > UINT32_MAX || codec > UINT32_MAX)
			return damaged(r, err, "directory");
		col->id = (unsigned)id;
		col->codec = (unsigned)codec;
	}
	qsort(r->cols, r->n, sizeof(*r->cols), column_cmp);
	if (cur_left(&c) != 0 || !columns_fit(r->cols, r->n, end))
		return damaged(r, err, "columns out of bounds");
	return 0;
}

static int read_meta(struct index_reader *r, struct sc_err *err)
{
	unsigned char b[INDEX_META_MAX];
	struct index_col *c;
	size_t n;
	int rc = index_col_open(r, COL_META, &c, err);

	if (rc < 0)
		return -1;
	if (rc == 0)
		return damaged(r, err, "no meta column");
	n = c->col->plain;
	if (n > sizeof(b))
		rc = damaged(r, err, "meta column too long");
	else if (index_col_bytes(c, b, n, err) < 0 ||
		 index_col_done(c, err) < 0)
		rc = -1;
	else if (index_meta_get(&r->meta, b, n) < 0 || c->col->rows != 1)
		rc = damaged(r, err, "meta column");
	index_col_close(c);
	return rc < 0 ? -1 : 0;
}

static int open_all(struct index_reader *r, struct sc_err *err)
{
	auto_buf struct buf dir = { 0 };
	uint64_t end = 0;

	if (read_head(r, err) < 0 || read_tail(r, &dir, &end, err) < 0 ||
	    parse_directory(r, &dir, end, err) < 0)
		return -1;
	return read_meta(r, err);
}

int index_open(const struct index_source *src, const char *name,
	       struct index_reader **out, struct sc_err *err)
{
	struct index_reader *r = calloc(1, sizeof(*r));

	if (!r || !(r->name = strdup(name))) {
		free(r);
		return sc_oom(err, "index");
	}
	r->src = *src;
	if (open_all(r, err) < 0) {
		index_close(r);
		return -1;
	}
	*out = r;
	return 0;
}

void index_close(struct index_reader *r)
{
	if (!r)
		return;
	free(r->cols);
	free(r->name);
	free(r);
}

const struct index_meta *index_meta(const struct index_reader *r)
{
	return &r->meta;
}

enum index_kind index_kind(const struct index_reader *r)
{
	return r->kind;
}

const char *index_name(const struct index_reader *r)
{
	return r->name;
}

/* -- columns ------------------------------------------------------------ */

static const struct column *find(const struct index_reader *r, unsigned id)
{
	for (size_t i = 0; i < r->n; i++)
		if (r->cols[i].id == id)
			return &r->cols[i];
	return NULL;
}

int index_col_open(struct index_reader *r, enum index_column id,
		   struct index_col **out, struct sc_err *err)
{
	const struct column *col = find(r, id);
	struct index_col *c;

	if (!col)
		return 0;
	if (col->codec != INDEX_RAW && col->codec != INDEX_ZSTD)
		return sc_fail(err, SC_EPROTO, 0,
			       "%s: column %s has unknown codec %u", r->name,
			       index_column_name(id), col->codec);
	if (col->codec == INDEX_RAW && col->plain != col->stored)
		return damaged(r, err, "column lengths differ");
	c = malloc(sizeof(*c));
	if (!c)
		return sc_oom(err, "index column");
	*c = (struct index_col){ .r = r, .col = col };
	c->in.src = c->inbuf;
	c->out = malloc(OUT_LEN);
	if (col->codec == INDEX_ZSTD)
		c->zstd = ZSTD_createDCtx();
	if (!c->out || (col->codec == INDEX_ZSTD && !c->zstd)) {
		index_col_close(c);
		return sc_oom(err, "index column");
	}
	if (c->zstd && ZSTD_isError(ZSTD_DCtx_setParameter(
			       c->zstd, ZSTD_d_windowLogMax, WINDOW_MAX))) {
		index_col_close(c);
		return sc_fail(err, SC_EIO, 0, "zstd refuses its parameters");
	}
	*out = c;
	return 1;
}

void index_col_close(struct index_col *c)
{
	if (!c)
		return;
	ZSTD_freeDCtx(c->zstd);
	free(c->out);
	free(c);
}

uint64_t index_col_rows(const struct index_col *c)
{
	return c->col->rows;
}

uint64_t index_col_left(const struct index_col *c)
{
	return c->col->plain - c->made + (c->n - c->at);
}

int index_col_bad(const struct index_col *c, struct sc_err *err,
		  const char *why)
{
	return sc_fail(err, SC_ECORRUPT, 0, "%s is damaged: column %s: %s",
		       c->r->name, index_column_name(c->col->id), why);
}

/* Up to n of the stored bytes that are left. */
static int read_stored(struct index_col *c, void *p, size_t *n,
		       struct sc_err *err)
{
	const struct index_source *s = &c->r->src;
	uint64_t left = c->col->stored - c->read;

	if (*n > left)
		*n = (size_t)left;
	if (*n && s->pread(s->arg, p, *n, c->col->offset + c->read, err) < 0)
		return sc_wrap(err, "%s", c->r->name);
	c->read += *n;
	return 0;
}

/* Decompresses some more of the frame into out; c->n may stay 0. */
static int decompress(struct index_col *c, struct sc_err *err)
{
	ZSTD_outBuffer out = { c->out, OUT_LEN, 0 };
	size_t left, before = c->in.pos;

	if (c->in.pos == c->in.size) {
		size_t n = IN_LEN;

		if (read_stored(c, c->inbuf, &n, err) < 0)
			return -1;
		c->in.size = n;
		c->in.pos = before = 0;
	}
	left = ZSTD_decompressStream(c->zstd, &out, &c->in);
	if (ZSTD_isError(left))
		return index_col_bad(c, err, ZSTD_getErrorName(left));
	c->frame_done = left == 0;
	c->n = out.pos;
	if (!c->frame_done && out.pos == 0 && c->in.pos == before)
		return index_col_bad(c, err, "it ends early");
	return 0;
}

/* Fills out again once it is used up. Past the column's end is an error. */
static int refill(struct index_col *c, struct sc_err *err)
{
	c->at = c->n = 0;
	if (c->made == c->col->plain)
		return index_col_bad(c, err, "rows missing");
	if (!c->zstd) {
		c->n = OUT_LEN;
		if (read_stored(c, c->out, &c->n, err) < 0)
			return -1;
	}
	while (c->zstd && c->n == 0) {
		if (c->frame_done)
			return index_col_bad(c, err, "it ends early");
		if (decompress(c, err) < 0)
			return -1;
	}
	if (c->n > c->col->plain - c->made)
		return index_col_bad(c, err, "longer than it says");
	c->made += c->n;
	return 0;
}

int index_col_varint(struct index_col *c, uint64_t *v, struct sc_err *err)
{
	unsigned char b;

	*v = 0;
	for (unsigned shift = 0; shift < 64; shift += 7) {
		if (c->at == c->n && refill(c, err) < 0)
			return -1;
		b = c->out[c->at++];
		if (shift == 63 && b > 1)
			break;
		*v |= (uint64_t)(b & 0x7f) << shift;
		if (b & 0x80)
			continue;
		if (b == 0 && shift > 0)
			break; /* one way to write a number */
		return 0;
	}
	return index_col_bad(c, err, "not a number");
}

int index_col_svarint(struct index_col *c, int64_t *v, struct sc_err *err)
{
	uint64_t u;

	if (index_col_varint(c, &u, err) < 0)
		return -1;
	*v = (int64_t)(u >> 1) ^ -(int64_t)(u & 1);
	return 0;
}

int index_col_bytes(struct index_col *c, void *p, size_t n, struct sc_err *err)
{
	unsigned char *b = p;
	size_t k;

	while (n > 0) {
		if (c->at == c->n && refill(c, err) < 0)
			return -1;
		k = c->n - c->at < n ? c->n - c->at : n;
		memcpy(b, c->out + c->at, k);
		c->at += k;
		b += k;
		n -= k;
	}
	return 0;
}

int index_col_done(struct index_col *c, struct sc_err *err)
{
	if (c->at != c->n || c->made != c->col->plain)
		return index_col_bad(c, err, "more than its rows");
	/* The frame's end holds its checksum, and is to be the last thing. */
	while (c->zstd && !c->frame_done) {
		if (decompress(c, err) < 0)
			return -1;
		if (c->n > 0)
			return index_col_bad(c, err, "longer than it says");
		c->at = 0;
	}
	if (c->read != c->col->stored || (c->zstd && c->in.pos != c->in.size))
		return index_col_bad(c, err, "bytes behind its end");
	return 0;
}
