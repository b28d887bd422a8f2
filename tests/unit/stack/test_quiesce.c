/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <snapctl/stack/quiesce.h>

#include "fake_docker.h"

struct test {
	struct docker d;
	struct stack_options o;
	struct quiesce_options q;
	struct notes notes;
	struct stack *s;
	struct quiesce *h;
	struct sc_err err;
	struct fake_container *db, *web;
	int before, after;
};

static struct test t;

static int before(void *arg, struct sc_err *err)
{
	(void)arg;
	(void)err;
	t.before++;
	return 0;
}

static void after(void *arg)
{
	(void)arg;
	t.after++;
}

/* db with a volume, web that waits until db is healthy. */
static int set_up(void **state)
{
	(void)state;
	memset(&t, 0, sizeof(t));
	fake_init(&t.d);
	notes_init(&t.notes);
	t.o.project = "shop";
	t.q = (struct quiesce_options){ .stop_timeout = -1,
					.health_timeout = -1,
					.before_stop = before,
					.after_start = after };
	t.db = fake_add(&t.d, "db", "shop", "db");
	t.web = fake_add(&t.d, "web", "shop", "web");
	fake_label(t.db, "com.docker.compose.depends_on", "");
	fake_label(t.web, "com.docker.compose.depends_on",
		   "db:service_healthy:false");
	fake_mount(t.db, "volume", "data", "/data", true);
	fake_volume(&t.d, "data", "shop", "data");
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	quiesce_free(t.h);
	stack_free(t.s);
	notes_free(&t.notes);
	assert_int_equal(t.d.shield, 0);
	fake_done(&t.d);
	return 0;
}

static void prepare(void)
{
	if (stack_resolve(&t.d, &t.o, &t.notes, &t.s, &t.err) < 0 ||
	    stack_check(t.s, &t.o, &t.err) < 0 ||
	    quiesce_new(&t.d, t.s, &t.q, &t.notes, &t.h, &t.err) < 0)
		fail_msg("%s", t.err.msg);
}

static void stop(void)
{
	prepare();
	if (quiesce_stop(t.h, &t.err) < 0)
		fail_msg("%s", t.err.msg);
}

static void start(void)
{
	if (quiesce_start(t.h, &t.err) < 0)
		fail_msg("%s", t.err.msg);
}

static void is_torn(const char *part)
{
	assert_int_equal(quiesce_check(t.h, &t.err), -1);
	assert_int_equal(t.err.code, SC_ETORN);
	if (!strstr(t.err.msg, part))
		fail_msg("\"%s\" lacks \"%s\"", t.err.msg, part);
}

static bool warned(const char *part)
{
	for (size_t i = 0; i < t.notes.n; i++)
		if (t.notes.v[i].kind == NOTE_WARN &&
		    strstr(t.notes.v[i].text, part))
			return true;
	return false;
}

static const char *how(const char *name)
{
	for (size_t i = 0; i < t.s->ncontainers; i++)
		if (strcmp(t.s->containers[i].c->name, name) == 0)
			return quiesce_how(t.h, i);
	return "none";
}

/* -- the road ------------------------------------------------------------- */

static void test_order_and_health(void **state)
{
	(void)state;
	t.db->health = DOCKER_HEALTHY;
	t.db->healthy_after = 3;
	stop();
	assert_string_equal(t.d.log, "stop web; stop db");
	assert_int_equal(t.before, 1);
	assert_true(quiesce_stopped_any(t.h));
	assert_int_equal(quiesce_check(t.h, &t.err), 0);
	t.db->healthy_after = 3;
	start();
	assert_string_equal(t.d.log, "stop web; stop db; start db; start web");
	assert_int_equal(t.db->health, DOCKER_HEALTHY);
	assert_int_equal(t.after, 1);
	assert_true(quiesce_clean(t.h));
	assert_true(quiesce_downtime(t.h) > 0);
	assert_string_equal(how("db"), "exited 0");
	assert_int_equal(t.notes.warnings, 0);
	/* Again changes nothing. */
	start();
	assert_string_equal(t.d.log, "stop web; stop db; start db; start web");
}

static void test_never_healthy(void **state)
{
	(void)state;
	t.db->health = DOCKER_HEALTHY;
	t.db->interval = t.db->timeout = 10000000; /* 10 ms */
	t.db->retries = 2;
	stop();
	start();
	assert_string_equal(t.d.log, "stop web; stop db; start db; start web");
	assert_true(warned("db did not become healthy in time"));
	assert_int_equal(t.notes.warnings, 1);
}

static void ends_at_once(struct docker *d, const char *what, const char *id)
{
	if (strcmp(what, "start") == 0 && strcmp(id, "db") == 0)
		d->c[0].state = DOCKER_EXITED;
}

/* The default bound is four minutes: what has ended is not waited for. */
static void test_ends_instead_of_healthy(void **state)
{
	(void)state;
	t.db->health = DOCKER_HEALTHY;
	stop();
	t.d.on_call = ends_at_once;
	start();
	assert_true(warned("db has ended"));
	assert_int_equal(t.web->state, DOCKER_RUNNING);
}

static void test_started_and_ended(void **state)
{
	(void)state;
	stop();
	t.db->exit_code = 1;
	t.d.on_call = ends_at_once;
	start();
	assert_true(warned("db was started and has ended again (exit code 1)"));
}

/* What came between looking and stopping is refused, not torn. */
static void test_stranger_before_the_stop(void **state)
{
	struct fake_container *c;

	(void)state;
	prepare();
	c = fake_add(&t.d, "writer", NULL, NULL);
	fake_mount(c, "volume", "data", "/d", true);
	assert_int_equal(quiesce_stop(t.h, &t.err), -1);
	assert_int_equal(t.err.code, SC_EREFUSED);
	assert_string_equal(t.d.log, "");
}

static void test_nothing_runs(void **state)
{
	(void)state;
	t.db->state = DOCKER_EXITED;
	t.web->state = DOCKER_CREATED;
	stop();
	assert_int_equal(t.before, 0);
	assert_false(quiesce_stopped_any(t.h));
	assert_int_equal(quiesce_check(t.h, &t.err), 0);
	start();
	assert_string_equal(t.d.log, "");
	assert_string_equal(how("db"), "was not running");
	assert_true(quiesce_downtime(t.h) == 0);
}

static void test_exited_stays(void **state)
{
	(void)state;
	t.web->state = DOCKER_EXITED;
	stop();
	start();
	assert_string_equal(t.d.log, "stop db; start db");
	assert_int_equal(t.web->state, DOCKER_EXITED);
}

static void test_paused(void **state)
{
	(void)state;
	t.web->state = DOCKER_EXITED;
	t.db->state = DOCKER_PAUSED;
	stop();
	start();
	assert_string_equal(t.d.log, "unpause db; stop db; start db; pause db");
	assert_int_equal(t.db->state, DOCKER_PAUSED);
}

static void test_crash_loop(void **state)
{
	(void)state;
	t.web->state = DOCKER_EXITED;
	t.db->state = DOCKER_RESTARTING;
	t.db->policy = "always";
	t.db->exit_code = 3;
	stop();
	assert_int_equal(quiesce_check(t.h, &t.err), 0);
	/* Exited before the stop: 3 is what its last life ended with. */
	assert_string_equal(how("db"), "exited 3");
	t.db->no_start = true;
	start();
	assert_true(warned("kept restarting"));
}

static void test_killed(void **state)
{
	(void)state;
	t.db->exit_code = 137;
	stop();
	assert_false(quiesce_clean(t.h));
	assert_string_equal(how("db"), "killed (137)");
	assert_true(warned("db did not stop in time"));
	start();
	assert_int_equal(t.db->state, DOCKER_RUNNING);
}

/* One that has nothing of the snapshot may be killed. */
static void test_killed_without_volume(void **state)
{
	(void)state;
	t.web->exit_code = 137;
	stop();
	assert_true(quiesce_clean(t.h));
	assert_string_equal(how("web"), "killed (137)");
	assert_int_equal(t.notes.warnings, 0);
	start();
}

static void send_oom(struct docker *d, const char *what, const char *id)
{
	if (strcmp(what, "stop") == 0 && strcmp(id, "db") == 0)
		fake_event(d, "oom", "db", -1);
}

static void test_oom(void **state)
{
	(void)state;
	t.d.on_call = send_oom;
	stop();
	assert_false(quiesce_clean(t.h));
	assert_true(warned("db ran out of memory"));
	start();
}

static void test_auto_remove(void **state)
{
	(void)state;
	t.o.allow_rm = true;
	t.db->auto_remove = true;
	t.db->exit_code = 0;
	stop();
	assert_string_equal(how("db"), "exited 0");
	assert_int_equal(quiesce_check(t.h, &t.err), 0);
	start();
	assert_true(warned("--rm"));
	assert_int_equal(t.web->state, DOCKER_RUNNING);
}

static void test_no_stop(void **state)
{
	(void)state;
	t.o.no_stop = true;
	stop();
	assert_int_equal(quiesce_check(t.h, &t.err), 0);
	start();
	assert_string_equal(t.d.log, "");
	assert_false(quiesce_clean(t.h));
}

static void test_ignored_sharing(void **state)
{
	struct fake_container *c = fake_add(&t.d, "foreign", NULL, NULL);

	(void)state;
	fake_mount(c, "volume", "data", "/d", true);
	t.o.ignore_sharing = true;
	stop();
	assert_int_equal(quiesce_check(t.h, &t.err), 0);
	assert_false(quiesce_clean(t.h));
	start();
	assert_int_equal(c->state, DOCKER_RUNNING);
	assert_null(strstr(t.d.log, "foreign"));
}

static void test_oneoff_stays_down(void **state)
{
	struct fake_container *c = fake_add(&t.d, "run", "shop", "db");

	(void)state;
	fake_label(c, "com.docker.compose.oneoff", "True");
	fake_mount(c, "volume", "data", "/d", true);
	t.o.stop_oneoff = true;
	stop();
	assert_int_equal(c->state, DOCKER_EXITED);
	start();
	assert_int_equal(c->state, DOCKER_EXITED);
	assert_int_equal(t.db->state, DOCKER_RUNNING);
}

/* -- things that go wrong ------------------------------------------------- */

static int refuse(void *arg, struct sc_err *err)
{
	(void)arg;
	return sc_fail(err, SC_EIO, 0, "no journal");
}

static void test_hook_refuses(void **state)
{
	(void)state;
	t.q.before_stop = refuse;
	prepare();
	assert_int_equal(quiesce_stop(t.h, &t.err), -1);
	assert_string_equal(t.err.msg, "no journal");
	assert_false(quiesce_stopped_any(t.h));
	start();
	assert_string_equal(t.d.log, "");
}

static void test_does_not_stay_stopped(void **state)
{
	(void)state;
	t.db->runs_on = true;
	prepare();
	assert_int_equal(quiesce_stop(t.h, &t.err), -1);
	assert_int_equal(t.err.code, SC_EENGINE);
	assert_non_null(strstr(t.err.msg, "does not stay stopped"));
	start();
	assert_int_equal(t.web->state, DOCKER_RUNNING);
}

static void test_recreated_before_the_stop(void **state)
{
	struct fake_container *c;

	(void)state;
	prepare();
	t.db->removed = true;
	c = fake_add(&t.d, "db-new", "shop", "db");
	fake_mount(c, "volume", "data", "/d", true);
	assert_int_equal(quiesce_stop(t.h, &t.err), -1);
	assert_int_equal(t.err.code, SC_EREFUSED);
	assert_string_equal(t.d.log, "");
}

static void test_recreated_meanwhile(void **state)
{
	struct fake_container *c;

	(void)state;
	stop();
	t.db->removed = true;
	c = fake_add(&t.d, "db-new", "shop", "db");
	c->state = DOCKER_CREATED;
	start();
	assert_string_equal(t.d.log,
			    "stop web; stop db; start db-new; start web");
}

static void test_one_cannot_start(void **state)
{
	struct fake_container *c = fake_add(&t.d, "more", "shop", "more");

	(void)state;
	fake_mount(c, "volume", "data", "/d", true);
	fake_label(c, "com.docker.compose.depends_on", "");
	stop();
	t.db->no_start = true;
	assert_int_equal(quiesce_start(t.h, &t.err), -1);
	assert_int_equal(t.err.code, SC_EENGINE);
	assert_string_equal(t.err.msg, "container db: port is taken");
	assert_int_equal(t.web->state, DOCKER_RUNNING);
	assert_int_equal(c->state, DOCKER_RUNNING);
	assert_int_equal(t.after, 0);
	/* The next try brings it. */
	t.db->no_start = false;
	start();
	assert_int_equal(t.db->state, DOCKER_RUNNING);
	assert_int_equal(t.after, 1);
}

/* -- what must be seen ---------------------------------------------------- */

static void test_started_by_hand(void **state)
{
	struct sc_err err;

	(void)state;
	stop();
	assert_int_equal(docker_container_start(&t.d, "db", &err), 0);
	is_torn("db was started");
	start();
}

static void test_started_and_stopped_again(void **state)
{
	struct sc_err err;

	(void)state;
	stop();
	assert_int_equal(docker_container_start(&t.d, "db", &err), 0);
	assert_int_equal(docker_container_stop(&t.d, "db", -1, &err), 0);
	is_torn("db was started");
	start();
}

static void test_stranger_runs(void **state)
{
	struct fake_container *c;

	(void)state;
	stop();
	c = fake_add(&t.d, "foreign", NULL, NULL);
	fake_mount(c, "volume", "data", "/d", false);
	assert_int_equal(quiesce_check(t.h, &t.err), 0);
	c = fake_add(&t.d, "writer", NULL, NULL);
	fake_mount(c, "volume", "data", "/d", true);
	is_torn("writer");
	start();
}

/* The run's own helper writes to what it restores. */
static void test_helper_is_no_stranger(void **state)
{
	struct fake_container *c;

	(void)state;
	t.o.for_restore = true;
	t.q.helper_id = "helper";
	prepare();
	c = fake_add(&t.d, "helper", NULL, NULL);
	fake_mount(c, "volume", "data", "/d", true);
	if (quiesce_stop(t.h, &t.err) < 0)
		fail_msg("%s", t.err.msg);
	assert_int_equal(quiesce_check(t.h, &t.err), 0);
	start();
	assert_null(strstr(t.d.log, "helper"));
}

static void test_short_lived_stranger(void **state)
{
	struct fake_container *c;

	(void)state;
	stop();
	c = fake_add(&t.d, "harmless", NULL, NULL);
	fake_event(&t.d, "create", "harmless", -1);
	fake_event(&t.d, "start", "harmless", -1);
	assert_int_equal(quiesce_check(t.h, &t.err), 0);
	c->removed = true;
	/* Seen at its creation, gone by the time of its start. */
	c = fake_add(&t.d, "quick", NULL, NULL);
	fake_mount(c, "volume", "data", "/d", true);
	c->state = DOCKER_CREATED;
	fake_event(&t.d, "create", "quick", -1);
	assert_int_equal(quiesce_check(t.h, &t.err), 0);
	c->removed = true;
	fake_event(&t.d, "start", "quick", -1);
	is_torn("quick");
	start();
}

static void test_unseen_stranger(void **state)
{
	(void)state;
	stop();
	fake_event(&t.d, "start", "ghost", -1);
	is_torn("ghost was started and vanished");
	start();
}

static void test_stream_breaks(void **state)
{
	uint64_t one = 1;

	(void)state;
	stop();
	t.d.broken = true;
	assert_int_equal(write(t.d.fd, &one, sizeof(one)), sizeof(one));
	is_torn("events broke off");
	t.d.broken = false;
	start();
	assert_int_equal(t.web->state, DOCKER_RUNNING);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		T(test_order_and_health),
		T(test_never_healthy),
		T(test_ends_instead_of_healthy),
		T(test_started_and_ended),
		T(test_stranger_before_the_stop),
		T(test_nothing_runs),
		T(test_exited_stays),
		T(test_paused),
		T(test_crash_loop),
		T(test_killed),
		T(test_killed_without_volume),
		T(test_oom),
		T(test_auto_remove),
		T(test_no_stop),
		T(test_ignored_sharing),
		T(test_oneoff_stays_down),
		T(test_hook_refuses),
		T(test_does_not_stay_stopped),
		T(test_recreated_before_the_stop),
		T(test_recreated_meanwhile),
		T(test_one_cannot_start),
		T(test_started_by_hand),
		T(test_started_and_stopped_again),
		T(test_stranger_runs),
		T(test_helper_is_no_stranger),
		T(test_short_lived_stranger),
		T(test_unseen_stranger),
		T(test_stream_breaks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
