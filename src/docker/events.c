/* SPDX-License-Identifier: MIT */
/* A thread reads the engine's event stream into a queue; an eventfd is
 * readable while the queue holds something or the stream has broken. The
 * thread does not listen to cancel: what brings the stack back up after ^C
 * still wants events. Whoever waits in docker_events_next does.
 *
 * Engines send the head of their answer a little before the subscription
 * stands. So it asks for what happened since a moment just before, by the
 * engine's own clock. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include <snapctl/base/mem.h>

#include "internal.h"

#define LINE_MAX_BYTES (1u << 20)
#define QUEUE_MAX      100000

struct docker_events {
	struct docker *d;
	struct http *h;
	struct http_req rq;
	struct http_rsp rsp;
	char *path;
	struct buf line;   /* an event that has not ended yet */
	struct sc_err bad; /* why the sink gave up */
	pthread_t thread;
	bool started;
	pthread_mutex_t lock; /* all below */
	struct docker_event *q;
	size_t first, n, cap;
	bool broken;
	struct sc_err why;
	int fd;
};

/* -- one event ---------------------------------------------------------- */

static int exit_code_of(json_t *attr)
{
	static const char *const keys[] = { "exitCode", "containerExitCode" };

	for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
		const char *s =
			json_string_value(json_object_get(attr, keys[i]));
		char *end;
		long v;

		if (!s || !*s)
			continue;
		v = strtol(s, &end, 10);
		if (!*end && v >= INT32_MIN && v <= INT32_MAX)
			return (int)v;
	}
	return -1;
}

static void copy_str(char *out, size_t cap, json_t *o, const char *key)
{
	const char *s = json_string_value(json_object_get(o, key));

	snprintf(out, cap, "%s", s ? s : "");
}

int docker_event_parse(const char *p, size_t n, struct docker_event *out,
		       struct sc_err *err)
{
	json_t auto_json *doc = NULL;
	json_t *actor;

	if (js_parse(p, n, "event stream", &doc, err) < 0)
		return -1;
	if (!json_is_object(doc))
		return sc_fail(err, SC_EPROTO, 0,
			       "event stream: an event is not an object");
	*out = (struct docker_event){ .exit_code = -1 };
	actor = json_object_get(doc, "Actor");
	copy_str(out->type, sizeof(out->type), doc, "Type");
	copy_str(out->action, sizeof(out->action), doc, "Action");
	copy_str(out->id, sizeof(out->id), actor, "ID");
	out->time_ns = json_integer_value(json_object_get(doc, "timeNano"));
	if (strcmp(out->type, "container") != 0 || !*out->action)
		return 0;
	if (strcmp(out->action, "died") == 0) /* Podman */
		strcpy(out->action, "die");
	if (strcmp(out->action, "die") == 0)
		out->exit_code =
			exit_code_of(json_object_get(actor, "Attributes"));
	return 1;
}

/* -- the queue ---------------------------------------------------------- */

/* The eventfd's counter is 1 while there is something, 0 otherwise. */
static void signal_reader(struct docker_events *e)
{
	(void)eventfd_write(e->fd, 1);
}

static int push(struct docker_events *e, const struct docker_event *ev,
		struct sc_err *err)
{
	int rc = 0;

	pthread_mutex_lock(&e->lock);
	if (e->n && e->first + e->n == e->cap) {
		memmove(e->q, e->q + e->first, e->n * sizeof(*e->q));
		e->first = 0;
	}
	if (e->n >= QUEUE_MAX)
		rc = sc_fail(err, SC_EENGINE, 0,
			     "event stream: %u events nobody read", QUEUE_MAX);
	else if (mem_grow(&e->q, &e->cap, e->first + e->n + 1, sizeof(*e->q)) <
		 0)
		rc = sc_oom(err, "events");
	if (rc == 0) {
		e->q[e->first + e->n++] = *ev;
		if (e->n == 1)
			signal_reader(e);
	}
	pthread_mutex_unlock(&e->lock);
	return rc;
}

/* 1 with an event, 0 without, -1 broken. */
static int pop(struct docker_events *e, struct docker_event *out,
	       struct sc_err *err)
{
	eventfd_t count;
	int rc = 0;

	pthread_mutex_lock(&e->lock);
	if (e->n) {
		*out = e->q[e->first++];
		if (--e->n == 0) {
			e->first = 0;
			if (!e->broken)
				(void)eventfd_read(e->fd, &count);
		}
		rc = 1;
	} else if (e->broken) {
		if (err)
			*err = e->why;
		rc = -1;
	}
	pthread_mutex_unlock(&e->lock);
	return rc;
}

/* -- the stream --------------------------------------------------------- */

static int end_line(struct docker_events *e)
{
	struct docker_event ev;
	int rc = 0;

	if (e->line.len)
		rc = docker_event_parse((const char *)e->line.p, e->line.len,
					&ev, &e->bad);
	if (rc == 1)
		rc = push(e, &ev, &e->bad);
	buf_clear(&e->line);
	return rc;
}

static bool on_bytes(void *arg, const void *p, size_t n)
{
	struct docker_events *e = arg;
	const char *c = p, *end = c + n;

	while (c < end) {
		const char *nl = memchr(c, '\n', (size_t)(end - c));
		size_t len = (size_t)((nl ? nl : end) - c);

		if (len > LINE_MAX_BYTES - e->line.len)
			return sc_fail(&e->bad, SC_EPROTO, 0,
				       "event stream: an event above %u bytes",
				       LINE_MAX_BYTES) == 0;
		buf_put(&e->line, c, len);
		if (e->line.failed)
			return sc_oom(&e->bad, "event") == 0;
		if (nl && end_line(e) < 0)
			return false;
		c += len + (nl != NULL);
	}
	return true;
}

static void *run(void *arg)
{
	struct docker_events *e = arg;
	struct sc_err err = { 0 };

	if (http_drive(e->h, false, &err) == 0)
		(void)sc_fail(&err, SC_EENGINE, 0,
			      "the engine ended its event stream");
	pthread_mutex_lock(&e->lock);
	e->broken = true;
	e->why = e->bad.code ? e->bad : err;
	if (!e->bad.code || e->bad.code == SC_EPROTO)
		e->why.code = SC_EENGINE;
	signal_reader(e);
	pthread_mutex_unlock(&e->lock);
	return NULL;
}

/* -- open --------------------------------------------------------------- */

/* "2026-01-31T12:00:00.5+01:00" as "seconds.nanoseconds"; false if it is not
 * such a time. */
static bool unix_time(const char *s, char out[40])
{
	struct tm tm = { 0 };
	const char *p = strptime(s, "%Y-%m-%dT%H:%M:%S", &tm);
	char nano[10] = "000000000";
	int h, m;
	time_t t;

	if (!p)
		return false;
	if (*p == '.')
		for (size_t i = 0; *++p >= '0' && *p <= '9'; i++)
			if (i < 9)
				nano[i] = *p;
	t = timegm(&tm);
	if ((*p == '+' || *p == '-') && sscanf(p + 1, "%2d:%2d", &h, &m) == 2)
		t -= (*p == '+' ? 60l : -60l) * (h * 60 + m);
	else if (strcmp(p, "Z") != 0)
		return false;
	snprintf(out, 40, "%lld.%s", (long long)t, nano);
	return true;
}

static int make_path(struct docker_events *e, struct sc_err *err)
{
	json_t auto_json *doc = NULL;
	struct docker *d = e->d;
	char since[48] = "&since=";
	const char *now;
	long status;

	if (docker_request(d, "GET", "/info", NULL, 0, &status, &doc, err) < 0)
		return -1;
	now = json_string_value(json_object_get(doc, "SystemTime"));
	/* Where /info is kept from us the small gap has to do. */
	if (status >= 400 || !now || !unix_time(now, since + 7))
		*since = 0;
	if (asprintf(&e->path,
		     "%s/events?filters=%%7B%%22type%%22%%3A%%5B"
		     "%%22container%%22%%5D%%7D%s",
		     d->prefix, since) < 0) {
		e->path = NULL;
		return sc_oom(err, "request");
	}
	return 0;
}

static int subscribe(struct docker_events *e, struct sc_err *err)
{
	json_t auto_json *doc = NULL;
	int rc;

	e->rq = (struct http_req){
		.method = "GET",
		.path = e->path,
		.silence_ms = DOCKER_SILENCE_MS,
		.max = DOCKER_DOC_MAX,
		.sink = on_bytes,
		.arg = e,
	};
	if (http_new(e->d, &e->h, err) < 0 ||
	    http_begin(e->h, &e->rq, &e->rsp, err) < 0)
		return -1;
	rc = http_drive(e->h, true, err);
	if (rc < 0 || (rc == 1 && e->rsp.status == 200))
		return rc < 0 ? -1 : 0;
	if (rc == 1 && http_drive(e->h, false, err) < 0)
		return -1;
	if (e->rsp.status == 200)
		return sc_fail(err, SC_EENGINE, 0,
			       "the engine ended its event stream");
	doc = docker_error_doc(e->rsp.body.p, e->rsp.body.len);
	return docker_said_no(err, e->rsp.status, doc, "subscribe to events",
			      "");
}

/* Signals are for the other threads. */
static int start(struct docker_events *e, struct sc_err *err)
{
	sigset_t all, old;
	int rc;

	e->rq.silence_ms = -1;
	e->rq.deaf = true;
	sigfillset(&all);
	rc = pthread_sigmask(SIG_SETMASK, &all, &old);
	if (rc)
		return sc_fail(err, SC_EIO, rc, "block signals");
	rc = pthread_create(&e->thread, NULL, run, e);
	(void)pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (rc)
		return sc_fail(err, SC_EIO, rc, "start thread");
	e->started = true;
	return 0;
}

int docker_events_open(struct docker *d, struct docker_events **out,
		       struct sc_err *err)
{
	struct docker_events *e = calloc(1, sizeof(*e));

	if (!e)
		return sc_oom(err, "event stream");
	e->d = d;
	pthread_mutex_init(&e->lock, NULL);
	e->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (e->fd < 0)
		(void)sc_fail(err, SC_EIO, errno, "eventfd");
	if (e->fd < 0 || make_path(e, err) < 0 || subscribe(e, err) < 0 ||
	    start(e, err) < 0) {
		docker_events_close(e);
		return -1;
	}
	*out = e;
	return 0;
}

void docker_events_close(struct docker_events *e)
{
	if (!e)
		return;
	if (e->started) {
		http_stop(e->h);
		pthread_join(e->thread, NULL);
	}
	http_free(e->h);
	http_rsp_free(&e->rsp);
	buf_free(&e->line);
	if (e->fd >= 0)
		(void)close(e->fd);
	pthread_mutex_destroy(&e->lock);
	free(e->path);
	free(e->q);
	free(e);
}

/* -- the reader's side -------------------------------------------------- */

int docker_events_next(struct docker_events *e, int timeout_ms,
		       struct docker_event *out, struct sc_err *err)
{
	int64_t deadline = docker_now_ms() + timeout_ms;

	for (;;) {
		struct pollfd p[2] = {
			{ .fd = e->fd, .events = POLLIN },
			{ .fd = docker_cancel_fd(e->d), .events = POLLIN },
		};
		int64_t left = timeout_ms < 0 ? -1 : deadline - docker_now_ms();
		int rc;

		if (docker_cancelled(e->d))
			return cancel_check(e->d->cancel, err);
		rc = pop(e, out, err);
		if (rc || (timeout_ms >= 0 && left <= 0))
			return rc;
		if (poll(p, ARRAY_LEN(p), (int)left) < 0 && errno != EINTR)
			return sc_fail(err, SC_EIO, errno, "poll");
	}
}

int docker_events_fd(const struct docker_events *e)
{
	return e->fd;
}
