/* SPDX-License-Identifier: MIT */
/* Which API version is spoken, with whom, and what is said when none is. */
#include "docker/fake.h"

struct row {
	const char *what;
	const char *ping;  /* Api-Version, NULL: no such header */
	const char *plain; /* ApiVersion of the unversioned /version, or NULL */
	int min, max;	   /* minor versions the engine (or proxy) accepts */
	bool mute;	   /* its refusals do not name the bound */
	const char *api;   /* what must be spoken, NULL: must fail */
	const char *says;  /* what the error must contain */
};

static const struct row rows[] = {
	{ "Docker 20.10", "1.41", NULL, 12, 41, false, "1.41", NULL },
	{ "Docker 26", "1.45", NULL, 24, 45, false, "1.45", NULL },
	{ "newer than we know", "1.52", NULL, 44, 52, false, "1.47", NULL },
	{ "proxy from 1.44", "1.41", NULL, 44, 60, false, "1.44", NULL },
	{ "mute proxy from 1.44", "1.41", NULL, 44, 60, true, "1.47", NULL },
	{ "proxy up to 1.41", "1.45", NULL, 12, 41, false, "1.41", NULL },
	{ "mute proxy up to 1.41", "1.45", NULL, 12, 41, true, "1.41", NULL },
	{ "no header", NULL, "1.43", 12, 43, false, "1.43", NULL },
	{ "no header, nothing said", NULL, NULL, 12, 42, true, "1.42", NULL },
	{ "Docker 19.03", "1.40", NULL, 12, 40, false, NULL, "1.40" },
	{ "proxy up to 1.40", "1.45", NULL, 12, 40, false, NULL,
	  "speaks API 1.40" },
	{ "far future", "1.99", NULL, 60, 99, false, NULL,
	  "Minimum supported API version is 1.60" },
	{ "nothing fits, mute", "1.41", NULL, 60, 99, true, NULL, "no" },
	{ "garbage version", "1.4x", NULL, 12, 41, false, NULL, "1.4x" },
	{ "other major", "2.0", NULL, 12, 41, false, NULL, "2.0" },
	{ "huge", "1.99999999999", NULL, 12, 41, false, NULL, "1.99999" },
	{ "empty minor", "1.", NULL, 12, 41, false, NULL, "needs 1.41" },
};

static bool versioned(struct fake_req *rq, const struct row *r)
{
	char text[256];
	int minor;

	if (sscanf(rq->path, "/v1.%d/", &minor) != 1)
		return fake_answer(rq, 404, "", "{\"message\":\"page\"}");
	if (minor >= r->min && minor <= r->max)
		return fake_answer(rq, 200, "",
				   strstr(rq->path, "/info") ? FAKE_INFO
							     : FAKE_VERSION);
	if (r->mute)
		return fake_answer(rq, 403, "", "no");
	if (minor > r->max)
		snprintf(text, sizeof(text),
			 "{\"message\":\"client version "
			 "1.%d is too new. Maximum supported API version is "
			 "1.%d\"}",
			 minor, r->max);
	else
		snprintf(text, sizeof(text),
			 "client version 1.%d is too old. "
			 "Minimum supported API version is 1.%d, please "
			 "upgrade your client to a newer version\n",
			 minor, r->min);
	return fake_answer(rq, 400, "", text);
}

static bool engine(struct fake_req *rq, void *arg)
{
	const struct row *r = arg;

	if (fake_is(rq, "GET", "/_ping")) {
		if (r->ping)
			return fake_printf(rq->fd,
					   "HTTP/1.1 200 OK\r\n"
					   "api-version:  %s \r\n"
					   "Content-Length: 2\r\n\r\nOK",
					   r->ping);
		return fake_write(rq->fd,
				  "HTTP/1.1 200 OK\r\nContent-Length: "
				  "2\r\n\r\nOK",
				  40);
	}
	if (fake_is(rq, "GET", "/version") && r->plain) {
		char text[64];

		snprintf(text, sizeof(text), "{\"ApiVersion\":\"%s\"}",
			 r->plain);
		return fake_answer(rq, 200, "", text);
	}
	return versioned(rq, r);
}

static void test_table(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct fake f;
		struct docker *d = NULL;
		struct sc_err err = { 0 };
		int rc;

		fake_start(&f, engine, (void *)(uintptr_t)&rows[i]);
		rc = docker_open(f.host, NULL, &d, &err);
		print_message("%s: %s\n", rows[i].what, rc ? err.msg : "ok");
		if (rows[i].api) {
			assert_int_equal(rc, 0);
			assert_string_equal(docker_info(d)->api, rows[i].api);
			assert_true(atomic_load(&f.requests) < 12);
		} else {
			assert_int_equal(rc, -1);
			assert_int_equal(err.code, SC_EENGINE);
			assert_non_null(strstr(err.msg, rows[i].says));
		}
		docker_close(d);
		fake_stop(&f);
	}
}

static bool podman(struct fake_req *rq, void *arg)
{
	(void)arg;
	if (fake_is(rq, "GET", "/v1.41/version"))
		return fake_answer(rq, 200, "",
				   "{\"Version\":\"4.3.1\","
				   "\"Os\":\"linux\",\"Arch\":\"arm64\","
				   "\"Components\":[3,{\"Name\":null},"
				   "{\"Name\":\"Podman Engine\"}]}");
	return fake_usual(rq);
}

static void test_podman(void **state)
{
	const struct docker_info *i;
	struct fake f;
	struct docker *d;
	struct sc_err err;

	(void)state;
	fake_start(&f, podman, NULL);
	assert_int_equal(docker_open(f.host, NULL, &d, &err), 0);
	i = docker_info(d);
	assert_true(i->podman);
	assert_true(i->local);
	assert_string_equal(i->id, "podman:box:/var/lib/docker");
	assert_string_equal(i->version, "4.3.1");
	assert_string_equal(i->arch, "arm64");
	assert_string_equal(i->host, f.host);
	docker_close(d);
	fake_stop(&f);
}

static bool no_info(struct fake_req *rq, void *arg)
{
	(void)arg;
	if (strstr(rq->path, "/info"))
		return fake_answer(rq, 403, "", "Forbidden");
	return fake_usual(rq);
}

static void test_info_refused(void **state)
{
	struct fake f;
	struct docker *d;
	struct sc_err err;

	(void)state;
	fake_start(&f, no_info, NULL);
	assert_int_equal(docker_open(f.host, NULL, &d, &err), 0);
	assert_false(docker_info(d)->podman);
	assert_string_equal(docker_info(d)->id, "");
	assert_string_equal(docker_info(d)->root_dir, "");
	assert_string_equal(docker_info(d)->os, "linux");
	docker_close(d);
	fake_stop(&f);
}

/* What is no engine at all: the answer to /_ping or /version, whole. */
static const struct {
	const char *ping, *version;
	enum sc_code code;
	const char *says;
} strange[] = {
	{ "", NULL, SC_EENGINE, "closed the connection without an answer" },
	{ "HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\nOK", NULL, SC_EENGINE,
	  "broke" },
	{ "SSH-2.0-OpenSSH_9.2\r\n", NULL, SC_EPROTO, "does not speak HTTP" },
	{ "HTTP/1.1 200 OK\r\nApi-Version: 1.41\r\nContent-Length: 0\r\n\r\n",
	  "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n<html>", SC_EPROTO,
	  "not JSON" },
	{ "HTTP/1.1 200 OK\r\nApi-Version: 1.41\r\nContent-Length: 0\r\n\r\n",
	  "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]", SC_EPROTO,
	  "not a container engine" },
	{ "HTTP/1.1 200 OK\r\nApi-Version: 1.41\r\nContent-Length: 0\r\n\r\n",
	  "HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\n{\"Version\":3}",
	  SC_EPROTO, "wrong \"Version\"" },
	{ "HTTP/1.1 200 OK\r\nApi-Version: 1.41\r\nContent-Length: 0\r\n\r\n",
	  "HTTP/1.1 500 X\r\nContent-Length: 19\r\n\r\n"
	  "{\"cause\":\"on fire\"}",
	  SC_EENGINE, "on fire" },
	{ "HTTP/1.1 200 OK\r\nApi-Version: 1.41\r\nContent-Length: 0\r\n\r\n",
	  "", SC_EENGINE, "closed the connection without an answer" },
};

static bool strange_engine(struct fake_req *rq, void *arg)
{
	size_t i = *(size_t *)arg;
	const char *say = strstr(rq->path, "version") ? strange[i].version
						      : strange[i].ping;

	/* Closed after a ping only when that is all there is. */
	(void)fake_write(rq->fd, say, strlen(say));
	return say == strange[i].ping && strange[i].version;
}

static void test_strange(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(strange) / sizeof(*strange); i++) {
		struct fake f;
		struct docker *d;
		struct sc_err err = { 0 };

		fake_start(&f, strange_engine, &i);
		assert_int_equal(docker_open(f.host, NULL, &d, &err), -1);
		print_message("%s\n", err.msg);
		assert_int_equal(err.code, strange[i].code);
		assert_non_null(strstr(err.msg, strange[i].says));
		fake_stop(&f);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_table),
		cmocka_unit_test(test_podman),
		cmocka_unit_test(test_info_refused),
		cmocka_unit_test(test_strange),
	};

	return cmocka_run_group_tests_name("negotiate", tests, NULL, NULL);
}
