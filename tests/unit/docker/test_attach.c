/* SPDX-License-Identifier: MIT */
/* The hijacked connection: frames cut anywhere, hostile ones, both directions
 * full at once, and ends. */
#include "docker/fake.h"

#include "../../../src/docker/internal.h"

#define UPGRADED                                                         \
	"HTTP/1.1 101 UPGRADED\r\nContent-Type: application/vnd.docker." \
	"raw-stream\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n"

/* -- demux alone -------------------------------------------------------- */

static const unsigned char two_frames[] =
	"\1\0\0\0\0\0\0\5hello\2\0\0\0\0\0\0\3err\1\0\0\0\0\0\0\0"
	"\0\0\0\0\0\0\0\6 world";

/* Feeds step bytes at a time. */
static void feed(size_t step, struct buf *out, struct buf *errs)
{
	struct demux m = { 0 };
	size_t n = sizeof(two_frames) - 1, at = 0;

	while (at < n) {
		const unsigned char *data;
		size_t len, give = n - at < step ? n - at : step;
		ssize_t used = demux_take(&m, two_frames + at, give, &data,
					  &len, NULL);

		assert_true(used > 0 && (size_t)used <= give);
		if (len)
			buf_put(m.kind == DEMUX_STDERR ? errs : out, data, len);
		at += (size_t)used;
		assert_true(at < n || !demux_inside(&m));
	}
}

static void test_demux(void **state)
{
	(void)state;
	for (size_t step = 1; step < sizeof(two_frames) + 1; step++) {
		struct buf auto_buf out = { 0 }, auto_buf errs = { 0 };

		feed(step, &out, &errs);
		assert_string_equal(buf_cstr(&out), "hello world");
		assert_string_equal(buf_cstr(&errs), "err");
	}
}

static void test_demux_hostile(void **state)
{
	static const unsigned char bad[][8] = {
		{ 4, 0, 0, 0, 0, 0, 0, 1 },
		{ 1, 1, 0, 0, 0, 0, 0, 1 },
		{ 1, 0, 0, 1, 0, 0, 0, 1 },
		{ 'H', 'T', 'T', 'P', '/', '1', '.', '1' },
		{ 1, 0, 0, 0, 1, 0, 0, 1 },
		{ 1, 0, 0, 0, 255, 255, 255, 255 },
	};
	static const unsigned char most[8] = { 1, 0, 0, 0, 1, 0, 0, 0 };
	struct demux m = { 0 };
	const unsigned char *data;
	size_t len;

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		struct sc_err err = { 0 };

		m = (struct demux){ 0 };
		assert_int_equal(demux_take(&m, bad[i], 8, &data, &len, &err),
				 -1);
		assert_int_equal(err.code, SC_EPROTO);
	}
	m = (struct demux){ 0 };
	assert_int_equal(demux_take(&m, most, 8, &data, &len, NULL), 8);
	assert_int_equal(m.left, 16 << 20);
}

/* -- over a connection -------------------------------------------------- */

struct fixture {
	struct fake f;
	struct cancel c;
	struct docker *d;
	struct docker_attach *a;
	struct sc_err err;
};

static void open_fake(struct fixture *x, fake_fn fn, void *arg)
{
	memset(x, 0, sizeof(*x));
	fake_start(&x->f, fn, arg);
	assert_int_equal(cancel_init(&x->c, &x->err), 0);
	assert_int_equal(docker_open(x->f.host, &x->c, &x->d, &x->err), 0);
}

static void close_fake(struct fixture *x)
{
	docker_attach_close(x->a);
	docker_close(x->d);
	cancel_close(&x->c);
	fake_stop(&x->f);
}

static bool is_attach(struct fake_req *rq)
{
	return fake_is(rq, "POST",
		       "/v1.41/containers/c1/attach?stream=1&"
		       "stdin=1&stdout=1&stderr=1");
}

/* The answer and the frames, a few bytes per send. */
static bool trickle(struct fake_req *rq, void *arg)
{
	static const char head[] = UPGRADED;
	char all[sizeof(head) + sizeof(two_frames)];
	size_t n = 0, step = *(size_t *)arg;

	if (fake_usual(rq))
		return true;
	assert_true(is_attach(rq));
	assert_non_null(strcasestr(rq->head, "\r\nConnection: Upgrade\r\n"));
	assert_non_null(strcasestr(rq->head, "\r\nHost: docker\r\n"));
	memcpy(all, head, sizeof(head) - 1);
	n = sizeof(head) - 1;
	memcpy(all + n, two_frames, sizeof(two_frames) - 1);
	n += sizeof(two_frames) - 1;
	for (size_t i = 0; i < n; i += step)
		if (!fake_write(rq->fd, all + i, n - i < step ? n - i : step))
			break;
	return false;
}

static void read_all(struct fixture *x, size_t piece, struct buf *out)
{
	char p[4096];
	ssize_t n;

	while ((n = docker_attach_read(x->a, p, piece, &x->err)) > 0)
		buf_put(out, p, (size_t)n);
	if (n < 0)
		fail_msg("%s", x->err.msg);
}

static void test_frames(void **state)
{
	static const size_t steps[] = { 1, 3, 7, 1000 };
	static const size_t pieces[] = { 1, 4, 4096 };

	(void)state;
	for (size_t i = 0; i < 12; i++) {
		struct buf auto_buf out = { 0 };
		struct fixture x;
		size_t step = steps[i % 4];

		open_fake(&x, trickle, &step);
		assert_int_equal(docker_attach_open(x.d, "c1", &x.a, &x.err),
				 0);
		read_all(&x, pieces[i / 4], &out);
		assert_string_equal(buf_cstr(&out), "hello world");
		assert_string_equal(docker_attach_stderr(x.a), "err");
		close_fake(&x);
	}
}

/* -- answers that are none ---------------------------------------------- */

static const struct {
	const char *answer;
	enum sc_code code;
	const char *says;
} heads[] = {
	{ "", SC_EENGINE, "without an answer" },
	{ "HTTP/1.1 404 Not Found\r\nContent-Length: 36\r\n\r\n"
	  "{\"message\":\"No such container: c1\"}\n",
	  SC_ENOTFOUND, "attach to container c1: No such container: c1" },
	{ "HTTP/1.1 409 Conflict\r\n\r\n{\"message\":\"is paused\"}",
	  SC_EENGINE, "is paused" },
	{ "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", SC_EPROTO,
	  "does not pass the connection on" },
	{ "HTTP/1.1 204 No\r\n\r\n", SC_EPROTO, "does not pass" },
	{ "HTTP/1.1 101\r\n", SC_EENGINE, "without an answer" },
	{ "SSH-2.0-x\r\n\r\n", SC_EPROTO, "not HTTP" },
	{ "HTTP/1.1 x y\r\n\r\n", SC_EPROTO, "not HTTP" },
};

static bool odd_head(struct fake_req *rq, void *arg)
{
	const char *say = heads[*(size_t *)arg].answer;

	if (fake_usual(rq))
		return true;
	(void)fake_write(rq->fd, say, strlen(say));
	return false;
}

static void test_heads(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(heads) / sizeof(*heads); i++) {
		struct fixture x;

		open_fake(&x, odd_head, &i);
		assert_int_equal(docker_attach_open(x.d, "c1", &x.a, &x.err),
				 -1);
		print_message("%s\n", x.err.msg);
		assert_int_equal(x.err.code, heads[i].code);
		assert_non_null(strstr(x.err.msg, heads[i].says));
		close_fake(&x);
	}
}

static bool long_head(struct fake_req *rq, void *arg)
{
	(void)arg;
	if (fake_usual(rq))
		return true;
	(void)fake_printf(rq->fd, "HTTP/1.1 101 X\r\n");
	while (fake_printf(rq->fd, "A: 012345678901234567890123456789\r\n"))
		;
	return false;
}

static void test_long_head(void **state)
{
	struct fixture x;

	(void)state;
	open_fake(&x, long_head, NULL);
	assert_int_equal(docker_attach_open(x.d, "c1", &x.a, &x.err), -1);
	assert_int_equal(x.err.code, SC_EPROTO);
	close_fake(&x);
}

/* -- streams that end badly --------------------------------------------- */

static const struct {
	const char *p;
	size_t n;
	enum sc_code code;
	const char *says;
} tails[] = {
	{ "\1\0\0\0\0\0\0\5he", 10, SC_EENGINE, "cut in a frame" },
	{ "\1\0\0\0\0\0\0\2he\1\0\0", 13, SC_EENGINE, "cut in a frame" },
	{ "\1\0\0\0\0\0\0\2he\7\0\0\0\0\0\0\1x", 19, SC_EPROTO,
	  "frame header" },
	{ "\1\0\0\0\0\0\0\2he\1\0\0\0\177\0\0\0x", 19, SC_EPROTO, "bytes" },
	{ "\1\0\0\0\0\0\0\2he\3\0\0\0\0\0\0\4oops", 22, SC_EENGINE, "oops" },
};

static bool odd_tail(struct fake_req *rq, void *arg)
{
	size_t i = *(size_t *)arg;

	if (fake_usual(rq))
		return true;
	(void)fake_write(rq->fd, UPGRADED, sizeof(UPGRADED) - 1);
	(void)fake_write(rq->fd, tails[i].p, tails[i].n);
	return false;
}

static void test_tails(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(tails) / sizeof(*tails); i++) {
		struct fixture x;
		char p[64];
		ssize_t n;
		size_t got = 0;

		open_fake(&x, odd_tail, &i);
		assert_int_equal(docker_attach_open(x.d, "c1", &x.a, &x.err),
				 0);
		while ((n = docker_attach_read(x.a, p + got, sizeof(p) - got,
					       &x.err)) > 0)
			got += (size_t)n;
		assert_int_equal(n, -1);
		assert_memory_equal(p, "he", 2);
		assert_int_equal(got, 2);
		assert_int_equal(x.err.code, tails[i].code);
		assert_non_null(strstr(x.err.msg, tails[i].says));
		close_fake(&x);
	}
}

/* stderr is kept by its end. */
static bool chatty(struct fake_req *rq, void *arg)
{
	static const unsigned char head[8] = { 2, 0, 0, 0, 0, 0, 0, 100 };
	char text[101];

	(void)arg;
	if (fake_usual(rq))
		return true;
	(void)fake_write(rq->fd, UPGRADED, sizeof(UPGRADED) - 1);
	for (int i = 0; i < 1000; i++) {
		snprintf(text, sizeof(text), "%99d\n", i);
		(void)fake_write(rq->fd, head, 8);
		(void)fake_write(rq->fd, text, 100);
	}
	return false;
}

static void test_stderr(void **state)
{
	struct fixture x;
	const char *s;
	char p[16];

	(void)state;
	open_fake(&x, chatty, NULL);
	assert_int_equal(docker_attach_open(x.d, "c1", &x.a, &x.err), 0);
	assert_string_equal(docker_attach_stderr(x.a), "");
	assert_int_equal(docker_attach_read(x.a, p, sizeof(p), &x.err), 0);
	s = docker_attach_stderr(x.a);
	assert_int_equal(strlen(s), 4096);
	assert_string_equal(s + 4096 - 5, " 999\n");
	close_fake(&x);
}

/* -- both directions at once -------------------------------------------- */

#define VOLUME (32u << 20)

static unsigned char pattern(size_t i)
{
	return (unsigned char)(i * 31 + (i >> 13));
}

/* Sends its whole stream before it reads a byte, as a helper may. Both
 * socket buffers are full long before: only a client that drains while it
 * writes gets through. Then it checks what it was sent. */
static bool greedy(struct fake_req *rq, void *arg)
{
	static unsigned char p[65536 + 8];
	size_t *seen = arg, at = 0;

	if (fake_usual(rq))
		return true;
	(void)fake_write(rq->fd, UPGRADED, sizeof(UPGRADED) - 1);
	while (at < VOLUME) {
		size_t n = 1 + (at * 7919) % 65536;

		if (n > VOLUME - at)
			n = VOLUME - at;
		memcpy(p,
		       (unsigned char[8]){
			       1, 0, 0, 0, 0, (unsigned char)(n >> 16),
			       (unsigned char)(n >> 8), (unsigned char)n },
		       8);
		for (size_t i = 0; i < n; i++)
			p[8 + i] = pattern(at + i);
		if (!fake_write(rq->fd, p, n + 8))
			return false;
		at += n;
	}
	while (*seen < VOLUME) {
		ssize_t n = recv(rq->fd, p, sizeof(p), 0);

		if (n <= 0)
			return false;
		for (ssize_t i = 0; i < n; i++)
			if (p[i] != pattern(*seen + (size_t)i))
				return false;
		*seen += (size_t)n;
	}
	return false;
}

static void *writer(void *arg)
{
	struct fixture *x = arg;
	static unsigned char p[1 << 20];
	struct sc_err err;

	for (size_t at = 0; at < VOLUME; at += sizeof(p)) {
		for (size_t i = 0; i < sizeof(p); i++)
			p[i] = pattern(at + i);
		if (docker_attach_write(x->a, p, sizeof(p), &err) < 0)
			return (void *)1;
	}
	return NULL;
}

static void test_both_ways(void **state)
{
	static unsigned char p[100000];
	struct fixture x;
	pthread_t t;
	size_t at = 0, seen = 0;
	ssize_t n;
	void *bad;

	(void)state;
	open_fake(&x, greedy, &seen);
	assert_int_equal(docker_attach_open(x.d, "c1", &x.a, &x.err), 0);
	assert_int_equal(pthread_create(&t, NULL, writer, &x), 0);
	while ((n = docker_attach_read(x.a, p, sizeof(p), &x.err)) > 0) {
		for (ssize_t i = 0; i < n; i++)
			if (p[i] != pattern(at + (size_t)i))
				fail_msg("byte %zu", at + (size_t)i);
		at += (size_t)n;
	}
	assert_int_equal(n, 0);
	assert_int_equal(at, VOLUME);
	pthread_join(t, &bad);
	assert_null(bad);
	close_fake(&x);
	assert_int_equal(seen, VOLUME);
}

/* -- giving up ---------------------------------------------------------- */

static bool quiet(struct fake_req *rq, void *arg)
{
	(void)arg;
	if (fake_usual(rq))
		return true;
	if (!strstr(rq->path, "mute"))
		(void)fake_write(rq->fd, UPGRADED, sizeof(UPGRADED) - 1);
	fake_hang(rq);
	return false;
}

static void test_cancel(void **state)
{
	struct fixture x;
	struct fake_later l;
	double t = fake_now();
	char p[16];

	(void)state;
	open_fake(&x, quiet, NULL);
	assert_int_equal(docker_attach_open(x.d, "c1", &x.a, &x.err), 0);
	fake_later(&l, &x.c, 100);
	assert_int_equal(docker_attach_read(x.a, p, sizeof(p), &x.err), -1);
	assert_int_equal(x.err.code, SC_EINTR);
	assert_true(fake_now() - t < 1);
	pthread_join(l.thread, NULL);
	close_fake(&x);
}

static void test_cancel_open(void **state)
{
	struct fixture x;
	struct fake_later l;
	double t = fake_now();

	(void)state;
	open_fake(&x, quiet, NULL);
	fake_later(&l, &x.c, 100);
	assert_int_equal(docker_attach_open(x.d, "mute", &x.a, &x.err), -1);
	assert_int_equal(x.err.code, SC_EINTR);
	assert_true(fake_now() - t < 1);
	pthread_join(l.thread, NULL);
	close_fake(&x);
}

static void *abort_soon(void *arg)
{
	(void)poll(NULL, 0, 50);
	docker_attach_abort(arg);
	return NULL;
}

static void test_abort(void **state)
{
	static char p[8 << 20];
	struct fixture x;
	pthread_t t;

	(void)state;
	open_fake(&x, quiet, NULL);
	assert_int_equal(docker_attach_open(x.d, "c1", &x.a, &x.err), 0);
	assert_int_equal(pthread_create(&t, NULL, abort_soon, x.a), 0);
	/* Nobody reads it. */
	assert_int_equal(docker_attach_write(x.a, p, sizeof(p), &x.err), -1);
	assert_int_equal(x.err.code, SC_EENGINE);
	assert_int_equal(docker_attach_read(x.a, p, sizeof(p), &x.err), -1);
	assert_int_equal(x.err.code, SC_EENGINE);
	pthread_join(t, NULL);
	close_fake(&x);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_demux),
		cmocka_unit_test(test_demux_hostile),
		cmocka_unit_test(test_frames),
		cmocka_unit_test(test_heads),
		cmocka_unit_test(test_long_head),
		cmocka_unit_test(test_tails),
		cmocka_unit_test(test_stderr),
		cmocka_unit_test(test_both_ways),
		cmocka_unit_test(test_cancel),
		cmocka_unit_test(test_cancel_open),
		cmocka_unit_test(test_abort),
	};

	return cmocka_run_group_tests_name("attach", tests, NULL, NULL);
}
