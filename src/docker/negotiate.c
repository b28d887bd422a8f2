/* SPDX-License-Identifier: MIT */
/* Which API version to speak. /_ping names the engine's newest; the lower of
 * that and ours is tried on /version. What stands between us and the engine
 * may accept fewer versions than the engine has: a refusal that names its
 * bound is followed, one that does not makes us try the others in turn. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

/* Minor numbers of API 1.x: Docker 20.10, and the newest whose changes were
 * looked at. */
#define OLDEST 41
#define NEWEST 47

/* "1.41" and nothing after it (end set to what follows); -1 if it is not. */
static int parse_version(const char *s, const char **end)
{
	unsigned minor = 0;
	const char *p = s;

	if (strncmp(p, "1.", 2) != 0)
		return -1;
	for (p += 2; *p >= '0' && *p <= '9' && minor < 1000; p++)
		minor = minor * 10 + (unsigned)(*p - '0');
	if (p == s + 2 || minor >= 1000)
		return -1;
	*end = p;
	return (int)minor;
}

static int not_spoken(struct docker *d, const char *version, struct sc_err *err)
{
	return sc_fail(err, SC_EENGINE, 0,
		       "the engine at %s speaks API %.15s; snapctl needs 1.%d "
		       "(Docker 20.10, Podman 4.3) or newer",
		       d->ep.host, version, OLDEST);
}

/* What /version says without a version in its path: for a proxy that strips
 * the header from /_ping or does not let it through. */
static int ask_version(struct docker *d, char out[16], struct sc_err *err)
{
	json_t auto_json *doc = NULL;
	const char *v;
	long status;

	if (docker_request(d, "GET", "/version", NULL, 0, &status, &doc, err) <
	    0)
		return -1;
	v = json_string_value(json_object_get(doc, "ApiVersion"));
	snprintf(out, 16, "%s", status < 400 && v ? v : "");
	return 0;
}

/* The minor version to try first. */
static int first_guess(struct docker *d, struct sc_err *err)
{
	struct http_rsp auto_rsp rsp = { 0 };
	const char *end;
	int minor;

	if (docker_exchange(d, "GET", "/_ping", NULL, NULL, 0, 0, &rsp, err) <
	    0)
		return -1;
	if (!*rsp.api && ask_version(d, rsp.api, err) < 0)
		return -1;
	/* Nobody says: the refusals below will. */
	if (!*rsp.api)
		return NEWEST;
	minor = parse_version(rsp.api, &end);
	if (minor < OLDEST || *end)
		return not_spoken(d, rsp.api, err);
	return minor < NEWEST ? minor : NEWEST;
}

/* The bound in "Maximum supported API version is 1.41" and its like; -1 if
 * there is none. */
static int bound_in(const char *message)
{
	static const char mark[] = "supported API version is ";
	const char *p = strstr(message, mark), *end;

	return p ? parse_version(p + sizeof(mark) - 1, &end) : -1;
}

static bool is_podman(json_t *doc)
{
	json_t *parts = json_object_get(doc, "Components");

	for (size_t i = 0; i < json_array_size(parts); i++) {
		const char *name = json_string_value(
			json_object_get(json_array_get(parts, i), "Name"));

		if (name && strcmp(name, "Podman Engine") == 0)
			return true;
	}
	return false;
}

static int keep(struct docker *d, int minor, json_t *doc, struct sc_err *err)
{
	struct docker_info *i = &d->info;
	struct js s = { 0 };

	if (!json_is_object(doc))
		return sc_fail(err, SC_EPROTO, 0,
			       "GET /version: what listens at %s is not a "
			       "container engine",
			       d->ep.host);
	i->version = js_str(&s, doc, "Version");
	i->os = js_str(&s, doc, "Os");
	i->arch = js_str(&s, doc, "Arch");
	i->podman = is_podman(doc);
	if (asprintf(&i->api, "1.%d", minor) < 0) {
		i->api = NULL;
		return sc_oom(err, "engine client");
	}
	return js_check(&s, "GET /version", err);
}

/* 1 accepted, 0 refused (*next: the version to try then, or -1), -1. */
static int try_minor(struct docker *d, int minor, int *next, struct sc_err *err)
{
	json_t auto_json *doc = NULL;
	char bound[16];
	long status;

	snprintf(d->prefix, sizeof(d->prefix), "/v1.%d", minor);
	if (docker_request(d, "GET", "/version", NULL, 0, &status, &doc, err) <
	    0)
		return -1;
	if (status == 200)
		return keep(d, minor, doc, err) < 0 ? -1 : 1;
	(void)docker_said_no(err, status, doc, "ask the engine's version", "");
	if (status < 400 || status >= 500)
		return -1;
	*next = bound_in(docker_message(doc));
	if (*next >= 0 && *next < OLDEST) {
		snprintf(bound, sizeof(bound), "1.%d", *next);
		return not_spoken(d, bound, err);
	}
	return 0;
}

int negotiate_run(struct docker *d, struct sc_err *err)
{
	bool tried[NEWEST + 1] = { false };
	int minor = first_guess(d, err);

	while (minor >= OLDEST) {
		int next = -1, rc = try_minor(d, minor, &next, err);

		if (rc)
			return rc < 0 ? -1 : 0;
		tried[minor] = true;
		minor = next;
		if (minor < OLDEST || minor > NEWEST || tried[minor])
			for (minor = NEWEST; minor >= OLDEST && tried[minor];)
				minor--;
		if (minor < OLDEST)
			return sc_wrap(err,
				       "no API version from 1.%d to "
				       "1.%d suits the engine at %s",
				       OLDEST, NEWEST, d->ep.host);
	}
	return -1;
}
