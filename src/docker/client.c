/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <snapctl/base/mem.h>

#include "internal.h"

/* -- the user's wish to stop ------------------------------------------- */

void docker_shield(struct docker *d, bool on)
{
	atomic_fetch_add(&d->shield, on ? 1 : -1);
}

bool docker_cancelled(const struct docker *d)
{
	return cancel_is_set(d->cancel) && atomic_load(&d->shield) <= 0;
}

int docker_cancel_fd(const struct docker *d)
{
	return d->cancel && atomic_load(&d->shield) <= 0 ? d->cancel->fd : -1;
}

int64_t docker_now_ms(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* -- what the engine says ----------------------------------------------- */

const char *docker_message(json_t *doc)
{
	static const char *const keys[] = { "message", "cause", "error" };

	for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
		const char *s =
			json_string_value(json_object_get(doc, keys[i]));

		if (s && *s)
			return s;
	}
	return "";
}

/* One line of at most 500 bytes without control characters: it ends up in a
 * message, and who wrote it is not known. */
static void one_line(char out[512], const char *p, size_t n)
{
	size_t len = 0;

	while (n && (unsigned char)p[n - 1] <= ' ')
		n--;
	while (n && (unsigned char)*p <= ' ')
		p++, n--;
	for (size_t i = 0; i < n && len < 500; i++) {
		unsigned char c = (unsigned char)p[i];

		out[len++] = c < ' ' || c == 127 ? ' ' : (char)c;
	}
	/* not in the middle of a character */
	if (len < n)
		while (len && ((unsigned char)p[len] & 0xc0) == 0x80)
			len--;
	out[len] = 0;
}

json_t *docker_error_doc(const void *p, size_t n)
{
	json_t *doc = json_loadb(p, n, 0, NULL);
	char text[512];

	if (json_is_object(doc))
		return doc;
	json_decref(doc);
	one_line(text, p, n);
	return *text ? json_pack("{s:s%}", "message", text, strlen(text))
		     : NULL;
}

int docker_said_no(struct sc_err *err, long status, json_t *doc,
		   const char *what, const char *name)
{
	const char *m = docker_message(doc);
	char text[512];

	one_line(text, m, strlen(m));
	if (!*text)
		snprintf(text, sizeof(text), "HTTP status %ld", status);
	return sc_fail(err, status == 404 ? SC_ENOTFOUND : SC_EENGINE, 0,
		       "%s%s%s: %s", what, *name ? " " : "", name, text);
}

/* -- requests ----------------------------------------------------------- */

char *docker_quote(const char *s)
{
	static const char hex[] = "0123456789ABCDEF";
	char *out = malloc(strlen(s) * 3 + 1), *p = out;

	if (!out)
		return NULL;
	for (; *s; s++) {
		unsigned char c = (unsigned char)*s;

		if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
		    (c >= '0' && c <= '9') || strchr("-._~", c)) {
			*p++ = (char)c;
			continue;
		}
		*p++ = '%';
		*p++ = hex[c >> 4];
		*p++ = hex[c & 15];
	}
	*p = 0;
	return out;
}

char *docker_path(const char *before, const char *name, const char *after,
		  struct sc_err *err)
{
	auto_free char *q = NULL;
	char *path;

	/* It would name another endpoint. */
	if (!*name) {
		(void)sc_fail(err, SC_ENOTFOUND, 0, "%s: an empty name",
			      before);
		return NULL;
	}
	q = docker_quote(name);
	if (!q || asprintf(&path, "%s%s%s", before, q, after) < 0) {
		(void)sc_oom(err, "request");
		return NULL;
	}
	return path;
}

int docker_exchange(struct docker *d, const char *method, const char *path,
		    const char *type, const void *body, size_t len,
		    long timeout_ms, struct http_rsp *rsp, struct sc_err *err)
{
	auto_free char *whole = NULL;
	struct http_req rq = {
		.method = method,
		.type = type,
		.body = body,
		.len = len,
		.silence_ms = timeout_ms ? timeout_ms : DOCKER_SILENCE_MS,
		.max = DOCKER_DOC_MAX,
	};

	if (asprintf(&whole, "%s%s", d->prefix, path) < 0) {
		whole = NULL;
		return sc_oom(err, "request");
	}
	rq.path = whole;
	return http_call(d, &rq, rsp, err);
}

static int document(const struct http_rsp *rsp, const char *method,
		    const char *path, json_t **out, struct sc_err *err)
{
	char what[256];

	if (rsp->status >= 400) {
		*out = docker_error_doc(rsp->body.p, rsp->body.len);
		return 0;
	}
	if (!rsp->body.len)
		return 0;
	snprintf(what, sizeof(what), "%s %s", method, path);
	return js_parse(rsp->body.p, rsp->body.len, what, out, err);
}

int docker_request(struct docker *d, const char *method, const char *path,
		   json_t *body, long timeout_ms, long *status, json_t **out,
		   struct sc_err *err)
{
	auto_free char *text = NULL;
	struct http_rsp auto_rsp rsp = { 0 };

	if (out)
		*out = NULL;
	if (body && !(text = json_dumps(body, JSON_COMPACT)))
		return sc_oom(err, "request");
	if (docker_exchange(d, method, path, text ? "application/json" : NULL,
			    text, text ? strlen(text) : 0, timeout_ms, &rsp,
			    err) < 0)
		return -1;
	*status = rsp.status;
	return out ? document(&rsp, method, path, out, err) : 0;
}

/* -- open --------------------------------------------------------------- */

static void info_free(struct docker_info *i)
{
	free(i->host);
	free(i->id);
	free(i->name);
	free(i->version);
	free(i->api);
	free(i->os);
	free(i->arch);
	free(i->root_dir);
}

void docker_close(struct docker *d)
{
	if (!d)
		return;
	http_forget(d);
	endpoint_free(&d->ep);
	info_free(&d->info);
	pthread_mutex_destroy(&d->lock);
	free(d);
}

const struct docker_info *docker_info(const struct docker *d)
{
	return &d->info;
}

/* Podman invents a new id for every call. */
static char *stable_id(const struct docker_info *i, char *id)
{
	char *made;

	if (!i->podman)
		return id;
	free(id);
	return asprintf(&made, "podman:%s:%s", i->name ? i->name : "",
			i->root_dir ? i->root_dir : "") < 0
		       ? NULL
		       : made;
}

/* A proxy may keep /info to itself; then its fields stay "". */
static int read_info(struct docker *d, struct sc_err *err)
{
	json_t auto_json *doc = NULL;
	struct docker_info *i = &d->info;
	struct js s = { 0 };
	char *id;
	long status;

	if (docker_request(d, "GET", "/info", NULL, 0, &status, &doc, err) < 0)
		return -1;
	if (status >= 400) {
		json_decref(doc);
		doc = json_object();
	}
	id = js_str(&s, doc, "ID");
	i->name = js_str(&s, doc, "Name");
	i->root_dir = js_str(&s, doc, "DockerRootDir");
	i->id = status >= 400 ? id : stable_id(i, id);
	if (!i->id)
		s.oom = true;
	return js_check(&s, "GET /info", err);
}

static int open_at(const char *host, struct cancel *cancel, struct docker **out,
		   struct sc_err *err)
{
	struct docker *d = calloc(1, sizeof(*d));

	if (!d)
		return sc_oom(err, "engine client");
	pthread_mutex_init(&d->lock, NULL);
	d->cancel = cancel;
	if (endpoint_parse(host, &d->ep, err) < 0)
		goto fail;
	d->info.local = d->ep.sock != NULL;
	d->info.host = strdup(host);
	if (!d->info.host) {
		(void)sc_oom(err, "engine client");
		goto fail;
	}
	if (negotiate_run(d, err) < 0 || read_info(d, err) < 0)
		goto fail;
	*out = d;
	return 0;
fail:
	docker_close(d);
	return -1;
}

/* Nothing listens there: the next place may be tried. */
static bool nobody_there(const struct sc_err *e)
{
	return e->code == SC_EENGINE &&
	       (e->sys == ENOENT || e->sys == ECONNREFUSED ||
		e->sys == ENOTDIR || e->sys == EACCES);
}

/* The places of an engine that nobody named. */
static int open_default(struct cancel *cancel, struct docker **out,
			struct sc_err *err)
{
	const char *dir = getenv("XDG_RUNTIME_DIR");
	char run[3][128];
	unsigned n = 0;
	struct sc_err e = { 0 }, denied = { 0 };
	struct buf auto_buf tried = { 0 };

	snprintf(run[n++], sizeof(*run), "unix:///var/run/docker.sock");
	if (dir && *dir == '/' && strlen(dir) < 100)
		snprintf(run[n++], sizeof(*run), "unix://%s/docker.sock", dir);
	snprintf(run[n], sizeof(*run), "unix:///run/user/%u/docker.sock",
		 getuid());
	if (n < 2 || strcmp(run[n], run[n - 1]) != 0)
		n++;
	for (unsigned i = 0; i < n; i++) {
		if (open_at(run[i], cancel, out, &e) == 0)
			return 0;
		if (!nobody_there(&e)) {
			*err = e;
			return -1;
		}
		if (e.sys == EACCES && !denied.code)
			denied = e;
		buf_printf(&tried, "%s%s (%s)", i ? ", " : "", run[i],
			   strerrordesc_np(e.sys));
	}
	if (denied.code) {
		*err = denied;
		return -1;
	}
	(void)sc_fail(err, SC_EENGINE, 0,
		      "no container engine; tried %s: start it, or name its "
		      "socket with --host or DOCKER_HOST",
		      buf_cstr(&tried) ? buf_cstr(&tried) : "");
	err->sys = e.sys;
	return -1;
}

int docker_open(const char *host, struct cancel *cancel, struct docker **out,
		struct sc_err *err)
{
	struct sc_err own = { 0 };
	const char *env = getenv("DOCKER_HOST");
	const char *context = getenv("DOCKER_CONTEXT");

	if (!err)
		err = &own;
	if (http_global(err) < 0)
		return -1;
	if (host && *host)
		return open_at(host, cancel, out, err);
	if (env && *env) {
		if (open_at(env, cancel, out, err) == 0)
			return 0;
		return sc_wrap(err, "DOCKER_HOST");
	}
	/* Another engine than the one meant must not be touched. */
	if (context && *context && strcmp(context, "default") != 0)
		return sc_fail(err, SC_EUSAGE, 0,
			       "DOCKER_CONTEXT=%s: contexts are not supported "
			       "yet; set DOCKER_HOST instead",
			       context);
	return open_default(cancel, out, err);
}
