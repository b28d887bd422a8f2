/* SPDX-License-Identifier: MIT */
/* For the tests of take: a tree is made, walked and taken into memory. The
 * segments put one after the other must be a .tar.zst that GNU tar unpacks to
 * an equal tree, and what the tree and the chunk table say must lead to each
 * byte of each file. As root. */
#ifndef SNAPCTL_TESTS_TAKE_WORLD_H
#define SNAPCTL_TESTS_TAKE_WORLD_H

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include <snapctl/archive/chunker.h>
#include <snapctl/archive/take.h>
#include <snapctl/base/hash.h>
#include <snapctl/base/io.h>
#include <snapctl/base/mem.h>
#include <snapctl/base/zst.h>
#include <snapctl/scan/walk.h>

static char base[64]; /* of one test: base/src, base/out */
static int src;	      /* base/src */

/* -- what comes out ------------------------------------------------------- */

struct seg {
	size_t at, n; /* in taken.stored */
	uint32_t plain;
};

struct taken {
	struct tree *tree;
	struct chunk_table chunks;
	struct take_result res;
	struct notes notes;
	struct sc_err err;
	struct buf stored;
	struct seg *segs;
	size_t nsegs, segs_cap;
	int reads;	      /* calls of read_done */
	uint32_t fail_at;     /* the sink fails at this segment, if not 0 */
	void (*meddle)(void); /* called before segment meddle_at is kept */
	size_t meddle_at;
	_Atomic int inside; /* calls of segment at this moment */
};

static inline int segment(void *arg, const void *stored, size_t n,
			  uint32_t plain, struct sc_err *err)
{
	struct taken *t = arg;

	assert_int_equal(atomic_fetch_add(&t->inside, 1), 0);
	if (t->meddle && t->nsegs == t->meddle_at)
		t->meddle();
	if (t->fail_at && t->nsegs + 1 >= t->fail_at) {
		atomic_fetch_sub(&t->inside, 1);
		return sc_fail(err, SC_EIO, ENOSPC, "the sink");
	}
	assert_int_equal(mem_grow(&t->segs, &t->segs_cap, t->nsegs + 1,
				  sizeof(*t->segs)),
			 0);
	t->segs[t->nsegs++] = (struct seg){ t->stored.len, n, plain };
	buf_put(&t->stored, stored, n);
	atomic_fetch_sub(&t->inside, 1);
	return 0;
}

static inline void read_done(void *arg)
{
	((struct taken *)arg)->reads++;
}

static inline int take(struct taken *t, struct take_options o)
{
	struct take_sink sink = { segment, read_done, t };
	int root = src;

	if (o.threads == 0)
		o.threads = 2;
	if (o.level == 0)
		o.level = 1;
	if (o.chunk_avg == 0)
		o.chunk_avg = CHUNK_AVG_DEFAULT;
	return take_full(root, t->tree, &o, &sink, &t->notes, &t->chunks,
			 &t->res, &t->err);
}

static inline void walk(struct taken *t)
{
	struct walk_options o = { .threads = 2 };
	struct walk_result r = { 0 };

	memset(t, 0, sizeof(*t));
	notes_init(&t->notes);
	assert_int_equal(walk_tree(src, &o, NULL, &r, &t->err), 0);
	t->tree = r.tree;
}

static inline void taken_free(struct taken *t)
{
	tree_free(t->tree);
	chunk_table_free(&t->chunks);
	free(t->segs);
	buf_free(&t->stored);
	notes_free(&t->notes);
}

static inline void walk_and_take(struct taken *t, struct take_options o)
{
	int rc;

	walk(t);
	rc = take(t, o);
	if (rc < 0)
		fail_msg("%s", t->err.msg);
	assert_int_equal(t->reads, 1);
	assert_int_equal(t->res.segments, t->nsegs);
}

/* -- the tree ------------------------------------------------------------- */

static inline void shell(const char *fmt, ...)
	__attribute__((format(printf, 1, 2)));
static inline void shell(const char *fmt, ...)
{
	char cmd[2048];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(cmd, sizeof(cmd), fmt, ap);
	va_end(ap);
	if (system(cmd) != 0)
		fail_msg("failed: %s", cmd);
}

static inline int setup(void **state)
{
	(void)state;
	strcpy(base, "/tmp/test-take-XXXXXX");
	assert_non_null(mkdtemp(base));
	shell("mkdir %s/src %s/out", base, base);
	src = openat(AT_FDCWD, base, O_PATH | O_CLOEXEC);
	src = openat(src, "src", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(src >= 0);
	return 0;
}

static inline int teardown(void **state)
{
	(void)state;
	close(src);
	shell("rm -rf %s", base);
	return 0;
}

/* n bytes that do not compress and differ with seed; zero bytes: seed 0. */
static inline void write_file(const char *name, size_t n, uint64_t seed)
{
	int fd = openat(src, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC,
			0644);
	unsigned char *p = calloc(1, n + 1);
	uint64_t x = seed;

	assert_true(fd >= 0);
	assert_non_null(p);
	for (size_t i = 0; seed && i < n; i++) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		p[i] = (unsigned char)(x >> 24);
	}
	assert_int_equal(io_write_all(fd, p, n, name, NULL), 0);
	free(p);
	close(fd);
}

static inline void set_time(const char *name, time_t sec, long ns)
{
	struct timespec t[2] = { { 0, UTIME_OMIT }, { sec, ns } };

	assert_int_equal(utimensat(src, name, t, AT_SYMLINK_NOFOLLOW), 0);
}

/* -- checks --------------------------------------------------------------- */

static inline void write_archive(const struct taken *t, char path[128])
{
	int fd;

	snprintf(path, 128, "%s/a.tar.zst", base);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(
		io_write_all(fd, t->stored.p, t->stored.len, path, NULL), 0);
	close(fd);
}

/* Unpacks the segments with zstd and GNU tar into base/out, prints both trees
 * and compares. %n tells hard links, %b holes (roughly). */
static inline void assert_tar_equal(const struct taken *t)
{
	static const char list[] =
		"find . -printf '%%y %%m %%U:%%G %%T@ %%l %%n %%P' "
		"\\( -type d -printf '\\0' -o -printf ' %%s\\0' \\) "
		"| sort -z > ../%s.list; "
		"find . -type f -size -100M -print0 | sort -z | "
		"xargs -0 sha256sum -z > ../%s.sums; "
		"find . ! -type l -print0 | sort -z | "
		"xargs -0 getfattr -h -d -m - -e hex > ../%s.attr";
	char path[128], cmd[1024];

	write_archive(t, path);
	shell("rm -rf %s/out && mkdir %s/out && zstd -qdc %s | "
	      "tar -C %s/out --numeric-owner --xattrs --xattrs-include='*' "
	      "-xpf - 2> %s/said",
	      base, base, path, base, base);
	shell("! grep -v 'implausibly old\\|in the future' %s/said", base);
	for (int i = 0; i < 2; i++) {
		const char *which = i ? "out" : "src";

		snprintf(cmd, sizeof(cmd), list, which, which, which);
		shell("cd %s/%s && %s", base, which, cmd);
	}
	shell("cd %s && cmp src.list out.list && cmp src.sums out.sums && "
	      "cmp src.attr out.attr",
	      base);
	shell("cd %s && test $(du -sk out | cut -f1) -le "
	      "$(($(du -sk src | cut -f1) + 100))",
	      base);
}

static inline void assert_tar_names(const struct taken *t, const char *names)
{
	char path[128];

	write_archive(t, path);
	shell("test \"$(zstd -qdc %s | tar -t | xargs)\" = '%s'", path, names);
}

struct plain {
	unsigned char **seg;
	struct zst_dec *dec;
};

/* Each frame decodes by itself to the plain length that was told. */
static inline void decode_all(const struct taken *t, struct plain *p)
{
	assert_int_equal(zst_dec_new(&p->dec, NULL), 0);
	p->seg = calloc(t->nsegs, sizeof(*p->seg));
	assert_non_null(p->seg);
	for (size_t i = 0; i < t->nsegs; i++) {
		const struct seg *s = &t->segs[i];

		p->seg[i] = malloc(s->plain);
		assert_non_null(p->seg[i]);
		assert_in_range(s->plain, 1, SEGMENT_PLAIN_MAX);
		assert_int_equal(zst_decode(p->dec, t->stored.p + s->at, s->n,
					    p->seg[i], s->plain, "segment",
					    NULL),
				 0);
	}
}

static inline void plain_free(const struct taken *t, struct plain *p)
{
	for (size_t i = 0; i < t->nsegs; i++)
		free(p->seg[i]);
	free(p->seg);
	zst_dec_free(p->dec);
}

static inline const unsigned char *chunk_at(const struct taken *t,
					    const struct plain *p, uint32_t i)
{
	const struct chunk *c = &t->chunks.chunks[i];

	assert_true(i < t->chunks.nchunks);
	assert_true(c->segment < t->nsegs);
	assert_true(c->len > 0 && c->offset <= t->segs[c->segment].plain &&
		    c->len <= t->segs[c->segment].plain - c->offset);
	return p->seg[c->segment] + c->offset;
}

static inline void assert_chunks(const struct taken *t, const struct plain *p)
{
	struct hash *h = NULL;
	struct digest d;

	assert_int_equal(hash_new(&h, NULL), 0);
	for (uint32_t i = 0; i < t->chunks.nchunks; i++) {
		const unsigned char *b = chunk_at(t, p, i);

		assert_int_equal(
			hash_once(h, b, t->chunks.chunks[i].len, &d, NULL), 0);
		assert_memory_equal(d.b, t->chunks.chunks[i].hash.b, 32);
	}
	hash_free(h);
}

/* The data that the entry's runs give, chunk by chunk, against the file. */
static inline void assert_file(const struct taken *t, const struct plain *p,
			       uint32_t slot)
{
	const struct entry *e = tree_at(t->tree, slot);
	const struct run *r = tree_runs(t->tree, e);
	uint32_t nx, x = 0;
	const struct extent *xs = tree_extents(t->tree, slot, &nx);
	struct extent whole = { 0, e->size };
	uint64_t done = 0, total = 0; /* done: in extent x */
	unsigned char *got = malloc(4u << 20);
	struct buf path = { 0 };
	int fd;

	assert_int_equal(tree_path(t->tree, slot, &path, NULL), 0);
	fd = openat(src, buf_cstr(&path), O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	if (!(e->bits & ENTRY_SPARSE)) {
		xs = &whole;
		nx = 1;
	}
	for (uint32_t k = 0; k < e->count; k++) {
		for (uint32_t i = 0; i < r[k].count; i++) {
			uint32_t c = r[k].first + i;
			const unsigned char *b = chunk_at(t, p, c);
			uint32_t left = t->chunks.chunks[c].len;

			total += left;
			while (left) {
				size_t n = left;

				assert_true(x < nx);
				if (n > xs[x].len - done)
					n = (size_t)(xs[x].len - done);
				assert_int_equal(
					pread(fd, got, n,
					      (off_t)(xs[x].off + done)),
					n);
				assert_memory_equal(got, b, n);
				b += n;
				left -= (uint32_t)n;
				done += n;
				if (done == xs[x].len) {
					x++;
					done = 0;
				}
			}
		}
	}
	assert_true(x == nx || (total == 0 && e->size == 0));
	if (e->size && e->size <= (256u << 10) && total)
		assert_int_equal(r[0].count, 1);
	close(fd);
	free(got);
	buf_free(&path);
}

static inline void assert_files(const struct taken *t)
{
	struct plain p = { 0 };

	decode_all(t, &p);
	assert_chunks(t, &p);
	for (uint32_t s = 0; s < tree_count(t->tree); s++)
		if (entry_is_reg(tree_at(t->tree, s)))
			assert_file(t, &p, s);
	plain_free(t, &p);
}

static inline uint32_t find(const struct taken *t, const char *path)
{
	struct buf b = { 0 };
	uint32_t s;

	for (s = 0; s < tree_count(t->tree); s++) {
		assert_int_equal(tree_path(t->tree, s, &b, NULL), 0);
		if (strcmp(buf_cstr(&b), path) == 0)
			break;
	}
	buf_free(&b);
	assert_true(s < tree_count(t->tree));
	return s;
}

static inline const struct entry *at(const struct taken *t, const char *path)
{
	return tree_at(t->tree, find(t, path));
}

/* The index made of what was taken is read back: the reader checks runs,
 * sizes, extents and places against each other. */
static inline void assert_index(struct taken *t)
{
	struct index_meta meta = { .entries = tree_count(t->tree) };
	struct chunk_table *c = &t->chunks, back = { 0 };
	struct index_writer *w = NULL;
	struct index_reader *r = NULL;
	struct index_sink sink;
	struct index_source from;
	struct tree *tree = NULL;
	struct pack_ref pack = { .length = t->stored.len, .kind = PACK_TAR };
	struct digest d;
	uint64_t size = 0;
	char path[128];
	int fd;

	c->segments = calloc(t->nsegs, sizeof(*c->segments));
	assert_non_null(c->segments);
	for (size_t i = 0; i < t->nsegs; i++)
		c->segments[i] =
			(struct segment){ 0, (uint32_t)t->segs[i].n,
					  t->segs[i].plain, t->segs[i].at };
	c->nsegments = t->nsegs;
	c->packs = &pack;
	c->npacks = 1;
	meta.chunks = c->nchunks;
	meta.bytes = t->res.bytes;
	snprintf(path, sizeof(path), "%s/index", base);
	fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(index_writer_new(fd, INDEX_FULL, &w, &t->err), 0);
	sink = index_writer_sink(w);
	if (index_encode(t->tree, c, &meta, &sink, &t->err) < 0 ||
	    index_encode_places(c, &sink, &t->err) < 0 ||
	    index_writer_finish(w, &d, &size, &t->err) < 0)
		fail_msg("%s", t->err.msg);
	from = index_source_fd(&fd, size);
	if (index_open(&from, "index", &r, &t->err) < 0 ||
	    index_load(r, &tree, &back, &t->err) < 0)
		fail_msg("%s", t->err.msg);
	assert_int_equal(tree_count(tree), tree_count(t->tree));
	assert_int_equal(back.nchunks, c->nchunks);
	assert_memory_equal(back.chunks, c->chunks,
			    c->nchunks * sizeof(*c->chunks));
	c->packs = NULL;
	c->npacks = 0;
	index_close(r);
	index_writer_free(w);
	tree_free(tree);
	chunk_table_free(&back);
	close(fd);
}

#endif
