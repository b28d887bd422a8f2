/* SPDX-License-Identifier: MIT */
#include <snapctl/helper/frames.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <snapctl/base/mem.h>
#include <snapctl/scan/index.h>

#define SMALL (4u << 10)
#define TEXT  (64u << 10)

static const struct {
	const char *name;
	size_t limit;
} types[FRAME_TYPES] = {
	[FRAME_HELLO] = { "HELLO", TEXT },
	[FRAME_VOLUME] = { "VOLUME", TEXT },
	[FRAME_SCAN] = { "SCAN", SMALL },
	[FRAME_TAKE] = { "TAKE", SMALL },
	[FRAME_INDEX] = { "INDEX", FRAME_PIECE },
	[FRAME_PLAN] = { "PLAN", TEXT },
	[FRAME_STAGE] = { "STAGE", SMALL },
	[FRAME_RECHECK] = { "RECHECK", SMALL },
	[FRAME_COMMIT] = { "COMMIT", SMALL },
	[FRAME_UNDO] = { "UNDO", SMALL },
	[FRAME_BYE] = { "BYE", SMALL },
	[FRAME_ABORT] = { "ABORT", SMALL },
	[FRAME_OK] = { "OK", SMALL },
	[FRAME_FAIL] = { "FAIL", SMALL },
	[FRAME_NOTE] = { "NOTE", TEXT },
	[FRAME_PROGRESS] = { "PROGRESS", SMALL },
	[FRAME_SCANNED] = { "SCANNED", SMALL },
	[FRAME_SEGMENT] = { "SEGMENT", SEGMENT_STORED_MAX + 4 },
	[FRAME_ALLREAD] = { "ALLREAD", SMALL },
	[FRAME_COLUMN] = { "COLUMN", FRAME_PIECE + 2 },
	[FRAME_COLEND] = { "COLEND", SMALL },
	[FRAME_TAKEN] = { "TAKEN", SMALL },
	[FRAME_PLANNED] = { "PLANNED", SMALL },
	[FRAME_NEED] = { "NEED", FRAME_PIECE },
};

size_t frame_limit(unsigned type)
{
	return type < FRAME_TYPES ? types[type].limit : 0;
}

const char *frame_name(unsigned type)
{
	return frame_limit(type) ? types[type].name : "an unknown frame";
}

/* -- descriptors ---------------------------------------------------------- */

static int wait_for(const struct channel_fds *f, int fd, short events,
		    struct sc_err *err)
{
	struct pollfd p[2] = {
		{ .fd = fd, .events = events },
		{ .fd = f->cancel ? f->cancel->fd : -1, .events = POLLIN },
	};

	while (poll(p, 2, -1) < 0)
		if (errno != EINTR)
			return sc_fail(err, SC_EIO, errno, "wait for the peer");
	return p[1].revents ? cancel_check(f->cancel, err) : 0;
}

static ssize_t fds_read(void *arg, void *p, size_t n, struct sc_err *err)
{
	struct channel_fds *f = arg;

	/* A peer that always has more to say must not keep us from ending. */
	if (cancel_check(f->cancel, err) < 0)
		return -1;
	for (;;) {
		ssize_t k = read(f->in, p, n);

		if (k >= 0)
			return k;
		if (errno == ECONNRESET)
			return 0;
		if (errno != EAGAIN && errno != EINTR)
			return sc_fail(err, SC_EIO, errno,
				       "read from the peer");
		if (wait_for(f, f->in, POLLIN, err) < 0)
			return -1;
	}
}

static int fds_write(void *arg, const void *p, size_t n, struct sc_err *err)
{
	struct channel_fds *f = arg;
	const char *at = p;

	if (cancel_check(f->cancel, err) < 0)
		return -1;
	while (n) {
		ssize_t k = write(f->out, at, n);

		if (k >= 0) {
			at += k;
			n -= (size_t)k;
			continue;
		}
		if (errno != EAGAIN && errno != EINTR)
			return sc_fail(err, SC_EIO, errno, "write to the peer");
		if (wait_for(f, f->out, POLLOUT, err) < 0)
			return -1;
	}
	return 0;
}

static int set_nonblock(int fd, struct sc_err *err)
{
	int fl = fcntl(fd, F_GETFL);

	if (fl < 0 || fcntl(fd, F_SETFL, fl | O_NONBLOCK) < 0)
		return sc_fail(err, SC_EIO, errno, "set non-blocking");
	return 0;
}

int channel_fds_init(struct channel_fds *f, struct channel *ch,
		     struct sc_err *err)
{
	if (set_nonblock(f->in, err) < 0 || set_nonblock(f->out, err) < 0)
		return -1;
	*ch = (struct channel){ fds_read, fds_write, f };
	return 0;
}

/* -- frames --------------------------------------------------------------- */

void frames_init(struct frames *f, const struct channel *ch)
{
	*f = (struct frames){ .ch = *ch };
	pthread_mutex_init(&f->send_lock, NULL);
}

void frames_destroy(struct frames *f)
{
	pthread_mutex_destroy(&f->send_lock);
}

void frames_count_reset(struct frames *f)
{
	pthread_mutex_lock(&f->send_lock);
	f->sent = f->sent_bytes = 0;
	pthread_mutex_unlock(&f->send_lock);
}

static void put_header(unsigned char h[FRAME_HEADER], uint32_t len,
		       unsigned type, unsigned volume)
{
	for (int i = 0; i < 4; i++)
		h[i] = (unsigned char)(len >> (8 * i));
	h[4] = (unsigned char)type;
	h[5] = (unsigned char)(type >> 8);
	h[6] = (unsigned char)volume;
	h[7] = (unsigned char)(volume >> 8);
}

int frame_send(struct frames *f, enum frame_type type, unsigned volume,
	       const void *head, size_t nhead, const void *body, size_t nbody,
	       struct sc_err *err)
{
	unsigned char start[FRAME_HEADER + 64];
	size_t nstart = FRAME_HEADER;
	int rc;

	if (nhead > sizeof(start) - FRAME_HEADER ||
	    nhead + nbody > frame_limit(type))
		return sc_fail(err, SC_EPROTO, 0,
			       "%s frame of %zu bytes is too long",
			       frame_name(type), nhead + nbody);
	put_header(start, (uint32_t)(nhead + nbody), type, volume);
	if (nhead)
		memcpy(start + nstart, head, nhead);
	nstart += nhead;
	pthread_mutex_lock(&f->send_lock);
	rc = f->ch.write(f->ch.arg, start, nstart, err);
	if (rc == 0 && nbody)
		rc = f->ch.write(f->ch.arg, body, nbody, err);
	if (rc == 0) {
		f->sent++;
		f->sent_bytes += nhead + nbody;
	}
	pthread_mutex_unlock(&f->send_lock);
	return rc < 0 ? sc_wrap(err, "send %s", frame_name(type)) : 0;
}

/* 1 all there, 0 the stream ended before the first byte, -1. */
static int recv_all(struct frames *f, void *p, size_t n, struct sc_err *err)
{
	size_t got = 0;

	while (got < n) {
		ssize_t k =
			f->ch.read(f->ch.arg, (char *)p + got, n - got, err);

		if (k < 0)
			return -1;
		if (k == 0 && got == 0)
			return 0;
		if (k == 0)
			return sc_fail(err, SC_EPROTO, 0,
				       "the stream ended within a frame");
		got += (size_t)k;
	}
	return 1;
}

int frame_recv(struct frames *f, struct frame *out, struct sc_err *err)
{
	unsigned char h[FRAME_HEADER];
	struct cur c = cur_of(h, sizeof(h));
	size_t len;
	int rc = recv_all(f, h, sizeof(h), err);

	if (rc <= 0)
		return rc;
	len = cur_u32(&c);
	out->type = cur_u16(&c);
	out->volume = cur_u16(&c);
	if (!frame_limit(out->type) || len > frame_limit(out->type))
		return sc_fail(err, SC_EPROTO, 0,
			       "peer sent %s (type %u) of %zu bytes",
			       frame_name(out->type), out->type, len);
	buf_clear(&out->payload);
	if (len && !buf_reserve(&out->payload, len))
		return sc_oom(err, "frame");
	rc = len ? recv_all(f, out->payload.p, len, err) : 1;
	if (rc == 0)
		return sc_fail(err, SC_EPROTO, 0,
			       "the stream ended within a frame");
	if (rc > 0)
		out->payload.len = len;
	return rc;
}

void frame_free(struct frame *f)
{
	buf_free(&f->payload);
}

int frame_send_fail(struct frames *f, unsigned volume,
		    const struct sc_err *cause, struct sc_err *err)
{
	auto_buf struct buf b = { 0 };

	buf_varint(&b, cause->code);
	buf_varint(&b, (uint64_t)cause->sys);
	buf_str(&b, cause->msg);
	if (b.failed)
		return sc_oom(err, "frame");
	return frame_send(f, FRAME_FAIL, volume, NULL, 0, b.p, b.len, err);
}

int frame_take_fail(struct frame *f, struct sc_err *err)
{
	struct cur c = cur_of(f->payload.p, f->payload.len);
	uint64_t code = cur_varint(&c), sys = cur_varint(&c);
	size_t n;
	const unsigned char *msg = cur_bytes(&c, SC_ERR_MSG - 1, &n);

	if (c.bad || code == SC_OK || code > SC_EPARTIAL || sys > 4095)
		return sc_fail(err, SC_EPROTO, 0,
			       "the helper sent a broken FAIL frame");
	sc_fail(err, (enum sc_code)code, 0, "%.*s", (int)n, (const char *)msg);
	err->sys = (int)sys;
	return -1;
}

int frame_varints(const struct frame *f, uint64_t *v, size_t n,
		  struct sc_err *err)
{
	struct cur c = cur_of(f->payload.p, f->payload.len);

	for (size_t i = 0; i < n; i++)
		v[i] = cur_varint(&c);
	if (c.bad || cur_left(&c))
		return sc_fail(err, SC_EPROTO, 0, "peer sent a broken %s frame",
			       frame_name(f->type));
	return 0;
}

int frame_send_varints(struct frames *f, enum frame_type type, unsigned volume,
		       const uint64_t *v, size_t n, struct sc_err *err)
{
	auto_buf struct buf b = { 0 };

	for (size_t i = 0; i < n; i++)
		buf_varint(&b, v[i]);
	if (b.failed)
		return sc_oom(err, "frame");
	return frame_send(f, type, volume, NULL, 0, b.p, b.len, err);
}
