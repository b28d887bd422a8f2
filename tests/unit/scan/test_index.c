/* SPDX-License-Identifier: MIT */
/* The index there and back: random trees, one golden file, damage of every
 * kind. With "--golden FILE", "--escape FILE" or "--raw FILE" it writes the
 * golden files, or one with plain columns for the fuzzer to start from. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cmocka.h>
#include <zstd.h>

#include <snapctl/base/io.h>
#include <snapctl/base/mem.h>
#include <snapctl/scan/index.h>

#define GOLDEN "tests/golden/index-v1.bin"
#define ESCAPE "tests/golden/index-v1-escape.bin"

static struct tree_arena arena;

/* -- making ------------------------------------------------------------- */

struct sample {
	struct tree *t;
	struct chunk_table c;
	struct index_meta m;
};

static void sample_free(struct sample *s)
{
	tree_free(s->t);
	chunk_table_free(&s->c);
}

static struct entry *set(struct tree *t, uint32_t slot, uint32_t parent,
			 mode_t mode, const char *name, size_t len)
{
	struct entry *e = tree_at(t, slot);

	e->name = tree_name(t, &arena, name, len);
	e->name_len = (uint16_t)len;
	e->mode = (uint16_t)mode;
	e->parent = parent;
	e->nlink = 1;
	return e;
}

/* One segment with n chunks of these lengths, in pack 0 or the last one. */
static void add_segment(struct chunk_table *c, const uint32_t *lens, size_t n)
{
	struct segment *s;
	struct pack_ref *p = &c->packs[c->npacks - 1];
	uint32_t at = 512;

	mem_grow(&c->segments, &c->segments_cap, c->nsegments + 1, sizeof(*s));
	for (size_t i = 0; i < n; i++) {
		struct chunk *k;

		mem_grow(&c->chunks, &c->chunks_cap, c->nchunks + 1,
			 sizeof(*k));
		k = &c->chunks[c->nchunks];
		memset(k->hash.b, (int)(c->nchunks * 7 + 1), DIGEST_LEN);
		k->len = lens[i];
		k->segment = (uint32_t)c->nsegments;
		k->offset = at;
		at += lens[i] + 512;
		c->nchunks++;
	}
	s = &c->segments[c->nsegments++];
	*s = (struct segment){ .pack = (uint32_t)(c->npacks - 1),
			       .stored = at / 2,
			       .plain = at,
			       .offset = p->length };
	p->length += at / 2 + 3;
}

static void add_pack(struct chunk_table *c, enum pack_kind kind)
{
	struct pack_ref *p;

	mem_grow(&c->packs, &c->packs_cap, c->npacks + 1, sizeof(*p));
	p = &c->packs[c->npacks++];
	*p = (struct pack_ref){ .kind = kind };
	memset(p->digest.b, (int)(0xa0 + c->npacks), DIGEST_LEN);
}

/* A little of everything. */
static struct sample small_sample(void)
{
	static const uint32_t lens[] = { 100, 200, 300, 4096, 1 };
	static const struct extent holes[] = { { 4096, 4000 },
					       { 1 << 30, 96 } };
	struct sample s = { 0 };
	struct entry *e;
	uint32_t at;

	arena = (struct tree_arena){ 0 };
	tree_new(&s.t, NULL);
	tree_alloc(s.t, 1, &at, NULL);
	tree_alloc(s.t, 7, &at, NULL);
	tree_alloc(s.t, 2, &at, NULL);
	add_pack(&s.c, PACK_TAR);
	add_segment(&s.c, lens, 3);
	add_pack(&s.c, PACK_CHUNKS);
	add_segment(&s.c, lens + 3, 2);

	e = set(s.t, 0, 0, S_IFDIR | 0700, "", 0);
	e->first = 1, e->count = 7, e->uid = e->gid = 999, e->nlink = 3;
	e->mtime = -315619200, e->mtime_ns = 250000000;
	e->ctime = 4102444800, e->ctime_ns = 999999999;
	e->ino = 2;
	e = set(s.t, 1, 0, S_IFIFO | 0600, "\nfifo", 5);
	e->ino = UINT64_MAX;
	e = set(s.t, 2, 0, S_IFCHR | 0666, "-null", 5);
	e->size = makedev(1, 3);
	e = set(s.t, 3, 0, S_IFDIR | S_ISVTX | 0755, "dir", 3);
	e->first = 8, e->count = 2;
	e = set(s.t, 4, 0, S_IFREG | 04755, "dir.x", 5);
	e->uid = 4000000000u, e->gid = 4294967295u, e->size = 5000;
	e->flags = 0x10, e->nlink = 2;
	tree_xattrs_add(s.t, "\x06user.a\x03x\0\n\x06user.b\x00", 19,
			&e->xattrs, NULL);
	e->size = 300 + 4096 + 1 + 100 + 200;
	tree_set_runs(s.t, e, (struct run[]){ { 2, 3 }, { 0, 2 } }, 2, NULL);
	e = set(s.t, 5, 0, S_IFLNK | 0777, "link", 4);
	tree_target_add(s.t, "../x/\xff", 6, &e->first, NULL);
	e = set(s.t, 6, 0, S_IFDIR | 0755, "mount", 5);
	e->bits = ENTRY_MOUNT;
	e = set(s.t, 7, 0, S_IFREG | 0644, "unread", 6);
	e->size = 77, e->bits = ENTRY_UNREADABLE;
	e = set(s.t, 8, 3, S_IFREG | 04755, "hard", 4);
	*e = *tree_at(s.t, 4);
	e->name = tree_name(s.t, &arena, "hard", 4);
	e->name_len = 4, e->parent = 3, e->bits = ENTRY_LINK;
	e = set(s.t, 9, 3, S_IFREG | 0600, "holes", 5);
	e->size = UINT64_C(9) << 30;
	tree_set_extents(s.t, 9, holes, 2, NULL);
	tree_set_runs(s.t, e, (struct run[]){ { 3, 1 } }, 1, NULL);
	assert_int_equal(tree_seal(s.t, NULL), 0);
	s.m = (struct index_meta){
		.t0 = 1700000000,
		.t0_ns = 5,
		.grain_ns = 10000000,
		.beside_writers = true,
		.parent_ok = true,
		.fs_type = 0xef53,
		.fs_id = UINT64_MAX,
		.dev = 0x800,
		.chunk_avg = 65536,
	};
	return s;
}

static uint64_t seed;

static uint32_t rnd(uint32_t n)
{
	seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407;
	return (uint32_t)(seed >> 33) % n;
}

static void random_data(struct sample *s, struct entry *e, uint32_t slot)
{
	uint32_t lens[8], n = rnd(4), nruns = 0;
	struct extent x[2];
	struct run runs[2];
	uint64_t sum = 0;

	for (uint32_t i = 0; i < n; i++)
		sum += lens[i] = 1 + rnd(100000);
	if (n) {
		runs[nruns++] = (struct run){ (uint32_t)s->c.nchunks, n };
		add_segment(&s->c, lens, n);
	}
	if (s->c.nchunks && rnd(3) == 0) {
		uint32_t old = rnd((uint32_t)s->c.nchunks);

		runs[nruns++] = (struct run){ old, 1 };
		sum += s->c.chunks[old].len;
	}
	e->size = sum;
	tree_set_runs(s->t, e, runs, nruns, NULL);
	if (rnd(5))
		return;
	x[0] = (struct extent){ rnd(2) * 4096, sum / 2 };
	x[1] = (struct extent){ x[0].off + sum / 2 + 1 + rnd(1 << 30),
				sum - sum / 2 };
	e->size = x[1].off + x[1].len + rnd(100);
	tree_set_extents(s->t, slot, sum > 1 ? x : NULL, sum > 1 ? 2 : 0, NULL);
	if (sum == 1)
		tree_set_runs(s->t, e, NULL, 0, NULL);
}

static void random_fields(struct sample *s, uint32_t slot)
{
	struct entry *e = tree_at(s->t, slot);
	char text[64];

	e->uid = rnd(4) ? 1000 : rnd(UINT32_MAX);
	e->gid = rnd(4) ? 1000 : rnd(UINT32_MAX);
	e->mtime = (int64_t)rnd(UINT32_MAX) * (rnd(2) ? 1 : -1);
	e->mtime_ns = rnd(1000000000);
	e->ctime = (int64_t)rnd(UINT32_MAX);
	e->ctime_ns = rnd(1000000000);
	e->ino = (uint64_t)rnd(UINT32_MAX) << rnd(32);
	e->nlink = 1 + rnd(3);
	e->flags = rnd(UINT32_MAX);
	if (rnd(3) == 0) {
		unsigned char blob[32] = { 6, 'u', 's', 'e', 'r', '.', 0, 2 };

		blob[6] = (unsigned char)('a' + rnd(20));
		blob[8] = (unsigned char)rnd(256);
		tree_xattrs_add(s->t, blob, 10, &e->xattrs, NULL);
	}
	if (S_ISLNK(e->mode)) {
		snprintf(text, sizeof(text), "t%u", rnd(UINT32_MAX));
		tree_target_add(s->t, text, strlen(text), &e->first, NULL);
	}
	if (entry_is_reg(e))
		random_data(s, e, slot);
}

static struct sample random_sample(uint64_t number, uint32_t max)
{
	static const mode_t types[] = { S_IFREG, S_IFREG, S_IFREG, S_IFDIR,
					S_IFLNK, S_IFIFO, S_IFBLK };
	struct sample s = { 0 };
	uint32_t at, n;
	char name[64];

	seed = number;
	arena = (struct tree_arena){ 0 };
	tree_new(&s.t, NULL);
	add_pack(&s.c, PACK_TAR);
	tree_alloc(s.t, 1, &at, NULL);
	set(s.t, 0, 0, S_IFDIR | 0755, "", 0);
	for (uint32_t d = 0; d < tree_count(s.t); d++) {
		if (!entry_is_dir(tree_at(s.t, d)) || tree_count(s.t) > max)
			continue;
		n = rnd(12) + (d == 0);
		tree_alloc(s.t, n, &at, NULL);
		tree_at(s.t, d)->first = at;
		tree_at(s.t, d)->count = n;
		for (uint32_t i = 0; i < n; i++) {
			int len = snprintf(name, sizeof(name), "%c%u%.*s",
					   'a' + (int)i, rnd(1000), (int)rnd(9),
					   "longer/");

			for (char *p = name; *p; p++)
				if (*p == '/')
					*p = '\n';
			set(s.t, at + i, d, types[rnd(7)] | rnd(010000), name,
			    (size_t)len);
		}
	}
	for (uint32_t slot = 0; slot < tree_count(s.t); slot++)
		random_fields(&s, slot);
	assert_int_equal(tree_seal(s.t, NULL), 0);
	s.m = (struct index_meta){ .t0 = -5, .chunk_avg = 65536 };
	return s;
}

/* -- writing and reading ------------------------------------------------ */

static void slurp(int fd, struct buf *out)
{
	struct stat st;

	assert_int_equal(fstat(fd, &st), 0);
	buf_clear(out);
	assert_non_null(buf_reserve(out, (size_t)st.st_size + 1));
	out->len = (size_t)st.st_size;
	assert_int_equal(io_pread_all(fd, out->p, out->len, 0, "x", NULL), 0);
}

static void encode(const struct sample *s, struct buf *out)
{
	int fd = memfd_create("index", MFD_CLOEXEC);
	struct index_writer *w;
	struct index_sink sink;
	struct sc_err err;
	struct hash *h;
	struct digest d, d2;
	uint64_t len;

	assert_int_equal(index_writer_new(fd, INDEX_FULL, &w, &err), 0);
	sink = index_writer_sink(w);
	assert_int_equal(index_encode(s->t, &s->c, &s->m, &sink, &err), 0);
	assert_int_equal(index_encode_places(&s->c, &sink, &err), 0);
	assert_int_equal(index_writer_finish(w, &d, &len, &err), 0);
	index_writer_free(w);
	slurp(fd, out);
	close(fd);
	assert_int_equal(len, out->len);
	assert_int_equal(hash_new(&h, &err), 0);
	assert_int_equal(hash_once(h, out->p, out->len, &d2, &err), 0);
	hash_free(h);
	assert_int_equal(digest_cmp(&d, &d2), 0);
}

static int load(const struct buf *b, struct sample *s, struct sc_err *err)
{
	struct index_source src = index_source_mem(b);
	struct index_reader *r;
	int rc;

	*s = (struct sample){ 0 };
	if (index_open(&src, "test", &r, err) < 0)
		return -1;
	s->m = *index_meta(r);
	rc = index_load(r, &s->t, &s->c, err);
	index_close(r);
	if (rc < 0) {
		assert_null(s->t);
		assert_null(s->c.chunks);
	}
	return rc;
}

static void same_entry(const struct tree *a, uint32_t i, const struct tree *b,
		       uint32_t j)
{
	const struct entry *x = tree_at(a, i), *y = tree_at(b, j);
	const struct extent *ex, *ey;
	const void *bx, *by;
	uint32_t nx, ny;
	size_t lx, ly;

	assert_int_equal(x->name_len, y->name_len);
	assert_memory_equal(x->name, y->name, x->name_len + 1);
	assert_int_equal(x->mode, y->mode);
	assert_int_equal(x->uid, y->uid);
	assert_int_equal(x->gid, y->gid);
	assert_int_equal(x->size, y->size);
	assert_int_equal(x->mtime, y->mtime);
	assert_int_equal(x->mtime_ns, y->mtime_ns);
	assert_int_equal(x->ctime, y->ctime);
	assert_int_equal(x->ctime_ns, y->ctime_ns);
	assert_int_equal(x->ino, y->ino);
	assert_int_equal(x->nlink, y->nlink);
	assert_int_equal(x->flags, y->flags);
	assert_int_equal(x->bits, y->bits);
	bx = tree_xattrs(a, x->xattrs, &lx);
	by = tree_xattrs(b, y->xattrs, &ly);
	assert_int_equal(lx, ly);
	assert_memory_equal(bx, by, lx);
	ex = tree_extents(a, i, &nx);
	ey = tree_extents(b, j, &ny);
	assert_int_equal(nx, ny);
	assert_int_equal(!ex, !ey);
	if (nx)
		assert_memory_equal(ex, ey, nx * sizeof(*ex));
	if (S_ISLNK(x->mode))
		assert_string_equal(tree_target(a, x->first),
				    tree_target(b, y->first));
	if (!S_ISLNK(x->mode))
		assert_int_equal(x->count, y->count);
	if (entry_is_reg(x))
		assert_memory_equal(tree_runs(a, x), tree_runs(b, y),
				    x->count * sizeof(struct run));
}

static void same(const struct sample *a, const struct sample *b)
{
	auto_buf struct buf pa = { 0 }, pb = { 0 };

	assert_int_equal(tree_count(a->t), tree_count(b->t));
	for (uint32_t r = 0; r < tree_count(a->t); r++) {
		uint32_t i = tree_order(a->t, r), j = tree_order(b->t, r);

		same_entry(a->t, i, b->t, j);
		assert_int_equal(tree_path(a->t, i, &pa, NULL), 0);
		assert_int_equal(tree_path(b->t, j, &pb, NULL), 0);
		assert_int_equal(pa.len, pb.len);
		assert_string_equal(buf_cstr(&pa), buf_cstr(&pb));
	}
	assert_int_equal(a->c.nchunks, b->c.nchunks);
	for (size_t i = 0; i < a->c.nchunks; i++) {
		const struct chunk *x = &a->c.chunks[i], *y = &b->c.chunks[i];

		assert_int_equal(digest_cmp(&x->hash, &y->hash), 0);
		assert_int_equal(x->len, y->len);
		assert_int_equal(x->segment, y->segment);
		assert_int_equal(x->offset, y->offset);
	}
	assert_int_equal(a->c.nsegments, b->c.nsegments);
	for (size_t i = 0; i < a->c.nsegments; i++) {
		const struct segment *x = &a->c.segments[i];
		const struct segment *y = &b->c.segments[i];

		assert_int_equal(x->pack, y->pack);
		assert_int_equal(x->stored, y->stored);
		assert_int_equal(x->plain, y->plain);
		assert_int_equal(x->offset, y->offset);
	}
	assert_int_equal(a->c.npacks, b->c.npacks);
	for (size_t i = 0; i < a->c.npacks; i++) {
		const struct pack_ref *x = &a->c.packs[i], *y = &b->c.packs[i];

		assert_int_equal(digest_cmp(&x->digest, &y->digest), 0);
		assert_int_equal(x->length, y->length);
		assert_int_equal(x->kind, y->kind);
	}
}

/* -- round trips -------------------------------------------------------- */

static void test_small_round_trip(void **state)
{
	struct sample s = small_sample(), got;
	auto_buf struct buf b = { 0 };
	struct sc_err err;

	(void)state;
	encode(&s, &b);
	if (load(&b, &got, &err) < 0)
		fail_msg("%s", err.msg);
	same(&s, &got);
	assert_int_equal(got.m.entries, 10);
	assert_int_equal(got.m.chunks, 5);
	assert_int_equal(got.m.bytes, 2 * 4697 + 77 + (UINT64_C(9) << 30));
	assert_int_equal(got.m.t0, 1700000000);
	assert_int_equal(got.m.t0_ns, 5);
	assert_int_equal(got.m.grain_ns, 10000000);
	assert_true(got.m.beside_writers);
	assert_true(got.m.parent_ok);
	assert_int_equal(got.m.fs_type, 0xef53);
	assert_true(got.m.fs_id == UINT64_MAX);
	assert_int_equal(got.m.dev, 0x800);
	assert_int_equal(got.m.chunk_avg, 65536);
	assert_int_equal(got.m.links, 0);
	/* A loaded tree is in order and encodes to the same bytes. */
	auto_buf struct buf again = { 0 };
	encode(&got, &again);
	assert_int_equal(again.len, b.len);
	assert_memory_equal(again.p, b.p, b.len);
	sample_free(&s);
	sample_free(&got);
}

static void test_random_round_trips(void **state)
{
	auto_buf struct buf b = { 0 };
	struct sample s, got;
	struct sc_err err;

	(void)state;
	for (uint64_t i = 1; i <= 60; i++) {
		s = random_sample(i, i == 60 ? 60000 : 300);
		encode(&s, &b);
		if (load(&b, &got, &err) < 0)
			fail_msg("sample %d: %s", (int)i, err.msg);
		same(&s, &got);
		sample_free(&s);
		sample_free(&got);
	}
}

static void test_empty_volume(void **state)
{
	auto_buf struct buf b = { 0 };
	struct sample s = { 0 }, got;
	struct sc_err err;
	uint32_t at;

	(void)state;
	arena = (struct tree_arena){ 0 };
	tree_new(&s.t, NULL);
	tree_alloc(s.t, 1, &at, NULL);
	set(s.t, 0, 0, S_IFDIR | 0755, "", 0);
	tree_seal(s.t, NULL);
	encode(&s, &b);
	assert_int_equal(load(&b, &got, &err), 0);
	same(&s, &got);
	sample_free(&s);
	sample_free(&got);
}

static void test_entries_alone(void **state)
{
	struct sample s = small_sample();
	auto_buf struct buf b = { 0 };
	struct index_source src;
	struct index_reader *r;
	struct sc_err err;
	struct tree *t;

	(void)state;
	encode(&s, &b);
	src = index_source_mem(&b);
	assert_int_equal(index_open(&src, "x", &r, &err), 0);
	assert_int_equal(index_load(r, &t, NULL, &err), 0);
	index_close(r);
	for (uint32_t i = 0; i < tree_count(t); i++)
		same_entry(s.t, tree_order(s.t, i), t, i);
	tree_free(t);
	sample_free(&s);
}

static void test_places_alone(void **state)
{
	struct sample s = small_sample();
	struct chunk_table c = { 0 };
	auto_buf struct buf b = { 0 };
	struct index_source src;
	struct index_reader *r;
	struct sc_err err;

	(void)state;
	encode(&s, &b);
	src = index_source_mem(&b);
	assert_int_equal(index_open(&src, "x", &r, &err), 0);
	assert_int_equal(index_load_places(r, &c, &err), 0);
	index_close(r);
	assert_int_equal(c.nchunks, 0);
	assert_int_equal(c.nsegments, 2);
	assert_int_equal(c.segments[1].pack, 1);
	assert_int_equal(c.segments[1].offset, s.c.segments[1].offset);
	assert_int_equal(c.npacks, 2);
	assert_int_equal(c.packs[1].kind, PACK_CHUNKS);
	assert_int_equal(c.packs[1].length, s.c.packs[1].length);
	chunk_table_free(&c);
	sample_free(&s);
}

static void test_columns_one_by_one(void **state)
{
	struct sample s = small_sample();
	auto_buf struct buf b = { 0 };
	struct index_source src;
	struct index_reader *r;
	struct index_col *c;
	struct sc_err err;
	uint64_t v;
	int64_t d, sum = 0;

	(void)state;
	encode(&s, &b);
	src = index_source_mem(&b);
	assert_int_equal(index_open(&src, "x", &r, &err), 0);
	assert_int_equal(index_kind(r), INDEX_FULL);
	assert_int_equal(index_col_open(r, COL_MODE, &c, &err), 1);
	assert_int_equal(index_col_rows(c), 10);
	for (uint32_t i = 0; i < 10; i++) {
		assert_int_equal(index_col_done(c, &err), -1);
		assert_int_equal(index_col_varint(c, &v, &err), 0);
		assert_int_equal(v, tree_at(s.t, tree_order(s.t, i))->mode);
	}
	assert_int_equal(index_col_done(c, &err), 0);
	assert_int_equal(index_col_varint(c, &v, &err), -1);
	assert_int_equal(err.code, SC_ECORRUPT);
	index_col_close(c);
	assert_int_equal(index_col_open(r, COL_UID, &c, &err), 1);
	for (uint32_t i = 0; i < 10; i++) {
		assert_int_equal(index_col_svarint(c, &d, &err), 0);
		sum += d;
		assert_int_equal(sum, tree_at(s.t, tree_order(s.t, i))->uid);
	}
	index_col_close(c);
	assert_int_equal(index_col_open(r, COL_REMOVED, &c, &err), 0);
	index_close(r);
	sample_free(&s);
}

/* -- golden ------------------------------------------------------------- */

static void test_golden(void **state)
{
	struct sample s = small_sample(), got;
	auto_buf struct buf b = { 0 }, again = { 0 };
	struct sc_err err;

	(void)state;
	assert_int_equal(io_read_file(AT_FDCWD, GOLDEN, 1 << 20, &b, &err), 1);
	if (load(&b, &got, &err) < 0)
		fail_msg("%s", err.msg);
	same(&s, &got);
	assert_int_equal(got.m.bytes, 2 * 4697 + 77 + (UINT64_C(9) << 30));
	if (ZSTD_versionNumber() == 10504) {
		encode(&got, &again);
		assert_int_equal(again.len, b.len);
		assert_memory_equal(again.p, b.p, b.len);
	}
	sample_free(&s);
	sample_free(&got);
}

/* -- damage ------------------------------------------------------------- */

static void test_each_truncation(void **state)
{
	struct sample s = small_sample(), got;
	auto_buf struct buf b = { 0 };
	struct sc_err err;

	(void)state;
	encode(&s, &b);
	for (size_t len = b.len; b.len = len - 1, len > 0; len--) {
		assert_int_equal(load(&b, &got, &err), -1);
		assert_int_equal(err.code, SC_ECORRUPT);
	}
	sample_free(&s);
}

/* Where the hashes lie in b: the one place where a flip is still an index. */
static void hash_range(const struct buf *b, size_t *from, size_t *to)
{
	unsigned char want[DIGEST_LEN];
	const unsigned char *p;

	memset(want, 1, sizeof(want));
	p = memmem(b->p, b->len, want, sizeof(want));
	assert_non_null(p);
	*from = (size_t)(p - b->p);
	*to = *from + (size_t)5 * DIGEST_LEN;
}

static void test_each_byte_flipped(void **state)
{
	struct sample s = small_sample(), got;
	auto_buf struct buf b = { 0 };
	struct sc_err err;
	size_t from, to;
	unsigned decoded = 0;

	(void)state;
	encode(&s, &b);
	hash_range(&b, &from, &to);
	for (size_t i = 0; i < b.len; i++) {
		for (int bit = 0; bit < 8; bit++) {
			b.p[i] ^= (unsigned char)(1 << bit);
			if (load(&b, &got, &err) < 0) {
				assert_true(err.code == SC_ECORRUPT ||
					    err.code == SC_EPROTO);
				assert_true(strlen(err.msg) > 10);
			} else {
				decoded++;
				if (i < from || i >= to)
					same(&s, &got);
				sample_free(&got);
			}
			b.p[i] ^= (unsigned char)(1 << bit);
		}
	}
	/* The hashes, and unused bits of frame headers. */
	assert_in_range(decoded, 5 * DIGEST_LEN * 8, 5 * DIGEST_LEN * 8 + 100);
	sample_free(&s);
}

static void test_random_damage(void **state)
{
	struct sample s = random_sample(7, 200), got;
	auto_buf struct buf b = { 0 }, x = { 0 };
	struct sc_err err;

	(void)state;
	encode(&s, &b);
	for (int i = 0; i < 3000; i++) {
		buf_clear(&x);
		buf_put(&x, b.p, b.len);
		for (uint32_t n = 1 + rnd(4); n > 0; n--)
			x.p[rnd((uint32_t)x.len)] = (unsigned char)rnd(256);
		if (load(&x, &got, &err) == 0)
			sample_free(&got);
	}
	sample_free(&s);
}

/* -- hostile files, built column by column ------------------------------ */

struct part {
	unsigned id;
	uint64_t rows, plain;
	struct buf b;
};

struct parts {
	struct part v[32];
	size_t n;
};

static int part_piece(void *arg, unsigned id, const void *p, size_t n,
		      struct sc_err *err)
{
	struct parts *ps = arg;

	(void)err;
	ps->v[ps->n].id = id;
	buf_put(&ps->v[ps->n].b, p, n);
	return 0;
}

static int part_end(void *arg, unsigned id, unsigned codec, uint64_t rows,
		    uint64_t plain, struct sc_err *err)
{
	struct parts *ps = arg;
	struct part *p = &ps->v[ps->n++];
	struct buf out = { 0 };

	(void)err;
	p->id = id;
	p->rows = rows;
	p->plain = plain;
	if (codec == 0)
		return 0;
	buf_reserve(&out, plain + 1);
	assert_int_equal(ZSTD_decompress(out.p, plain, p->b.p, p->b.len),
			 plain);
	out.len = plain;
	buf_free(&p->b);
	p->b = out;
	return 0;
}

/* The sample's columns, plain. */
static void take_apart(const struct sample *s, struct parts *ps)
{
	struct index_sink sink = { part_piece, part_end, ps };

	*ps = (struct parts){ 0 };
	assert_int_equal(index_encode(s->t, &s->c, &s->m, &sink, NULL), 0);
	assert_int_equal(index_encode_places(&s->c, &sink, NULL), 0);
}

static void parts_free(struct parts *ps)
{
	for (size_t i = 0; i < ps->n; i++)
		buf_free(&ps->v[i].b);
}

static struct part *part(struct parts *ps, unsigned id)
{
	for (size_t i = 0; i < ps->n; i++)
		if (ps->v[i].id == id)
			return &ps->v[i];
	fail();
	return NULL;
}

static void assemble(const struct parts *ps, struct buf *out)
{
	int fd = memfd_create("index", MFD_CLOEXEC);
	struct index_writer *w;
	struct index_sink sink;
	struct digest d;
	uint64_t len;

	assert_int_equal(index_writer_new(fd, INDEX_FULL, &w, NULL), 0);
	sink = index_writer_sink(w);
	for (size_t i = 0; i < ps->n; i++) {
		const struct part *p = &ps->v[i];

		if (p->b.len)
			sink.piece(sink.arg, p->id, p->b.p, p->b.len, NULL);
		sink.end(sink.arg, p->id, 0, p->rows, p->plain, NULL);
	}
	assert_int_equal(index_writer_finish(w, &d, &len, NULL), 0);
	index_writer_free(w);
	slurp(fd, out);
	close(fd);
}

static int load_parts(const struct parts *ps, struct sc_err *err)
{
	auto_buf struct buf b = { 0 };
	struct sample got;

	assemble(ps, &b);
	if (load(&b, &got, err) < 0)
		return -1;
	sample_free(&got);
	return 0;
}

static void expect_refused(const struct parts *ps, const char *why)
{
	struct sc_err err = { 0 };

	assert_int_equal(load_parts(ps, &err), -1);
	assert_int_equal(err.code, SC_ECORRUPT);
	if (!strstr(err.msg, why))
		fail_msg("\"%s\" does not say \"%s\"", err.msg, why);
}

/* A tree of a root and n more with these whole paths (shortened against each
 * other), all of one mode. */
static void paths_are(struct parts *ps, const char *const *paths, size_t n,
		      mode_t mode)
{
	struct sample s = { 0 };
	struct part *p;
	uint32_t at;
	size_t shared, old = 0;
	const char *before = "";

	arena = (struct tree_arena){ 0 };
	tree_new(&s.t, NULL);
	tree_alloc(s.t, 1 + (uint32_t)n, &at, NULL);
	set(s.t, 0, 0, S_IFDIR, "", 0);
	tree_at(s.t, 0)->first = 1;
	tree_at(s.t, 0)->count = (uint32_t)n;
	for (uint32_t i = 1; i <= n; i++)
		set(s.t, i, 0, mode, (char[]){ (char)('a' + i), 0 }, 1);
	assert_int_equal(tree_seal(s.t, NULL), 0);
	take_apart(&s, ps);
	p = part(ps, COL_PATH);
	buf_clear(&p->b);
	buf_varint(&p->b, 0);
	buf_varint(&p->b, 0);
	for (size_t i = 0; i < n; i++) {
		size_t len = strlen(paths[i]);

		for (shared = 0; shared < old && shared < len; shared++)
			if (before[shared] != paths[i][shared])
				break;
		buf_varint(&p->b, shared);
		buf_bytes(&p->b, paths[i] + shared, len - shared);
		before = paths[i];
		old = len;
	}
	p->plain = p->b.len;
	sample_free(&s);
}

static void refuse_paths(const char *const *paths, size_t n, const char *why)
{
	struct parts ps;

	paths_are(&ps, paths, n, S_IFDIR | 0755);
	expect_refused(&ps, why);
	parts_free(&ps);
}

#define REFUSE(why, ...)                                            \
	refuse_paths((const char *const[]){ __VA_ARGS__ },          \
		     sizeof((const char *const[]){ __VA_ARGS__ }) / \
			     sizeof(char *),                        \
		     why)

static void test_hostile_paths(void **state)
{
	struct parts ps;
	struct sc_err err;
	struct part *p;

	(void)state;
	paths_are(&ps, (const char *const[]){ "a", "a/b", "a/b/c", "b", "b/x" },
		  5, S_IFDIR);
	if (load_parts(&ps, &err) < 0)
		fail_msg("%s", err.msg);
	parts_free(&ps);
	REFUSE("leads nowhere", "../x");
	REFUSE("leads nowhere", "..", "../x");
	REFUSE("leads nowhere", ".");
	REFUSE("leads nowhere", "a", "a/..");
	REFUSE("leads nowhere", "a", "a/.", "a/./b");
	REFUSE("leads nowhere", "/x");
	REFUSE("leads nowhere", "/etc/passwd");
	REFUSE("leads nowhere", "a", "a/");
	REFUSE("leads nowhere", "a", "a//b");
	REFUSE("leads nowhere", "a", "b/c");
	REFUSE("leads nowhere", "a", "ab/c");
	REFUSE("leads nowhere", "a", "a/b", "a/c/d");
	REFUSE("leads nowhere", "");
	REFUSE("out of order", "a", "a");
	REFUSE("out of order", "b", "a");
	REFUSE("out of order", "a", "a/y", "a/x");
	REFUSE("out of order", "a", "a/b", "a.b", "a");
	REFUSE("leads nowhere", "a", "a.b", "a/b");

	/* beneath a file */
	paths_are(&ps, (const char *const[]){ "a", "a/b" }, 2, S_IFREG);
	expect_refused(&ps, "beneath a file");
	parts_free(&ps);

	/* another directory than the one above, by sharing too little */
	paths_are(&ps, (const char *const[]){ "a", "a/b" }, 2, S_IFDIR);
	p = part(&ps, COL_PATH);
	buf_clear(&p->b);
	buf_put(&p->b,
		"\0\0"
		"\0\1a"
		"\0\3x/b",
		10);
	p->plain = p->b.len;
	expect_refused(&ps, "leads nowhere");
	buf_clear(&p->b);
	buf_put(&p->b,
		"\0\0"
		"\0\1a"
		"\0\3a/b",
		10);
	expect_refused(&ps, "not shortened");
	buf_clear(&p->b);
	buf_put(&p->b,
		"\0\0"
		"\0\1a"
		"\5\3a/b",
		10);
	expect_refused(&ps, "out of range");
	buf_clear(&p->b); /* a NUL in a name */
	buf_put(&p->b,
		"\0\0"
		"\0\1a"
		"\1\3/\0b",
		10);
	expect_refused(&ps, "leads nowhere");
	parts_free(&ps);
}

/* Replaces a column's plain bytes. */
static void refuse_column(unsigned id, const void *bytes, size_t n,
			  const char *why)
{
	struct sample s = small_sample();
	struct parts ps;
	struct part *p;

	take_apart(&s, &ps);
	p = part(&ps, id);
	buf_clear(&p->b);
	buf_put(&p->b, bytes, n);
	p->plain = n;
	expect_refused(&ps, why);
	parts_free(&ps);
	sample_free(&s);
}

#define COLUMN(id, bytes, why) refuse_column(id, bytes, sizeof(bytes) - 1, why)

static void test_hostile_columns(void **state)
{
	(void)state;
	/* the entry before is the root, with mode 040700 */
	COLUMN(COL_MODE, "\xc0\x83\x01\x80\x80\x03", "unknown type");
	COLUMN(COL_MODE, "\xa4\x03", "unknown type");
	COLUMN(COL_MODE, "\x80\x23", "wrong type"); /* a fifo's root */
	COLUMN(COL_UID, "\x01", "out of range");    /* -1 */
	COLUMN(COL_SIZE, "\x05", "out of range");   /* of a directory */
	COLUMN(COL_SIZE, "", "rows missing");
	COLUMN(COL_MTIME, "\x02\x80\x94\xeb\xdc\x03", "out of range");
	COLUMN(COL_RDEV, "\x01", "out of range");
	COLUMN(COL_NLINK, "\xff\xff\xff\xff\x7f", "out of range");
	COLUMN(COL_BITS, "\x20", "out of range");
	COLUMN(COL_BITS, "\x01", "cannot be"); /* a sparse directory */
	COLUMN(COL_BITS, "\x10", "cannot be"); /* a linked directory */
	COLUMN(COL_BITS, "\x80\x00", "not a number");
	COLUMN(COL_TARGET, "\x00", "target");
	COLUMN(COL_TARGET,
	       "\x02"
	       "a\x00",
	       "target");
	COLUMN(COL_TARGET,
	       "\xff\x7f"
	       "a",
	       "out of range");
	COLUMN(COL_TARGET,
	       "\xff\x0f"
	       "a",
	       "length out of range");
	COLUMN(COL_TARGET,
	       "\x01"
	       "ab",
	       "more than its rows");
	COLUMN(COL_XATTR, "\x02", "out of range");
	COLUMN(COL_XSETS, "\x00", "not a set");
	COLUMN(COL_XSETS,
	       "\x04\x01"
	       "a\x05x",
	       "not a set");
	COLUMN(COL_XSETS,
	       "\x08\x01"
	       "b\x01x\x01"
	       "a\x01x",
	       "not a set");
	COLUMN(COL_XSETS, "\xff\xff\xff\x07", "length out of range");
	COLUMN(COL_CLEN, "\x00", "empty chunk");
	COLUMN(COL_CLEN, "\x81\x80\x80\x02", "out of range");
	COLUMN(COL_CPLACE, "\x04\x00", "out of range"); /* segment 2 of 2 */
	COLUMN(COL_CPLACE, "\x00\xff\xff\x7f", "not within its segment");
	COLUMN(COL_SEGMENT, "\x00\x00\x01\x00", "not within its pack");
	COLUMN(COL_SEGMENT, "\x00\xff\x7f\x01\x01", "not within its pack");
	COLUMN(COL_SEGMENT, "\x00\x00\x81\x80\x80\x20\x01", "out of range");
	COLUMN(COL_SEGMENT, "\x04\x00\x01\x01", "out of range");
	COLUMN(COL_PACK, "01234567890123456789012345678901\0\0\0\0\0\0\0\0\3",
	       "not a pack");
	COLUMN(COL_PACK, "01234567890123456789012345678901\0\0\0\0\0\0\0\xff\1",
	       "not a pack");
	/* the first regular file is "hard" with 4697 bytes in dir */
	COLUMN(COL_DATA, "\x00", "another length");
	COLUMN(COL_DATA, "\x01\x00\x04", "another length");
	COLUMN(COL_DATA, "\x01\x00\x06", "out of range");
	COLUMN(COL_DATA, "\x01\x0c\x01", "out of range");
	COLUMN(COL_DATA, "\x01\x00\x00", "empty run");
	COLUMN(COL_DATA, "\x02\x00\x05\x01\x01", "more data");
	COLUMN(COL_DATA, "\xff\xff\xff\xff\x7f", "out of range");
	COLUMN(COL_EXTENT, "\x02\x00\x01\x00\x01", "touch");
	COLUMN(COL_EXTENT, "\x01\x00\x00", "touch");
	COLUMN(COL_EXTENT, "\x01\x81\x80\x80\x80\x24\x01", "out of range");
	COLUMN(COL_EXTENT, "\x01\x00\x81\x80\x80\x80\x24", "out of range");
}

static void test_wrong_counts(void **state)
{
	struct sample s = small_sample();
	struct parts ps;

	(void)state;
	take_apart(&s, &ps);
	for (size_t i = 0; i < ps.n; i++) {
		ps.v[i].rows++;
		expect_refused(&ps, "damaged");
		ps.v[i].rows -= 2;
		expect_refused(&ps, "damaged");
		ps.v[i].rows++;
	}
	for (size_t i = 0; i < ps.n; i++) {
		unsigned id = ps.v[i].id;

		ps.v[i].id = 200; /* unknown: skipped, so missing */
		expect_refused(&ps, "damaged");
		ps.v[i].id = id;
	}
	assert_int_equal(load_parts(&ps, NULL), 0);
	parts_free(&ps);
	sample_free(&s);
}

/* A tiny file that claims much is refused without the memory. */
static void test_huge_claims(void **state)
{
	struct sample s = small_sample();
	struct parts ps;
	struct part *p;

	(void)state;
	s.m.entries = 0;
	take_apart(&s, &ps);
	p = part(&ps, COL_META);
	buf_clear(&p->b);
	s.m.entries = INDEX_ENTRIES_MAX;
	s.m.chunks = 4000000000u;
	buf_varint(&p->b, s.m.entries);
	buf_varint(&p->b, s.m.chunks);
	for (int i = 0; i < 11; i++)
		buf_varint(&p->b, 0);
	buf_zero(&p->b, DIGEST_LEN);
	p->plain = p->b.len;
	for (size_t i = 0; i < ps.n; i++) {
		if (ps.v[i].id == COL_META)
			continue;
		if (ps.v[i].rows == 10)
			ps.v[i].rows = s.m.entries;
		if (ps.v[i].rows == 5)
			ps.v[i].rows = s.m.chunks;
	}
	expect_refused(&ps, "rows missing");
	part(&ps, COL_PATH)->plain = UINT64_C(1) << 60;
	expect_refused(&ps, "damaged");
	parts_free(&ps);
	sample_free(&s);
}

static void test_newer_and_delta(void **state)
{
	struct sample s = small_sample(), got;
	auto_buf struct buf b = { 0 };
	struct sc_err err;

	(void)state;
	encode(&s, &b);
	b.p[8] = 2;
	assert_int_equal(load(&b, &got, &err), -1);
	assert_int_equal(err.code, SC_EPROTO);
	assert_non_null(strstr(err.msg, "version 2"));
	b.p[8] = 1;
	b.p[12] = INDEX_DELTA;
	assert_int_equal(load(&b, &got, &err), -1);
	assert_int_equal(err.code, SC_EPROTO);
	assert_non_null(strstr(err.msg, "delta"));
	sample_free(&s);
}

static void test_writer_refuses_mixed_columns(void **state)
{
	int fd = memfd_create("index", MFD_CLOEXEC);
	struct index_writer *w;
	struct index_sink sink;
	struct sc_err err;
	struct digest d;
	uint64_t len;

	(void)state;
	assert_int_equal(index_writer_new(fd, INDEX_FULL, &w, &err), 0);
	sink = index_writer_sink(w);
	assert_int_equal(sink.piece(sink.arg, COL_UID, "x", 1, &err), 0);
	assert_int_equal(sink.piece(sink.arg, COL_GID, "x", 1, &err), -1);
	assert_int_equal(err.code, SC_EPROTO);
	assert_int_equal(index_writer_finish(w, &d, &len, &err), -1);
	assert_int_equal(sink.end(sink.arg, COL_UID, 0, 1, 1, &err), 0);
	assert_int_equal(sink.piece(sink.arg, COL_UID, "x", 1, &err), -1);
	index_writer_free(w);
	close(fd);
}

/* A file that must be refused for good: an entry named "../x". */
static void test_golden_escape(void **state)
{
	struct sample got;
	auto_buf struct buf b = { 0 };
	struct sc_err err;

	(void)state;
	assert_int_equal(io_read_file(AT_FDCWD, ESCAPE, 1 << 20, &b, &err), 1);
	assert_int_equal(load(&b, &got, &err), -1);
	assert_int_equal(err.code, SC_ECORRUPT);
	assert_non_null(strstr(err.msg, "leads nowhere"));
}

/* What the golden files and the fuzzer's first inputs are made from. */
static int write_file(const char *kind, const char *path)
{
	struct sample s = small_sample();
	struct parts ps = { 0 };
	auto_buf struct buf b = { 0 };
	struct sc_err err;

	if (strcmp(kind, "--golden") == 0)
		encode(&s, &b);
	else if (strcmp(kind, "--raw") == 0)
		take_apart(&s, &ps);
	else
		paths_are(&ps, (const char *const[]){ "../x" }, 1, S_IFREG);
	if (ps.n)
		assemble(&ps, &b);
	parts_free(&ps);
	sample_free(&s);
	return io_write_file(AT_FDCWD, path, b.p, b.len, &err) < 0;
}

int main(int argc, char **argv)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_small_round_trip),
		cmocka_unit_test(test_random_round_trips),
		cmocka_unit_test(test_empty_volume),
		cmocka_unit_test(test_entries_alone),
		cmocka_unit_test(test_places_alone),
		cmocka_unit_test(test_columns_one_by_one),
		cmocka_unit_test(test_golden),
		cmocka_unit_test(test_golden_escape),
		cmocka_unit_test(test_each_truncation),
		cmocka_unit_test(test_each_byte_flipped),
		cmocka_unit_test(test_random_damage),
		cmocka_unit_test(test_hostile_paths),
		cmocka_unit_test(test_hostile_columns),
		cmocka_unit_test(test_wrong_counts),
		cmocka_unit_test(test_huge_claims),
		cmocka_unit_test(test_newer_and_delta),
		cmocka_unit_test(test_writer_refuses_mixed_columns),
	};

	if (argc == 3)
		return write_file(argv[1], argv[2]);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
