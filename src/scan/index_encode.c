/* SPDX-License-Identifier: MIT */
/* Columns out of a tree and a chunk table, one after the other through one
 * compression context, so that memory does not grow with the tree. */
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#include <snapctl/base/mem.h>

#include "index_internal.h"

#define PIECE	  (128u << 10)
#define LEVEL	  3
#define WINDOWLOG 20 /* a megabyte less than the level's own */

struct enc {
	const struct index_sink *sink;
	ZSTD_CCtx *zstd;
	unsigned char *in, *out; /* PIECE bytes each */
	size_t n;		 /* in in */
	/* the column being written */
	unsigned id;
	enum index_codec codec;
	uint64_t rows, plain;
	struct sc_err *err;
	bool failed; /* latched: put calls need one check at the end */
};

static int enc_open(struct enc *e, const struct index_sink *sink,
		    struct sc_err *err)
{
	*e = (struct enc){ .sink = sink, .err = err };
	e->zstd = ZSTD_createCCtx();
	e->in = malloc(PIECE);
	e->out = malloc(PIECE);
	if (!e->zstd || !e->in || !e->out)
		return sc_oom(err, "index columns");
	if (ZSTD_isError(ZSTD_CCtx_setParameter(
		    e->zstd, ZSTD_c_compressionLevel, LEVEL)) ||
	    ZSTD_isError(ZSTD_CCtx_setParameter(e->zstd, ZSTD_c_windowLog,
						WINDOWLOG)) ||
	    ZSTD_isError(
		    ZSTD_CCtx_setParameter(e->zstd, ZSTD_c_checksumFlag, 1)))
		return sc_fail(err, SC_EIO, 0, "zstd refuses its parameters");
	return 0;
}

static void enc_close(struct enc *e)
{
	ZSTD_freeCCtx(e->zstd);
	free(e->in);
	free(e->out);
}

static void enc_piece(struct enc *e, const void *p, size_t n)
{
	if (n && e->sink->piece(e->sink->arg, e->id, p, n, e->err) < 0)
		e->failed = true;
}

static void enc_compress(struct enc *e, ZSTD_EndDirective how)
{
	ZSTD_inBuffer in = { e->in, e->n, 0 };
	size_t left;

	do {
		ZSTD_outBuffer out = { e->out, PIECE, 0 };

		left = ZSTD_compressStream2(e->zstd, &out, &in, how);
		if (ZSTD_isError(left)) {
			e->failed = true;
			sc_fail(e->err, SC_EIO, 0, "compress index: %s",
				ZSTD_getErrorName(left));
		} else {
			enc_piece(e, e->out, out.pos);
		}
	} while (!e->failed &&
		 (how == ZSTD_e_end ? left > 0 : in.pos < in.size));
}

static void enc_flush(struct enc *e, ZSTD_EndDirective how)
{
	if (e->failed)
		return;
	e->plain += e->n;
	if (e->codec == INDEX_RAW)
		enc_piece(e, e->in, e->n);
	else
		enc_compress(e, how);
	e->n = 0;
}

static void enc_start(struct enc *e, unsigned id, enum index_codec codec)
{
	e->id = id;
	e->codec = codec;
	e->rows = e->plain = e->n = 0;
}

static int enc_end(struct enc *e)
{
	enc_flush(e, ZSTD_e_end);
	if (e->failed)
		return -1;
	return e->sink->end(e->sink->arg, e->id, e->codec, e->rows, e->plain,
			    e->err);
}

static void put(struct enc *e, const void *p, size_t n)
{
	const unsigned char *b = p;
	size_t k;

	while (n > 0 && !e->failed) {
		k = PIECE - e->n < n ? PIECE - e->n : n;
		memcpy(e->in + e->n, b, k);
		e->n += k;
		b += k;
		n -= k;
		if (e->n == PIECE)
			enc_flush(e, ZSTD_e_continue);
	}
}

static void put_varint(struct enc *e, uint64_t v)
{
	if (PIECE - e->n < 10)
		enc_flush(e, ZSTD_e_continue);
	for (; v >= 0x80; v >>= 7)
		e->in[e->n++] = (unsigned char)(v | 0x80);
	e->in[e->n++] = (unsigned char)v;
}

/* The difference of two numbers of up to 64 bits, modulo 2^64. */
static void put_delta(struct enc *e, uint64_t v, uint64_t before)
{
	int64_t d = (int64_t)(v - before);

	put_varint(e, (uint64_t)d << 1 ^ (uint64_t)(d >> 63));
}

/* -- paths -------------------------------------------------------------- */

/* The directories above the entry before, and their paths' lengths. */
struct above {
	uint32_t slot;
	size_t len;
};

struct paths {
	struct buf path; /* of the entry before */
	struct above *up;
	size_t n, cap;
};

static size_t common_len(const unsigned char *a, const unsigned char *b,
			 size_t max)
{
	size_t i = 0;

	while (i < max && a[i] == b[i])
		i++;
	return i;
}

/* Puts e's path in place of the one before; returns what they share. In
 * pre-order the parent's path is always a prefix of the path before. */
static int next_path(struct paths *p, const struct tree *t, uint32_t slot,
		     size_t *shared, struct sc_err *err)
{
	const struct entry *e = tree_at(t, slot);
	unsigned char rest[1 + 255];
	size_t from = 0, n = 0, old = p->path.len;

	while (p->n && p->up[p->n - 1].slot != e->parent)
		p->n--;
	if (slot != 0) {
		if (p->n == 0)
			return sc_fail(err, SC_ECORRUPT, 0,
				       "entries are not in order");
		from = p->up[p->n - 1].len;
		if (from)
			rest[n++] = '/';
		memcpy(rest + n, e->name, e->name_len);
		n += e->name_len;
	}
	*shared = from + common_len(p->path.p + from, rest,
				    old - from < n ? old - from : n);
	p->path.len = from;
	buf_put(&p->path, rest, n);
	if (p->path.len > INDEX_PATH_MAX)
		return sc_fail(err, SC_EREFUSED, 0,
			       "a path is longer than %u bytes",
			       INDEX_PATH_MAX);
	if (p->path.failed ||
	    mem_grow(&p->up, &p->cap, p->n + 1, sizeof(*p->up)) < 0)
		return sc_oom(err, "path");
	p->up[p->n++] = (struct above){ slot, p->path.len };
	return 0;
}

static int put_paths(struct enc *e, const struct tree *t)
{
	struct paths p = { 0 };
	size_t shared = 0;
	int rc = 0;

	enc_start(e, COL_PATH, INDEX_ZSTD);
	e->rows = tree_count(t);
	for (uint32_t r = 0; rc == 0 && r < e->rows; r++) {
		rc = next_path(&p, t, tree_order(t, r), &shared, e->err);
		if (rc < 0)
			break;
		put_varint(e, shared);
		put_varint(e, p.path.len - shared);
		put(e, p.path.p + shared, p.path.len - shared);
		rc = -e->failed;
	}
	buf_free(&p.path);
	free(p.up);
	return rc < 0 ? -1 : enc_end(e);
}

/* -- columns of entries ------------------------------------------------- */

/* What a column keeps from row to row. */
struct before {
	uint64_t v;
};

typedef void (*put_row)(struct enc *e, const struct tree *t, uint32_t slot,
			const struct entry *x, struct before *b);

static void put_mode(struct enc *e, const struct tree *t, uint32_t slot,
		     const struct entry *x, struct before *b)
{
	(void)t, (void)slot, (void)b;
	put_varint(e, x->mode);
}

static void delta_row(struct enc *e, struct before *b, uint64_t v)
{
	put_delta(e, v, b->v);
	b->v = v;
}

static void put_uid(struct enc *e, const struct tree *t, uint32_t slot,
		    const struct entry *x, struct before *b)
{
	(void)t, (void)slot;
	delta_row(e, b, x->uid);
}

static void put_gid(struct enc *e, const struct tree *t, uint32_t slot,
		    const struct entry *x, struct before *b)
{
	(void)t, (void)slot;
	delta_row(e, b, x->gid);
}

static void put_size(struct enc *e, const struct tree *t, uint32_t slot,
		     const struct entry *x, struct before *b)
{
	(void)t, (void)slot;
	if (entry_is_reg(x))
		b->v += x->size;
	put_varint(e, entry_is_reg(x) ? x->size : 0);
}

static void put_mtime(struct enc *e, const struct tree *t, uint32_t slot,
		      const struct entry *x, struct before *b)
{
	(void)t, (void)slot;
	delta_row(e, b, (uint64_t)x->mtime);
	put_varint(e, x->mtime_ns);
}

static void put_ctime(struct enc *e, const struct tree *t, uint32_t slot,
		      const struct entry *x, struct before *b)
{
	(void)t, (void)slot;
	delta_row(e, b, (uint64_t)x->ctime);
	put_varint(e, x->ctime_ns);
}

static void put_inode(struct enc *e, const struct tree *t, uint32_t slot,
		      const struct entry *x, struct before *b)
{
	(void)t, (void)slot;
	delta_row(e, b, x->ino);
}

static void put_rdev(struct enc *e, const struct tree *t, uint32_t slot,
		     const struct entry *x, struct before *b)
{
	(void)t, (void)slot, (void)b;
	put_varint(e, S_ISCHR(x->mode) || S_ISBLK(x->mode) ? x->size : 0);
}

static void put_nlink(struct enc *e, const struct tree *t, uint32_t slot,
		      const struct entry *x, struct before *b)
{
	(void)t, (void)slot, (void)b;
	put_varint(e, x->nlink);
}

static void put_flags(struct enc *e, const struct tree *t, uint32_t slot,
		      const struct entry *x, struct before *b)
{
	(void)t, (void)slot, (void)b;
	put_varint(e, x->flags);
}

static void put_bits(struct enc *e, const struct tree *t, uint32_t slot,
		     const struct entry *x, struct before *b)
{
	(void)t, (void)slot, (void)b;
	put_varint(e, x->bits & ENTRY_STORED_BITS);
}

static void put_target(struct enc *e, const struct tree *t, uint32_t slot,
		       const struct entry *x, struct before *b)
{
	const char *s;

	(void)slot, (void)b;
	if (!S_ISLNK(x->mode))
		return;
	s = tree_target(t, x->first);
	put_varint(e, strlen(s));
	put(e, s, strlen(s));
	e->rows++;
}

static void put_xattr(struct enc *e, const struct tree *t, uint32_t slot,
		      const struct entry *x, struct before *b)
{
	(void)t, (void)slot, (void)b;
	put_varint(e, x->xattrs);
}

static void put_data(struct enc *e, const struct tree *t, uint32_t slot,
		     const struct entry *x, struct before *b)
{
	const struct run *r;

	(void)slot;
	if (!entry_is_reg(x))
		return;
	r = tree_runs(t, x);
	put_varint(e, x->count);
	for (uint32_t i = 0; i < x->count; i++) {
		put_delta(e, r[i].first, b->v);
		put_varint(e, r[i].count);
		b->v = (uint64_t)r[i].first + r[i].count;
	}
	e->rows++;
}

static void put_extent(struct enc *e, const struct tree *t, uint32_t slot,
		       const struct entry *x, struct before *b)
{
	const struct extent *v;
	uint64_t end = 0;
	uint32_t n;

	(void)b;
	if (!(x->bits & ENTRY_SPARSE))
		return;
	v = tree_extents(t, slot, &n);
	put_varint(e, n);
	for (uint32_t i = 0; i < n; i++) {
		put_varint(e, v[i].off - end);
		put_varint(e, v[i].len);
		end = v[i].off + v[i].len;
	}
	e->rows++;
}

static const struct {
	unsigned id;
	put_row put;
	bool some; /* not a row for each entry: put counts them */
} columns[] = {
	{ COL_MODE, put_mode, false },	  { COL_UID, put_uid, false },
	{ COL_GID, put_gid, false },	  { COL_SIZE, put_size, false },
	{ COL_MTIME, put_mtime, false },  { COL_CTIME, put_ctime, false },
	{ COL_INODE, put_inode, false },  { COL_RDEV, put_rdev, false },
	{ COL_NLINK, put_nlink, false },  { COL_FLAGS, put_flags, false },
	{ COL_BITS, put_bits, false },	  { COL_TARGET, put_target, true },
	{ COL_XATTR, put_xattr, false },  { COL_DATA, put_data, true },
	{ COL_EXTENT, put_extent, true },
};

/* *bytes: sum of regular sizes, after the size column. */
static int put_column(struct enc *e, const struct tree *t, size_t i,
		      uint64_t *bytes)
{
	uint32_t n = tree_count(t), slot;
	struct before b = { 0 };

	enc_start(e, columns[i].id, INDEX_ZSTD);
	for (uint32_t r = 0; r < n && !e->failed; r++) {
		slot = tree_order(t, r);
		columns[i].put(e, t, slot, tree_at(t, slot), &b);
	}
	if (!columns[i].some)
		e->rows = n;
	if (columns[i].id == COL_SIZE)
		*bytes = b.v;
	return enc_end(e);
}

static int put_xsets(struct enc *e, const struct tree *t)
{
	const void *blob;
	size_t len;

	enc_start(e, COL_XSETS, INDEX_ZSTD);
	e->rows = tree_xattrs_count(t);
	for (uint32_t id = 1; id <= e->rows && !e->failed; id++) {
		blob = tree_xattrs(t, id, &len);
		put_varint(e, len);
		put(e, blob, len);
	}
	return enc_end(e);
}

/* -- tables ------------------------------------------------------------- */

static int put_chunks(struct enc *e, const struct chunk_table *c)
{
	uint64_t segment = 0;

	enc_start(e, COL_CHASH, INDEX_RAW); /* hashes do not compress */
	for (size_t i = 0; i < c->nchunks && !e->failed; i++)
		put(e, c->chunks[i].hash.b, DIGEST_LEN);
	e->rows = c->nchunks;
	if (enc_end(e) < 0)
		return -1;

	enc_start(e, COL_CLEN, INDEX_ZSTD);
	for (size_t i = 0; i < c->nchunks && !e->failed; i++)
		put_varint(e, c->chunks[i].len);
	e->rows = c->nchunks;
	if (enc_end(e) < 0)
		return -1;

	enc_start(e, COL_CPLACE, INDEX_ZSTD);
	for (size_t i = 0; i < c->nchunks && !e->failed; i++) {
		put_delta(e, c->chunks[i].segment, segment);
		put_varint(e, c->chunks[i].offset);
		segment = c->chunks[i].segment;
	}
	e->rows = c->nchunks;
	return enc_end(e);
}

static int put_segments(struct enc *e, const struct chunk_table *c)
{
	uint64_t pack = 0, end = 0;

	enc_start(e, COL_SEGMENT, INDEX_ZSTD);
	for (size_t i = 0; i < c->nsegments && !e->failed; i++) {
		const struct segment *s = &c->segments[i];

		if (s->pack != pack)
			end = 0;
		put_delta(e, s->pack, pack);
		put_varint(e, s->offset - end);
		put_varint(e, s->stored);
		put_varint(e, s->plain);
		pack = s->pack;
		end = s->offset + s->stored;
	}
	e->rows = c->nsegments;
	return enc_end(e);
}

static int put_packs(struct enc *e, const struct chunk_table *c)
{
	auto_buf struct buf b = { 0 };

	enc_start(e, COL_PACK, INDEX_ZSTD);
	for (size_t i = 0; i < c->npacks && !e->failed; i++) {
		buf_clear(&b);
		buf_put(&b, c->packs[i].digest.b, DIGEST_LEN);
		buf_u64(&b, c->packs[i].length);
		buf_u8(&b, (uint8_t)c->packs[i].kind);
		if (b.failed)
			return sc_oom(e->err, "packs");
		put(e, b.p, b.len);
	}
	e->rows = c->npacks;
	return enc_end(e);
}

static int put_meta(struct enc *e, const struct index_meta *m)
{
	auto_buf struct buf b = { 0 };

	index_meta_put(&b, m);
	if (b.failed)
		return sc_oom(e->err, "index");
	enc_start(e, COL_META, INDEX_ZSTD);
	put(e, b.p, b.len);
	e->rows = 1;
	return enc_end(e);
}

/* -- all ---------------------------------------------------------------- */

static int encode(struct enc *e, const struct tree *t,
		  const struct chunk_table *c, const struct index_meta *m)
{
	struct index_meta meta = *m;

	if (put_paths(e, t) < 0)
		return -1;
	for (size_t i = 0; i < ARRAY_LEN(columns); i++)
		if (put_column(e, t, i, &meta.bytes) < 0)
			return -1;
	if (put_xsets(e, t) < 0 || put_chunks(e, c) < 0)
		return -1;
	meta.entries = tree_count(t);
	meta.chunks = c->nchunks;
	return put_meta(e, &meta);
}

int index_encode(const struct tree *t, const struct chunk_table *c,
		 const struct index_meta *m, const struct index_sink *sink,
		 struct sc_err *err)
{
	struct enc e;
	int rc = enc_open(&e, sink, err);

	if (rc == 0)
		rc = encode(&e, t, c, m);
	enc_close(&e);
	return rc;
}

int index_encode_places(const struct chunk_table *c,
			const struct index_sink *sink, struct sc_err *err)
{
	struct enc e;
	int rc = enc_open(&e, sink, err);

	if (rc == 0)
		rc = put_segments(&e, c);
	if (rc == 0)
		rc = put_packs(&e, c);
	enc_close(&e);
	return rc;
}

void chunk_table_free(struct chunk_table *t)
{
	free(t->chunks);
	free(t->segments);
	free(t->packs);
	*t = (struct chunk_table){ 0 };
}
