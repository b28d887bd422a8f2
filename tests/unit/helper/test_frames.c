/* SPDX-License-Identifier: MIT */
/* Frames: their bounds, hostile ones, and the channel below them. */
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include <snapctl/helper/frames.h>
#include <snapctl/scan/index.h>

#define OK(call)                                          \
	do {                                              \
		if ((call) < 0)                           \
			fail_msg("%s: %s", #call, e.msg); \
	} while (0)

static struct sc_err e;

/* Two ends of a socket; the left one may be cancelled. */
struct ends {
	int fd[2];
	struct cancel cancel;
	struct channel_fds fds[2];
	struct channel ch[2];
	struct frames f[2];
	struct frame in;
};

static void ends_open(struct ends *s, int sndbuf)
{
	memset(s, 0, sizeof(*s));
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, s->fd), 0);
	OK(cancel_init(&s->cancel, &e));
	for (int i = 0; i < 2; i++) {
		if (sndbuf)
			assert_int_equal(setsockopt(s->fd[i], SOL_SOCKET,
						    SO_SNDBUF, &sndbuf,
						    sizeof(sndbuf)),
					 0);
		s->fds[i] = (struct channel_fds){ s->fd[i], s->fd[i],
						  i ? NULL : &s->cancel };
		OK(channel_fds_init(&s->fds[i], &s->ch[i], &e));
		frames_init(&s->f[i], &s->ch[i]);
	}
}

static void ends_close(struct ends *s)
{
	for (int i = 0; i < 2; i++) {
		frames_destroy(&s->f[i]);
		if (s->fd[i] >= 0)
			close(s->fd[i]);
	}
	frame_free(&s->in);
	cancel_close(&s->cancel);
}

/* Raw bytes from the right end, then its end if so wished. */
static void say(struct ends *s, const void *p, size_t n, bool end)
{
	assert_int_equal(write(s->fd[1], p, n), (ssize_t)n);
	if (end)
		shutdown(s->fd[1], SHUT_WR);
}

static void header(unsigned char h[FRAME_HEADER], uint32_t len, unsigned type,
		   unsigned volume)
{
	struct buf b = { 0 };

	buf_u32(&b, len);
	buf_u16(&b, (uint16_t)type);
	buf_u16(&b, (uint16_t)volume);
	memcpy(h, b.p, FRAME_HEADER);
	buf_free(&b);
}

/* -- bounds --------------------------------------------------------------- */

static void limits_are_as_specified(void **state)
{
	static const size_t known[FRAME_TYPES] = {
		[FRAME_HELLO] = 65536,
		[FRAME_VOLUME] = 65536,
		[FRAME_SCAN] = 4096,
		[FRAME_TAKE] = 4096,
		[FRAME_INDEX] = 262144,
		[FRAME_PLAN] = 65536,
		[FRAME_STAGE] = 4096,
		[FRAME_RECHECK] = 4096,
		[FRAME_COMMIT] = 4096,
		[FRAME_UNDO] = 4096,
		[FRAME_BYE] = 4096,
		[FRAME_ABORT] = 4096,
		[FRAME_OK] = 4096,
		[FRAME_FAIL] = 4096,
		[FRAME_NOTE] = 65536,
		[FRAME_PROGRESS] = 4096,
		[FRAME_SCANNED] = 4096,
		[FRAME_SEGMENT] = SEGMENT_STORED_MAX + 4,
		[FRAME_ALLREAD] = 4096,
		[FRAME_COLUMN] = 262146,
		[FRAME_COLEND] = 4096,
		[FRAME_TAKEN] = 4096,
		[FRAME_PLANNED] = 4096,
		[FRAME_NEED] = 262144,
	};

	(void)state;
	for (unsigned t = 0; t < FRAME_TYPES + 10; t++)
		assert_int_equal(frame_limit(t),
				 t < FRAME_TYPES ? known[t] : 0);
	assert_int_equal(frame_limit(0xffffffff), 0);
	assert_string_equal(frame_name(FRAME_SEGMENT), "SEGMENT");
	assert_string_equal(frame_name(0), "an unknown frame");
	assert_string_equal(frame_name(31), "an unknown frame");
	assert_string_equal(frame_name(65535), "an unknown frame");
}

/* Of every type: the longest passes, one byte more is refused on both sides
 * without a byte of it being taken. */
static void longest_passes_longer_does_not(void **state)
{
	(void)state;
	for (unsigned t = 1; t < FRAME_TYPES; t++) {
		size_t limit = frame_limit(t);
		unsigned char h[FRAME_HEADER];
		unsigned char *body;
		struct ends s;

		if (!limit || limit > (1u << 20))
			continue;
		body = calloc(1, limit + 1);
		assert_non_null(body);
		body[limit - 1] = 7;
		ends_open(&s, 1 << 20);
		OK(frame_send(&s.f[1], t, 5, NULL, 0, body, limit, &e));
		assert_int_equal(frame_recv(&s.f[0], &s.in, &e), 1);
		assert_int_equal(s.in.type, t);
		assert_int_equal(s.in.volume, 5);
		assert_int_equal(s.in.payload.len, limit);
		assert_memory_equal(s.in.payload.p, body, limit);
		assert_int_equal(
			frame_send(&s.f[1], t, 5, NULL, 0, body, limit + 1, &e),
			-1);
		assert_int_equal(e.code, SC_EPROTO);
		header(h, (uint32_t)limit + 1, t, 5);
		say(&s, h, sizeof(h), false);
		assert_int_equal(frame_recv(&s.f[0], &s.in, &e), -1);
		assert_int_equal(e.code, SC_EPROTO);
		ends_close(&s);
		free(body);
	}
}

static void unknown_types_are_refused(void **state)
{
	static const unsigned types[] = { 0, 13, 31, FRAME_TYPES, 1000, 65535 };

	(void)state;
	for (size_t i = 0; i < sizeof(types) / sizeof(*types); i++) {
		unsigned char h[FRAME_HEADER];
		struct ends s;

		ends_open(&s, 0);
		header(h, 0, types[i], 0);
		say(&s, h, sizeof(h), false);
		assert_int_equal(frame_recv(&s.f[0], &s.in, &e), -1);
		assert_int_equal(e.code, SC_EPROTO);
		assert_int_equal(frame_send(&s.f[0], (enum frame_type)types[i],
					    0, NULL, 0, "x", 1, &e),
				 -1);
		assert_int_equal(e.code, SC_EPROTO);
		ends_close(&s);
	}
}

static void a_length_of_4_gib_allocates_nothing(void **state)
{
	unsigned char h[FRAME_HEADER];
	struct ends s;

	(void)state;
	ends_open(&s, 0);
	header(h, 0xffffffff, FRAME_SEGMENT, 0);
	say(&s, h, sizeof(h), false);
	assert_int_equal(frame_recv(&s.f[0], &s.in, &e), -1);
	assert_int_equal(e.code, SC_EPROTO);
	assert_int_equal(s.in.payload.cap, 0);
	ends_close(&s);
}

/* Cut after every byte: only the end between frames is an end. */
static void cut_frames_are_refused(void **state)
{
	unsigned char frame[FRAME_HEADER + 5];

	(void)state;
	header(frame, 5, FRAME_ABORT, FRAME_NO_VOLUME);
	memcpy(frame + FRAME_HEADER, "because", 5);
	for (size_t n = 0; n <= sizeof(frame); n++) {
		struct ends s;
		int rc;

		ends_open(&s, 0);
		say(&s, frame, n, true);
		rc = frame_recv(&s.f[0], &s.in, &e);
		if (n == 0) {
			assert_int_equal(rc, 0);
		} else if (n < sizeof(frame)) {
			assert_int_equal(rc, -1);
			assert_int_equal(e.code, SC_EPROTO);
			assert_string_equal(e.msg,
					    "the stream ended within a frame");
		} else {
			assert_int_equal(rc, 1);
			assert_memory_equal(s.in.payload.p, "becau", 5);
			assert_int_equal(frame_recv(&s.f[0], &s.in, &e), 0);
		}
		ends_close(&s);
	}
}

static void a_long_head_is_refused(void **state)
{
	unsigned char head[65] = { 0 };
	struct ends s;

	(void)state;
	ends_open(&s, 0);
	assert_int_equal(
		frame_send(&s.f[0], FRAME_SEGMENT, 0, head, 65, NULL, 0, &e),
		-1);
	assert_int_equal(e.code, SC_EPROTO);
	OK(frame_send(&s.f[0], FRAME_SEGMENT, 0, head, 64, "ab", 2, &e));
	assert_int_equal(frame_recv(&s.f[1], &s.in, &e), 1);
	assert_int_equal(s.in.payload.len, 66);
	assert_memory_equal(s.in.payload.p + 64, "ab", 2);
	ends_close(&s);
}

/* -- contents ------------------------------------------------------------- */

static void counts_are_of_frames_and_payload(void **state)
{
	struct ends s;

	(void)state;
	ends_open(&s, 0);
	OK(frame_send(&s.f[0], FRAME_SCAN, 0, NULL, 0, NULL, 0, &e));
	OK(frame_send(&s.f[0], FRAME_ABORT, 0, "ab", 2, "cde", 3, &e));
	assert_int_equal(s.f[0].sent, 2);
	assert_int_equal(s.f[0].sent_bytes, 5);
	/* What was refused does not count. */
	assert_int_equal(
		frame_send(&s.f[0], FRAME_SCAN, 0, NULL, 0, &s, 4097, &e), -1);
	assert_int_equal(s.f[0].sent, 2);
	frames_count_reset(&s.f[0]);
	assert_int_equal(s.f[0].sent, 0);
	assert_int_equal(s.f[0].sent_bytes, 0);
	ends_close(&s);
}

/* Also as the first frame, before there is any memory for payloads. */
static void an_empty_payload_is_a_frame(void **state)
{
	struct ends s;

	(void)state;
	ends_open(&s, 0);
	OK(frame_send(&s.f[0], FRAME_BYE, FRAME_NO_VOLUME, NULL, 0, NULL, 0,
		      &e));
	assert_int_equal(frame_recv(&s.f[1], &s.in, &e), 1);
	assert_int_equal(s.in.type, FRAME_BYE);
	assert_int_equal(s.in.volume, FRAME_NO_VOLUME);
	assert_int_equal(s.in.payload.len, 0);
	ends_close(&s);
}

static void varints_are_exact(void **state)
{
	static const uint64_t v[] = { 0, 127, 128, UINT64_MAX };
	uint64_t got[5];
	struct ends s;

	(void)state;
	ends_open(&s, 0);
	OK(frame_send_varints(&s.f[0], FRAME_COLEND, 3, v, 4, &e));
	assert_int_equal(frame_recv(&s.f[1], &s.in, &e), 1);
	OK(frame_varints(&s.in, got, 4, &e));
	assert_memory_equal(got, v, sizeof(v));
	/* Too few and too many. */
	assert_int_equal(frame_varints(&s.in, got, 3, &e), -1);
	assert_int_equal(e.code, SC_EPROTO);
	assert_int_equal(frame_varints(&s.in, got, 5, &e), -1);
	assert_int_equal(e.code, SC_EPROTO);
	ends_close(&s);
}

static void broken_varints_are_refused(void **state)
{
	static const char *const bad[] = {
		"\x80",
		"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02",
		"\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01",
	};
	uint64_t v;

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		struct frame f = { .type = FRAME_OK };

		buf_put(&f.payload, bad[i], strlen(bad[i]));
		assert_int_equal(frame_varints(&f, &v, 1, &e), -1);
		assert_int_equal(e.code, SC_EPROTO);
		frame_free(&f);
	}
}

static void fail_travels_whole(void **state)
{
	struct sc_err cause = { .code = SC_ETORN, .sys = 28 };
	struct ends s;

	(void)state;
	memset(cause.msg, 'x', sizeof(cause.msg) - 1);
	ends_open(&s, 0);
	OK(frame_send_fail(&s.f[0], FRAME_NO_VOLUME, &cause, &e));
	assert_int_equal(frame_recv(&s.f[1], &s.in, &e), 1);
	assert_int_equal(s.in.type, FRAME_FAIL);
	assert_int_equal(frame_take_fail(&s.in, &e), -1);
	assert_int_equal(e.code, SC_ETORN);
	assert_int_equal(e.sys, 28);
	assert_string_equal(e.msg, cause.msg);
	ends_close(&s);
}

static void broken_fails_are_refused(void **state)
{
	static const struct {
		uint64_t code, sys;
		size_t msg, cut;
	} bad[] = {
		{ SC_OK, 0, 3, 0 },	      { SC_EPARTIAL + 1, 0, 3, 0 },
		{ UINT64_MAX, 0, 3, 0 },      { SC_EIO, 4096, 3, 0 },
		{ SC_EIO, UINT64_MAX, 3, 0 }, { SC_EIO, 5, SC_ERR_MSG, 0 },
		{ SC_EIO, 5, 3, 1 },	      { SC_EIO, 5, 0, 2 },
	};
	char text[SC_ERR_MSG] = { 0 };

	(void)state;
	memset(text, 'y', sizeof(text));
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		struct frame f = { .type = FRAME_FAIL };

		buf_varint(&f.payload, bad[i].code);
		buf_varint(&f.payload, bad[i].sys);
		buf_bytes(&f.payload, text, bad[i].msg);
		f.payload.len -= bad[i].cut;
		assert_int_equal(frame_take_fail(&f, &e), -1);
		assert_int_equal(e.code, SC_EPROTO);
		frame_free(&f);
	}
}

/* -- the channel ---------------------------------------------------------- */

#define BIG (3u << 20)

static void *send_big(void *arg)
{
	struct ends *s = arg;
	unsigned char *p = malloc(BIG);

	for (size_t i = 0; i < BIG; i++)
		p[i] = (unsigned char)(i * 2654435761u >> 24);
	for (int i = 0; i < 3; i++)
		OK(frame_send(&s->f[1], FRAME_SEGMENT, 1, "head", 4, p, BIG,
			      &e));
	free(p);
	return NULL;
}

static void big_frames_pass_small_buffers(void **state)
{
	struct ends s;
	pthread_t t;

	(void)state;
	ends_open(&s, 4608);
	assert_int_equal(pthread_create(&t, NULL, send_big, &s), 0);
	for (int i = 0; i < 3; i++) {
		struct sc_err err;

		assert_int_equal(frame_recv(&s.f[0], &s.in, &err), 1);
		assert_int_equal(s.in.payload.len, BIG + 4);
		assert_memory_equal(s.in.payload.p, "head", 4);
		for (size_t k = 0; k < BIG; k++)
			if (s.in.payload.p[k + 4] !=
			    (unsigned char)(k * 2654435761u >> 24))
				fail_msg("byte %zu is wrong", k);
	}
	pthread_join(t, NULL);
	ends_close(&s);
}

struct waiting {
	struct ends *s;
	bool writes;
	int rc;
	struct sc_err err;
};

static void *wait_there(void *arg)
{
	struct waiting *w = arg;
	static unsigned char big[1u << 20];

	w->rc = w->writes ? frame_send(&w->s->f[0], FRAME_SEGMENT, 0, NULL, 0,
				       big, sizeof(big), &w->err)
			  : frame_recv(&w->s->f[0], &w->s->in, &w->err);
	return NULL;
}

/* The thread may be in the call already or not yet: both must end. */
static void cancel_ends(bool writes)
{
	struct ends s;
	struct waiting w = { .s = &s, .writes = writes };
	pthread_t t;

	ends_open(&s, 4608);
	assert_int_equal(pthread_create(&t, NULL, wait_there, &w), 0);
	if (writes) { /* it has begun: its first bytes are here */
		struct pollfd p = { .fd = s.fd[1], .events = POLLIN };

		assert_int_equal(poll(&p, 1, -1), 1);
	}
	cancel_set(&s.cancel, SIGINT);
	pthread_join(t, NULL);
	assert_int_equal(w.rc, -1);
	assert_int_equal(w.err.code, SC_EINTR);
	ends_close(&s);
}

static void cancel_ends_a_blocked_read(void **state)
{
	(void)state;
	cancel_ends(false);
}

static void cancel_ends_a_blocked_write(void **state)
{
	(void)state;
	cancel_ends(true);
}

/* A peer that has always more to say does not keep us from hearing ^C. */
static void cancel_is_seen_while_data_flows(void **state)
{
	struct ends s;

	(void)state;
	ends_open(&s, 0);
	for (int i = 0; i < 3; i++)
		OK(frame_send(&s.f[1], FRAME_ALLREAD, 0, NULL, 0, NULL, 0, &e));
	assert_int_equal(frame_recv(&s.f[0], &s.in, &e), 1);
	cancel_set(&s.cancel, SIGTERM);
	assert_int_equal(frame_recv(&s.f[0], &s.in, &e), -1);
	assert_int_equal(e.code, SC_EINTR);
	assert_int_equal(
		frame_send(&s.f[0], FRAME_SCAN, 0, NULL, 0, NULL, 0, &e), -1);
	assert_int_equal(e.code, SC_EINTR);
	ends_close(&s);
}

static void a_closed_peer_is_an_io_error(void **state)
{
	struct ends s;

	(void)state;
	signal(SIGPIPE, SIG_IGN);
	ends_open(&s, 0);
	close(s.fd[1]);
	s.fd[1] = -1;
	assert_int_equal(frame_recv(&s.f[0], &s.in, &e), 0);
	assert_int_equal(
		frame_send(&s.f[0], FRAME_SCAN, 0, NULL, 0, NULL, 0, &e), -1);
	assert_int_equal(e.code, SC_EIO);
	ends_close(&s);
}

#define EACH 400u

struct sender {
	struct ends *s;
	unsigned char id;
};

static void *send_many(void *arg)
{
	struct sender *me = arg;
	unsigned char p[3000];
	struct sc_err err;

	memset(p, me->id, sizeof(p));
	for (unsigned i = 0; i < EACH; i++)
		if (frame_send(&me->s->f[1], FRAME_SEGMENT, me->id, p, 4, p,
			       i * 7ul % sizeof(p), &err) < 0)
			abort();
	return NULL;
}

static void two_senders_do_not_mix(void **state)
{
	struct ends s;
	struct sender who[2] = { { &s, 1 }, { &s, 2 } };
	unsigned seen[3] = { 0 };
	pthread_t t[2];

	(void)state;
	ends_open(&s, 4608);
	for (int i = 0; i < 2; i++)
		assert_int_equal(
			pthread_create(&t[i], NULL, send_many, &who[i]), 0);
	for (unsigned i = 0; i < 2 * EACH; i++) {
		unsigned v;

		assert_int_equal(frame_recv(&s.f[0], &s.in, &e), 1);
		v = s.in.volume;
		assert_in_range(v, 1, 2);
		assert_int_equal(s.in.payload.len, seen[v]++ * 7 % 3000 + 4);
		for (size_t k = 0; k < s.in.payload.len; k++)
			assert_int_equal(s.in.payload.p[k], v);
	}
	for (int i = 0; i < 2; i++)
		pthread_join(t[i], NULL);
	assert_int_equal(s.f[1].sent, 2ul * EACH);
	ends_close(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(limits_are_as_specified),
		cmocka_unit_test(longest_passes_longer_does_not),
		cmocka_unit_test(unknown_types_are_refused),
		cmocka_unit_test(a_length_of_4_gib_allocates_nothing),
		cmocka_unit_test(cut_frames_are_refused),
		cmocka_unit_test(a_long_head_is_refused),
		cmocka_unit_test(counts_are_of_frames_and_payload),
		cmocka_unit_test(an_empty_payload_is_a_frame),
		cmocka_unit_test(varints_are_exact),
		cmocka_unit_test(broken_varints_are_refused),
		cmocka_unit_test(fail_travels_whole),
		cmocka_unit_test(broken_fails_are_refused),
		cmocka_unit_test(big_frames_pass_small_buffers),
		cmocka_unit_test(cancel_ends_a_blocked_read),
		cmocka_unit_test(cancel_ends_a_blocked_write),
		cmocka_unit_test(cancel_is_seen_while_data_flows),
		cmocka_unit_test(a_closed_peer_is_an_io_error),
		cmocka_unit_test(two_senders_do_not_mix),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
