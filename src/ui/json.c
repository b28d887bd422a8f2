/* SPDX-License-Identifier: MIT */
#include <snapctl/ui/json.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <snapctl/base/buf.h>
#include <snapctl/base/io.h>
#include <snapctl/base/mem.h>
#include <snapctl/base/text.h>

static json_t *made(struct ui_json *j, json_t *v)
{
	if (!v)
		j->failed = true;
	return v;
}

json_t *ui_json_object(struct ui_json *j)
{
	return made(j, json_object());
}

json_t *ui_json_array(struct ui_json *j)
{
	return made(j, json_array());
}

json_t *ui_json_bytes(struct ui_json *j, const void *p, size_t n)
{
	auto_buf struct buf b = { 0 };
	const char *s;

	text_escape(&b, p, n);
	s = buf_cstr(&b);
	return made(j, s ? json_stringn(s, b.len) : NULL);
}

void ui_json_set(struct ui_json *j, json_t *obj, const char *key, json_t *value)
{
	if (json_object_set_new(obj, key, value) != 0)
		j->failed = true;
}

void ui_json_str(struct ui_json *j, json_t *obj, const char *key, const char *s)
{
	ui_json_set(j, obj, key,
		    s ? ui_json_bytes(j, s, strlen(s)) : json_null());
}

void ui_json_uint(struct ui_json *j, json_t *obj, const char *key, uint64_t v)
{
	ui_json_int(j, obj, key, v > INT64_MAX ? INT64_MAX : (int64_t)v);
}

void ui_json_int(struct ui_json *j, json_t *obj, const char *key, int64_t v)
{
	ui_json_set(j, obj, key, json_integer(v));
}

void ui_json_seconds(struct ui_json *j, json_t *obj, const char *key, double v)
{
	/* Beyond 2^52 ms there is nothing left to round. */
	if (isfinite(v) && v > -4e12 && v < 4e12)
		v = (double)(int64_t)(v * 1000 + (v < 0 ? -0.5 : 0.5)) / 1000;
	ui_json_set(j, obj, key, isfinite(v) ? json_real(v) : json_null());
}

void ui_json_bool(struct ui_json *j, json_t *obj, const char *key, bool v)
{
	ui_json_set(j, obj, key, json_boolean(v));
}

void ui_json_time(struct ui_json *j, json_t *obj, const char *key, int64_t t)
{
	char s[32];

	ui_json_str(j, obj, key, text_utc(s, (time_t)t, 0));
}

void ui_json_push(struct ui_json *j, json_t *arr, json_t *value)
{
	if (json_array_append_new(arr, value) != 0)
		j->failed = true;
}

int ui_json_print(const struct ui_json *j, json_t *root, int fd,
		  struct sc_err *err)
{
	/* 15 digits: 3.42 stays 3.42, and the milliseconds of years fit. */
	auto_free char *s =
		j->failed || !root
			? NULL
			: json_dumps(root,
				     JSON_INDENT(2) | JSON_REAL_PRECISION(15));
	auto_buf struct buf b = { 0 };

	json_decref(root);
	if (s)
		buf_printf(&b, "%s\n", s);
	if (!s || b.failed)
		return sc_oom(err, "JSON document");
	return io_write_all(fd, b.p, b.len,
			    fd == 1 ? "standard output" : "JSON document", err);
}
