/* SPDX-License-Identifier: MIT */
/* A container's stdin and stdout over a connection that starts as HTTP and is
 * then handed over ("hijacked"). libcurl connects and encrypts; the request,
 * its answer and the frames are ours.
 *
 * Two threads work at once, and neither may wait while it holds the easy
 * handle: the lock spans single calls on a socket that does not block, and
 * waiting for it happens outside. So a reader drains while the writer is
 * stuck, and the other way round. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <snapctl/base/mem.h>

#include "internal.h"

#define IN_MAX	 65536
#define HEAD_MAX 16384
#define TAIL	 4096 /* of stderr */

struct docker_attach {
	struct docker *d;
	struct http *h;
	struct http_req rq; /* what h was begun with */
	struct http_rsp rsp;
	int sock;
	int abort_fd;
	pthread_mutex_t lock; /* h */
	struct demux demux;
	unsigned char in[IN_MAX]; /* received, not demultiplexed yet */
	size_t pos, end;
	pthread_mutex_t tail_lock;
	char tail[TAIL], shown[TAIL + 1];
	size_t ntail;
};

/* -- waiting ------------------------------------------------------------ */

/* Until the socket is ready for events; deadline in ms, -1 for none. */
static int wait_for(struct docker_attach *a, short events, int64_t deadline,
		    struct sc_err *err)
{
	struct pollfd p[3] = {
		{ .fd = a->sock, .events = events },
		{ .fd = a->abort_fd, .events = POLLIN },
		{ .fd = docker_cancel_fd(a->d), .events = POLLIN },
	};
	int64_t left = deadline < 0 ? -1 : deadline - docker_now_ms();
	int n;

	if (docker_cancelled(a->d))
		return cancel_check(a->d->cancel, err);
	if (deadline >= 0 && left < 0)
		left = 0;
	n = poll(p, ARRAY_LEN(p), (int)left);
	if (n < 0 && errno != EINTR)
		return sc_fail(err, SC_EIO, errno, "poll");
	if (n > 0 && p[1].revents)
		return sc_fail(err, SC_EENGINE, 0, "attached stream: given up");
	if (n > 0 && p[2].revents && docker_cancelled(a->d))
		return cancel_check(a->d->cancel, err);
	if (n == 0)
		return sc_fail(err, SC_EENGINE, ETIMEDOUT,
			       "attach to container");
	return 0;
}

/* At least one byte, 0 at the end of the stream. */
static ssize_t receive(struct docker_attach *a, void *p, size_t n,
		       int64_t deadline, struct sc_err *err)
{
	for (;;) {
		ssize_t got;

		pthread_mutex_lock(&a->lock);
		got = http_recv(a->h, p, n, err);
		pthread_mutex_unlock(&a->lock);
		if (got != HTTP_AGAIN)
			return got;
		if (wait_for(a, POLLIN, deadline, err) < 0)
			return -1;
	}
}

int docker_attach_write(struct docker_attach *a, const void *p, size_t n,
			struct sc_err *err)
{
	const char *c = p;

	while (n) {
		ssize_t sent;

		pthread_mutex_lock(&a->lock);
		sent = http_send(a->h, c, n, err);
		pthread_mutex_unlock(&a->lock);
		if (sent == -1)
			return -1;
		if (sent == HTTP_AGAIN) {
			if (wait_for(a, POLLOUT, -1, err) < 0)
				return -1;
			continue;
		}
		c += sent;
		n -= (size_t)sent;
	}
	return 0;
}

/* -- the answer --------------------------------------------------------- */

/* The value of a header line in head (NUL-terminated), or NULL. Borrowed,
 * ends at the line's end. */
static const char *header(const char *head, const char *name)
{
	size_t n = strlen(name);
	const char *p = head;

	while ((p = strstr(p, "\r\n"))) {
		p += 2;
		if (strncasecmp(p, name, n) == 0 && p[n] == ':')
			return p + n + 1 + strspn(p + n + 1, " \t");
	}
	return NULL;
}

/* Receives into a->in until the empty line; what follows it stays there.
 * The head itself is cut off with a NUL at *head. */
static int read_head(struct docker_attach *a, char head[HEAD_MAX + 1],
		     int64_t deadline, struct sc_err *err)
{
	unsigned char *stop = NULL;

	while (!stop && a->end < HEAD_MAX) {
		ssize_t n = receive(a, a->in + a->end, HEAD_MAX - a->end,
				    deadline, err);

		if (n < 0)
			return -1;
		if (n == 0)
			return sc_fail(err, SC_EENGINE, 0,
				       "the engine closed the connection "
				       "without an answer");
		a->end += (size_t)n;
		stop = memmem(a->in, a->end, "\r\n\r\n", 4);
	}
	if (!stop || memchr(a->in, 0, (size_t)(stop - a->in)))
		return sc_fail(err, SC_EPROTO, 0,
			       "the engine's answer is not HTTP");
	a->pos = (size_t)(stop - a->in) + 4;
	memcpy(head, a->in, a->pos);
	head[a->pos] = 0;
	return 0;
}

/* The message of an answer that said no. */
static int refused(struct docker_attach *a, const char *head, long status,
		   const char *id, int64_t deadline, struct sc_err *err)
{
	const char *length = header(head, "Content-Length");
	size_t want = length ? strtoul(length, NULL, 10) : IN_MAX;
	json_t auto_json *doc = NULL;

	while (a->end < IN_MAX && a->end - a->pos < want) {
		ssize_t n = receive(a, a->in + a->end, IN_MAX - a->end,
				    deadline, NULL);

		/* Half a message is better than none. */
		if (n <= 0)
			break;
		a->end += (size_t)n;
	}
	doc = docker_error_doc(a->in + a->pos, a->end - a->pos);
	return docker_said_no(err, status, doc, "attach to container", id);
}

static int read_answer(struct docker_attach *a, const char *id,
		       struct sc_err *err)
{
	int64_t deadline = docker_now_ms() + DOCKER_SILENCE_MS;
	char head[HEAD_MAX + 1];
	const char *space;
	long status;

	if (read_head(a, head, deadline, err) < 0)
		return sc_wrap(err, "attach to container %s", id);
	space = strchr(head, ' ');
	status = space ? strtol(space, NULL, 10) : 0;
	if (strncmp(head, "HTTP/1.", 7) != 0 || status < 100)
		return sc_fail(err, SC_EPROTO, 0,
			       "attach to container %s: the engine's answer "
			       "is not HTTP",
			       id);
	if (status >= 400)
		return refused(a, head, status, id, deadline, err);
	if ((status != 101 && status != 200) ||
	    header(head, "Transfer-Encoding") || header(head, "Content-Length"))
		return sc_fail(err, SC_EPROTO, 0,
			       "attach to container %s: something between "
			       "here and the engine does not pass the "
			       "connection on (HTTP status %ld)",
			       id, status);
	return 0;
}

/* -- open and close ----------------------------------------------------- */

static int send_request(struct docker_attach *a, const char *id,
			struct sc_err *err)
{
	auto_free char *path = docker_path("/containers/", id, "/attach", err);
	const char *base = strstr(a->d->ep.base, "//") + 2;
	size_t host = strcspn(base, "/");
	struct buf auto_buf rq = { 0 };

	if (!path)
		return -1;
	buf_printf(&rq,
		   "POST %s%s%s?stream=1&stdin=1&stdout=1&stderr=1 "
		   "HTTP/1.1\r\nHost: %.*s\r\n"
		   "User-Agent: snapctl/" SNAPCTL_VERSION "\r\n"
		   "Connection: Upgrade\r\nUpgrade: tcp\r\n"
		   "Content-Length: 0\r\n\r\n",
		   base + host, a->d->prefix, path, (int)host, base);
	if (rq.failed)
		return sc_oom(err, "request");
	return docker_attach_write(a, rq.p, rq.len, err);
}

static int start(struct docker_attach *a, const char *id, struct sc_err *err)
{
	a->rq = (struct http_req){ .method = "POST",
				   .path = "/",
				   .silence_ms = DOCKER_SILENCE_MS,
				   .connect_only = true };
	a->abort_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (a->abort_fd < 0)
		return sc_fail(err, SC_EIO, errno, "eventfd");
	if (http_new(a->d, &a->h, err) < 0 ||
	    http_begin(a->h, &a->rq, &a->rsp, err) < 0 ||
	    http_drive(a->h, false, err) < 0)
		return -1;
	a->sock = http_fd(a->h, err);
	if (a->sock < 0 || send_request(a, id, err) < 0)
		return -1;
	return read_answer(a, id, err);
}

int docker_attach_open(struct docker *d, const char *id,
		       struct docker_attach **out, struct sc_err *err)
{
	struct docker_attach *a = calloc(1, sizeof(*a));

	if (!a)
		return sc_oom(err, "attached stream");
	a->d = d;
	a->sock = a->abort_fd = -1;
	pthread_mutex_init(&a->lock, NULL);
	pthread_mutex_init(&a->tail_lock, NULL);
	if (start(a, id, err) < 0) {
		docker_attach_close(a);
		return -1;
	}
	*out = a;
	return 0;
}

void docker_attach_abort(struct docker_attach *a)
{
	/* Cannot fail: the counter is far from its end. */
	(void)eventfd_write(a->abort_fd, 1);
}

void docker_attach_close(struct docker_attach *a)
{
	if (!a)
		return;
	http_free(a->h);
	http_rsp_free(&a->rsp);
	if (a->abort_fd >= 0)
		(void)close(a->abort_fd);
	pthread_mutex_destroy(&a->lock);
	pthread_mutex_destroy(&a->tail_lock);
	free(a);
}

/* -- reading ------------------------------------------------------------ */

static void keep_tail(struct docker_attach *a, const unsigned char *p, size_t n)
{
	size_t drop;

	if (n > TAIL) {
		p += n - TAIL;
		n = TAIL;
	}
	pthread_mutex_lock(&a->tail_lock);
	drop = a->ntail + n > TAIL ? a->ntail + n - TAIL : 0;
	memmove(a->tail, a->tail + drop, a->ntail - drop);
	memcpy(a->tail + a->ntail - drop, p, n);
	a->ntail += n - drop;
	pthread_mutex_unlock(&a->tail_lock);
}

const char *docker_attach_stderr(struct docker_attach *a)
{
	size_t n = 0;

	pthread_mutex_lock(&a->tail_lock);
	for (size_t i = 0; i < a->ntail; i++)
		if (a->tail[i])
			a->shown[n++] = a->tail[i];
	a->shown[n] = 0;
	pthread_mutex_unlock(&a->tail_lock);
	return a->shown;
}

static int system_error(const unsigned char *p, size_t n, struct sc_err *err)
{
	json_t auto_json *doc = docker_error_doc(p, n);

	return docker_said_no(err, 500, doc, "attached stream", "");
}

/* One piece out of a->in: its length (0: nothing for stdout), or -1. */
static ssize_t take_piece(struct docker_attach *a, void *p, size_t n,
			  struct sc_err *err)
{
	const unsigned char *data;
	size_t len, room = a->end - a->pos;
	ssize_t used;

	/* No more of a frame than the caller has room for. */
	if (a->demux.left && n < room)
		room = n;
	else if (!a->demux.left && room > DEMUX_HEAD - a->demux.nhead)
		room = DEMUX_HEAD - a->demux.nhead;
	used = demux_take(&a->demux, a->in + a->pos, room, &data, &len, err);
	if (used < 0)
		return -1;
	a->pos += (size_t)used;
	if (!len)
		return 0;
	if (a->demux.kind == DEMUX_ERROR)
		return system_error(data, len, err);
	if (a->demux.kind == DEMUX_STDERR) {
		keep_tail(a, data, len);
		return 0;
	}
	memcpy(p, data, len);
	return (ssize_t)len;
}

/* In the middle of a stdout frame with nothing buffered: straight into the
 * caller's memory. */
static ssize_t receive_direct(struct docker_attach *a, void *p, size_t n,
			      struct sc_err *err)
{
	ssize_t got =
		receive(a, p, n < a->demux.left ? n : a->demux.left, -1, err);

	if (got > 0)
		a->demux.left -= (uint32_t)got;
	if (got == 0)
		return sc_fail(err, SC_EENGINE, 0,
			       "attached stream: cut in a frame");
	return got;
}

ssize_t docker_attach_read(struct docker_attach *a, void *p, size_t n,
			   struct sc_err *err)
{
	while (n) {
		ssize_t got;

		while (a->pos < a->end) {
			got = take_piece(a, p, n, err);
			if (got)
				return got;
		}
		if (a->demux.left && a->demux.kind <= DEMUX_STDOUT)
			return receive_direct(a, p, n, err);
		a->pos = a->end = 0;
		got = receive(a, a->in, sizeof(a->in), -1, err);
		if (got < 0)
			return -1;
		if (got == 0 && demux_inside(&a->demux))
			return sc_fail(err, SC_EENGINE, 0,
				       "attached stream: cut in a frame");
		if (got == 0)
			return 0;
		a->end = (size_t)got;
	}
	return 0;
}
