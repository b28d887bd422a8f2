/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <snapctl/base/mem.h>

#include "internal.h"

const char *docker_label(const struct docker_label *l, size_t n,
			 const char *key)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(l[i].key, key) == 0)
			return l[i].value;
	return NULL;
}

void docker_strv_free(char **v)
{
	for (size_t i = 0; v && v[i]; i++)
		free(v[i]);
	free(v);
}

int api_do(struct docker *d, const char *method, const char *path, json_t *body,
	   long timeout_ms, const char *what, const char *name, long *status,
	   json_t **doc, struct sc_err *err)
{
	json_t auto_json *answer = NULL;
	long code = 0;

	if (docker_request(d, method, path, body, timeout_ms, &code, &answer,
			   err) < 0)
		return sc_wrap(err, "%s%s%s", what, *name ? " " : "", name);
	if (status)
		*status = code;
	if (code >= 400)
		return docker_said_no(err, code, answer, what, name);
	/* A redirect is no answer: the path was not taken as it was meant. */
	if (code >= 300 && code != 304)
		return sc_fail(err, SC_EPROTO, 0, "%s %s: HTTP status %ld",
			       what, name, code);
	if (doc)
		*doc = take_ptr(answer);
	return 0;
}

int api_get(struct docker *d, const char *path, const char *what,
	    const char *name, json_t **doc, struct sc_err *err)
{
	long status = 0;

	*doc = NULL;
	if (api_do(d, "GET", path, NULL, 0, what, name, &status, doc, err) < 0)
		return status == 404 ? 0 : -1;
	if (json_is_object(*doc))
		return 1;
	js_decref(doc);
	return sc_fail(err, SC_EPROTO, 0,
		       "%s %s: the engine's answer is not an object", what,
		       name);
}

/* {"KEY":["VALUE"]}, ready for a query; NULL for want of memory or when
 * value is not UTF-8. */
static char *filter(const char *key, const char *value)
{
	json_t auto_json *o = json_pack("{s:[s]}", key, value);
	auto_free char *text = o ? json_dumps(o, JSON_COMPACT) : NULL;

	return text ? docker_quote(text) : NULL;
}

int api_list(struct docker *d, const char *path, const char *key,
	     const char *value, const char *what, json_t **doc,
	     struct sc_err *err)
{
	auto_free char *f = value ? filter(key, value) : NULL;
	struct buf auto_buf p = { 0 };
	const char *s;

	*doc = NULL;
	if (value && !f)
		return sc_fail(err, SC_EUSAGE, 0, "%s: bad %s filter", what,
			       key);
	buf_printf(&p, "%s%s%s", path, f ? "filters=" : "", f ? f : "");
	s = buf_cstr(&p);
	if (!s)
		return sc_oom(err, "request");
	if (api_do(d, "GET", s, NULL, 0, what, "", NULL, doc, err) < 0)
		return -1;
	if (*doc)
		return 0;
	return sc_fail(err, SC_EPROTO, 0, "%s: the engine's answer is empty",
		       what);
}
