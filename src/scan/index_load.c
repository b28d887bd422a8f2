/* SPDX-License-Identifier: MIT */
/* A whole index into a tree and tables, column by column. Nothing is believed:
 * memory grows as rows arrive, and every number is held against those it must
 * agree with. */
#include <stdlib.h>
#include <string.h>

#include <snapctl/base/mem.h>

#include "index_load_internal.h"

/* -- columns of entries ------------------------------------------------- */

static int load_mode(struct load *l, struct index_col *c, struct sc_err *err)
{
	uint64_t v;

	for (uint32_t i = 0; i < l->n; i++) {
		if (index_load_get(c, S_IFMT | 07777, &v, err) < 0)
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
		if (index_load_get_delta(c, UINT32_MAX, &v, err) < 0)
			return -1;
		tree_at(l->t, i)->uid = (uint32_t)v;
	}
	return 0;
}

static int load_gid(struct load *l, struct index_col *c, struct sc_err *err)
{
	uint64_t v = 0;

	for (uint32_t i = 0; i < l->n; i++) {
		if (index_load_get_delta(c, UINT32_MAX, &v, err) < 0)
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

		if (index_load_get(c, entry_is_reg(e) ? INT64_MAX : 0, &v,
				   err) < 0)
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

		if (index_load_get_delta(c, UINT64_MAX, &v, err) < 0 ||
		    index_load_get(c, 999999999, &ns, err) < 0)
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

		if (index_load_get_delta(c, UINT64_MAX, &v, err) < 0 ||
		    index_load_get(c, 999999999, &ns, err) < 0)
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
		if (index_load_get_delta(c, UINT64_MAX, &v, err) < 0)
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

		if (index_load_get(c, device ? UINT64_MAX : 0, &v, err) < 0)
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
		if (index_load_get(c, UINT32_MAX, &v, err) < 0)
			return -1;
		tree_at(l->t, i)->nlink = (uint32_t)v;
	}
	return 0;
}

static int load_flags(struct load *l, struct index_col *c, struct sc_err *err)
{
	uint64_t v;

	for (uint32_t i = 0; i < l->n; i++) {
		if (index_load_get(c, UINT32_MAX, &v, err) < 0)
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

		if (index_load_get(c, ENTRY_STORED_BITS, &v, err) < 0)
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
		if (index_load_get_blob(c, INDEX_TARGET_MAX, &l->scratch, err) <
		    0)
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
		if (index_load_get_blob(c, INDEX_XSET_MAX, &l->scratch, err) <
		    0)
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
		if (index_load_get(c, tree_xattrs_count(l->t), &v, err) < 0)
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

	if (index_load_get(c, UINT32_MAX, &n, err) < 0)
		return -1;
	for (uint32_t i = 0; i < n; i++) {
		if (index_load_get(c, size - end, &gap, err) < 0 ||
		    index_load_get(c, size - end - gap, &len, err) < 0)
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

	if (index_load_get(c, UINT32_MAX, &n, err) < 0)
		return -1;
	for (uint32_t i = 0; i < n; i++) {
		if (index_load_get_delta(c, l->chunks, end, err) < 0 ||
		    index_load_get(c, l->chunks - *end, &count, err) < 0)
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

	if (index_load_open_col(l, id, rows, &c, err) < 0)
		return -1;
	return index_load_close_col(c, fn(l, c, err), err);
}

static int load_xset_col(struct load *l, struct sc_err *err)
{
	struct index_col *c;
	int rc = index_col_open(l->r, COL_XSETS, &c, err);

	if (rc <= 0) /* without it no entry may have any */
		return rc;
	return index_load_close_col(c, load_xsets(l, c, err), err);
}

static int load_entries(struct load *l, struct sc_err *err)
{
	static const struct {
		enum index_column id;
		load_fn fn;
	} each[] = {
		{ COL_PATH, index_load_paths }, { COL_MODE, load_mode },
		{ COL_UID, load_uid },		{ COL_GID, load_gid },
		{ COL_SIZE, load_size },	{ COL_MTIME, load_mtime },
		{ COL_CTIME, load_ctime },	{ COL_INODE, load_inode },
		{ COL_RDEV, load_rdev },	{ COL_NLINK, load_nlink },
		{ COL_FLAGS, load_flags },	{ COL_BITS, load_bits },
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
	if (c && (index_load_tables(l, c, err) < 0 ||
		  sum_lengths(c, &sums, err) < 0))
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
