/* SPDX-License-Identifier: MIT */
/* One request: bounds, messages, silence, cancel, and where an engine is
 * looked for. */
#include "docker/fake.h"

#include <errno.h>
#include <sys/stat.h>

static bool engine(struct fake_req *rq, void *arg)
{
	(void)arg;
	if (fake_usual(rq))
		return true;
	if (strstr(rq->path, "/hang")) {
		fake_hang(rq);
		return false;
	}
	if (strstr(rq->path, "/half")) {
		fake_printf(rq->fd, "HTTP/1.1 200 OK\r\nContent-Length: 100"
				    "\r\n\r\n{\"a\":");
		fake_hang(rq);
		return false;
	}
	if (strstr(rq->path, "/drop"))
		return false;
	if (strstr(rq->path, "/last")) {
		fake_answer(rq, 200, "", "[]");
		return false;
	}
	if (strstr(rq->path, "/echo"))
		return fake_answer(rq, 200, "", rq->len ? rq->body : "[]");
	return fake_answer(rq, 404, "", "{\"message\":\"page not found\"}");
}

struct fixture {
	struct fake f;
	struct cancel c;
	struct docker *d;
	struct sc_err err;
};

static void open_fake(struct fixture *x, fake_fn fn, void *arg)
{
	memset(&x->err, 0, sizeof(x->err));
	fake_start(&x->f, fn, arg);
	assert_int_equal(cancel_init(&x->c, &x->err), 0);
	assert_int_equal(docker_open(x->f.host, &x->c, &x->d, &x->err), 0);
}

static void close_fake(struct fixture *x)
{
	docker_close(x->d);
	cancel_close(&x->c);
	fake_stop(&x->f);
}

static void test_info(void **state)
{
	struct fixture x;
	const struct docker_info *i;

	(void)state;
	open_fake(&x, engine, NULL);
	i = docker_info(x.d);
	assert_string_equal(i->id, "ABCD:EFGH");
	assert_string_equal(i->name, "box");
	assert_string_equal(i->version, "20.10.24");
	assert_string_equal(i->api, "1.41");
	assert_string_equal(i->os, "linux");
	assert_string_equal(i->arch, "amd64");
	assert_string_equal(i->root_dir, "/var/lib/docker");
	assert_false(i->podman);
	close_fake(&x);
}

static void test_json(void **state)
{
	struct fixture x;
	json_t *body = json_pack("{s:s, s:[i]}", "k\xc3\xa4", "v\n", "n", 7);
	json_t *out = NULL;
	long status = 0;

	(void)state;
	open_fake(&x, engine, NULL);
	assert_int_equal(docker_request(x.d, "POST", "/echo", body, 0, &status,
					&out, &x.err),
			 0);
	assert_int_equal(status, 200);
	assert_true(json_equal(body, out));
	json_decref(out);
	json_decref(body);
	assert_int_equal(docker_request(x.d, "GET", "/nothing", NULL, 0,
					&status, &out, &x.err),
			 0);
	assert_int_equal(status, 404);
	assert_string_equal(json_string_value(json_object_get(out, "message")),
			    "page not found");
	json_decref(out);
	close_fake(&x);
}

/* -- answers ------------------------------------------------------------ */

struct answer {
	int status;
	const char *body;
	enum sc_code code;
	const char *says; /* NULL: no message document */
};

static const struct answer answers[] = {
	{ 500, "{\"message\":\"driver failed\"}", SC_OK, "driver failed" },
	{ 500, "{\"cause\":\"c\",\"message\":\"\"}", SC_OK, "c" },
	{ 400, "plain \x1b[31m text\n\n", SC_OK, "plain  [31m text" },
	{ 400, "", SC_OK, NULL },
	{ 502, "\xff\xfe", SC_OK, NULL },
	{ 404, "[1]", SC_OK, "[1]" },
	{ 200, "{\"a\":", SC_EPROTO, "not JSON" },
	{ 200, "{} trailing", SC_EPROTO, "not JSON" },
	{ 200, "[\"a\\u0000b\"]", SC_EPROTO, "not JSON" },
	{ 200, "[\"\xff\"]", SC_EPROTO, "not JSON" },
	{ 200, "", SC_OK, NULL },
};

static bool say(struct fake_req *rq, void *arg)
{
	const struct answer *a = *(const struct answer **)arg;

	return fake_usual(rq) || fake_answer(rq, a->status, "", a->body);
}

static void check_answer(struct fixture *x, const struct answer *a)
{
	json_t *out = NULL;
	long status = 0;
	int rc = docker_request(x->d, "GET", "/x", NULL, 0, &status, &out,
				&x->err);

	assert_int_equal(rc, a->code ? -1 : 0);
	if (rc < 0) {
		assert_int_equal(x->err.code, a->code);
		assert_non_null(strstr(x->err.msg, a->says));
		assert_non_null(strstr(x->err.msg, "GET /x"));
		return;
	}
	assert_int_equal(status, a->status);
	if (a->says)
		assert_true(json_is_object(out));
	else
		assert_null(out);
	if (a->says && json_object_get(out, "message") &&
	    *json_string_value(json_object_get(out, "message")))
		assert_string_equal(
			json_string_value(json_object_get(out, "message")),
			a->says);
	json_decref(out);
}

static void test_answers(void **state)
{
	const struct answer *now = answers;
	struct fixture x;

	(void)state;
	open_fake(&x, say, &now);
	for (size_t i = 0; i < sizeof(answers) / sizeof(*answers); i++) {
		now = &answers[i];
		check_answer(&x, now);
	}
	close_fake(&x);
}

/* JSON that would nest the parser's stack away. */
static bool deep(struct fake_req *rq, void *arg)
{
	static char text[200001];

	(void)arg;
	if (fake_usual(rq))
		return true;
	memset(text, '[', sizeof(text) - 1);
	return fake_printf(rq->fd,
			   "HTTP/1.1 200 OK\r\nContent-Length: %zu"
			   "\r\n\r\n",
			   strlen(text)) &&
	       fake_write(rq->fd, text, strlen(text));
}

static void test_deep(void **state)
{
	struct fixture x;
	json_t *out = NULL;
	long status;

	(void)state;
	open_fake(&x, deep, NULL);
	assert_int_equal(docker_request(x.d, "GET", "/x", NULL, 0, &status,
					&out, &x.err),
			 -1);
	assert_int_equal(x.err.code, SC_EPROTO);
	close_fake(&x);
}

/* -- bounds ------------------------------------------------------------- */

/* One string of a given length, chunked, so that nothing announces it. */
static bool long_body(struct fake_req *rq, void *arg)
{
	size_t left = *(size_t *)arg;
	static char fill[65536];

	if (fake_usual(rq))
		return true;
	memset(fill, 'x', sizeof(fill));
	if (!fake_printf(rq->fd, "HTTP/1.1 200 OK\r\nTransfer-Encoding: "
				 "chunked\r\n\r\n2\r\n[\"\r\n"))
		return false;
	for (left -= 4; left;) {
		size_t n = left < sizeof(fill) ? left : sizeof(fill);

		if (!fake_printf(rq->fd, "%zx\r\n", n) ||
		    !fake_write(rq->fd, fill, n) ||
		    !fake_write(rq->fd, "\r\n", 2))
			return false;
		left -= n;
	}
	return fake_printf(rq->fd, "2\r\n\"]\r\n0\r\n\r\n");
}

static void test_bound(void **state)
{
	static const size_t max = 64 << 20;
	size_t n = max;
	struct fixture x;
	json_t *out = NULL;
	long status;

	(void)state;
	open_fake(&x, long_body, &n);
	assert_int_equal(docker_request(x.d, "GET", "/x", NULL, 0, &status,
					&out, &x.err),
			 0);
	assert_int_equal(json_string_length(json_array_get(out, 0)), max - 4);
	json_decref(out);
	n = max + 1;
	assert_int_equal(docker_request(x.d, "GET", "/x", NULL, 0, &status,
					&out, &x.err),
			 -1);
	assert_int_equal(x.err.code, SC_EPROTO);
	assert_non_null(strstr(x.err.msg, "larger than 67108864 bytes"));
	assert_null(out);
	close_fake(&x);
}

static bool endless_head(struct fake_req *rq, void *arg)
{
	(void)arg;
	if (fake_usual(rq))
		return true;
	if (!fake_printf(rq->fd, "HTTP/1.1 200 OK\r\n"))
		return false;
	while (fake_printf(rq->fd, "X-Y: 0123456789012345678901234567890\r\n"))
		;
	return false;
}

static void test_endless_head(void **state)
{
	struct fixture x;
	long status;

	(void)state;
	open_fake(&x, endless_head, NULL);
	assert_int_equal(docker_request(x.d, "GET", "/x", NULL, 0, &status,
					NULL, &x.err),
			 -1);
	assert_int_equal(x.err.code, SC_EPROTO);
	close_fake(&x);
}

/* -- waiting ------------------------------------------------------------ */

static void test_silence(void **state)
{
	static const char *const paths[] = { "/hang", "/half" };
	struct fixture x;
	long status;

	(void)state;
	open_fake(&x, engine, NULL);
	for (size_t i = 0; i < 2; i++) {
		double t = fake_now();

		assert_int_equal(docker_request(x.d, "GET", paths[i], NULL, 200,
						&status, NULL, &x.err),
				 -1);
		assert_int_equal(x.err.code, SC_EENGINE);
		assert_non_null(strstr(x.err.msg, "was silent"));
		assert_true(fake_now() - t > 0.19 && fake_now() - t < 2);
	}
	close_fake(&x);
}

static void test_cancel(void **state)
{
	static const struct {
		const char *path;
		long timeout;
	} waits[] = { { "/hang", 0 }, { "/half", 0 }, { "/hang", -1 } };

	(void)state;
	for (size_t i = 0; i < 3; i++) {
		struct fixture x;
		struct fake_later l;
		double t;
		long status;

		open_fake(&x, engine, NULL);
		t = fake_now();
		fake_later(&l, &x.c, 100);
		assert_int_equal(docker_request(x.d, "POST", waits[i].path,
						NULL, waits[i].timeout, &status,
						NULL, &x.err),
				 -1);
		assert_true(fake_now() - t < 1);
		assert_int_equal(x.err.code, SC_EINTR);
		pthread_join(l.thread, NULL);
		close_fake(&x);
	}
}

static void test_shield(void **state)
{
	struct fixture x;
	long status = 0;

	(void)state;
	open_fake(&x, engine, NULL);
	cancel_set(&x.c, 15);
	assert_int_equal(docker_request(x.d, "GET", "/echo", NULL, 0, &status,
					NULL, &x.err),
			 -1);
	assert_string_equal(x.err.msg, "interrupted by SIGTERM");
	docker_shield(x.d, true);
	assert_int_equal(docker_request(x.d, "GET", "/echo", NULL, 0, &status,
					NULL, &x.err),
			 0);
	assert_int_equal(status, 200);
	docker_shield(x.d, true);
	docker_shield(x.d, false);
	assert_int_equal(docker_request(x.d, "GET", "/echo", NULL, 0, &status,
					NULL, &x.err),
			 0);
	docker_shield(x.d, false);
	assert_int_equal(docker_request(x.d, "GET", "/echo", NULL, 0, &status,
					NULL, &x.err),
			 -1);
	assert_int_equal(x.err.code, SC_EINTR);
	close_fake(&x);
}

static void test_dropped(void **state)
{
	struct fixture x;
	unsigned before;
	long status;

	(void)state;
	open_fake(&x, engine, NULL);
	before = atomic_load(&x.f.requests);
	assert_int_equal(docker_request(x.d, "POST", "/drop", NULL, 0, &status,
					NULL, &x.err),
			 -1);
	assert_int_equal(x.err.code, SC_EENGINE);
	assert_non_null(strstr(x.err.msg, "without an answer"));
	/* What changes something is never sent twice. */
	assert_int_equal(atomic_load(&x.f.requests), before + 1);
	close_fake(&x);
}

/* An engine that restarts closes what lay idle: nobody is told about it. */
static void test_idle_closed(void **state)
{
	struct fixture x;

	(void)state;
	open_fake(&x, engine, NULL);
	for (int i = 0; i < 20; i++) {
		long status = 0;

		if (docker_request(x.d, i % 3 ? "GET" : "POST", "/last", NULL,
				   0, &status, NULL, &x.err) < 0)
			fail_msg("%s", x.err.msg);
		assert_int_equal(status, 200);
	}
	close_fake(&x);
}

/* -- threads ------------------------------------------------------------ */

static void *hammer(void *arg)
{
	struct fixture *x = arg;
	struct sc_err err;
	uintptr_t bad = 0;

	for (int i = 0; i < 50; i++) {
		json_t *body = json_pack("{s:i}", "n", i), *out = NULL;
		long status = 0;

		if (docker_request(x->d, "POST", "/echo", body, 0, &status,
				   &out, &err) < 0 ||
		    !json_equal(body, out))
			bad++;
		json_decref(out);
		json_decref(body);
	}
	return (void *)bad;
}

static void test_threads(void **state)
{
	struct fixture x;
	pthread_t t[4];
	void *bad;

	(void)state;
	open_fake(&x, engine, NULL);
	for (size_t i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&t[i], NULL, hammer, &x), 0);
	for (size_t i = 0; i < 4; i++) {
		pthread_join(t[i], &bad);
		assert_null(bad);
	}
	close_fake(&x);
}

/* -- where the engine is ------------------------------------------------ */

static void test_addresses(void **state)
{
	static const struct {
		const char *host;
		enum sc_code code;
		const char *says;
	} rows[] = {
		{ "ssh://me@box", SC_EUSAGE, "ssh is not supported yet" },
		{ "unix://", SC_EUSAGE, "unix:///PATH" },
		{ "unix://relative", SC_EUSAGE, "unix:///PATH" },
		{ "tcp://", SC_EUSAGE, "tcp://HOST:PORT" },
		{ "tcp://:2375", SC_EUSAGE, "tcp://HOST:PORT" },
		{ "tcp://a b:1", SC_EUSAGE, "tcp://HOST:PORT" },
		{ "tcp://user@h:1", SC_EUSAGE, "tcp://HOST:PORT" },
		{ "fd://", SC_EUSAGE, "neither" },
		{ "/var/run/docker.sock", SC_EUSAGE, "neither" },
		{ "unix:///nonexistent/docker.sock", SC_EENGINE,
		  "No such file or directory" },
		{ "tcp://127.0.0.1:1", SC_EENGINE, "refused" },
		{ "tcp://[::1]:1", SC_EENGINE, "connect to the engine" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct docker *d;
		struct sc_err err = { 0 };

		assert_int_equal(docker_open(rows[i].host, NULL, &d, &err), -1);
		print_message("%s: %s\n", rows[i].host, err.msg);
		assert_int_equal(err.code, rows[i].code);
		assert_non_null(strstr(err.msg, rows[i].says));
	}
}

static void test_environment(void **state)
{
	struct fixture x;
	struct docker *d;
	struct sc_err err = { 0 };

	(void)state;
	fake_start(&x.f, engine, NULL);
	setenv("DOCKER_HOST", x.f.host, 1);
	setenv("http_proxy", "http://127.0.0.1:1", 1);
	setenv("DOCKER_CONTEXT", "other", 1);
	assert_int_equal(docker_open(NULL, NULL, &d, &err), 0);
	assert_string_equal(docker_info(d)->host, x.f.host);
	docker_close(d);
	unsetenv("http_proxy");
	setenv("DOCKER_HOST", "unix:///nonexistent/s", 1);
	assert_int_equal(docker_open("", NULL, &d, &err), -1);
	assert_non_null(strstr(err.msg, "DOCKER_HOST: "));
	assert_int_equal(err.sys, ENOENT);
	unsetenv("DOCKER_HOST");
	assert_int_equal(docker_open(NULL, NULL, &d, &err), -1);
	assert_int_equal(err.code, SC_EUSAGE);
	assert_non_null(strstr(err.msg, "DOCKER_CONTEXT=other"));
	unsetenv("DOCKER_CONTEXT");
	fake_stop(&x.f);
}

static void test_quote(void **state)
{
	char *q = docker_quote("a-Z_0.~/ %\xc3\xa4{\"");

	(void)state;
	assert_string_equal(q, "a-Z_0.~%2F%20%25%C3%A4%7B%22");
	free(q);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_info),
		cmocka_unit_test(test_json),
		cmocka_unit_test(test_answers),
		cmocka_unit_test(test_deep),
		cmocka_unit_test(test_bound),
		cmocka_unit_test(test_endless_head),
		cmocka_unit_test(test_silence),
		cmocka_unit_test(test_cancel),
		cmocka_unit_test(test_shield),
		cmocka_unit_test(test_dropped),
		cmocka_unit_test(test_idle_closed),
		cmocka_unit_test(test_threads),
		cmocka_unit_test(test_addresses),
		cmocka_unit_test(test_environment),
		cmocka_unit_test(test_quote),
	};

	return cmocka_run_group_tests_name("client", tests, NULL, NULL);
}
