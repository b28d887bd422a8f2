/* SPDX-License-Identifier: MIT */
/* Taking whole trees, hostile ones included: what comes out is right. */
#include <sys/sysmacros.h>
#include <sys/xattr.h>

#include "take_world.h"

#define K256 (256u << 10)
#define M4   (4u << 20)

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

static void set_xattr(const char *name, const char *attr, const void *v,
		      size_t n)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/src/%s", base, name);
	assert_int_equal(lsetxattr(path, attr, v, n, 0), 0);
}

static void make_names(void)
{
	static const char *const names[] = {
		"new\nline", "bad\xff\xfe", "-x", "b\\s", "[x]", "..odd", " "
	};
	char longest[256];

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		write_file(names[i], i * 100, i + 1);
	memset(longest, 'L', 255);
	longest[255] = 0;
	write_file(longest, 10, 9);
}

static void make_sizes(void)
{
	static const size_t sizes[] = { 0,	  1,	   511,	     512,
					513,	  16384,   K256 - 1, K256,
					K256 + 1, M4 - 1,  M4,	     M4 + 1,
					6 << 20,  13 << 20 };
	char name[32];

	assert_int_equal(mkdirat(src, "sizes", 0700), 0);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		snprintf(name, sizeof(name), "sizes/%zu", sizes[i]);
		write_file(name, sizes[i], 1000 + i);
	}
	write_file("sizes/zeros", 9 << 20, 0);
}

/* Deep enough that not all directories stay open; a file before and one after
 * the directory beneath. */
static void make_deep(void)
{
	char path[1024] = "deep", file[1100];
	size_t len = strlen(path);

	for (int i = 0; i < 80; i++) {
		assert_int_equal(mkdirat(src, path, 0755), 0);
		if (i % 9 == 0) {
			snprintf(file, sizeof(file), "%s/a", path);
			write_file(file, 50, (uint64_t)i + 1);
			snprintf(file, sizeof(file), "%s/z", path);
			write_file(file, 60, (uint64_t)i + 2);
		}
		memcpy(path + len, "/d", 3);
		len += 2;
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
	assert_int_equal(mknodat(src, "chr", S_IFCHR | 0640, makedev(1, 3)), 0);
	assert_int_equal(mknodat(src, "blk", S_IFBLK | 0640, makedev(7, 300)),
			 0);
	assert_int_equal(mkdirat(src, "empty", 01777), 0);
}

static void make_metadata(void)
{
	static const unsigned char cap[] = { 1, 0, 0, 2, 0, 4, 0, 0, 0, 0,
					     0, 0, 0, 0, 0, 0, 0, 0, 0, 0 };
	static const unsigned char acl[] = { 2,	  0,   0,   0,	 1,  0, 6, 0,
					     255, 255, 255, 255, 2,  0, 4, 0,
					     232, 3,   0,   0,	 4,  0, 4, 0,
					     255, 255, 255, 255, 16, 0, 4, 0,
					     255, 255, 255, 255, 32, 0, 0, 0,
					     255, 255, 255, 255 };

	write_file("meta", 10, 3);
	assert_int_equal(fchownat(src, "meta", 4000000000u, 4000000001u, 0), 0);
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
	assert_int_equal(
		one.res.changed + one.res.unreadable + one.res.vanished, 0);
	assert_int_equal(one.notes.warnings, 0);
	assert_tar_equal(&one);
	assert_files(&one);
	assert_index(&one);
	for (size_t i = 0; i < 2; i++) {
		walk_and_take(&t,
			      (struct take_options){ .threads = threads[i] });
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
		assert_index(&t);
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

static void test_progress(void **state)
{
	atomic_uint_fast64_t bytes = 0, files = 0;
	struct taken t;

	(void)state;
	write_file("a", 1000, 1);
	write_file("b", 10 << 20, 2);
	shell("cd %s/src && ln a c && touch d", base);
	walk_and_take(
		&t, (struct take_options){ .bytes = &bytes, .files = &files });
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
	assert_index(&t);
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
		T(test_hostile_tree),  T(test_entries),
		T(test_empty_volume),  T(test_single_file),
		T(test_large_average), T(test_cuts_are_sequential),
		T(test_progress),      T(test_links_outside),
		T(test_mount_point),   T(test_many_files),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
