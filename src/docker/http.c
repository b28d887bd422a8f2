/* SPDX-License-Identifier: MIT */
#include <curl/curl.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "internal.h"

#define HEAD_MAX 65536 /* all header lines of an answer */
#define IDLE_MAX 8     /* connections kept open for nobody */

struct http {
	struct http *next; /* in the cache */
	struct docker *d;
	CURL *easy;
	CURLM *multi;
	struct curl_slist *headers;
	const struct http_req *rq; /* while an exchange is on */
	struct http_rsp *rsp;
	CURLcode rc; /* latched by the option setters */
	bool added;  /* easy is in multi */
	bool head;   /* the answer's head is complete */
	bool too_big, oom, given_up;
	size_t head_len;
	atomic_bool stop;
	int64_t moved_at; /* when bytes were last seen moving, ms */
	curl_off_t moved; /* how many in all */
	char text[CURL_ERROR_SIZE];
};

void http_rsp_free(struct http_rsp *r)
{
	buf_free(&r->body);
}

static CURLcode global_rc;

static void global_init(void)
{
	global_rc = curl_global_init(CURL_GLOBAL_DEFAULT);
}

int http_global(struct sc_err *err)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, global_init);
	if (global_rc != CURLE_OK)
		return sc_fail(err, SC_EENGINE, 0, "libcurl: %s",
			       curl_easy_strerror(global_rc));
	return 0;
}

int http_new(struct docker *d, struct http **out, struct sc_err *err)
{
	struct http *h = calloc(1, sizeof(*h));

	if (!h)
		return sc_oom(err, "connection");
	h->d = d;
	h->easy = curl_easy_init();
	h->multi = curl_multi_init();
	if (!h->easy || !h->multi) {
		http_free(h);
		return sc_oom(err, "connection");
	}
	*out = h;
	return 0;
}

/* Takes the easy handle out of the multi; an exchange that is not over loses
 * its connection, one that is over keeps it open for the next. */
static void detach(struct http *h)
{
	if (h->added)
		(void)curl_multi_remove_handle(h->multi, h->easy);
	h->added = false;
	curl_slist_free_all(h->headers);
	h->headers = NULL;
}

void http_free(struct http *h)
{
	if (!h)
		return;
	detach(h);
	curl_easy_cleanup(h->easy);
	(void)curl_multi_cleanup(h->multi);
	free(h);
}

/* -- callbacks ---------------------------------------------------------- */

static void keep_version(struct http_rsp *rsp, const char *p, size_t n)
{
	static const char name[] = "Api-Version:";
	size_t skip = sizeof(name) - 1;

	if (n < skip || strncasecmp(p, name, skip) != 0)
		return;
	while (skip < n && (p[skip] == ' ' || p[skip] == '\t'))
		skip++;
	while (n > skip && strchr(" \t\r\n", p[n - 1]))
		n--;
	if (n - skip < sizeof(rsp->api)) {
		memcpy(rsp->api, p + skip, n - skip);
		rsp->api[n - skip] = 0;
	}
}

static size_t on_header(char *p, size_t size, size_t n, void *arg)
{
	struct http *h = arg;

	n *= size;
	h->head_len += n;
	if (h->head_len > HEAD_MAX) {
		h->too_big = true;
		return 0;
	}
	keep_version(h->rsp, p, n);
	if (n <= 2 && (*p == '\r' || *p == '\n') &&
	    curl_easy_getinfo(h->easy, CURLINFO_RESPONSE_CODE,
			      &h->rsp->status) == CURLE_OK &&
	    h->rsp->status >= 200)
		h->head = true;
	return n;
}

static size_t on_body(char *p, size_t size, size_t n, void *arg)
{
	struct http *h = arg;

	n *= size;
	if (h->rq->sink && h->rsp->status == 200) {
		if (h->rq->sink(h->rq->arg, p, n))
			return n;
		h->given_up = true;
		return 0;
	}
	if (n > h->rq->max - h->rsp->body.len) {
		h->too_big = true;
		return 0;
	}
	buf_put(&h->rsp->body, p, n);
	if (h->rsp->body.failed)
		h->oom = true;
	return h->oom ? 0 : n;
}

/* -- options ------------------------------------------------------------ */

#define SET(h, opt, value)                                                 \
	do {                                                               \
		if ((h)->rc == CURLE_OK)                                   \
			(h)->rc = curl_easy_setopt((h)->easy, opt, value); \
	} while (0)

static void set_endpoint(struct http *h, const struct endpoint *ep)
{
	if (ep->sock)
		SET(h, CURLOPT_UNIX_SOCKET_PATH, ep->sock);
	/* http_proxy and the like speak of the web, not of an engine. */
	SET(h, CURLOPT_NOPROXY, "*");
	SET(h, CURLOPT_PROTOCOLS_STR, "http,https");
	SET(h, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
	SET(h, CURLOPT_CONNECTTIMEOUT_MS, (long)DOCKER_CONNECT_MS);
	SET(h, CURLOPT_TCP_KEEPALIVE, 1L);
	SET(h, CURLOPT_NOSIGNAL, 1L);
	SET(h, CURLOPT_PATH_AS_IS, 1L);
	SET(h, CURLOPT_USERAGENT, "snapctl/" SNAPCTL_VERSION);
	if (ep->ca)
		SET(h, CURLOPT_CAINFO, ep->ca);
	if (ep->cert) {
		SET(h, CURLOPT_SSLCERT, ep->cert);
		SET(h, CURLOPT_SSLKEY, ep->key);
	}
}

static void add_header(struct http *h, const char *line)
{
	struct curl_slist *l = curl_slist_append(h->headers, line);

	if (l)
		h->headers = l;
	else
		h->rc = CURLE_OUT_OF_MEMORY;
}

static void set_method(struct http *h, const struct http_req *rq)
{
	char type[128];

	if (strcmp(rq->method, "GET") == 0) {
		SET(h, CURLOPT_HTTPGET, 1L);
		return;
	}
	/* An idle connection may have died. libcurl then repeats the request,
	 * which is right only for one that changes nothing. */
	SET(h, CURLOPT_FRESH_CONNECT, 1L);
	if (strcmp(rq->method, "POST") != 0) {
		SET(h, CURLOPT_HTTPGET, 1L);
		SET(h, CURLOPT_CUSTOMREQUEST, rq->method);
		return;
	}
	SET(h, CURLOPT_POST, 1L);
	SET(h, CURLOPT_POSTFIELDS, rq->body ? rq->body : "");
	SET(h, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)rq->len);
	snprintf(type, sizeof(type), "Content-Type:%s%s", rq->type ? " " : "",
		 rq->type ? rq->type : "");
	add_header(h, type);
	add_header(h, "Expect:");
	SET(h, CURLOPT_HTTPHEADER, h->headers);
}

static int set_url(struct http *h, struct sc_err *err)
{
	struct buf auto_buf url = { 0 };
	const char *s;

	buf_printf(&url, "%s%s", h->d->ep.base, h->rq->path);
	s = buf_cstr(&url);
	if (!s)
		return sc_oom(err, "request");
	SET(h, CURLOPT_URL, s);
	return 0;
}

int http_begin(struct http *h, const struct http_req *rq, struct http_rsp *rsp,
	       struct sc_err *err)
{
	detach(h);
	curl_easy_reset(h->easy);
	h->rc = CURLE_OK;
	h->rq = rq;
	h->rsp = rsp;
	h->head = h->too_big = h->oom = h->given_up = false;
	h->head_len = 0;
	h->moved = 0;
	h->moved_at = docker_now_ms();
	*h->text = 0;
	rsp->status = 0;
	*rsp->api = 0;
	buf_clear(&rsp->body);
	if (set_url(h, err) < 0)
		return -1;
	set_endpoint(h, &h->d->ep);
	SET(h, CURLOPT_ERRORBUFFER, h->text);
	SET(h, CURLOPT_HEADERFUNCTION, on_header);
	SET(h, CURLOPT_HEADERDATA, h);
	SET(h, CURLOPT_WRITEFUNCTION, on_body);
	SET(h, CURLOPT_WRITEDATA, h);
	if (rq->connect_only)
		SET(h, CURLOPT_CONNECT_ONLY, 1L);
	else
		set_method(h, rq);
	if (h->rc != CURLE_OK)
		return sc_fail(err, SC_EENGINE, 0, "libcurl: %s",
			       curl_easy_strerror(h->rc));
	if (curl_multi_add_handle(h->multi, h->easy) != CURLM_OK)
		return sc_oom(err, "request");
	h->added = true;
	return 0;
}

/* -- failure ------------------------------------------------------------ */

static int cannot_connect(struct http *h, struct sc_err *err)
{
	const struct endpoint *ep = &h->d->ep;
	long sys = 0;

	if (curl_easy_getinfo(h->easy, CURLINFO_OS_ERRNO, &sys) != CURLE_OK)
		sys = 0;
	if (sys == EACCES && ep->sock)
		return sc_fail(err, SC_EENGINE, EACCES,
			       "no access to the engine's socket %s: run as "
			       "root or as a member of the group that owns it "
			       "(usually \"docker\")",
			       ep->sock);
	if (!sys && *h->text)
		return sc_fail(err, SC_EENGINE, 0,
			       "connect to the engine at %s: %s", ep->host,
			       h->text);
	return sc_fail(err, SC_EENGINE, (int)sys, "connect to the engine at %s",
		       ep->host);
}

static int broken(struct http *h, CURLcode rc, struct sc_err *err)
{
	const char *m = h->rq->method, *p = h->rq->path;
	const char *host = h->d->ep.host;

	switch (rc) {
	case CURLE_COULDNT_CONNECT:
	case CURLE_COULDNT_RESOLVE_HOST:
		return cannot_connect(h, err);
	case CURLE_OPERATION_TIMEDOUT:
		return sc_fail(err, SC_EENGINE, ETIMEDOUT,
			       "connect to the engine at %s", host);
	case CURLE_GOT_NOTHING:
		return sc_fail(err, SC_EENGINE, 0,
			       "%s %s: the engine at %s closed the connection "
			       "without an answer",
			       m, p, host);
	case CURLE_RECV_ERROR:
	case CURLE_SEND_ERROR:
	case CURLE_PARTIAL_FILE:
		return sc_fail(err, SC_EENGINE, 0,
			       "%s %s: the connection to the engine at %s "
			       "broke%s%s",
			       m, p, host, *h->text ? ": " : "", h->text);
	case CURLE_UNSUPPORTED_PROTOCOL:
	case CURLE_WEIRD_SERVER_REPLY:
		return sc_fail(err, SC_EPROTO, 0,
			       "%s %s: what listens at %s does not speak HTTP",
			       m, p, host);
	case CURLE_OUT_OF_MEMORY:
		return sc_oom(err, "request");
	default:
		return sc_fail(err, SC_EENGINE, 0, "%s %s: engine at %s: %s", m,
			       p, host,
			       *h->text ? h->text : curl_easy_strerror(rc));
	}
}

static int fail(struct http *h, CURLcode rc, struct sc_err *err)
{
	if (h->oom)
		return sc_oom(err, "engine's answer");
	if (h->given_up)
		return sc_fail(err, SC_EPROTO, 0, "%s %s: given up",
			       h->rq->method, h->rq->path);
	if (h->too_big)
		return sc_fail(err, SC_EPROTO, 0,
			       "%s %s: the engine's answer is larger than "
			       "%zu bytes",
			       h->rq->method, h->rq->path,
			       h->head ? h->rq->max : (size_t)HEAD_MAX);
	return broken(h, rc, err);
}

/* -- the loop ----------------------------------------------------------- */

static int over(struct http *h, struct sc_err *err)
{
	CURLMsg *m;
	int left;

	while ((m = curl_multi_info_read(h->multi, &left)))
		if (m->msg == CURLMSG_DONE)
			return m->data.result == CURLE_OK
				       ? 0
				       : fail(h, m->data.result, err);
	return sc_fail(err, SC_EENGINE, 0, "%s %s: libcurl lost the request",
		       h->rq->method, h->rq->path);
}

/* Bytes that moved in either direction end a silence. */
static void look_for_movement(struct http *h)
{
	curl_off_t up = 0, down = 0;

	if (curl_easy_getinfo(h->easy, CURLINFO_SIZE_UPLOAD_T, &up) ||
	    curl_easy_getinfo(h->easy, CURLINFO_SIZE_DOWNLOAD_T, &down))
		return;
	up += down + (curl_off_t)h->head_len;
	if (up != h->moved) {
		h->moved = up;
		h->moved_at = docker_now_ms();
	}
}

/* Sleeps until something happens or the silence has lasted too long. */
static int wait_more(struct http *h, struct sc_err *err)
{
	struct curl_waitfd extra = { .events = CURL_WAIT_POLLIN };
	int64_t left = INT_MAX;
	CURLMcode mc;

	if (h->rq->silence_ms >= 0) {
		look_for_movement(h);
		left = h->moved_at + h->rq->silence_ms - docker_now_ms();
		if (left <= 0)
			return sc_fail(err, SC_EENGINE, 0,
				       "%s %s: the engine at %s was silent "
				       "for %ld s",
				       h->rq->method, h->rq->path,
				       h->d->ep.host,
				       (h->rq->silence_ms + 999) / 1000);
	}
	extra.fd = h->rq->deaf ? -1 : docker_cancel_fd(h->d);
	mc = curl_multi_poll(h->multi, &extra, extra.fd >= 0,
			     left > INT_MAX ? INT_MAX : (int)left, NULL);
	if (mc != CURLM_OK)
		return sc_fail(err, SC_EENGINE, 0, "libcurl: %s",
			       curl_multi_strerror(mc));
	return 0;
}

int http_drive(struct http *h, bool head_only, struct sc_err *err)
{
	for (;;) {
		int running;
		CURLMcode mc;

		if (atomic_load(&h->stop))
			return sc_fail(err, SC_EINTR, 0, "stopped");
		if (!h->rq->deaf && docker_cancelled(h->d))
			return cancel_check(h->d->cancel, err);
		mc = curl_multi_perform(h->multi, &running);
		if (mc != CURLM_OK)
			return sc_fail(err, SC_EENGINE, 0, "libcurl: %s",
				       curl_multi_strerror(mc));
		if (!running)
			return over(h, err);
		if (head_only && h->head)
			return 1;
		if (wait_more(h, err) < 0)
			return -1;
	}
}

void http_stop(struct http *h)
{
	atomic_store(&h->stop, true);
	(void)curl_multi_wakeup(h->multi);
}

/* -- the cache ---------------------------------------------------------- */

static int take_idle(struct docker *d, struct http **out, struct sc_err *err)
{
	struct http *h;

	pthread_mutex_lock(&d->lock);
	h = d->idle;
	if (h) {
		d->idle = h->next;
		d->nidle--;
	}
	pthread_mutex_unlock(&d->lock);
	*out = h;
	return h ? 0 : http_new(d, out, err);
}

static void put_idle(struct docker *d, struct http *h)
{
	detach(h);
	h->rq = NULL;
	h->rsp = NULL;
	pthread_mutex_lock(&d->lock);
	if (d->nidle < IDLE_MAX) {
		h->next = d->idle;
		d->idle = h;
		d->nidle++;
		h = NULL;
	}
	pthread_mutex_unlock(&d->lock);
	http_free(h);
}

int http_call(struct docker *d, const struct http_req *rq, struct http_rsp *rsp,
	      struct sc_err *err)
{
	struct http *h;

	if (take_idle(d, &h, err) < 0)
		return -1;
	if (http_begin(h, rq, rsp, err) < 0 || http_drive(h, false, err) < 0) {
		http_free(h);
		return -1;
	}
	put_idle(d, h);
	return 0;
}

void http_forget(struct docker *d)
{
	struct http *h;

	while ((h = d->idle)) {
		d->idle = h->next;
		http_free(h);
	}
	d->nidle = 0;
}

/* -- raw bytes ---------------------------------------------------------- */

int http_fd(struct http *h, struct sc_err *err)
{
	curl_socket_t s = CURL_SOCKET_BAD;
	CURLcode rc = curl_easy_getinfo(h->easy, CURLINFO_ACTIVESOCKET, &s);

	if (rc != CURLE_OK || s == CURL_SOCKET_BAD)
		return sc_fail(err, SC_EENGINE, 0,
			       "the connection to the engine is gone");
	return s;
}

ssize_t http_recv(struct http *h, void *p, size_t n, struct sc_err *err)
{
	size_t got = 0;
	CURLcode rc = curl_easy_recv(h->easy, p, n, &got);

	if (rc == CURLE_AGAIN)
		return HTTP_AGAIN;
	if (rc != CURLE_OK)
		return broken(h, rc, err);
	return (ssize_t)got;
}

ssize_t http_send(struct http *h, const void *p, size_t n, struct sc_err *err)
{
	size_t sent = 0;
	CURLcode rc = curl_easy_send(h->easy, p, n, &sent);

	if (rc == CURLE_AGAIN || (rc == CURLE_OK && !sent))
		return HTTP_AGAIN;
	if (rc != CURLE_OK)
		return broken(h, rc, err);
	return (ssize_t)sent;
}
