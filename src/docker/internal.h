/* SPDX-License-Identifier: MIT */
/* What the files of src/docker share, from the bottom up:
 *
 * endpoint.c   where the engine is, from DOCKER_HOST and its like
 * js.c         JSON taken apart without trusting it
 * http.c       one exchange on one connection: an easy handle in a multi
 *              handle of its own, so that a wait can also watch the cancel fd
 * negotiate.c  the API version both sides speak
 * demux.c      the 8-byte frames in which an engine sends stdout and stderr
 */
#ifndef SNAPCTL_SRC_DOCKER_INTERNAL_H
#define SNAPCTL_SRC_DOCKER_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include <snapctl/base/buf.h>
#include <snapctl/docker/docker.h>

#define DOCKER_DOC_MAX	  (64u << 20) /* no document is larger */
#define DOCKER_CONNECT_MS 10000
#define DOCKER_SILENCE_MS 60000
#define DOCKER_SLOW_MS	  300000 /* where an engine may work for minutes */

/* -- endpoint.c --------------------------------------------------------- */

struct endpoint {
	char *host;	       /* as it was written */
	char *sock;	       /* path of the unix socket, or NULL */
	char *base;	       /* "http://docker", "https://host:2376" */
	char *ca, *cert, *key; /* PEM files; NULL: not used */
	bool tls;
};

/* SC_EUSAGE for what is not understood. out is owned; endpoint_free. */
int endpoint_parse(const char *host, struct endpoint *out, struct sc_err *err);
void endpoint_free(struct endpoint *e);

/* -- js.c --------------------------------------------------------------- */

/* Readers latch their failure in struct js; one js_check after many reads.
 * Absent and null give the default, another type is bad. Strings are owned
 * copies, "" by default. */
struct js {
	const char *bad; /* the first key of a wrong type */
	bool oom;
};

char *js_str(struct js *s, json_t *o, const char *key);
int64_t js_int(struct js *s, json_t *o, const char *key, int64_t def);
bool js_bool(struct js *s, json_t *o, const char *key);
/* An object below o, or NULL. Borrowed. */
json_t *js_obj(struct js *s, json_t *o, const char *key);
json_t *js_arr(struct js *s, json_t *o, const char *key);
/* An array of strings; NULL-terminated, empty when absent. */
char **js_strv(struct js *s, json_t *o, const char *key);
/* The string at key of every object in arr; NULL-terminated. */
char **js_pluck(struct js *s, json_t *arr, const char *key);
/* An object of strings; NULL when empty. */
struct docker_label *js_labels(struct js *s, json_t *o, const char *key,
			       size_t *n);
void js_labels_free(struct docker_label *l, size_t n);
json_t *js_from_labels(const struct docker_label *l, size_t n);
int js_check(const struct js *s, const char *what, struct sc_err *err);
/* n bytes as one document; what: for the message. */
int js_parse(const void *p, size_t n, const char *what, json_t **out,
	     struct sc_err *err);
void js_decref(json_t **j);
#define auto_json __attribute__((cleanup(js_decref)))

/* -- client.c ----------------------------------------------------------- */

struct http;
struct http_rsp;

struct docker {
	struct docker_info info;
	struct endpoint ep;
	struct cancel *cancel;
	atomic_int shield;
	char prefix[16]; /* "/v1.41", "" while negotiating */
	pthread_mutex_t lock;
	struct http *idle; /* connections nobody uses, under lock */
	unsigned nidle;
};

/* Was the user's wish to stop heard, and does it count now? */
bool docker_cancelled(const struct docker *d);
/* The descriptor to watch for it, or -1. */
int docker_cancel_fd(const struct docker *d);
/* A clock that only goes forward. */
int64_t docker_now_ms(void);
/* A body of any type and the answer as bytes. path without the version. */
int docker_exchange(struct docker *d, const char *method, const char *path,
		    const char *type, const void *body, size_t len,
		    long timeout_ms, struct http_rsp *rsp, struct sc_err *err);
/* "what name: the engine's message" from an answer with status >= 400 (doc
 * may be NULL). 404 is SC_ENOTFOUND, the rest SC_EENGINE. Returns -1. */
int docker_said_no(struct sc_err *err, long status, json_t *doc,
		   const char *what, const char *name);
/* The engine's message in an error document, or "". Borrowed from doc. */
const char *docker_message(json_t *doc);
/* Turns the body of an answer with status >= 400 into such a document, also
 * when it is plain text. NULL when it is empty or there is no memory. */
json_t *docker_error_doc(const void *p, size_t n);
/* "BEFORE" + quoted name + "AFTER"; owned. An empty name is SC_ENOTFOUND. */
char *docker_path(const char *before, const char *name, const char *after,
		  struct sc_err *err);

/* -- negotiate.c -------------------------------------------------------- */

/* Fills d->prefix and the parts of d->info that /version knows. */
int negotiate_run(struct docker *d, struct sc_err *err);

/* -- api.c -------------------------------------------------------------- */

/* One request; statuses of 400 and above are errors (see docker_said_no).
 * status and doc may be NULL. */
int api_do(struct docker *d, const char *method, const char *path, json_t *body,
	   long timeout_ms, const char *what, const char *name, long *status,
	   json_t **doc, struct sc_err *err);
/* GET of one thing: 1 found (*doc owned, an object), 0 absent, -1. */
int api_get(struct docker *d, const char *path, const char *what,
	    const char *name, json_t **doc, struct sc_err *err);
/* GET of a list with at most one filter (value NULL: none); path ends in '?'
 * or '&'. *doc owned. */
int api_list(struct docker *d, const char *path, const char *key,
	     const char *value, const char *what, json_t **doc,
	     struct sc_err *err);

/* -- http.c ------------------------------------------------------------- */

struct http_req {
	const char *method; /* GET, POST or DELETE */
	const char *path;   /* whole, from the slash on */
	const char *type;   /* of the body, or NULL */
	const void *body;   /* borrowed until the exchange is over */
	size_t len;
	long silence_ms; /* -1: none */
	size_t max;	 /* of the answer's body */
	/* Takes the body of a 200 piece by piece instead; false gives up. */
	bool (*sink)(void *arg, const void *p, size_t n);
	void *arg;
	bool connect_only;
	bool deaf; /* not interrupted by cancel, http_stop only */
};

struct http_rsp {
	long status;
	char api[16]; /* header Api-Version, "" if none */
	struct buf body;
};

#define auto_rsp __attribute__((cleanup(http_rsp_free)))
void http_rsp_free(struct http_rsp *r);

int http_global(struct sc_err *err);
int http_new(struct docker *d, struct http **out, struct sc_err *err);
void http_free(struct http *h); /* closes the connection; NULL allowed */
/* One whole exchange on a connection from the cache of d. */
int http_call(struct docker *d, const struct http_req *rq, struct http_rsp *rsp,
	      struct sc_err *err);
/* Closes the connections in the cache. */
void http_forget(struct docker *d);
/* The same in steps: begin, then drive. rq and rsp are borrowed meanwhile. */
int http_begin(struct http *h, const struct http_req *rq, struct http_rsp *rsp,
	       struct sc_err *err);
/* Until the head of the answer is there (head_only: returns 1) or the
 * exchange is over (0). */
int http_drive(struct http *h, bool head_only, struct sc_err *err);
/* From any thread: http_drive fails with SC_EINTR. */
void http_stop(struct http *h);
/* After a connect_only exchange; not from two threads at once. recv: count,
 * 0 at the end. Both: HTTP_AGAIN when it has to wait for http_fd. */
#define HTTP_AGAIN (-2)
int http_fd(struct http *h, struct sc_err *err);
ssize_t http_recv(struct http *h, void *p, size_t n, struct sc_err *err);
ssize_t http_send(struct http *h, const void *p, size_t n, struct sc_err *err);

/* -- demux.c ------------------------------------------------------------ */

#define DEMUX_HEAD 8
#define DEMUX_MAX  (16u << 20) /* engines send at most some 32 KiB */

enum demux_kind { DEMUX_STDIN, DEMUX_STDOUT, DEMUX_STDERR, DEMUX_ERROR };

/* Zero-initialised is valid: before a frame. */
struct demux {
	unsigned char head[DEMUX_HEAD];
	unsigned nhead;
	enum demux_kind kind;
	uint32_t left; /* of the current frame's payload */
};

/* Takes bytes off the front of p: at most the rest of one frame. *data and
 * *len: its payload among them, *len 0 when there was none. Returns how many
 * were taken (all of them, or up to the frame's end), or -1 (SC_EPROTO). */
ssize_t demux_take(struct demux *m, const unsigned char *p, size_t n,
		   const unsigned char **data, size_t *len, struct sc_err *err);
/* True in the middle of a frame: the stream must not end here. */
bool demux_inside(const struct demux *m);

/* -- events.c ----------------------------------------------------------- */

/* One line of the stream. 1 an event, 0 not one of a container, -1 hostile. */
int docker_event_parse(const char *p, size_t n, struct docker_event *out,
		       struct sc_err *err);

#endif
