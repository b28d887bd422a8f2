/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdatomic.h>

#include <snapctl/base/group.h>

static atomic_int ran, woken;

static int setup(void **state)
{
	(void)state;
	atomic_store(&ran, 0);
	atomic_store(&woken, 0);
	return 0;
}

static int succeed(void *arg, struct sc_err *err)
{
	(void)err;
	atomic_fetch_add((atomic_int *)arg, 1);
	return 0;
}

static void all_are_joined(void **state)
{
	struct group *g;

	(void)state;
	assert_int_equal(group_new(&g, NULL), 0);
	for (int i = 0; i < 40; i++)
		assert_int_equal(group_start(g, succeed, &ran, NULL), 0);
	assert_int_equal(group_join(g, NULL), 0);
	assert_int_equal(atomic_load(&ran), 40);
}

/* Two barriers give the order: the first has failed, and is known to have,
 * before the second fails. */
struct order {
	struct group *g;
	pthread_mutex_t lock;
	pthread_cond_t cond;
	bool stopped;
};

static void wake(void *arg)
{
	struct order *o = arg;

	atomic_fetch_add(&woken, 1);
	pthread_mutex_lock(&o->lock);
	o->stopped = true;
	pthread_cond_broadcast(&o->cond);
	pthread_mutex_unlock(&o->lock);
}

static void wait_for_stop(struct order *o)
{
	pthread_mutex_lock(&o->lock);
	while (!o->stopped)
		pthread_cond_wait(&o->cond, &o->lock);
	pthread_mutex_unlock(&o->lock);
}

static int fail_first(void *arg, struct sc_err *err)
{
	(void)arg;
	return sc_fail(err, SC_ECORRUPT, 0, "the first");
}

static int fail_later(void *arg, struct sc_err *err)
{
	struct order *o = arg;

	wait_for_stop(o);
	assert_true(group_stopping(o->g));
	atomic_fetch_add(&ran, 1);
	return sc_fail(err, SC_EIO, 0, "a later one");
}

static void first_error_is_kept(void **state)
{
	struct order o = { .lock = PTHREAD_MUTEX_INITIALIZER,
			   .cond = PTHREAD_COND_INITIALIZER };
	struct sc_err err = { 0 };

	(void)state;
	assert_int_equal(group_new(&o.g, NULL), 0);
	group_on_stop(o.g, wake, &o);
	assert_false(group_stopping(o.g));
	for (int i = 0; i < 8; i++)
		assert_int_equal(group_start(o.g, fail_later, &o, NULL), 0);
	assert_int_equal(group_start(o.g, fail_first, &o, NULL), 0);
	assert_int_equal(group_join(o.g, &err), -1);
	assert_int_equal(err.code, SC_ECORRUPT);
	assert_string_equal(err.msg, "the first");
	assert_int_equal(atomic_load(&ran), 8);
	assert_int_equal(atomic_load(&woken), 1);
}

static int until_stopped(void *arg, struct sc_err *err)
{
	(void)err;
	wait_for_stop(arg);
	atomic_fetch_add(&ran, 1);
	return 0;
}

static void stop_without_failure(void **state)
{
	struct order o = { .lock = PTHREAD_MUTEX_INITIALIZER,
			   .cond = PTHREAD_COND_INITIALIZER };
	struct sc_err err = { 0 };

	(void)state;
	assert_int_equal(group_new(&o.g, NULL), 0);
	group_on_stop(o.g, wake, &o);
	for (int i = 0; i < 3; i++)
		assert_int_equal(group_start(o.g, until_stopped, &o, NULL), 0);
	group_stop(o.g);
	group_stop(o.g);
	assert_int_equal(group_join(o.g, &err), 0);
	assert_int_equal(atomic_load(&ran), 3);
	assert_int_equal(atomic_load(&woken), 1);
	assert_int_equal(err.code, SC_OK);
}

static void empty_group_succeeds(void **state)
{
	struct group *g;

	(void)state;
	assert_int_equal(group_new(&g, NULL), 0);
	assert_int_equal(group_join(g, NULL), 0);
	assert_true(group_cores() >= 1);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(all_are_joined, setup),
		cmocka_unit_test_setup(first_error_is_kept, setup),
		cmocka_unit_test_setup(stop_without_failure, setup),
		cmocka_unit_test_setup(empty_group_succeeds, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
