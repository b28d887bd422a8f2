/* SPDX-License-Identifier: MIT */
/* The event stream: events cut over chunks, hostile ones, its end, and the
 * descriptor that says when to look. */
#include "docker/fake.h"

#include "../../../src/docker/internal.h"

#define DIE                                                                    \
	"{\"status\":\"die\",\"id\":\"c1\",\"Type\":\"container\",\"Action\":" \
	"\"die\",\"Actor\":{\"ID\":\"c1\",\"Attributes\":{\"exitCode\":"       \
	"\"137\",\"name\":\"x\"}},\"time\":1,\"timeNano\":"                    \
	"1700000000000000001}\n"
#define START                                                             \
	"{\"Type\":\"container\",\"Action\":\"start\",\"Actor\":{\"ID\":" \
	"\"c2\"},\"timeNano\":5}\n"
#define NETWORK "{\"Type\":\"network\",\"Action\":\"connect\"}\n"

static void test_parse(void **state)
{
	static const struct {
		const char *text;
		int rc;
		const char *action, *id;
		int code;
	} rows[] = {
		{ DIE, 1, "die", "c1", 137 },
		{ START, 1, "start", "c2", -1 },
		{ NETWORK, 0, NULL, NULL, 0 },
		{ "{\"Type\":\"container\",\"Action\":\"died\",\"Actor\":{"
		  "\"ID\":\"p\",\"Attributes\":{\"containerExitCode\":\"3\"}}}",
		  1, "die", "p", 3 },
		{ "{\"Type\":\"container\",\"Action\":\"health_status: healthy"
		  "\"}",
		  1, "health_status: healthy", "", -1 },
		{ "{\"Type\":\"container\",\"Action\":\"die\",\"Actor\":{"
		  "\"Attributes\":{\"exitCode\":\"99999999999999\"}}}",
		  1, "die", "", -1 },
		{ "{\"Type\":\"container\",\"Action\":\"die\",\"Actor\":{"
		  "\"Attributes\":{\"exitCode\":\"1x\"}}}",
		  1, "die", "", -1 },
		{ "{\"Type\":\"container\",\"Action\":7,\"Actor\":[]}", 0, NULL,
		  NULL, 0 },
		{ "{}", 0, NULL, NULL, 0 },
		{ "[]", -1, NULL, NULL, 0 },
		{ "{\"Type\":", -1, NULL, NULL, 0 },
		{ "garbage", -1, NULL, NULL, 0 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct docker_event e;
		struct sc_err err = { 0 };

		assert_int_equal(docker_event_parse(rows[i].text,
						    strlen(rows[i].text), &e,
						    &err),
				 rows[i].rc);
		if (rows[i].rc < 0)
			assert_int_equal(err.code, SC_EPROTO);
		if (rows[i].rc < 1)
			continue;
		assert_string_equal(e.action, rows[i].action);
		assert_string_equal(e.id, rows[i].id);
		assert_string_equal(e.type, "container");
		assert_int_equal(e.exit_code, rows[i].code);
	}
}

/* -- streams ------------------------------------------------------------ */

struct script {
	const char *text;
	size_t step; /* bytes per chunk */
	bool hang;   /* afterwards, else close */
	bool proper; /* with the last chunk */
	int go;	     /* eventfd: wait for it before the events, or -1 */
};

static bool is_events(const struct fake_req *rq)
{
	/* The engine's clock, as its /info tells it. */
	return fake_is(rq, "GET",
		       "/v1.41/events?filters=%7B%22type%22%3A%5B"
		       "%22container%22%5D%7D&since=1769860800.500000000");
}

static bool stream(struct fake_req *rq, void *arg)
{
	const struct script *s = arg;
	size_t n = strlen(s->text);
	eventfd_t v;

	if (fake_usual(rq))
		return true;
	if (!is_events(rq))
		return fake_answer(rq, 400, "", "{\"message\":\"bad query\"}");
	if (!fake_printf(rq->fd, "HTTP/1.1 200 OK\r\nTransfer-Encoding: "
				 "chunked\r\n\r\n"))
		return false;
	if (s->go >= 0)
		(void)eventfd_read(s->go, &v);
	for (size_t i = 0; i < n; i += s->step) {
		size_t k = n - i < s->step ? n - i : s->step;

		if (!fake_printf(rq->fd, "%zx\r\n", k) ||
		    !fake_write(rq->fd, s->text + i, k) ||
		    !fake_write(rq->fd, "\r\n", 2))
			return false;
	}
	if (s->hang)
		fake_hang(rq);
	else if (s->proper)
		(void)fake_printf(rq->fd, "0\r\n\r\n");
	return false;
}

struct fixture {
	struct fake f;
	struct cancel c;
	struct docker *d;
	struct docker_events *e;
	struct docker_event ev;
	struct sc_err err;
};

static void open_fake(struct fixture *x, fake_fn fn, void *arg)
{
	memset(x, 0, sizeof(*x));
	fake_start(&x->f, fn, arg);
	assert_int_equal(cancel_init(&x->c, &x->err), 0);
	assert_int_equal(docker_open(x->f.host, &x->c, &x->d, &x->err), 0);
}

static void open_events(struct fixture *x, struct script *s)
{
	open_fake(x, stream, s);
	if (docker_events_open(x->d, &x->e, &x->err) < 0)
		fail_msg("%s", x->err.msg);
}

static void close_fake(struct fixture *x)
{
	docker_events_close(x->e);
	docker_close(x->d);
	cancel_close(&x->c);
	fake_stop(&x->f);
}

static int next(struct fixture *x, int ms)
{
	return docker_events_next(x->e, ms, &x->ev, &x->err);
}

static bool readable(struct fixture *x, int ms)
{
	struct pollfd p = { .fd = docker_events_fd(x->e), .events = POLLIN };

	return poll(&p, 1, ms) == 1;
}

static void test_chunks(void **state)
{
	static const size_t steps[] = { 1, 2, 17, 10000 };

	(void)state;
	for (size_t i = 0; i < 4; i++) {
		struct script s = { DIE NETWORK "\n" START, steps[i], true,
				    false, -1 };
		struct fixture x;

		open_events(&x, &s);
		assert_int_equal(next(&x, 5000), 1);
		assert_string_equal(x.ev.action, "die");
		assert_string_equal(x.ev.id, "c1");
		assert_int_equal(x.ev.exit_code, 137);
		assert_int_equal(x.ev.time_ns, 1700000000000000001);
		assert_int_equal(next(&x, 5000), 1);
		assert_string_equal(x.ev.action, "start");
		assert_string_equal(x.ev.id, "c2");
		assert_int_equal(x.ev.exit_code, -1);
		assert_int_equal(next(&x, 0), 0);
		assert_int_equal(next(&x, 30), 0);
		assert_false(readable(&x, 0));
		close_fake(&x);
	}
}

static void test_fd(void **state)
{
	struct script s = { DIE START, 1000, true, false, eventfd(0, 0) };
	struct fixture x;

	(void)state;
	/* Stands although nothing has happened yet. */
	open_events(&x, &s);
	assert_false(readable(&x, 20));
	assert_int_equal(next(&x, 0), 0);
	assert_int_equal(eventfd_write(s.go, 1), 0);
	assert_true(readable(&x, 5000));
	assert_int_equal(next(&x, -1), 1);
	assert_int_equal(next(&x, -1), 1);
	assert_false(readable(&x, 0));
	close_fake(&x);
	close(s.go);
}

static void test_broken(void **state)
{
	static const struct {
		const char *text;
		bool proper;
		const char *says;
	} rows[] = {
		{ DIE, true, "ended its event stream" },
		{ DIE, false, "broke" },
		{ DIE "{\"Type\":\n", true, "not JSON" },
		{ DIE "[]\n" START, true, "not an object" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct script s = { rows[i].text, 10, false, rows[i].proper,
				    eventfd(0, 0) };
		struct fixture x;

		open_events(&x, &s);
		assert_int_equal(eventfd_write(s.go, 1), 0);
		/* What came before is not lost. */
		assert_int_equal(next(&x, -1), 1);
		for (int k = 0; k < 2; k++) {
			assert_int_equal(next(&x, -1), -1);
			assert_int_equal(x.err.code, SC_EENGINE);
			assert_non_null(strstr(x.err.msg, rows[i].says));
			assert_true(readable(&x, 0));
		}
		close_fake(&x);
		close(s.go);
	}
}

static void test_endless_line(void **state)
{
	char *text = malloc((1 << 20) + 100);
	struct script s = { text, 65536, true, false, eventfd(0, 0) };
	struct fixture x;

	(void)state;
	memset(text, ' ', (1 << 20) + 99);
	text[(1 << 20) + 99] = 0;
	open_events(&x, &s);
	assert_int_equal(eventfd_write(s.go, 1), 0);
	assert_int_equal(next(&x, -1), -1);
	assert_int_equal(x.err.code, SC_EENGINE);
	assert_non_null(strstr(x.err.msg, "above 1048576 bytes"));
	close_fake(&x);
	close(s.go);
	free(text);
}

/* More than fits, and nobody reads. */
static bool flood(struct fake_req *rq, void *arg)
{
	if (fake_usual(rq))
		return true;
	(void)fake_printf(rq->fd, "HTTP/1.1 200 OK\r\n\r\n");
	while (fake_write(rq->fd, START START START START,
			  4 * (sizeof(START) - 1)))
		;
	(void)eventfd_write(*(int *)arg, 1);
	return false;
}

static void test_flood(void **state)
{
	struct fixture x;
	eventfd_t v;
	unsigned n = 0;
	int done = eventfd(0, 0), rc;

	(void)state;
	open_fake(&x, flood, &done);
	assert_int_equal(docker_events_open(x.d, &x.e, &x.err), 0);
	/* Not a byte goes further than the connection that was closed. */
	assert_int_equal(eventfd_read(done, &v), 0);
	while ((rc = next(&x, -1)) == 1)
		n++;
	assert_int_equal(rc, -1);
	assert_int_equal(n, 100000);
	assert_int_equal(x.err.code, SC_EENGINE);
	assert_non_null(strstr(x.err.msg, "100000 events nobody read"));
	close_fake(&x);
	close(done);
}

static bool refuse(struct fake_req *rq, void *arg)
{
	(void)arg;
	return fake_usual(rq) ||
	       fake_answer(rq, 403, "", "{\"message\":\"not for you\"}");
}

static void test_refused(void **state)
{
	struct fixture x;

	(void)state;
	open_fake(&x, refuse, NULL);
	assert_int_equal(docker_events_open(x.d, &x.e, &x.err), -1);
	assert_int_equal(x.err.code, SC_EENGINE);
	assert_string_equal(x.err.msg, "subscribe to events: not for you");
	close_fake(&x);
}

static void test_cancel(void **state)
{
	struct script s = { DIE, 1000, true, false, eventfd(0, 0) };
	struct fixture x;
	struct fake_later l;
	double t;

	(void)state;
	open_events(&x, &s);
	t = fake_now();
	fake_later(&l, &x.c, 100);
	assert_int_equal(next(&x, -1), -1);
	assert_int_equal(x.err.code, SC_EINTR);
	assert_true(fake_now() - t < 1);
	pthread_join(l.thread, NULL);
	/* The way back up still hears events. */
	docker_shield(x.d, true);
	assert_int_equal(eventfd_write(s.go, 1), 0);
	assert_int_equal(next(&x, 5000), 1);
	assert_string_equal(x.ev.action, "die");
	docker_shield(x.d, false);
	close_fake(&x);
	close(s.go);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_parse),
		cmocka_unit_test(test_chunks),
		cmocka_unit_test(test_fd),
		cmocka_unit_test(test_broken),
		cmocka_unit_test(test_endless_line),
		cmocka_unit_test(test_flood),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_cancel),
	};

	return cmocka_run_group_tests_name("events", tests, NULL, NULL);
}
