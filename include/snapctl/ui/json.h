/* SPDX-License-Identifier: MIT */
/* One JSON document on stdout. Objects are built with calls that latch their
 * failure in struct ui_json, so that one check at the end is enough. Strings
 * are made from any bytes: they are escaped as in text output, so the document
 * is valid UTF-8 whatever a volume holds, and two different names never come
 * out the same. The schemas stand in snapctl-json(5). */
#ifndef SNAPCTL_UI_JSON_H
#define SNAPCTL_UI_JSON_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <snapctl/base/err.h>

/* Zero-initialised is valid. */
struct ui_json {
	bool failed;
};

/* New values, owned by the caller until added somewhere; NULL (latched) on
 * failure, which every call below accepts. */
json_t *ui_json_object(struct ui_json *j);
json_t *ui_json_array(struct ui_json *j);
json_t *ui_json_bytes(struct ui_json *j, const void *p, size_t n);

/* key: value into obj. value is consumed, also on failure. */
void ui_json_set(struct ui_json *j, json_t *obj, const char *key,
		 json_t *value);
/* s: any bytes, NULL becomes null. */
void ui_json_str(struct ui_json *j, json_t *obj, const char *key,
		 const char *s);
/* Above INT64_MAX: INT64_MAX. */
void ui_json_uint(struct ui_json *j, json_t *obj, const char *key, uint64_t v);
void ui_json_int(struct ui_json *j, json_t *obj, const char *key, int64_t v);
/* Rounded to milliseconds; not finite becomes null. */
void ui_json_seconds(struct ui_json *j, json_t *obj, const char *key, double v);
void ui_json_bool(struct ui_json *j, json_t *obj, const char *key, bool v);
/* UTC as "2026-01-31T12:00:00Z". */
void ui_json_time(struct ui_json *j, json_t *obj, const char *key, int64_t t);
/* value (consumed) at the end of arr. */
void ui_json_push(struct ui_json *j, json_t *arr, json_t *value);

/* Prints root (consumed, also on failure) and a newline to fd, 1 for stdout:
 * indented, members in the order they were set. */
int ui_json_print(const struct ui_json *j, json_t *root, int fd,
		  struct sc_err *err);

#endif
