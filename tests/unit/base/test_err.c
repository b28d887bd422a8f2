/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <snapctl/base/err.h>
#include <snapctl/base/mem.h>

static void message_code_and_cause(void **state)
{
	struct sc_err err = { 0 };

	(void)state;
	assert_int_equal(sc_fail(&err, SC_EIO, ENOENT, "open %s", "f"), -1);
	assert_int_equal(err.code, SC_EIO);
	assert_int_equal(err.sys, ENOENT);
	assert_string_equal(err.msg, "open f: No such file or directory");
	assert_int_equal(sc_wrap(&err, "pack %d", 7), -1);
	assert_string_equal(err.msg,
			    "pack 7: open f: No such file or directory");
	assert_int_equal(err.code, SC_EIO);
	assert_int_equal(sc_fail(&err, SC_EREFUSED, 0, "no"), -1);
	assert_string_equal(err.msg, "no");
	assert_int_equal(sc_oom(&err, "table"), -1);
	assert_int_equal(err.code, SC_ENOMEM);
	assert_string_equal(err.msg, "allocate table: Cannot allocate memory");
}

static void nobody_needs_to_listen(void **state)
{
	(void)state;
	assert_int_equal(sc_fail(NULL, SC_EIO, 0, "x"), -1);
	assert_int_equal(sc_wrap(NULL, "x"), -1);
	assert_int_equal(sc_oom(NULL, "x"), -1);
}

static void long_messages_are_cut(void **state)
{
	struct sc_err err = { 0 };
	char big[3000];

	(void)state;
	memset(big, 'x', sizeof(big) - 1);
	big[sizeof(big) - 1] = 0;
	sc_fail(&err, SC_EIO, ENOENT, "%s", big);
	assert_int_equal(strlen(err.msg), SC_ERR_MSG - 1);
	sc_wrap(&err, "context");
	assert_int_equal(strlen(err.msg), SC_ERR_MSG - 1);
	assert_memory_equal(err.msg, "context: xxx", 12);
	sc_wrap(&err, "%s", big);
	assert_int_equal(strlen(err.msg), SC_ERR_MSG - 1);
}

static void memory_grows_and_is_taken(void **state)
{
	auto_free uint32_t *v = NULL;
	uint32_t *taken;
	size_t cap = 0;

	(void)state;
	assert_int_equal(mem_grow(&v, &cap, 1, sizeof(*v)), 0);
	assert_int_equal(cap, 16);
	v[15] = 7;
	assert_int_equal(mem_grow(&v, &cap, 16, sizeof(*v)), 0);
	assert_int_equal(cap, 16);
	assert_int_equal(mem_grow(&v, &cap, 100, sizeof(*v)), 0);
	assert_int_equal(cap, 128);
	assert_int_equal(v[15], 7);
	/* Too much: what is there stays. */
	assert_int_equal(mem_grow(&v, &cap, SIZE_MAX, 1), -1);
	assert_int_equal(errno, ENOMEM);
	assert_int_equal(cap, 128);
	assert_int_equal(v[15], 7);
	taken = take_ptr(v);
	assert_null(v);
	free(taken);
}

static void descriptors_close_at_the_end(void **state)
{
	int seen;

	(void)state;
	{
		auto_close int fd = dup(2);

		assert_true(fd >= 0);
		seen = fd;
		errno = ENOSPC;
	}
	assert_int_equal(errno, ENOSPC);
	assert_int_equal(close(seen), -1);
	assert_int_equal(errno, EBADF);
	{
		auto_close int fd = dup(2);

		seen = take_fd(&fd);
		assert_int_equal(fd, -1);
	}
	assert_int_equal(close(seen), 0);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(message_code_and_cause),
		cmocka_unit_test(nobody_needs_to_listen),
		cmocka_unit_test(long_messages_are_cut),
		cmocka_unit_test(memory_grows_and_is_taken),
		cmocka_unit_test(descriptors_close_at_the_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
