/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <snapctl/base/io.h>
#include <snapctl/base/mem.h>

struct place {
	char path[64];
	int dir;
};

static int setup(void **state)
{
	struct place *p = calloc(1, sizeof(*p));

	assert_non_null(p);
	strcpy(p->path, "/tmp/snapctl-io-XXXXXX");
	assert_non_null(mkdtemp(p->path));
	p->dir = open(p->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(p->dir >= 0);
	*state = p;
	return 0;
}

static unsigned count_and_remove(struct place *p, bool remove)
{
	DIR *d = opendir(p->path);
	struct dirent *e;
	unsigned n = 0;

	assert_non_null(d);
	while ((e = readdir(d))) {
		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
			continue;
		n++;
		if (remove && unlinkat(p->dir, e->d_name, 0) < 0)
			assert_int_equal(
				unlinkat(p->dir, e->d_name, AT_REMOVEDIR), 0);
	}
	assert_int_equal(closedir(d), 0);
	return n;
}

static int teardown(void **state)
{
	struct place *p = *state;

	count_and_remove(p, true);
	close(p->dir);
	rmdir(p->path);
	free(p);
	return 0;
}

static void file_is(struct place *p, const char *name, const char *want)
{
	auto_buf struct buf b = { 0 };

	assert_int_equal(io_read_file(p->dir, name, 1000, &b, NULL), 1);
	assert_string_equal(buf_cstr(&b), want);
}

static void published_whole_and_alone(void **state)
{
	struct place *p = *state;
	struct stat st;

	assert_int_equal(io_write_file(p->dir, "f", "one", 3, NULL), 0);
	file_is(p, "f", "one");
	assert_int_equal(fstatat(p->dir, "f", &st, 0), 0);
	assert_int_equal(st.st_mode, S_IFREG | 0600);
	assert_int_equal(io_write_file(p->dir, "f", "", 0, NULL), 0);
	file_is(p, "f", "");
	assert_int_equal(count_and_remove(p, false), 1);
}

static void failed_publication_leaves_nothing(void **state)
{
	struct place *p = *state;
	struct sc_err err = { 0 };

	assert_int_equal(io_mkdir(p->dir, "d", 0700, NULL), 0);
	assert_int_equal(io_write_file(p->dir, "d", "x", 1, &err), -1);
	assert_int_equal(err.code, SC_EIO);
	assert_int_equal(err.sys, EISDIR);
	assert_int_equal(count_and_remove(p, false), 1);
}

static void publish_moves_between_directories(void **state)
{
	struct place *p = *state;
	auto_close int sub = -1;
	auto_close int fd =
		openat(p->dir, "tmp", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(io_mkdir(p->dir, "d", 0700, NULL), 0);
	sub = openat(p->dir, "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(sub >= 0);
	assert_int_equal(io_write_all(fd, "data", 4, "tmp", NULL), 0);
	assert_int_equal(io_publish(fd, p->dir, "tmp", sub, "f", NULL), 0);
	file_is(p, "d/f", "data");
	assert_int_equal(faccessat(p->dir, "tmp", F_OK, 0), -1);
	assert_int_equal(errno, ENOENT);
	assert_int_equal(unlinkat(sub, "f", 0), 0);
}

static void publish_names_what_failed(void **state)
{
	struct place *p = *state;
	struct sc_err err = { 0 };
	auto_close int fd =
		openat(p->dir, "a", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(io_publish(fd, p->dir, "gone", p->dir, "b", &err), -1);
	assert_string_equal(err.msg,
			    "rename gone to b: No such file or directory");
	assert_int_equal(io_publish(-1, p->dir, "a", p->dir, "b", &err), -1);
	assert_string_equal(err.msg, "fsync a: Bad file descriptor");
	assert_int_equal(faccessat(p->dir, "a", F_OK, 0), 0);
}

static void read_file_tells_absent_and_too_big(void **state)
{
	struct place *p = *state;
	auto_buf struct buf b = { 0 };
	struct sc_err err = { 0 };

	assert_int_equal(io_read_file(p->dir, "none", 10, &b, &err), 0);
	assert_int_equal(io_write_file(p->dir, "f", "12345", 5, NULL), 0);
	assert_int_equal(io_read_file(p->dir, "f", 5, &b, &err), 1);
	assert_int_equal(b.len, 5);
	assert_int_equal(io_read_file(p->dir, "f", 4, &b, &err), -1);
	assert_int_equal(err.code, SC_ECORRUPT);
}

/* Neither hangs nor reads: a fifo without a writer, a directory. */
static void read_file_takes_only_files(void **state)
{
	struct place *p = *state;
	auto_buf struct buf b = { 0 };
	struct sc_err err = { 0 };

	assert_int_equal(mkfifoat(p->dir, "fifo", 0600), 0);
	assert_int_equal(io_read_file(p->dir, "fifo", 10, &b, &err), -1);
	assert_int_equal(err.code, SC_ECORRUPT);
	err = (struct sc_err){ 0 };
	assert_int_equal(io_read_file(p->dir, ".", 10000000, &b, &err), -1);
	assert_int_equal(err.code, SC_ECORRUPT);
}

static void positioned_reads_and_writes(void **state)
{
	struct place *p = *state;
	struct sc_err err = { 0 };
	char got[8] = { 0 };
	auto_close int fd =
		openat(p->dir, "f", O_RDWR | O_CREAT | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(io_pwrite_all(fd, "cdef", 4, 2, "f", NULL), 0);
	assert_int_equal(io_pwrite_all(fd, "ab", 2, 0, "f", NULL), 0);
	assert_int_equal(io_pread_all(fd, got, 3, 1, "f", NULL), 0);
	assert_memory_equal(got, "bcd", 3);
	assert_int_equal(io_pread_some(fd, got, 8, 4, "f", NULL), 2);
	assert_memory_equal(got, "ef", 2);
	assert_int_equal(io_pread_some(fd, got, 8, 100, "f", NULL), 0);
	assert_int_equal(io_pread_all(fd, got, 8, 0, "f", &err), -1);
	assert_int_equal(err.code, SC_ECORRUPT);
}

static void whole_reads_over_a_pipe(void **state)
{
	char got[8];
	int fd[2];

	(void)state;
	assert_int_equal(pipe2(fd, O_CLOEXEC), 0);
	assert_int_equal(io_write_all(fd[1], "abc", 3, "pipe", NULL), 0);
	assert_int_equal(io_write_all(fd[1], "de", 2, "pipe", NULL), 0);
	assert_int_equal(close(fd[1]), 0);
	assert_int_equal(io_read_some(fd[0], got, 8, "pipe", NULL), 5);
	assert_memory_equal(got, "abcde", 5);
	assert_int_equal(io_read_some(fd[0], got, 8, "pipe", NULL), 0);
	assert_int_equal(close(fd[0]), 0);
}

static void full_disk_is_said(void **state)
{
	struct sc_err err = { 0 };
	auto_close int fd = open("/dev/full", O_WRONLY | O_CLOEXEC);

	(void)state;
	assert_true(fd >= 0);
	assert_int_equal(io_write_all(fd, "x", 1, "pack", &err), -1);
	assert_int_equal(err.code, SC_EIO);
	assert_int_equal(err.sys, ENOSPC);
	assert_string_equal(err.msg, "write pack: No space left on device");
}

static void mkdir_accepts_what_is_there(void **state)
{
	struct place *p = *state;
	struct sc_err err = { 0 };

	assert_int_equal(io_mkdir(p->dir, "d", 0700, NULL), 0);
	assert_int_equal(io_mkdir(p->dir, "d", 0700, NULL), 0);
	assert_int_equal(io_mkdir(p->dir, "none/d", 0700, &err), -1);
	assert_int_equal(err.sys, ENOENT);
}

static void random_names_differ(void **state)
{
	char a[64], b[64];

	(void)state;
	assert_int_equal(io_random_name(a, sizeof(a), ".tmp-", NULL), 0);
	assert_int_equal(io_random_name(b, sizeof(b), ".tmp-", NULL), 0);
	assert_int_equal(strlen(a), 5 + 16);
	assert_int_equal(strspn(a + 5, "0123456789abcdef"), 16);
	assert_memory_equal(a, ".tmp-", 5);
	assert_string_not_equal(a, b);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	static const struct CMUnitTest tests[] = {
		T(published_whole_and_alone),
		T(failed_publication_leaves_nothing),
		T(publish_moves_between_directories),
		T(publish_names_what_failed),
		T(read_file_tells_absent_and_too_big),
		T(read_file_takes_only_files),
		T(positioned_reads_and_writes),
		T(whole_reads_over_a_pipe),
		T(full_disk_is_said),
		T(mkdir_accepts_what_is_there),
		T(random_names_differ),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
