/* SPDX-License-Identifier: MIT */
/* A whole index into a tree and tables, column by column. Nothing is believed:
 * memory grows as rows arrive, and every number is held against those it must
 * agree with. */
#include <stdlib.h>
#include <string.h>

#include <snapctl/base/mem.h>

#include "index_internal.h"

#define BATCH 4096 /* entries taken from the tree at a time */

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
static int open_col(struct load *l, enum index_column id, uint64_t rows,
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

/* Closes it; -1 if rc is, or if the column goes on. */
static int close_col(struct index_col *c, int rc, struct sc_err *err)
{
	if (rc == 0)
		rc = index_col_done(c, err);
	index_col_close(c);
	return rc;
}

/* A number of at most max. */
static int get(struct index_col *c, uint64_t max, uint64_t *v,
	       struct sc_err *err)
{
	if (index_col_varint(c, v, err) < 0)
		return -1;
	return *v <= max ? 0 : index_col_bad(c, err, "number out of range");
}

/* The number of the row before, moved; at most max. */
static int get_delta(struct index_col *c, uint64_t max, uint64_t *v,
		     struct sc_err *err)
{
	int64_t d;

	if (index_col_svarint(c, &d, err) < 0)
		return -1;
	*v += (uint64_t)d;
	return *v <= max ? 0 : index_col_bad(c, err, "number out of range");
}

/* A length of at most max and so many bytes into b, in steps. */
static int get_blob(struct index_col *c, size_t max, struct buf *b,
		    struct sc_err *err)
{
	uint64_t len;
	size_t k;

	buf_clear(b);
	if (get(c, max, &len, err) < 0)
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

/* -- tables ------------------------------------------------------------- */

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
		if (get_delta(c, t->npacks - 1, &pack, err) < 0 ||
		    index_col_varint(c, &off, err) < 0 ||
		    get(c, SEGMENT_STORED_MAX, &stored, err) < 0 ||
		    get(c, SEGMENT_PLAIN_MAX, &plain, err) < 0)
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
		if (get(c, CHUNK_LEN_MAX, &v, err) < 0)
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
		if (get_delta(c, t->nsegments - 1, &segment, err) < 0 ||
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

	if (open_col(l, id, l->chunks, &c, err) < 0)
		return -1;
	return close_col(c, fn(l, t, c, err), err);
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
	return close_col(c, rc, err);
}

static int load_tables(struct load *l, struct chunk_table *t,
		       struct sc_err *err)
{
	if (place_col(l, t, COL_PACK, load_packs, err) < 0 ||
	    place_col(l, t, COL_SEGMENT, load_segments, err) < 0 ||
	    table_col(l, t, COL_CHASH, load_hashes, err) < 0 ||
	    table_col(l, t, COL_CLEN, load_lengths, err) < 0)
		return -1;
	return table_col(l, t, COL_CPLACE, load_places, err);
}

/* -- paths -------------------------------------------------------------- */

/* The entry before and the directories above it. */
struct above {
	uint32_t slot, child; /* child: the last one seen, 0 none */
	size_t len;	      /* of its path */
};

struct paths {
	struct buf path;
	size_t shared; /* with the one before */
	struct above *up;
	size_t n, cap;
};

/* The path before becomes this row's. */
static int next_path(struct index_col *c, struct paths *p, struct sc_err *err)
{
	uint64_t shared, len;
	size_t old = p->path.len;
	unsigned char *rest;
	int first;

	if (get(c, old, &shared, err) < 0 ||
	    get(c, INDEX_PATH_MAX - shared, &len, err) < 0)
		return -1;
	if (len > index_col_left(c))
		return index_col_bad(c, err, "length out of range");
	first = shared < old ? p->path.p[shared] : -1;
	p->path.len = shared;
	rest = buf_reserve(&p->path, len + 1);
	if (!rest)
		return sc_oom(err, "path");
	if (index_col_bytes(c, rest, len, err) < 0)
		return -1;
	/* What is shared is shared whole: so the directories above are. */
	if (len && rest[0] == first)
		return index_col_bad(c, err, "path not shortened");
	p->path.len = shared + len;
	p->shared = shared;
	return 0;
}

static bool name_ok(const unsigned char *s, size_t n)
{
	if (n == 0 || n > 255 || memchr(s, 0, n))
		return false;
	return !(s[0] == '.' && (n == 1 || (n == 2 && s[1] == '.')));
}

/* Hangs this row's entry beneath the directory that its path names, which is
 * the entry before or above it; behind its elder siblings. */
static int hang(struct load *l, struct index_col *c, struct paths *p,
		uint32_t slot, struct sc_err *err)
{
	struct entry *e = tree_at(l->t, slot), *elder;
	const unsigned char *path = p->path.p, *slash, *name = path;
	struct above *dir;
	size_t up = 0;

	slash = memrchr(path, '/', p->path.len);
	if (slash) {
		up = (size_t)(slash - path);
		name = slash + 1;
	}
	while (p->n > 1 && p->up[p->n - 1].len > up)
		p->n--;
	dir = &p->up[p->n - 1];
	e->name_len = (uint16_t)(p->path.len - (size_t)(name - path));
	if (dir->len != up || up > p->shared || (slash && up == 0) ||
	    !name_ok(name, p->path.len - (size_t)(name - path)))
		return index_col_bad(c, err, "a path that leads nowhere");
	e->name = tree_name(l->t, &l->arena, (const char *)name, e->name_len);
	if (!e->name)
		return sc_oom(err, "names");
	e->parent = dir->slot;
	elder = tree_at(l->t, dir->child);
	if (dir->child && tree_name_cmp(elder->name, elder->name_len, e->name,
					e->name_len) >= 0)
		return index_col_bad(c, err, "names out of order");
	dir->child = slot;
	return 0;
}

static int one_path(struct load *l, struct index_col *c, struct paths *p,
		    uint32_t slot, struct sc_err *err)
{
	if (next_path(c, p, err) < 0)
		return -1;
	if (slot == 0 && p->path.len != 0)
		return index_col_bad(c, err, "the root has a name");
	if (slot == 0)
		tree_at(l->t, 0)->name = "";
	else if (hang(l, c, p, slot, err) < 0)
		return -1;
	if (mem_grow(&p->up, &p->cap, p->n + 1, sizeof(*p->up)) < 0)
		return sc_oom(err, "path");
	p->up[p->n++] = (struct above){ slot, 0, p->path.len };
	return 0;
}

static int load_paths(struct load *l, struct index_col *c, struct sc_err *err)
{
	struct paths p = { 0 };
	uint32_t first;
	int rc = 0;

	for (uint32_t i = 0; rc == 0 && i < l->n; i++) {
		if (i % BATCH == 0)
			rc = tree_alloc(l->t,
					l->n - i < BATCH ? l->n - i : BATCH,
					&first, err);
		if (rc == 0)
			rc = one_path(l, c, &p, i, err);
	}
	buf_free(&p.path);
	free(p.up);
	return rc;
}

/* -- columns of entries ------------------------------------------------- */

static int load_mode(struct load *l, struct index_col *c, struct sc_err *err)
{
	uint64_t v;

	for (uint32_t i = 0; i < l->n; i++) {
		if (get(c, S_IFMT | 07777, &v, err) < 0)
			return -1;
		if (!S_ISREG(v) && !S_ISDIR(v) && !S_ISLNK(v) && !S_ISFIFO(v) &&
		    !S_ISCHR(v) && !S_ISBLK(v))
			return index_col_bad(c, err, "unknown type");
		if (i == 0 && !S_ISDIR(v) && !S_ISREG(v))
			return index_col_bad(c, err, "root of a wrong type");
		tree_at(l->t, i)->mode = (uint16_t)v;
		l->regular += S_ISREG(v);
		l->links += S_ISLNK(v);
	}
	return tree_seal_preorder(l->t, err) < 0
		       ? index_col_bad(c, err, "an entry beneath a file")
		       : 0;
}

static int load_uid(struct load *l, struct index_col *c, struct sc_err *err)
{
	uint64_t v = 0;

	for (uint32_t i = 0; i < l->n; i++) {
		if (get_delta(c, UINT32_MAX, &v, err) < 0)
			return -1;
		tree_at(l->t, i)->uid = (uint32_t)v;
	}
	return 0;
}

static int load_gid(struct load *l, struct index_col *c, struct sc_err *err)
{
	uint64_t v = 0;

	for (uint32_t i = 0; i < l->n; i++) {
		if (get_delta(c, UINT32_MAX, &v, err) < 0)
			return -1;
		tree_at(l->t, i)->gid = (uint32_t)v;
	}
	return 0;
}

static int load_size(struct load *l, struct index_col *c, struct sc_err *err)
{
	uint64_t v;

	for (uint32_t i = 0; i < l->n; i++) {
		struct entry *e = tree_at(l->t, i);

		if (get(c, entry_is_reg(e) ? INT64_MAX : 0, &v, err) < 0)
			return -1;
		e->size = v;
		l->bytes += v;
	}
	return l->bytes == index_meta(l->r)->bytes
		       ? 0
		       : index_col_bad(c, err, "sum differs");
}

static int load_mtime(struct load *l, struct index_col *c, struct sc_err *err)
{
	uint64_t v = 0, ns;

	for (uint32_t i = 0; i < l->n; i++) {
		struct entry *e = tree_at(l->t, i);

		if (get_delta(c, UINT64_MAX, &v, err) < 0 ||
		    get(c, 999999999, &ns, err) < 0)
			return -1;
		e->mtime = (int64_t)v;
		e->mtime_ns = (uint32_t)ns;
	}
	return 0;
}

static int load_ctime(struct load *l, struct index_col *c, struct sc_err *err)
{
	uint64_t v = 0, ns;

	for (uint32_t i = 0; i < l->n; i++) {
		struct entry *e = tree_at(l->t, i);

		if (get_delta(c, UINT64_MAX, &v, err) < 0 ||
		    get(c, 999999999, &ns, err) < 0)
			return -1;
		e->ctime = (int64_t)v;
		e->ctime_ns = (uint32_t)ns;
	}
	return 0;
}

static int load_inode(struct load *l, struct index_col *c, struct sc_err *err)
{
	uint64_t v = 0;

	for (uint32_t i = 0; i < l->n; i++) {
		if (get_delta(c, UINT64_MAX, &v, err) < 0)
			return -1;
		tree_at(l->t, i)->ino = v;
	}
	return 0;
}

static int load_rdev(struct load *l, struct index_col *c, struct sc_err *err)
{
	uint64_t v;

	for (uint32_t i = 0; i < l->n; i++) {
		struct entry *e = tree_at(l->t, i);
		bool device = S_ISCHR(e->mode) || S_ISBLK(e->mode);

		if (get(c, device ? UINT64_MAX : 0, &v, err) < 0)
			return -1;
		if (device)
			e->size = v;
	}
	return 0;
}

static int load_nlink(struct load *l, struct index_col *c, struct sc_err *err)
{
	uint64_t v;

	for (uint32_t i = 0; i < l->n; i++) {
		if (get(c, UINT32_MAX, &v, err) < 0)
			return -1;
		tree_at(l->t, i)->nlink = (uint32_t)v;
	}
	return 0;
}

static int load_flags(struct load *l, struct index_col *c, struct sc_err *err)
{
	uint64_t v;

	for (uint32_t i = 0; i < l->n; i++) {
		if (get(c, UINT32_MAX, &v, err) < 0)
			return -1;
		tree_at(l->t, i)->flags = (uint32_t)v;
	}
	return 0;
}

static int load_bits(struct load *l, struct index_col *c, struct sc_err *err)
{
	uint64_t v;

	for (uint32_t i = 0; i < l->n; i++) {
		struct entry *e = tree_at(l->t, i);

		if (get(c, ENTRY_STORED_BITS, &v, err) < 0)
			return -1;
		if ((v & ENTRY_SPARSE && !entry_is_reg(e)) ||
		    (v & ENTRY_LINK && entry_is_dir(e)) ||
		    (v & ENTRY_MOUNT && e->size != 0 && entry_is_reg(e)) ||
		    (v & ENTRY_MOUNT && entry_is_dir(e) && e->count != 0))
			return index_col_bad(c, err, "bits that cannot be");
		e->bits = (uint8_t)v;
		l->sparse += (v & ENTRY_SPARSE) != 0;
	}
	return 0;
}

static int load_targets(struct load *l, struct index_col *c, struct sc_err *err)
{
	const struct buf *b = &l->scratch;

	for (uint32_t i = 0; i < l->n; i++) {
		struct entry *e = tree_at(l->t, i);

		if (!S_ISLNK(e->mode))
			continue;
		if (get_blob(c, INDEX_TARGET_MAX, &l->scratch, err) < 0)
			return -1;
		e->first = 0;
		if (b->len == 0 && e->bits & (ENTRY_UNREADABLE | ENTRY_MOUNT))
			continue;
		if (b->len == 0 || memchr(b->p, 0, b->len))
			return index_col_bad(c, err, "not a link's target");
		if (tree_target_add(l->t, (const char *)b->p, b->len, &e->first,
				    err) < 0)
			return -1;
	}
	return 0;
}

/* A set as tree.h has it. */
static bool xset_ok(const void *p, size_t n)
{
	struct cur c = cur_of(p, n);
	const unsigned char *name, *before = NULL;
	size_t len, before_len = 0, value;

	while (cur_left(&c) > 0) {
		name = cur_bytes(&c, 255, &len);
		if (!name || len == 0 || memchr(name, 0, len))
			return false;
		if (before && tree_name_cmp((const char *)before, before_len,
					    (const char *)name, len) >= 0)
			return false;
		if (!cur_bytes(&c, INDEX_XVALUE_MAX, &value))
			return false;
		before = name;
		before_len = len;
	}
	return !c.bad && n > 0;
}

static int load_xsets(struct load *l, struct index_col *c, struct sc_err *err)
{
	uint32_t id;

	for (uint64_t i = 1; i <= index_col_rows(c); i++) {
		if (get_blob(c, INDEX_XSET_MAX, &l->scratch, err) < 0)
			return -1;
		if (!xset_ok(l->scratch.p, l->scratch.len))
			return index_col_bad(c, err, "not a set of xattrs");
		if (tree_xattrs_add(l->t, l->scratch.p, l->scratch.len, &id,
				    err) < 0)
			return -1;
		if (id != i)
			return index_col_bad(c, err, "a set twice");
	}
	return 0;
}

static int load_xattr(struct load *l, struct index_col *c, struct sc_err *err)
{
	uint64_t v;

	for (uint32_t i = 0; i < l->n; i++) {
		if (get(c, tree_xattrs_count(l->t), &v, err) < 0)
			return -1;
		tree_at(l->t, i)->xattrs = (uint32_t)v;
	}
	return 0;
}

/* -- data --------------------------------------------------------------- */

static int load_extents_of(struct load *l, struct index_col *c, uint32_t slot,
			   struct sc_err *err)
{
	uint64_t size = tree_at(l->t, slot)->size, n, gap, len, end = 0;

	if (get(c, UINT32_MAX, &n, err) < 0)
		return -1;
	for (uint32_t i = 0; i < n; i++) {
		if (get(c, size - end, &gap, err) < 0 ||
		    get(c, size - end - gap, &len, err) < 0)
			return -1;
		if (len == 0 || (i > 0 && gap == 0))
			return index_col_bad(c, err, "extents that touch");
		if (mem_grow(&l->extents, &l->extents_cap, i + 1,
			     sizeof(*l->extents)) < 0)
			return sc_oom(err, "extents");
		l->extents[i] = (struct extent){ end + gap, len };
		end += gap + len;
	}
	return tree_set_extents(l->t, slot, l->extents, (uint32_t)n, err);
}

static int load_extents(struct load *l, struct index_col *c, struct sc_err *err)
{
	for (uint32_t i = 0; i < l->n; i++)
		if (tree_at(l->t, i)->bits & ENTRY_SPARSE &&
		    load_extents_of(l, c, i, err) < 0)
			return -1;
	return 0;
}

/* The bytes that an entry's chunks make up. */
static uint64_t data_len(const struct tree *t, uint32_t slot)
{
	const struct entry *e = tree_at(t, slot);
	const struct extent *x;
	uint64_t sum = 0;
	uint32_t n;

	if (e->bits & (ENTRY_UNREADABLE | ENTRY_MOUNT))
		return 0;
	if (!(e->bits & ENTRY_SPARSE))
		return e->size;
	x = tree_extents(t, slot, &n);
	for (uint32_t i = 0; i < n; i++)
		sum += x[i].len;
	return sum;
}

static int load_runs_of(struct load *l, struct index_col *c, uint32_t slot,
			uint64_t *end, struct sc_err *err)
{
	uint64_t want = data_len(l->t, slot), sum = 0, n, count;

	if (get(c, UINT32_MAX, &n, err) < 0)
		return -1;
	for (uint32_t i = 0; i < n; i++) {
		if (get_delta(c, l->chunks, end, err) < 0 ||
		    get(c, l->chunks - *end, &count, err) < 0)
			return -1;
		if (count == 0)
			return index_col_bad(c, err, "empty run");
		if (l->sums)
			sum += l->sums[*end + count] - l->sums[*end];
		if (sum > want)
			return index_col_bad(c, err, "more data than size");
		if (mem_grow(&l->runs, &l->runs_cap, i + 1, sizeof(*l->runs)) <
		    0)
			return sc_oom(err, "runs");
		l->runs[i] = (struct run){ (uint32_t)*end, (uint32_t)count };
		*end += count;
	}
	if ((l->sums && sum != want) || (want > 0) != (n > 0))
		return index_col_bad(c, err, "data of another length");
	return tree_set_runs(l->t, tree_at(l->t, slot), l->runs, (uint32_t)n,
			     err);
}

static int load_data(struct load *l, struct index_col *c, struct sc_err *err)
{
	uint64_t end = 0;

	for (uint32_t i = 0; i < l->n; i++)
		if (entry_is_reg(tree_at(l->t, i)) &&
		    load_runs_of(l, c, i, &end, err) < 0)
			return -1;
	return 0;
}

/* -- all ---------------------------------------------------------------- */

typedef int (*load_fn)(struct load *l, struct index_col *c, struct sc_err *err);

static int load_col(struct load *l, enum index_column id, uint64_t rows,
		    load_fn fn, struct sc_err *err)
{
	struct index_col *c;

	if (open_col(l, id, rows, &c, err) < 0)
		return -1;
	return close_col(c, fn(l, c, err), err);
}

static int load_xset_col(struct load *l, struct sc_err *err)
{
	struct index_col *c;
	int rc = index_col_open(l->r, COL_XSETS, &c, err);

	if (rc <= 0) /* without it no entry may have any */
		return rc;
	return close_col(c, load_xsets(l, c, err), err);
}

static int load_entries(struct load *l, struct sc_err *err)
{
	static const struct {
		enum index_column id;
		load_fn fn;
	} each[] = {
		{ COL_PATH, load_paths },  { COL_MODE, load_mode },
		{ COL_UID, load_uid },	   { COL_GID, load_gid },
		{ COL_SIZE, load_size },   { COL_MTIME, load_mtime },
		{ COL_CTIME, load_ctime }, { COL_INODE, load_inode },
		{ COL_RDEV, load_rdev },   { COL_NLINK, load_nlink },
		{ COL_FLAGS, load_flags }, { COL_BITS, load_bits },
		{ COL_XATTR, load_xattr },
	};

	if (load_xset_col(l, err) < 0)
		return -1;
	for (size_t i = 0; i < ARRAY_LEN(each); i++)
		if (load_col(l, each[i].id, l->n, each[i].fn, err) < 0)
			return -1;
	if (load_col(l, COL_TARGET, l->links, load_targets, err) < 0 ||
	    load_col(l, COL_EXTENT, l->sparse, load_extents, err) < 0)
		return -1;
	return load_col(l, COL_DATA, l->regular, load_data, err);
}

/* Sums before each chunk, so that a run costs the same whatever its count. */
static int sum_lengths(const struct chunk_table *t, uint64_t **out,
		       struct sc_err *err)
{
	uint64_t *s = malloc((t->nchunks + 1) * sizeof(*s));

	if (!s)
		return sc_oom(err, "chunks");
	s[0] = 0;
	for (size_t i = 0; i < t->nchunks; i++)
		s[i + 1] = s[i] + t->chunks[i].len;
	*out = s;
	return 0;
}

static int load_all(struct load *l, struct chunk_table *c, struct sc_err *err)
{
	auto_free uint64_t *sums = NULL;

	if (tree_new(&l->t, err) < 0)
		return -1;
	if (c && (load_tables(l, c, err) < 0 || sum_lengths(c, &sums, err) < 0))
		return -1;
	l->sums = sums;
	return load_entries(l, err);
}

int index_load(struct index_reader *r, struct tree **tree,
	       struct chunk_table *c, struct sc_err *err)
{
	const struct index_meta *m = index_meta(r);
	struct load l = { .r = r };
	struct chunk_table empty = { 0 };
	int rc;

	*tree = NULL;
	if (c)
		*c = empty;
	if (index_kind(r) != INDEX_FULL)
		return sc_fail(err, SC_EPROTO, 0,
			       "%s is a delta, which this version cannot read",
			       index_name(r));
	if (m->entries == 0 || m->entries > INDEX_ENTRIES_MAX ||
	    m->chunks >= UINT32_MAX)
		return sc_fail(err, SC_ECORRUPT, 0,
			       "%s is damaged: counts out of range",
			       index_name(r));
	l.n = (uint32_t)m->entries;
	l.chunks = m->chunks;
	rc = load_all(&l, c, err);
	free(l.runs);
	free(l.extents);
	buf_free(&l.scratch);
	if (rc < 0) {
		tree_free(l.t);
		if (c)
			chunk_table_free(c);
		return -1;
	}
	*tree = l.t;
	return 0;
}
