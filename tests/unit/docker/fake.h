/* SPDX-License-Identifier: MIT */
/* An engine that says what a test wants, on a unix socket in a directory of
 * its own. A thread per connection reads requests and hands each to the
 * test's function, which writes the answer and says whether to go on. */
#ifndef SNAPCTL_TESTS_DOCKER_FAKE_H
#define SNAPCTL_TESTS_DOCKER_FAKE_H

#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

/* wants some of the above */
#include <cmocka.h>

#include <snapctl/docker/docker.h>

#define FAKE_CONNS 512

struct fake;

struct fake_req {
	struct fake *f;
	int fd;
	char head[8192]; /* whole head, NUL-terminated */
	char method[16];
	char path[4096];
	char body[65536];
	size_t len;
};

/* False closes the connection. */
typedef bool (*fake_fn)(struct fake_req *rq, void *arg);

struct fake {
	char dir[64], sock[96], host[112];
	int fd, stop;
	fake_fn fn;
	void *arg;
	pthread_t acceptor, conns[FAKE_CONNS];
	unsigned nconns;
	atomic_uint requests;
};

struct fake_conn {
	struct fake *f;
	int fd;
};

static inline bool fake_write(int fd, const void *p, size_t n)
{
	const char *c = p;

	while (n) {
		ssize_t w = send(fd, c, n, MSG_NOSIGNAL);

		if (w <= 0)
			return false;
		c += w;
		n -= (size_t)w;
	}
	return true;
}

__attribute__((format(printf, 2, 3))) static inline bool fake_printf(
	int fd, const char *fmt, ...)
{
	char text[16384];
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	return fake_write(fd, text, (size_t)n);
}

/* A whole answer; extra: more header lines, each with its CRLF. */
static inline bool fake_answer(struct fake_req *rq, int status,
			       const char *extra, const char *body)
{
	return fake_printf(rq->fd,
			   "HTTP/1.1 %d X\r\nContent-Length: %zu\r\n"
			   "Api-Version: 1.41\r\n%s\r\n%s",
			   status, strlen(body), extra, body);
}

/* Waits until the peer closes or the fake is stopped. */
static inline void fake_hang(struct fake_req *rq)
{
	struct pollfd p[2] = { { .fd = rq->fd, .events = POLLRDHUP },
			       { .fd = rq->f->stop, .events = POLLIN } };

	(void)poll(p, 2, -1);
}

/* Into p until the empty line; false at the end or when stopped. */
static inline bool fake_head(struct fake_req *rq, size_t *have)
{
	struct pollfd p[2] = { { .fd = rq->fd, .events = POLLIN },
			       { .fd = rq->f->stop, .events = POLLIN } };

	*have = 0;
	for (;;) {
		ssize_t n;

		(void)poll(p, 2, -1);
		if (p[1].revents)
			return false;
		n = recv(rq->fd, rq->head + *have, sizeof(rq->head) - 1 - *have,
			 0);
		if (n <= 0)
			return false;
		*have += (size_t)n;
		rq->head[*have] = 0;
		if (strstr(rq->head, "\r\n\r\n"))
			return true;
	}
}

static inline bool fake_read(struct fake_req *rq)
{
	size_t have, want, total;
	char *end, *length;

	if (!fake_head(rq, &have))
		return false;
	end = strstr(rq->head, "\r\n\r\n") + 4;
	length = strcasestr(rq->head, "\r\nContent-Length:");
	want = length && length < end ? strtoul(length + 17, NULL, 10) : 0;
	total = want;
	rq->len = have - (size_t)(end - rq->head);
	if (rq->len > want)
		rq->len = want;
	memcpy(rq->body, end, rq->len);
	*end = 0;
	while (rq->len < total) {
		/* A body too long to keep is read and dropped. */
		size_t at = rq->len < sizeof(rq->body) - 1
				    ? rq->len
				    : sizeof(rq->body) - 1;
		char drop[65536];
		size_t room = sizeof(rq->body) - 1 - at;
		ssize_t n = recv(rq->fd, room ? rq->body + at : drop,
				 room ? room : sizeof(drop), 0);

		if (n <= 0)
			return false;
		rq->len += (size_t)n;
	}
	rq->body[rq->len < sizeof(rq->body) ? rq->len : sizeof(rq->body) - 1] =
		0;
	return sscanf(rq->head, "%15s %4095s", rq->method, rq->path) == 2;
}

static inline void *fake_serve(void *arg)
{
	struct fake_conn *c = arg;
	struct fake_req *rq = calloc(1, sizeof(*rq));

	if (!rq)
		abort();
	rq->f = c->f;
	rq->fd = c->fd;
	while (fake_read(rq)) {
		atomic_fetch_add(&c->f->requests, 1);
		if (!c->f->fn(rq, c->f->arg))
			break;
	}
	close(c->fd);
	free(rq);
	free(c);
	return NULL;
}

static inline void *fake_accept(void *arg)
{
	struct fake *f = arg;
	struct pollfd p[2] = { { .fd = f->fd, .events = POLLIN },
			       { .fd = f->stop, .events = POLLIN } };

	for (;;) {
		struct fake_conn *c = malloc(sizeof(*c));

		(void)poll(p, 2, -1);
		if (p[1].revents || f->nconns == FAKE_CONNS || !c) {
			free(c);
			return NULL;
		}
		c->f = f;
		c->fd = accept(f->fd, NULL, NULL);
		if (c->fd < 0 ||
		    pthread_create(&f->conns[f->nconns], NULL, fake_serve, c))
			abort();
		f->nconns++;
	}
}

static inline void fake_start(struct fake *f, fake_fn fn, void *arg)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };

	memset(f, 0, sizeof(*f));
	strcpy(f->dir, "/tmp/docker-test-XXXXXX");
	assert_non_null(mkdtemp(f->dir));
	snprintf(f->sock, sizeof(f->sock), "%s/s", f->dir);
	snprintf(f->host, sizeof(f->host), "unix://%s", f->sock);
	strcpy(sa.sun_path, f->sock);
	f->fn = fn;
	f->arg = arg;
	f->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	f->stop = eventfd(0, EFD_CLOEXEC);
	assert_true(f->fd >= 0 && f->stop >= 0);
	assert_int_equal(bind(f->fd, (struct sockaddr *)&sa, sizeof(sa)), 0);
	assert_int_equal(listen(f->fd, 64), 0);
	assert_int_equal(pthread_create(&f->acceptor, NULL, fake_accept, f), 0);
}

static inline void fake_stop(struct fake *f)
{
	assert_int_equal(eventfd_write(f->stop, 1), 0);
	pthread_join(f->acceptor, NULL);
	for (unsigned i = 0; i < f->nconns; i++)
		pthread_join(f->conns[i], NULL);
	close(f->fd);
	close(f->stop);
	unlink(f->sock);
	rmdir(f->dir);
}

#define FAKE_VERSION                                                          \
	"{\"Version\":\"20.10.24\",\"ApiVersion\":\"1.41\",\"Os\":\"linux\"," \
	"\"Arch\":\"amd64\",\"Components\":[{\"Name\":\"Engine\"}]}"
#define FAKE_INFO                                                   \
	"{\"ID\":\"ABCD:EFGH\",\"Name\":\"box\",\"DockerRootDir\":" \
	"\"/var/lib/docker\",\"SystemTime\":\"2026-01-31T12:00:00.5Z\"}"

static inline bool fake_is(const struct fake_req *rq, const char *method,
			   const char *path)
{
	return strcmp(rq->method, method) == 0 && strcmp(rq->path, path) == 0;
}

/* The usual answers while a client opens: 1 answered, 0 not one of these. */
static inline int fake_usual(struct fake_req *rq)
{
	if (fake_is(rq, "GET", "/_ping"))
		return fake_answer(rq, 200, "", "OK");
	if (fake_is(rq, "GET", "/v1.41/version"))
		return fake_answer(rq, 200, "", FAKE_VERSION);
	if (fake_is(rq, "GET", "/v1.41/info"))
		return fake_answer(rq, 200, "", FAKE_INFO);
	return 0;
}

static inline double fake_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Sets a cancel after a while, as a signal would. */
struct fake_later {
	pthread_t thread;
	struct cancel *c;
	int ms;
};

static inline void *fake_later_run(void *arg)
{
	struct fake_later *l = arg;

	(void)poll(NULL, 0, l->ms);
	cancel_set(l->c, 2);
	return NULL;
}

static inline void fake_later(struct fake_later *l, struct cancel *c, int ms)
{
	l->c = c;
	l->ms = ms;
	assert_int_equal(pthread_create(&l->thread, NULL, fake_later_run, l),
			 0);
}

#endif
