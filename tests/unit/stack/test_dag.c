/* SPDX-License-Identifier: MIT */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "../../../src/stack/dag.h"

struct run {
	pthread_mutex_t lock;
	pthread_barrier_t meet;
	bool edge[8][8]; /* [job][other]: job after other */
	bool meets[8];
	bool done[8];
	bool early; /* a job began before one it waits for was done */
	size_t n, fails, ran;
};

static struct run r;

static bool after(void *arg, size_t job, size_t other)
{
	(void)arg;
	return r.edge[job][other];
}

static int run_job(void *arg, size_t job, struct sc_err *err)
{
	(void)arg;
	pthread_mutex_lock(&r.lock);
	for (size_t i = 0; i < r.n; i++)
		r.early |= r.edge[job][i] && !r.done[i];
	r.ran++;
	pthread_mutex_unlock(&r.lock);
	if (r.meets[job])
		pthread_barrier_wait(&r.meet);
	pthread_mutex_lock(&r.lock);
	r.done[job] = true;
	pthread_mutex_unlock(&r.lock);
	if (job == r.fails)
		return sc_fail(err, SC_EIO, 0, "job %zu", job);
	return 0;
}

static int go(size_t n, bool keep_going, struct sc_err *err)
{
	struct dag d = {
		.n = n, .after = after, .run = run_job, .keep_going = keep_going
	};

	r.n = n;
	return dag_run(&d, err);
}

static int set_up(void **state)
{
	(void)state;
	memset(&r, 0, sizeof(r));
	r.fails = SIZE_MAX;
	pthread_mutex_init(&r.lock, NULL);
	return pthread_barrier_init(&r.meet, NULL, 2);
}

static int tear_down(void **state)
{
	(void)state;
	pthread_mutex_destroy(&r.lock);
	return pthread_barrier_destroy(&r.meet);
}

static void test_nothing(void **state)
{
	struct sc_err err;

	(void)state;
	assert_int_equal(go(0, false, &err), 0);
}

/* 0 <- 1 <- 2, and 3 that can only end together with 2: it does not hold up
 * the chain, as it would if jobs went in waves. */
static void test_no_waves(void **state)
{
	struct sc_err err;

	(void)state;
	r.edge[1][0] = r.edge[2][1] = true;
	r.meets[2] = r.meets[3] = true;
	assert_int_equal(go(4, false, &err), 0);
	assert_int_equal(r.ran, 4);
	assert_false(r.early);
}

static void test_failure_stops(void **state)
{
	struct sc_err err = { 0 };

	(void)state;
	r.edge[1][0] = r.edge[2][1] = true;
	r.fails = 1;
	assert_int_equal(go(3, false, &err), -1);
	assert_string_equal(err.msg, "job 1");
	assert_int_equal(r.ran, 2);
}

static void test_keeps_going(void **state)
{
	struct sc_err err = { 0 };

	(void)state;
	r.edge[1][0] = r.edge[2][1] = true;
	r.fails = 0;
	assert_int_equal(go(3, true, &err), -1);
	assert_string_equal(err.msg, "job 0");
	assert_int_equal(r.ran, 3);
	assert_false(r.early);
}

static void test_circle_ends(void **state)
{
	struct sc_err err;

	(void)state;
	r.edge[0][1] = r.edge[1][0] = true;
	assert_int_equal(go(2, true, &err), 0);
	assert_int_equal(r.ran, 2);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		T(test_nothing),     T(test_no_waves),	  T(test_failure_stops),
		T(test_keeps_going), T(test_circle_ends),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
