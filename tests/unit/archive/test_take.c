/* SPDX-License-Identifier: MIT */
/* A hostile tree is taken; the segments put one after the other must be a
 * .tar.zst that GNU tar unpacks to an equal tree, and what the tree and the
 * chunk table say must lead to each byte of each file. As root. */
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
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>
#include <cmocka.h>

#include <snapctl/archive/chunker.h>
#include <snapctl/archive/take.h>
#include <snapctl/base/hash.h>
#include <snapctl/base/io.h>
#include <snapctl/base/mem.h>
#include <snapctl/base/zst.h>
#include <snapctl/scan/walk.h>

#define K256 (256u << 10)
#define M4   (4u << 20)

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
	int reads;	    /* calls of read_done */
	uint32_t fail_at;   /* the sink fails at this segment, if not 0 */
	void (*meddle)(void); /* called before segment meddle_at is kept */
	size_t meddle_at;
	_Atomic int inside; /* calls of segment at this moment */
};

static int segment(void *arg, const void *stored, size_t n, uint32_t plain,
		   struct sc_err *err)
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
				  sizeof(*t->segs)), 0);
	t->segs[t->nsegs++] = (struct seg){ t->stored.len, n, plain };
	buf_put(&t->stored, stored, n);
	atomic_fetch_sub(&t->inside, 1);
	return 0;
}

static void read_done(void *arg)
{
	((struct taken *)arg)->reads++;
}

static int take(struct taken *t, struct take_options o)
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

static void walk(struct taken *t)
{
	struct walk_options o = { .threads = 2 };
	struct walk_result r = { 0 };

	memset(t, 0, sizeof(*t));
	notes_init(&t->notes);
	assert_int_equal(walk_tree(src, &o, NULL, &r, &t->err), 0);
	t->tree = r.tree;
}

static void taken_free(struct taken *t)
{
	tree_free(t->tree);
	free(t->chunks.chunks);
	free(t->segs);
	buf_free(&t->stored);
	notes_free(&t->notes);
}

static void walk_and_take(struct taken *t, struct take_options o)
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

static void shell(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static void shell(const char *fmt, ...)
{
	char cmd[2048];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(cmd, sizeof(cmd), fmt, ap);
	va_end(ap);
	if (system(cmd) != 0)
		fail_msg("failed: %s", cmd);
}

static int setup(void **state)
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

static int teardown(void **state)
{
	(void)state;
	close(src);
	shell("rm -rf %s", base);
	return 0;
}

/* n bytes that do not compress and differ with seed; zero bytes: seed 0. */
static void write_file(const char *name, size_t n, uint64_t seed)
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

static void write_sparse(const char *name, off_t size, const off_t *at,
			 size_t n)
{
	int fd = openat(src, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	char page[4096];

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, size), 0);
	for (size_t i = 0; i < n; i++) {
		memset(page, 'a' + (int)(i % 20), sizeof(page));
		assert_int_equal(pwrite(fd, page, sizeof(page), at[i]),
				 sizeof(page));
	}
	close(fd);
}

static void set_time(const char *name, time_t sec, long ns)
{
	struct timespec t[2] = { { 0, UTIME_OMIT }, { sec, ns } };

	assert_int_equal(utimensat(src, name, t, AT_SYMLINK_NOFOLLOW), 0);
}

static void set_xattr(const char *name, const char *attr, const void *v,
		      size_t n)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/src/%s", base, name);
	assert_int_equal(lsetxattr(path, attr, v, n, 0), 0);
}

static void make_names(void)
{
	static const char *const names[] = { "new\nline", "bad\xff\xfe", "-x",
					     "b\\s", "[x]", "..odd", " " };
	char longest[256];

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		write_file(names[i], i * 100, i + 1);
	memset(longest, 'L', 255);
	longest[255] = 0;
	write_file(longest, 10, 9);
}

static void make_sizes(void)
{
	static const size_t sizes[] = { 0, 1, 511, 512, 513, 16384, K256 - 1,
					K256, K256 + 1, M4 - 1, M4, M4 + 1,
					6 << 20, 13 << 20 };
	char name[32];

	assert_int_equal(mkdirat(src, "sizes", 0700), 0);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		snprintf(name, sizeof(name), "sizes/%zu", sizes[i]);
		write_file(name, sizes[i], 1000 + i);
	}
	write_file("sizes/zeros", 9 << 20, 0);
}

/* Deep enough that not all directories stay open. */
static void make_deep(void)
{
	char path[1024] = "deep";

	for (int i = 0; i < 80; i++) {
		assert_int_equal(mkdirat(src, path, 0755), 0);
		strcat(path, "/d");
		if (i % 9 == 0) {
			char file[1100];

			snprintf(file, sizeof(file), "%.*s/f",
				 (int)strlen(path) - 2, path);
			write_file(file, 50, (uint64_t)i + 1);
			snprintf(file, sizeof(file), "%.*s/z",
				 (int)strlen(path) - 2, path);
			write_file(file, 60, (uint64_t)i + 2);
		}
	}
}

static void make_links(void)
{
	write_file("one", 3000, 5);
	write_file("big-one", 9 << 20, 6);
	assert_int_equal(mkdirat(src, "links", 0755), 0);
	assert_int_equal(linkat(src, "one", src, "links/two", 0), 0);
	assert_int_equal(linkat(src, "one", src, "a-first", 0), 0);
	assert_int_equal(linkat(src, "big-one", src, "links/big", 0), 0);
	assert_int_equal(symlinkat("nowhere\xff", src, "dangling"), 0);
	assert_int_equal(symlinkat("/etc", src, "links/etc"), 0);
	assert_int_equal(linkat(src, "dangling", src, "links/dangling", 0), 0);
}

static void make_sparse(void)
{
	static const off_t mid[] = { 1 << 20, 3 << 20, (5 << 20) };
	static const off_t far[] = { (off_t)9 << 30 };
	static off_t many[2500];

	for (size_t i = 0; i < 2500; i++)
		many[i] = (off_t)i * 8192;
	write_sparse("hole", 100 << 20, NULL, 0);
	write_sparse("mid", 10 << 20, mid, 3);
	write_sparse("far", ((off_t)9 << 30) + 4096, far, 1);
	write_sparse("many", 2500 * 8192 + 5, many, 2500);
	write_sparse("small-hole", 65536, NULL, 0);
	assert_int_equal(linkat(src, "mid", src, "links/mid", 0), 0);
}

static void make_special(void)
{
	assert_int_equal(mkfifoat(src, "fifo", 0600), 0);
	assert_int_equal(mknodat(src, "chr", S_IFCHR | 0640, makedev(1, 3)),
			 0);
	assert_int_equal(mknodat(src, "blk", S_IFBLK | 0640, makedev(7, 300)),
			 0);
	assert_int_equal(mkdirat(src, "empty", 01777), 0);
}

static void make_metadata(void)
{
	static const unsigned char cap[] = { 1, 0, 0, 2, 0, 4, 0, 0, 0, 0,
					     0, 0, 0, 0, 0, 0, 0, 0, 0, 0 };
	static const unsigned char acl[] = {
		2, 0, 0, 0, 1, 0, 6, 0, 255, 255, 255, 255, 2, 0, 4, 0,
		232, 3, 0, 0, 4, 0, 4, 0, 255, 255, 255, 255, 16, 0, 4, 0,
		255, 255, 255, 255, 32, 0, 0, 0, 255, 255, 255, 255
	};

	write_file("meta", 10, 3);
	assert_int_equal(fchownat(src, "meta", 4000000000u, 4000000001u, 0),
			 0);
	assert_int_equal(fchmodat(src, "meta", 06711, 0), 0);
	set_xattr("meta", "user.x", "\0a\n", 3);
	set_xattr("meta", "user.a=%", "", 0);
	set_xattr("meta", "security.capability", cap, sizeof(cap));
	set_xattr("empty", "system.posix_acl_default", acl, sizeof(acl));
	set_xattr("empty", "user.x", "\0a\n", 3);
	write_file("same", 10, 4);
	set_xattr("same", "user.x", "\0a\n", 3);
	set_time("meta", -315619200, 250000000);
	write_file("future", 1, 5);
	set_time("future", 4102444800, 999999999);
	set_time("dangling", 5, 6);
	assert_int_equal(fchownat(src, "", 999, 998, AT_EMPTY_PATH), 0);
	assert_int_equal(fchmod(src, 0701), 0);
	set_time(".", 1234567890, 987654321);
}

static void make_all(void)
{
	make_names();
	make_sizes();
	make_deep();
	make_links();
	make_sparse();
	make_special();
	make_metadata();
}

/* -- checks --------------------------------------------------------------- */

static void write_archive(const struct taken *t, char path[128])
{
	int fd;

	snprintf(path, 128, "%s/a.tar.zst", base);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(io_write_all(fd, t->stored.p, t->stored.len, path,
				      NULL), 0);
	close(fd);
}

/* Unpacks the segments with zstd and GNU tar into base/out, prints both trees
 * and compares. %n tells hard links, %b holes (roughly). */
static void assert_tar_equal(const struct taken *t)
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

static void assert_tar_names(const struct taken *t, const char *names)
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
static void decode_all(const struct taken *t, struct plain *p)
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
					    NULL), 0);
	}
}

static void plain_free(const struct taken *t, struct plain *p)
{
	for (size_t i = 0; i < t->nsegs; i++)
		free(p->seg[i]);
	free(p->seg);
	zst_dec_free(p->dec);
}

static const unsigned char *chunk_at(const struct taken *t,
				     const struct plain *p, uint32_t i)
{
	const struct chunk *c = &t->chunks.chunks[i];

	assert_true(i < t->chunks.nchunks);
	assert_true(c->segment < t->nsegs);
	assert_true(c->len > 0 && c->offset <= t->segs[c->segment].plain &&
		    c->len <= t->segs[c->segment].plain - c->offset);
	return p->seg[c->segment] + c->offset;
}

static void assert_chunks(const struct taken *t, const struct plain *p)
{
	struct hash *h = NULL;
	struct digest d;

	assert_int_equal(hash_new(&h, NULL), 0);
	for (uint32_t i = 0; i < t->chunks.nchunks; i++) {
		const unsigned char *b = chunk_at(t, p, i);

		assert_int_equal(hash_once(h, b, t->chunks.chunks[i].len, &d,
					   NULL), 0);
		assert_memory_equal(d.b, t->chunks.chunks[i].hash.b, 32);
	}
	hash_free(h);
}

/* The data that the entry's runs give, chunk by chunk, against the file. */
static void assert_file(const struct taken *t, const struct plain *p,
			uint32_t slot)
{
	const struct entry *e = tree_at(t->tree, slot);
	const struct run *r = tree_runs(t->tree, e);
	uint32_t nx, x = 0;
	const struct extent *xs = tree_extents(t->tree, slot, &nx);
	struct extent whole = { 0, e->size };
	uint64_t done = 0, total = 0; /* done: in extent x */
	unsigned char *got = malloc(M4);
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
					      (off_t)(xs[x].off + done)), n);
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
	if (e->size && e->size <= K256 && total)
		assert_int_equal(r[0].count, 1);
	close(fd);
	free(got);
	buf_free(&path);
}

static void assert_files(const struct taken *t)
{
	struct plain p = { 0 };

	decode_all(t, &p);
	assert_chunks(t, &p);
	for (uint32_t s = 0; s < tree_count(t->tree); s++)
		if (entry_is_reg(tree_at(t->tree, s)))
			assert_file(t, &p, s);
	plain_free(t, &p);
}

static uint32_t find(const struct taken *t, const char *path)
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

static const struct entry *at(const struct taken *t, const char *path)
{
	return tree_at(t->tree, find(t, path));
}

static void assert_same_result(const struct taken *a, const struct taken *b)
{
	assert_int_equal(a->nsegs, b->nsegs);
	assert_int_equal(a->stored.len, b->stored.len);
	assert_memory_equal(a->stored.p, b->stored.p, a->stored.len);
	assert_int_equal(a->chunks.nchunks, b->chunks.nchunks);
	assert_memory_equal(a->chunks.chunks, b->chunks.chunks,
			    a->chunks.nchunks * sizeof(*a->chunks.chunks));
	assert_int_equal(a->res.bytes, b->res.bytes);
	assert_int_equal(a->res.plain, b->res.plain);
	assert_int_equal(a->res.files, b->res.files);
	for (uint32_t r = 0; r < tree_count(a->tree); r++) {
		const struct entry *x =
			tree_at(a->tree, tree_order(a->tree, r));
		const struct entry *y =
			tree_at(b->tree, tree_order(b->tree, r));

		assert_string_equal(x->name, y->name);
		assert_int_equal(x->xattrs, y->xattrs);
		assert_int_equal(x->bits, y->bits);
		assert_int_equal(x->flags, y->flags);
		if (!entry_is_dir(x)) {
			assert_int_equal(x->first, y->first);
			assert_int_equal(x->count, y->count);
		}
	}
}

/* -- tests ---------------------------------------------------------------- */

static void test_hostile_tree(void **state)
{
	static const unsigned threads[] = { 2, 8 };
	struct taken one, t;

	(void)state;
	make_all();
	walk_and_take(&one, (struct take_options){ .threads = 1 });
	assert_int_equal(one.res.changed + one.res.unreadable +
			 one.res.vanished, 0);
	assert_int_equal(one.notes.warnings, 0);
	assert_tar_equal(&one);
	assert_files(&one);
	for (size_t i = 0; i < 2; i++) {
		walk_and_take(&t, (struct take_options){
					  .threads = threads[i] });
		assert_same_result(&one, &t);
		taken_free(&t);
	}
	taken_free(&one);
}

static void test_entries(void **state)
{
	struct taken t;
	const struct entry *e;
	size_t n;

	(void)state;
	make_links();
	make_special();
	make_metadata();
	walk_and_take(&t, (struct take_options){ .threads = 3 });
	e = at(&t, "one");
	assert_int_equal(e->bits & ENTRY_LINK, ENTRY_LINK);
	assert_int_equal(at(&t, "a-first")->bits, 0);
	assert_int_equal(e->first, at(&t, "a-first")->first);
	assert_int_equal(at(&t, "links/two")->first, e->first);
	assert_int_equal(at(&t, "big-one")->bits & ENTRY_LINK, 0);
	assert_int_equal(at(&t, "links/big")->first, at(&t, "big-one")->first);
	assert_int_equal(at(&t, "links/big")->count, 1);
	assert_string_equal(tree_target(t.tree, at(&t, "dangling")->first),
			    "nowhere\xff");
	assert_string_equal(
		tree_target(t.tree, at(&t, "links/dangling")->first),
		"nowhere\xff");
	assert_string_equal(tree_target(t.tree, at(&t, "links/etc")->first),
			    "/etc");
	assert_true(at(&t, "chr")->size == makedev(1, 3));
	assert_int_equal(tree_xattrs_count(t.tree), 3);
	e = at(&t, "same");
	assert_memory_equal(tree_xattrs(t.tree, e->xattrs, &n),
			    "\6user.x\3\0a\n", 11);
	assert_int_equal(n, 11);
	e = at(&t, "meta");
	assert_memory_equal(tree_xattrs(t.tree, e->xattrs, &n),
			    "\x13security.capability\x14", 21);
	assert_int_equal(e->uid, 4000000000u);
	assert_int_equal(e->mode, S_IFREG | 06711);
	assert_true(e->mtime == -315619200);
	assert_int_equal(e->mtime_ns, 250000000);
	taken_free(&t);
}

static void test_empty_volume(void **state)
{
	struct taken t;

	(void)state;
	walk_and_take(&t, (struct take_options){ .threads = 2 });
	assert_int_equal(t.nsegs, 1);
	assert_int_equal(t.chunks.nchunks, 0);
	assert_int_equal(t.res.files, 0);
	assert_tar_equal(&t);
	taken_free(&t);
}

static void test_single_file(void **state)
{
	static const size_t sizes[] = { 0, 100, 300000, 10 << 20 };
	int dir = src;

	(void)state;
	for (size_t i = 0; i < 4; i++) {
		struct plain p = { 0 };
		struct taken t;

		write_file("conf", sizes[i], 77);
		src = openat(dir, "conf", O_RDONLY | O_CLOEXEC);
		walk_and_take(&t, (struct take_options){ .threads = 2 });
		assert_int_equal(tree_count(t.tree), 1);
		assert_int_equal(t.res.bytes, sizes[i]);
		decode_all(&t, &p);
		assert_chunks(&t, &p);
		plain_free(&t, &p);
		close(src);
		src = dir;
		taken_free(&t);
	}
}

/* Other averages have their own cuts, and the longest chunk is as long as a
 * block. */
static void test_large_average(void **state)
{
	struct taken a, b;

	(void)state;
	write_file("zeros", 21 << 20, 0);
	write_file("noise", 30 << 20, 3);
	walk_and_take(&a, (struct take_options){ .threads = 1,
						 .chunk_avg = 1 << 20 });
	assert_files(&a);
	assert_tar_equal(&a);
	assert_in_range(a.chunks.nchunks, 20, 60);
	walk_and_take(&b, (struct take_options){ .threads = 8,
						 .chunk_avg = 1 << 20 });
	assert_same_result(&a, &b);
	taken_free(&a);
	taken_free(&b);
}

/* The cuts of blocks are those of the whole file. */
static void test_cuts_are_sequential(void **state)
{
	size_t n = 30 << 20, count;
	uint32_t *cand = malloc(n * 4), lens[3000];
	unsigned char *p = malloc(n);
	struct chunker c;
	struct taken t;
	int fd;

	(void)state;
	assert_non_null(cand);
	assert_non_null(p);
	write_file("f", n, 12345);
	fd = openat(src, "f", O_RDONLY | O_CLOEXEC);
	assert_int_equal(io_pread_all(fd, p, n, 0, "f", NULL), 0);
	close(fd);
	chunker_init(&c, CHUNK_AVG_DEFAULT);
	count = chunker_all(&c, p, n, cand, lens);
	walk_and_take(&t, (struct take_options){ .threads = 4 });
	assert_int_equal(t.chunks.nchunks, count);
	for (size_t i = 0; i < count; i++)
		assert_int_equal(t.chunks.chunks[i].len, lens[i]);
	taken_free(&t);
	free(cand);
	free(p);
}

static void test_changed_since_walk(void **state)
{
	static const char *const names[] = { "small", "big", "dir", "link" };
	struct taken t;

	(void)state;
	for (size_t i = 0; i < 4; i++) {
		write_file("small", 100, 1);
		write_file("big", 9 << 20, 2);
		shell("cd %s/src && mkdir -p dir && ln -sf x link && "
		      "ln -f small other",
		      base);
		walk(&t);
		set_time(names[i], 1000, (long)i);
		assert_int_equal(take(&t, (struct take_options){ 0 }), -1);
		assert_int_equal(t.err.code, SC_ETORN);
		if (i)
			assert_non_null(strstr(t.err.msg, names[i]));
		assert_int_equal(t.reads, 0);
		taken_free(&t);
	}
}

static void test_vanished(void **state)
{
	struct taken t;

	(void)state;
	write_file("a", 100, 1);
	shell("cd %s/src && mkdir d && touch d/x && ln -s t s && "
	      "touch h && ln h h2", base);
	walk(&t);
	shell("cd %s/src && rm -r a d s h", base);
	assert_int_equal(take(&t, (struct take_options){ 0 }), -1);
	assert_int_equal(t.err.code, SC_ETORN);
	taken_free(&t);

	write_file("b", 100, 1);
	walk(&t);
	shell("cd %s/src && rm b && touch -d '%s' .", base, "2020-01-01");
	assert_int_equal(take(&t, (struct take_options){ 0 }), -1);
	assert_int_equal(t.err.code, SC_ETORN);
	taken_free(&t);

	shell("cd %s/src && touch a h2 && mkdir d && touch d/x && ln -s t s && "
	      "ln h2 h", base);
	walk(&t);
	shell("cd %s/src && rm -r a d s h", base);
	assert_int_equal(take(&t, (struct take_options){ .live = true }), 0);
	assert_int_equal(t.res.vanished, 5);
	assert_int_equal(t.notes.warnings, 5);
	assert_int_equal(at(&t, "d/x")->bits,
			 ENTRY_UNREADABLE | ENTRY_CHANGED);
	assert_int_equal(at(&t, "a")->count, 0);
	assert_string_equal(tree_target(t.tree, at(&t, "s")->first), "");
	/* The first name is gone: the second has no data to point to. */
	assert_true(at(&t, "h2")->bits & ENTRY_UNREADABLE);
	assert_true(at(&t, "h2")->bits & ENTRY_LINK);
	shell("rm %s/src/h2", base);
	set_time(".", at(&t, "")->mtime, at(&t, "")->mtime_ns);
	assert_tar_equal(&t);
	taken_free(&t);
}

/* While the first segment leaves, later files are changed. */
static void meddle(void)
{
	write_file("z-big", 3 << 20, 5);
	write_file("z-small", 7, 5);
}

static void test_changed_while_taken(void **state)
{
	struct taken t;
	char name[32];

	(void)state;
	for (int i = 0; i < 40; i++) {
		snprintf(name, sizeof(name), "f%02d", i);
		write_file(name, 4 << 20, (uint64_t)i + 1);
	}
	write_file("z-big", 200 << 20, 0);
	write_file("z-small", 10, 1);
	walk(&t);
	t.meddle = meddle;
	assert_int_equal(take(&t, (struct take_options){ .threads = 1 }), -1);
	assert_int_equal(t.err.code, SC_ETORN);
	assert_non_null(strstr(t.err.msg, "z-"));
	taken_free(&t);
}

/* A file that is written to all the time, beside writers. */
static atomic_bool enough;

static void *scribble(void *arg)
{
	int small = openat(src, "small", O_WRONLY | O_CLOEXEC);
	int big = openat(src, "big", O_WRONLY | O_CLOEXEC);

	(void)arg;
	for (uint64_t i = 0; !atomic_load(&enough); i++) {
		struct timespec t[2] = { { 0, UTIME_OMIT }, { (time_t)i, 1 } };

		if (pwrite(small, &i, 8, (off_t)(i * 8 % 300000)) != 8 ||
		    pwrite(big, &i, 8, (off_t)(i * 4096 % (12 << 20))) != 8 ||
		    futimens(small, t) < 0 || futimens(big, t) < 0)
			break;
	}
	close(small);
	close(big);
	return NULL;
}

/* The first segment is the root's; the next one is from big, whose blocks are
 * more than can be under way at that moment. */
static void cut_big(void)
{
	int fd = openat(src, "big", O_WRONLY | O_CLOEXEC);

	assert_int_equal(ftruncate(fd, 50 << 20), 0);
	close(fd);
}

static void test_live(void **state)
{
	struct plain p = { 0 };
	struct taken t;
	pthread_t thread;

	(void)state;
	write_file("small", 300000, 1);
	write_file("big", 60 << 20, 2);
	write_file("quiet", 5000, 3);
	atomic_store(&enough, false);
	walk(&t);
	t.meddle = cut_big;
	t.meddle_at = 1;
	assert_int_equal(pthread_create(&thread, NULL, scribble, NULL), 0);
	assert_int_equal(take(&t, (struct take_options){ .live = true,
							 .threads = 3 }), 0);
	atomic_store(&enough, true);
	pthread_join(thread, NULL);
	assert_int_equal(at(&t, "quiet")->bits, 0);
	assert_int_equal(at(&t, "big")->bits & ENTRY_CHANGED, ENTRY_CHANGED);
	assert_true(t.res.changed >= 1);
	assert_int_equal(t.notes.warnings, t.res.changed);
	/* What was recorded is what is stored, whatever it is; what is missing
	 * is zeros. */
	decode_all(&t, &p);
	assert_chunks(&t, &p);
	plain_free(&t, &p);
	assert_int_equal(at(&t, "big")->size, 60 << 20);
	assert_int_equal(t.res.bytes, (60 << 20) + 5000 + 300000);
	taken_free(&t);
}

static void test_grown_live(void **state)
{
	struct taken t;

	(void)state;
	write_file("log", 100, 1);
	write_file("huge", 100, 1);
	walk(&t);
	write_file("log", 5000, 2);
	write_file("huge", 20 << 20, 3);
	assert_int_equal(take(&t, (struct take_options){ .live = true }), 0);
	assert_int_equal(at(&t, "log")->size, 5000);
	assert_int_equal(at(&t, "log")->bits, 0);
	/* Only its beginning, and that is said. */
	assert_int_equal(at(&t, "huge")->size, 8 << 20);
	assert_int_equal(at(&t, "huge")->bits, ENTRY_CHANGED);
	assert_int_equal(t.res.changed, 1);
	assert_files(&t);
	taken_free(&t);
}

static void test_sink_fails(void **state)
{
	struct taken t;
	char name[32];

	(void)state;
	for (int i = 0; i < 20; i++) {
		snprintf(name, sizeof(name), "f%02d", i);
		write_file(name, 3 << 20, (uint64_t)i + 1);
	}
	write_file("big", 60 << 20, 9);
	for (unsigned at_seg = 1; at_seg < 30; at_seg += 7) {
		walk(&t);
		t.fail_at = at_seg;
		assert_int_equal(take(&t, (struct take_options){
						  .threads = 8 }), -1);
		assert_int_equal(t.err.code, SC_EIO);
		assert_non_null(strstr(t.err.msg, "the sink"));
		assert_int_equal(t.nsegs, at_seg - 1);
		taken_free(&t);
	}
}

static atomic_bool stop;

static void ask_stop(void)
{
	atomic_store(&stop, true);
}

static void test_stop(void **state)
{
	struct taken t;

	(void)state;
	write_file("big", 200 << 20, 0);
	walk(&t);
	t.meddle = ask_stop;
	assert_int_equal(take(&t, (struct take_options){ .stop = &stop }), -1);
	assert_int_equal(t.err.code, SC_EINTR);
	assert_int_equal(t.reads, 0);
	taken_free(&t);
}

static void test_progress(void **state)
{
	atomic_uint_fast64_t bytes = 0, files = 0;
	struct taken t;

	(void)state;
	write_file("a", 1000, 1);
	write_file("b", 10 << 20, 2);
	shell("cd %s/src && ln a c && touch d", base);
	walk_and_take(&t, (struct take_options){ .bytes = &bytes,
						 .files = &files });
	assert_int_equal(bytes, 1000 + (10 << 20));
	assert_int_equal(files, 3);
	assert_int_equal(t.res.bytes, bytes);
	assert_int_equal(t.res.files, 3);
	taken_free(&t);
}

static void test_links_outside(void **state)
{
	struct taken t;

	(void)state;
	write_file("a", 1000, 1);
	write_file("b", 1000, 2);
	shell("cd %s && ln src/a outside && ln src/b src/c", base);
	walk_and_take(&t, (struct take_options){ 0 });
	assert_int_equal(t.notes.warnings, 1);
	assert_non_null(strstr(t.notes.v[0].text, "1 file"));
	taken_free(&t);
}

/* As a user who may not open them. */
static void make_secrets(void)
{
	write_file("open", 10, 1);
	write_file("secret", 100, 2);
	write_file("secret-big", 20 << 20, 3);
	shell("cd %s/src && chmod 0 secret secret-big && mkdir dir && "
	      "touch dir/x && ln secret link && ln -s nowhere sym",
	      base);
}

static void test_unreadable(void **state)
{
	struct walk_options wo = { .threads = 2, .allow_incomplete = true };
	struct walk_result r = { 0 };
	struct taken t = { 0 };
	int rc;

	(void)state;
	make_secrets();
	assert_int_equal(fchmod(src, 0755), 0);
	walk(&t);
	assert_int_equal(seteuid(65534), 0);
	rc = take(&t, (struct take_options){ 0 });
	assert_int_equal(seteuid(0), 0);
	assert_int_equal(rc, -1);
	assert_int_equal(t.err.code, SC_EIO);
	assert_int_equal(t.err.sys, EACCES);
	taken_free(&t);

	shell("chmod 0700 %s/src/dir", base);
	memset(&t, 0, sizeof(t));
	notes_init(&t.notes);
	assert_int_equal(seteuid(65534), 0);
	rc = walk_tree(src, &wo, NULL, &r, &t.err);
	if (rc == 0) {
		t.tree = r.tree;
		rc = take(&t, (struct take_options){
				      .allow_incomplete = true });
	}
	assert_int_equal(seteuid(0), 0);
	if (rc)
		fail_msg("%s", t.err.msg);
	assert_int_equal(at(&t, "secret")->bits & ENTRY_UNREADABLE,
			 ENTRY_UNREADABLE);
	assert_int_equal(at(&t, "link")->bits & ENTRY_UNREADABLE,
			 ENTRY_UNREADABLE);
	assert_int_equal(at(&t, "secret-big")->bits, ENTRY_UNREADABLE);
	assert_int_equal(at(&t, "secret-big")->count, 0);
	assert_int_equal(at(&t, "dir")->bits, ENTRY_UNREADABLE);
	assert_int_equal(at(&t, "open")->count, 1);
	assert_int_equal(t.res.unreadable, 2);
	/* None of them is in the tar. */
	assert_tar_names(&t, "./ ./open ./sym");
	taken_free(&t);
}

/* The walk found a mount point: an empty directory, not looked into. */
static void test_mount_point(void **state)
{
	struct taken t;

	(void)state;
	shell("mkdir -p %s/src/m", base);
	walk(&t);
	tree_at(t.tree, find(&t, "m"))->bits |= ENTRY_MOUNT;
	shell("touch -d 2002-02-02 %s/src/m && touch -d 2002-02-02 %s/src/m/in",
	      base, base);
	assert_int_equal(take(&t, (struct take_options){ 0 }), 0);
	assert_tar_names(&t, "./ ./m/");
	assert_int_equal(at(&t, "m")->bits, ENTRY_MOUNT);
	taken_free(&t);
}

/* Many small files: several batches. */
static void test_many_files(void **state)
{
	struct taken a, b;

	(void)state;
	shell("cd %s/src && for d in $(seq 20); do mkdir d$d; "
	      "for f in $(seq 300); do echo $d $f > d$d/f$f; done; done",
	      base);
	walk_and_take(&a, (struct take_options){ .threads = 1 });
	assert_int_equal(a.res.files, 6000);
	assert_in_range(a.nsegs, 2, 10);
	assert_files(&a);
	assert_tar_equal(&a);
	walk_and_take(&b, (struct take_options){ .threads = 4 });
	assert_same_result(&a, &b);
	taken_free(&a);
	taken_free(&b);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(test_hostile_tree),
		T(test_entries),
		T(test_empty_volume),
		T(test_single_file),
		T(test_large_average),
		T(test_cuts_are_sequential),
		T(test_changed_since_walk),
		T(test_vanished),
		T(test_changed_while_taken),
		T(test_live),
		T(test_grown_live),
		T(test_sink_fails),
		T(test_stop),
		T(test_progress),
		T(test_links_outside),
		T(test_unreadable),
		T(test_mount_point),
		T(test_many_files),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
