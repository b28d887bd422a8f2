/* SPDX-License-Identifier: MIT */
/* Structs to JSON objects and back, by tables of fields. */
#ifndef SNAPCTL_REPO_FIELDS_H
#define SNAPCTL_REPO_FIELDS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include <snapctl/base/err.h>

enum field_kind {
	FIELD_STR,    /* char *, any bytes; NULL is written as "" */
	FIELD_STRV,   /* char **, NULL-terminated; NULL is empty */
	FIELD_U64,    /* uint64_t */
	FIELD_UINT,   /* unsigned */
	FIELD_TIME,   /* int64_t seconds, RFC 3339 in JSON */
	FIELD_BOOL,   /* bool */
	FIELD_REAL,   /* double, finite and not negative */
	FIELD_DIGEST, /* struct digest */
};

struct field {
	const char *key;
	enum field_kind kind;
	size_t offset;
	bool required; /* in what is read; else "", 0, false, empty */
};

/* Adds the n fields of base to obj. */
int fields_encode(const struct field *f, size_t n, const void *base,
		  json_t *obj, struct sc_err *err);
/* Fills zeroed base. Strings and lists are never NULL afterwards. On -1 what
 * was filled stays: fields_free. where: for the message. */
int fields_decode(const struct field *f, size_t n, void *base,
		  const json_t *obj, const char *where, struct sc_err *err);
void fields_free(const struct field *f, size_t n, void *base);

/* A string as JSON: itself when it is UTF-8, else {"escaped": …}, where
 * invalid bytes and backslashes are \xNN and \\. NULL on ENOMEM. */
json_t *fields_string(const char *s);
/* The other way; NULL and *err. */
char *fields_unstring(const json_t *v, const char *where, struct sc_err *err);

#endif
