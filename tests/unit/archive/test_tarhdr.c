/* SPDX-License-Identifier: MIT */
/* Headers are judged by what GNU tar makes of them. As root: owners, device
 * nodes and capabilities are set. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include <snapctl/archive/tarhdr.h>
#include <snapctl/base/io.h>

struct world {
	char dir[64];
	struct tarhdr *h;
	struct buf tar;
};

static int setup(void **state)
{
	struct world *w = calloc(1, sizeof(*w));

	assert_non_null(w);
	strcpy(w->dir, "/tmp/test-tarhdr-XXXXXX");
	assert_non_null(mkdtemp(w->dir));
	assert_int_equal(tarhdr_new(&w->h, NULL), 0);
	*state = w;
	return 0;
}

static int teardown(void **state)
{
	struct world *w = *state;
	char cmd[128];

	snprintf(cmd, sizeof(cmd), "rm -rf '%s'", w->dir);
	assert_int_equal(system(cmd), 0);
	tarhdr_free(w->h);
	buf_free(&w->tar);
	free(w);
	return 0;
}

static struct entry file_entry(uint64_t size)
{
	return (struct entry){ .mode = S_IFREG | 0644,
			       .size = size,
			       .mtime = 1700000000,
			       .mtime_ns = 123456789,
			       .nlink = 1 };
}

static void put(struct world *w, struct tarhdr_entry e, const void *data,
		size_t n)
{
	unsigned pad = 1000;
	size_t start = w->tar.len;

	assert_int_equal(tarhdr_put(w->h, &e, &w->tar, &pad, NULL), 0);
	assert_int_equal((w->tar.len - start) % 512, 0);
	assert_int_equal((n + pad) % 512, 0);
	assert_in_range(pad, 0, 511);
	buf_put(&w->tar, data, n);
	buf_zero(&w->tar, pad);
}

/* Unpacks what was put; what tar says on stderr goes to said. */
static void unpack(struct world *w, char *said, size_t cap)
{
	char cmd[256];
	ssize_t n;
	FILE *f;
	int fd;

	tarhdr_end(&w->tar);
	assert_false(w->tar.failed);
	snprintf(cmd, sizeof(cmd),
		 "cd %s && tar --numeric-owner --xattrs --xattrs-include='*' "
		 "-xpf - 2> ../$(basename %s).err",
		 w->dir, w->dir);
	f = popen(cmd, "w");
	assert_non_null(f);
	assert_int_equal(fwrite(w->tar.p, 1, w->tar.len, f), w->tar.len);
	assert_int_equal(pclose(f), 0);
	snprintf(cmd, sizeof(cmd), "%s.err", w->dir);
	fd = open(cmd, O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	n = read(fd, said, cap - 1);
	assert_true(n >= 0);
	said[n] = 0;
	close(fd);
	unlink(cmd);
}

static void unpack_quietly(struct world *w)
{
	char said[1000];

	unpack(w, said, sizeof(said));
	assert_string_equal(said, "");
}

static int open_dir(const struct world *w)
{
	int fd = open(w->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	assert_true(fd >= 0);
	return fd;
}

static struct stat stat_of(const struct world *w, const char *name)
{
	int dir = open_dir(w);
	struct stat st;

	assert_int_equal(fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW), 0);
	close(dir);
	return st;
}

static void assert_content(const struct world *w, const char *name,
			   const void *want, size_t n)
{
	struct buf b = { 0 };
	int dir = open_dir(w);

	assert_int_equal(io_read_file(dir, name, 1 << 20, &b, NULL), 1);
	assert_int_equal(b.len, n);
	if (n)
		assert_memory_equal(b.p, want, n);
	buf_free(&b);
	close(dir);
}

static void assert_xattr(const struct world *w, const char *path,
			 const char *name, const void *want, size_t n)
{
	char full[128], value[256];

	snprintf(full, sizeof(full), "%s/%s", w->dir, path);
	assert_int_equal(lgetxattr(full, name, value, sizeof(value)), n);
	assert_memory_equal(value, want, n);
}

static void add_xattr(struct buf *b, const char *name, const void *v, size_t n)
{
	buf_bytes(b, name, strlen(name));
	buf_bytes(b, v, n);
}

/* -- tests ---------------------------------------------------------------- */

static void test_plain(void **state)
{
	struct world *w = *state;
	struct entry root = { .mode = S_IFDIR | 0750,
			      .uid = 999,
			      .gid = 998,
			      .mtime = 1500000000,
			      .mtime_ns = 1 };
	struct entry f = file_entry(5);
	struct stat st;

	f.uid = 12;
	f.gid = 34;
	f.mode = S_IFREG | 06755;
	put(w, (struct tarhdr_entry){ .path = "", .e = &root }, "", 0);
	put(w, (struct tarhdr_entry){ .path = "a", .e = &f }, "hello", 5);
	unpack_quietly(w);
	st = stat_of(w, "a");
	assert_int_equal(st.st_uid, 12);
	assert_int_equal(st.st_gid, 34);
	assert_int_equal(st.st_mode, S_IFREG | 06755);
	assert_int_equal(st.st_mtim.tv_sec, 1700000000);
	assert_int_equal(st.st_mtim.tv_nsec, 123456789);
	assert_content(w, "a", "hello", 5);
	st = stat_of(w, ".");
	assert_int_equal(st.st_uid, 999);
	assert_int_equal(st.st_gid, 998);
	assert_int_equal(st.st_mode, S_IFDIR | 0750);
	assert_int_equal(st.st_mtim.tv_sec, 1500000000);
	assert_int_equal(st.st_mtim.tv_nsec, 1);
}

/* Nothing that needs an extended header: 512 bytes, no more. */
static void test_short(void **state)
{
	struct world *w = *state;
	struct entry f = file_entry(0);

	f.mtime_ns = 0;
	put(w, (struct tarhdr_entry){ .path = "a", .e = &f }, "", 0);
	assert_int_equal(w->tar.len, 512);
	unpack_quietly(w);
	assert_int_equal(stat_of(w, "a").st_mtim.tv_sec, 1700000000);
}

static void test_large_owner(void **state)
{
	struct world *w = *state;
	struct entry f = file_entry(0);
	struct stat st;

	f.uid = 4000000000u;
	f.gid = 4000000001u;
	put(w, (struct tarhdr_entry){ .path = "a", .e = &f }, "", 0);
	unpack_quietly(w);
	st = stat_of(w, "a");
	assert_int_equal(st.st_uid, 4000000000u);
	assert_int_equal(st.st_gid, 4000000001u);
}

static void test_times(void **state)
{
	static const struct {
		int64_t sec;
		uint32_t ns;
	} t[] = { { -315619200, 250000000 },
		  { -1, 500000000 },
		  { -1, 1 },
		  { -1, 0 },
		  { -5, 0 },
		  { 0, 0 },
		  { 0, 1 },
		  { 4102444800, 999999999 },
		  { 1700000000, 100 } };
	struct world *w = *state;
	char name[8], said[4000];
	struct stat st;

	for (size_t i = 0; i < sizeof(t) / sizeof(*t); i++) {
		struct entry f = file_entry(0);

		f.mtime = t[i].sec;
		f.mtime_ns = t[i].ns;
		snprintf(name, sizeof(name), "t%zu", i);
		put(w, (struct tarhdr_entry){ .path = name, .e = &f }, "", 0);
	}
	unpack(w, said, sizeof(said)); /* "implausibly old", "in the future" */
	assert_null(strstr(said, "keyword"));
	for (size_t i = 0; i < sizeof(t) / sizeof(*t); i++) {
		snprintf(name, sizeof(name), "t%zu", i);
		st = stat_of(w, name);
		assert_int_equal(st.st_mtim.tv_sec, t[i].sec);
		assert_int_equal(st.st_mtim.tv_nsec, t[i].ns);
	}
}

static void test_names(void **state)
{
	static const char *const names[] = {
		"new\nline",
		"bad\xff\xfeutf8",
		"-rf",
		"back\\slash",
		"[x]",
		" ",
		"\xc3\xa4\xc3\xb6",
		"a=b%20",
		"..odd",
		"\x01\x7f",
	};
	struct world *w = *state;
	char longest[256];
	struct entry f = file_entry(1);

	memset(longest, 'n', 255);
	memcpy(longest + 100, "\n\xff=%", 4);
	longest[255] = 0;
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		put(w, (struct tarhdr_entry){ .path = names[i], .e = &f }, "x",
		    1);
	put(w, (struct tarhdr_entry){ .path = longest, .e = &f }, "y", 1);
	unpack_quietly(w);
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		assert_content(w, names[i], "x", 1);
	assert_content(w, longest, "y", 1);
}

static void test_long_path(void **state)
{
	struct world *w = *state;
	struct entry d = { .mode = S_IFDIR | 0755, .mtime = 5 };
	struct entry f = file_entry(3);
	char path[4096];
	size_t n = 0;

	for (int i = 0; i < 19; i++) {
		memset(path + n, 'a' + i, 200);
		n += 200;
		path[n] = 0;
		put(w, (struct tarhdr_entry){ .path = path, .e = &d }, "", 0);
		path[n++] = '/';
	}
	memset(path + n, 'z', 4000 - n);
	path[4000] = 0;
	put(w, (struct tarhdr_entry){ .path = path, .e = &f }, "end", 3);
	unpack_quietly(w);
	assert_content(w, path, "end", 3);
}

static void test_links(void **state)
{
	struct world *w = *state;
	struct entry f = file_entry(1), l = file_entry(1);
	struct entry s = { .mode = S_IFLNK | 0777, .mtime = 77, .mtime_ns = 5 };
	char target[4096], got[4096];
	int dir;

	memset(target, 't', 4000);
	target[4000] = 0;
	put(w, (struct tarhdr_entry){ .path = "f", .e = &f }, "1", 1);
	put(w, (struct tarhdr_entry){ .path = "g", .e = &l, .hardlink = "f" },
	    "", 0);
	put(w,
	    (struct tarhdr_entry){ .path = "s", .e = &s, .target = "\xff\n" },
	    "", 0);
	put(w,
	    (struct tarhdr_entry){ .path = "long", .e = &s, .target = target },
	    "", 0);
	put(w, (struct tarhdr_entry){ .path = "s2", .e = &s, .hardlink = "s" },
	    "", 0);
	unpack_quietly(w);
	assert_true(stat_of(w, "f").st_ino == stat_of(w, "g").st_ino);
	assert_true(stat_of(w, "s").st_ino == stat_of(w, "s2").st_ino);
	assert_int_equal(stat_of(w, "f").st_nlink, 2);
	assert_int_equal(stat_of(w, "s").st_mtim.tv_nsec, 5);
	dir = open_dir(w);
	assert_int_equal(readlinkat(dir, "s", got, sizeof(got)), 2);
	assert_memory_equal(got, "\xff\n", 2);
	assert_int_equal(readlinkat(dir, "long", got, sizeof(got)), 4000);
	assert_memory_equal(got, target, 4000);
	close(dir);
}

static void test_special(void **state)
{
	struct world *w = *state;
	struct entry p = { .mode = S_IFIFO | 0600, .mtime = 9 };
	struct entry c = { .mode = S_IFCHR | 0620,
			   .mtime = 9,
			   .size = makedev(5, 300) };
	struct entry b = { .mode = S_IFBLK | 0660,
			   .mtime = 9,
			   .size = makedev(259, 1000000) };
	struct stat st;

	put(w, (struct tarhdr_entry){ .path = "p", .e = &p }, "", 0);
	put(w, (struct tarhdr_entry){ .path = "c", .e = &c }, "", 0);
	put(w, (struct tarhdr_entry){ .path = "b", .e = &b }, "", 0);
	unpack_quietly(w);
	assert_int_equal(stat_of(w, "p").st_mode, S_IFIFO | 0600);
	st = stat_of(w, "c");
	assert_int_equal(st.st_mode, S_IFCHR | 0620);
	assert_true(st.st_rdev == makedev(5, 300));
	st = stat_of(w, "b");
	assert_int_equal(st.st_mode, S_IFBLK | 0660);
	assert_true(st.st_rdev == makedev(259, 1000000));
}

static void test_xattrs(void **state)
{
	static const unsigned char cap[] = { 1, 0, 0, 2, 0, 4, 0, 0, 0, 0,
					     0, 0, 0, 0, 0, 0, 0, 0, 0, 0 };
	/* u::rw- u:1000:r-- g::r-- m::r-- o::--- */
	static const unsigned char acl[] = { 2,	  0,   0,   0,	 1,  0, 6, 0,
					     255, 255, 255, 255, 2,  0, 4, 0,
					     232, 3,   0,   0,	 4,  0, 4, 0,
					     255, 255, 255, 255, 16, 0, 4, 0,
					     255, 255, 255, 255, 32, 0, 0, 0,
					     255, 255, 255, 255 };
	struct world *w = *state;
	struct entry f = file_entry(1);
	struct entry d = { .mode = S_IFDIR | 0755, .mtime = 1 };
	struct buf b = { 0 }, e = { 0 };

	f.mode = S_IFREG | 0640;
	f.uid = 7;
	add_xattr(&b, "security.capability", cap, sizeof(cap));
	add_xattr(&b, "system.posix_acl_access", acl, sizeof(acl));
	add_xattr(&b, "user.a b%=\xc3\xa4\n", "odd", 3);
	add_xattr(&b, "user.empty", "", 0);
	add_xattr(&b, "user.value", "\0one\n\ntwo=\0", 11);
	add_xattr(&e, "system.posix_acl_default", acl, sizeof(acl));
	put(w,
	    (struct tarhdr_entry){
		    .path = "f", .e = &f, .xattrs = b.p, .xattrs_len = b.len },
	    "x", 1);
	put(w,
	    (struct tarhdr_entry){
		    .path = "d", .e = &d, .xattrs = e.p, .xattrs_len = e.len },
	    "", 0);
	unpack_quietly(w);
	assert_xattr(w, "f", "security.capability", cap, sizeof(cap));
	assert_xattr(w, "f", "system.posix_acl_access", acl, sizeof(acl));
	assert_xattr(w, "f", "user.a b%=\xc3\xa4\n", "odd", 3);
	assert_xattr(w, "f", "user.empty", "", 0);
	assert_xattr(w, "f", "user.value", "\0one\n\ntwo=\0", 11);
	assert_xattr(w, "d", "system.posix_acl_default", acl, sizeof(acl));
	assert_int_equal(stat_of(w, "f").st_uid, 7);
	buf_free(&b);
	buf_free(&e);
}

/* Hostile blobs: refused, not read past. */
static void test_bad_xattrs(void **state)
{
	static const char *const bad[] = { "\x05usr", "\x01u\xff\xff\xff",
					   "\x80", "\x02us" };
	struct world *w = *state;
	struct entry f = file_entry(0);
	unsigned pad;
	struct sc_err err;

	for (size_t i = 0; i < 4; i++) {
		struct tarhdr_entry e = { .path = "f",
					  .e = &f,
					  .xattrs = bad[i],
					  .xattrs_len = strlen(bad[i]) };

		assert_int_equal(tarhdr_put(w->h, &e, &w->tar, &pad, &err), -1);
		assert_int_equal(err.code, SC_ECORRUPT);
	}
}

static void test_sparse(void **state)
{
	static char data[8192];
	static const struct extent x[] = { { 1 << 20, 4096 },
					   { (9ull << 30) - 4096, 4096 } };
	static const struct extent head = { 0, 4096 };
	struct world *w = *state;
	struct entry f = file_entry(9ull << 30), h = file_entry(100 << 20);
	struct stat st;
	char got[8192];
	int dir, fd;

	memset(data, 'a', 4096);
	memset(data + 4096, 'b', 4096);
	f.bits = h.bits = ENTRY_SPARSE;
	put(w,
	    (struct tarhdr_entry){
		    .path = "dir/big", .e = &f, .extents = x, .nextents = 2 },
	    data, 8192);
	put(w, (struct tarhdr_entry){ .path = "hole", .e = &h }, "", 0);
	put(w,
	    (struct tarhdr_entry){
		    .path = "tail", .e = &h, .extents = &head, .nextents = 1 },
	    data, 4096);
	unpack_quietly(w);
	st = stat_of(w, "dir/big");
	assert_true(st.st_size == (off_t)9 << 30);
	assert_in_range(st.st_blocks, 16, 64);
	st = stat_of(w, "hole");
	assert_int_equal(st.st_size, 100 << 20);
	assert_in_range(st.st_blocks, 0, 8);
	assert_int_equal(st.st_mtim.tv_nsec, 123456789);
	st = stat_of(w, "tail");
	assert_int_equal(st.st_size, 100 << 20);
	assert_in_range(st.st_blocks, 8, 16);
	dir = open_dir(w);
	fd = openat(dir, "dir/big", O_RDONLY | O_CLOEXEC);
	assert_int_equal(pread(fd, got, 4096, 1 << 20), 4096);
	assert_int_equal(pread(fd, got + 4096, 4096, ((off_t)9 << 30) - 4096),
			 4096);
	assert_memory_equal(got, data, 8192);
	close(fd);
	close(dir);
}

/* More data than the octal field holds: the size record is what follows. */
static void test_sizes_in_header(void **state)
{
	static const struct extent x = { 0, 10ull << 30 };
	struct world *w = *state;
	struct entry f = file_entry(10ull << 30), s = file_entry(11ull << 30);
	struct tarhdr_entry e = { .path = "f", .e = &f };
	unsigned pad;

	assert_int_equal(tarhdr_put(w->h, &e, &w->tar, &pad, NULL), 0);
	assert_non_null(
		memmem(w->tar.p, w->tar.len, " size=10737418240\n", 18));
	buf_clear(&w->tar);
	s.bits = ENTRY_SPARSE;
	e = (struct tarhdr_entry){
		.path = "s", .e = &s, .extents = &x, .nextents = 1
	};
	assert_int_equal(tarhdr_put(w->h, &e, &w->tar, &pad, NULL), 0);
	assert_non_null(memmem(w->tar.p, w->tar.len,
			       "GNU.sparse.realsize=11811160064\n", 32));
	/* 10 GiB and one block of map. */
	assert_null(memmem(w->tar.p, w->tar.len, " size=11811160064\n", 18));
	assert_int_equal(pad, 0);
}

/* Many large entries one after the other: the data that is never given must
 * cost nothing. */
static void test_no_data_passes(void **state)
{
	struct world *w = *state;
	struct timespec a, b;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &a);
	for (int i = 0; i < 2000; i++) {
		struct entry f = file_entry(i % 2 ? 1ull << 40 : 200000);
		struct tarhdr_entry e = { .path = "f", .e = &f };
		unsigned pad;

		buf_clear(&w->tar);
		assert_int_equal(tarhdr_put(w->h, &e, &w->tar, &pad, NULL), 0);
		assert_in_range(w->tar.len, 1024, 1536);
	}
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &b);
	assert_in_range(b.tv_sec - a.tv_sec, 0, 5);
}

static void test_single_file_volume(void **state)
{
	struct world *w = *state;
	struct entry f = file_entry(2);

	put(w, (struct tarhdr_entry){ .path = "", .e = &f }, "ok", 2);
	unpack_quietly(w);
	assert_content(w, "file", "ok", 2);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(test_plain),		T(test_short),
		T(test_large_owner),	T(test_times),
		T(test_names),		T(test_long_path),
		T(test_links),		T(test_special),
		T(test_xattrs),		T(test_bad_xattrs),
		T(test_sparse),		T(test_sizes_in_header),
		T(test_no_data_passes), T(test_single_file_volume),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
