/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "internal.h"

void js_decref(json_t **j)
{
	json_decref(*j);
	*j = NULL;
}

/* The value at key, NULL when absent, null, or of another type (latched). */
static json_t *get(struct js *s, json_t *o, const char *key, json_type type)
{
	json_t *v = json_object_get(o, key);

	if (!v || json_is_null(v))
		return NULL;
	if (json_typeof(v) == type)
		return v;
	if (!s->bad)
		s->bad = key;
	return NULL;
}

static char *copy(struct js *s, const char *p)
{
	char *c = strdup(p);

	if (!c)
		s->oom = true;
	return c;
}

char *js_str(struct js *s, json_t *o, const char *key)
{
	json_t *v = get(s, o, key, JSON_STRING);

	return copy(s, v ? json_string_value(v) : "");
}

int64_t js_int(struct js *s, json_t *o, const char *key, int64_t def)
{
	json_t *v = get(s, o, key, JSON_INTEGER);

	return v ? json_integer_value(v) : def;
}

bool js_bool(struct js *s, json_t *o, const char *key)
{
	json_t *v = json_object_get(o, key);

	if (v && !json_is_boolean(v) && !json_is_null(v) && !s->bad)
		s->bad = key;
	return json_is_true(v);
}

json_t *js_obj(struct js *s, json_t *o, const char *key)
{
	return get(s, o, key, JSON_OBJECT);
}

json_t *js_arr(struct js *s, json_t *o, const char *key)
{
	return get(s, o, key, JSON_ARRAY);
}

static char **strv_new(struct js *s, size_t n)
{
	char **v = calloc(n + 1, sizeof(*v));

	if (!v)
		s->oom = true;
	return v;
}

char **js_strv(struct js *s, json_t *o, const char *key)
{
	json_t *arr = get(s, o, key, JSON_ARRAY);
	size_t n = json_array_size(arr), used = 0;
	char **v = strv_new(s, n);

	for (size_t i = 0; v && i < n; i++) {
		const char *p = json_string_value(json_array_get(arr, i));

		if (!p)
			s->bad = key;
		else if ((v[used] = copy(s, p)))
			used++;
	}
	return v;
}

char **js_pluck(struct js *s, json_t *arr, const char *key)
{
	size_t n = json_array_size(arr), used = 0;
	char **v = strv_new(s, n);

	for (size_t i = 0; v && i < n; i++) {
		char *p = js_str(s, json_array_get(arr, i), key);

		if (p && !*p) {
			s->bad = key;
			free(p);
		} else if (p) {
			v[used++] = p;
		}
	}
	return v;
}

struct docker_label *js_labels(struct js *s, json_t *o, const char *key,
			       size_t *n)
{
	json_t *obj = get(s, o, key, JSON_OBJECT), *v;
	size_t max = json_object_size(obj);
	struct docker_label *l = NULL;
	const char *k;

	*n = 0;
	if (!max)
		return NULL;
	l = calloc(max, sizeof(*l));
	if (!l) {
		s->oom = true;
		return NULL;
	}
	json_object_foreach(obj, k, v)
	{
		if (!json_is_string(v)) {
			s->bad = key;
			continue;
		}
		l[*n].key = copy(s, k);
		l[*n].value = copy(s, json_string_value(v));
		++*n;
	}
	return l;
}

void js_labels_free(struct docker_label *l, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		free(l[i].key);
		free(l[i].value);
	}
	free(l);
}

json_t *js_from_labels(const struct docker_label *l, size_t n)
{
	json_t *o = json_object();

	for (size_t i = 0; o && i < n; i++) {
		if (json_object_set_new(o, l[i].key, json_string(l[i].value)) <
		    0) {
			json_decref(o);
			return NULL;
		}
	}
	return o;
}

int js_check(const struct js *s, const char *what, struct sc_err *err)
{
	if (s->oom)
		return sc_oom(err, what);
	if (s->bad)
		return sc_fail(err, SC_EPROTO, 0,
			       "%s: the engine's answer has a wrong \"%s\"",
			       what, s->bad);
	return 0;
}

int js_parse(const void *p, size_t n, const char *what, json_t **out,
	     struct sc_err *err)
{
	json_error_t e;

	*out = json_loadb(p, n, 0, &e);
	if (*out)
		return 0;
	if (json_error_code(&e) == json_error_out_of_memory)
		return sc_oom(err, what);
	return sc_fail(err, SC_EPROTO, 0,
		       "%s: the engine's answer is not JSON (byte %d)", what,
		       e.position);
}
