/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <poll.h>
#include <signal.h>

#include <snapctl/base/cancel.h>

static bool readable(const struct cancel *c)
{
	struct pollfd p = { .fd = c->fd, .events = POLLIN };

	return poll(&p, 1, 0) == 1 && (p.revents & POLLIN);
}

static void set_once_and_for_good(void **state)
{
	struct cancel c;
	struct sc_err err = { 0 };

	(void)state;
	assert_int_equal(cancel_init(&c, NULL), 0);
	assert_false(cancel_is_set(&c));
	assert_false(readable(&c));
	assert_int_equal(cancel_check(&c, &err), 0);
	cancel_set(&c, SIGTERM);
	cancel_set(&c, SIGINT); /* the first one is the reason */
	assert_true(cancel_is_set(&c));
	assert_true(readable(&c));
	assert_true(readable(&c));
	assert_int_equal(cancel_check(&c, &err), -1);
	assert_int_equal(err.code, SC_EINTR);
	assert_string_equal(err.msg, "interrupted by SIGTERM");
	cancel_close(&c);
}

static void none_is_never_set(void **state)
{
	(void)state;
	assert_false(cancel_is_set(NULL));
	assert_int_equal(cancel_check(NULL, NULL), 0);
}

static void signals_set_it(void **state)
{
	static const int sigs[] = { SIGINT, SIGTERM, SIGHUP };

	(void)state;
	for (size_t i = 0; i < 3; i++) {
		struct cancel c;

		assert_int_equal(cancel_init(&c, NULL), 0);
		assert_int_equal(cancel_on_signals(&c, NULL), 0);
		assert_int_equal(raise(sigs[i]), 0);
		assert_int_equal(raise(sigs[i]), 0);
		assert_int_equal(c.sig, sigs[i]);
		assert_true(readable(&c));
		cancel_close(&c);
		/* With none to set, a signal does nothing. */
		assert_int_equal(raise(sigs[i]), 0);
	}
	assert_int_equal(raise(SIGPIPE), 0);
}

static void ignored_hangup_stays_ignored(void **state)
{
	struct cancel c;

	(void)state;
	assert_true(signal(SIGHUP, SIG_IGN) != SIG_ERR);
	assert_int_equal(cancel_init(&c, NULL), 0);
	assert_int_equal(cancel_on_signals(&c, NULL), 0);
	assert_int_equal(raise(SIGHUP), 0);
	assert_false(cancel_is_set(&c));
	cancel_close(&c);
	assert_true(signal(SIGHUP, SIG_DFL) != SIG_ERR);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(set_once_and_for_good),
		cmocka_unit_test(none_is_never_set),
		cmocka_unit_test(signals_set_it),
		cmocka_unit_test(ignored_hangup_stays_ignored),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
