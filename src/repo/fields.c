/* SPDX-License-Identifier: MIT */
#include "fields.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <snapctl/base/buf.h>
#include <snapctl/base/hash.h>
#include <snapctl/base/mem.h>
#include <snapctl/base/text.h>

#include "internal.h"

/* -- strings ----------------------------------------------------------------
 */

/* Length of the UTF-8 character at p, 0 if it is none. As strict as JSON:
 * no overlong forms, no surrogates, nothing above U+10FFFF. */
static size_t utf8_len(const unsigned char *p)
{
	size_t n = p[0] < 0x80	 ? 1
		   : p[0] < 0xc2 ? 0
		   : p[0] < 0xe0 ? 2
		   : p[0] < 0xf0 ? 3
		   : p[0] < 0xf5 ? 4
				 : 0;

	for (size_t i = 1; i < n; i++)
		if ((p[i] & 0xc0) != 0x80)
			return 0;
	if ((p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xed && p[1] > 0x9f) ||
	    (p[0] == 0xf0 && p[1] < 0x90) || (p[0] == 0xf4 && p[1] > 0x8f))
		return 0;
	return n;
}

static bool is_utf8(const unsigned char *p)
{
	while (*p) {
		size_t n = utf8_len(p);

		if (!n)
			return false;
		p += n;
	}
	return true;
}

json_t *fields_string(const char *s)
{
	const unsigned char *p = (const unsigned char *)(s ? s : "");
	auto_buf struct buf b = { 0 };

	if (is_utf8(p))
		return json_string((const char *)p);
	while (*p) {
		size_t n = utf8_len(p);

		if (*p == '\\')
			buf_put(&b, "\\\\", 2);
		else if (n)
			buf_put(&b, p, n);
		else
			buf_printf(&b, "\\x%02x", *p);
		p += n ? n : 1;
	}
	if (!buf_cstr(&b))
		return NULL;
	return json_pack("{s:s}", "escaped", (const char *)b.p);
}

static int hex_digit(char c)
{
	return c >= '0' && c <= '9'   ? c - '0'
	       : c >= 'a' && c <= 'f' ? c - 'a' + 10
				      : -1;
}

/* In place; false if it is not what fields_string makes. */
static bool unescape(char *s)
{
	char *to = s;

	while (*s) {
		if (*s != '\\') {
			*to++ = *s++;
		} else if (s[1] == '\\') {
			*to++ = '\\';
			s += 2;
		} else if (s[1] == 'x') {
			int hi = hex_digit(s[2]);
			int lo = hi < 0 ? -1 : hex_digit(s[3]);

			if (lo < 0 || (hi == 0 && lo == 0))
				return false;
			*to++ = (char)(hi << 4 | lo);
			s += 4;
		} else {
			return false;
		}
	}
	*to = 0;
	return true;
}

char *fields_unstring(const json_t *v, const char *where, struct sc_err *err)
{
	const json_t *esc = json_object_get(v, "escaped");
	const json_t *str = esc ? esc : v;
	const char *s = json_string_value(str);
	char *copy;

	if (!s || strlen(s) != json_string_length(str)) {
		sc_fail(err, SC_ECORRUPT, 0, "%s is not a string", where);
		return NULL;
	}
	copy = strdup(s);
	if (!copy) {
		sc_oom(err, where);
		return NULL;
	}
	if (esc && !unescape(copy)) {
		sc_fail(err, SC_ECORRUPT, 0, "%s is badly escaped", where);
		free(copy);
		return NULL;
	}
	return copy;
}

/* -- encoding ---------------------------------------------------------------
 */

static json_t *encode_list(char *const *v)
{
	json_t *a = json_array();

	for (; a && v && *v; v++)
		if (json_array_append_new(a, fields_string(*v)) < 0) {
			json_decref(a);
			return NULL;
		}
	return a;
}

static json_t *encode_u64(uint64_t v)
{
	return json_integer(v > INT64_MAX ? INT64_MAX : (json_int_t)v);
}

static json_t *encode(const struct field *f, const char *base)
{
	const void *p = base + f->offset;
	char digest[DIGEST_STR], when[32];
	double real;

	switch (f->kind) {
	case FIELD_STR:
		return fields_string(*(char *const *)p);
	case FIELD_STRV:
		return encode_list(*(char **const *)p);
	case FIELD_U64:
		return encode_u64(*(const uint64_t *)p);
	case FIELD_UINT:
		return json_integer(*(const unsigned *)p);
	case FIELD_TIME:
		return json_string(
			text_utc(when, (time_t) * (const int64_t *)p, 0));
	case FIELD_BOOL:
		return json_boolean(*(const bool *)p);
	case FIELD_REAL:
		real = *(const double *)p;
		return json_real(isfinite(real) && real > 0 ? real : 0);
	case FIELD_DIGEST:
		digest_str(p, digest);
		return json_string(digest);
	}
	return NULL;
}

int fields_encode(const struct field *f, size_t n, const void *base,
		  json_t *obj, struct sc_err *err)
{
	for (size_t i = 0; i < n; i++)
		if (json_object_set_new(obj, f[i].key, encode(&f[i], base)))
			return sc_oom(err, f[i].key);
	return 0;
}

/* -- decoding ---------------------------------------------------------------
 */

static int decode_list(const json_t *v, char ***out, const char *where,
		       struct sc_err *err)
{
	size_t n = json_array_size(v), i;
	json_t *e;

	if (!json_is_array(v))
		return sc_fail(err, SC_ECORRUPT, 0, "%s is not a list", where);
	*out = calloc(n + 1, sizeof(**out));
	if (!*out)
		return sc_oom(err, where);
	json_array_foreach(v, i, e)
	{
		(*out)[i] = fields_unstring(e, where, err);
		if (!(*out)[i])
			return -1;
	}
	return 0;
}

static int decode_uint(const json_t *v, uint64_t max, uint64_t *out,
		       const char *where, struct sc_err *err)
{
	json_int_t n = json_integer_value(v);

	if (!json_is_integer(v) || n < 0 || (uint64_t)n > max)
		return sc_fail(err, SC_ECORRUPT, 0,
			       "%s is not a number in range", where);
	*out = (uint64_t)n;
	return 0;
}

static int decode_real(const json_t *v, double *out, const char *where,
		       struct sc_err *err)
{
	double d = json_number_value(v);

	if (!json_is_number(v) || !isfinite(d) || d < 0)
		return sc_fail(err, SC_ECORRUPT, 0,
			       "%s is not a number in range", where);
	*out = d;
	return 0;
}

static int decode_digest(const json_t *v, struct digest *out, const char *where,
			 struct sc_err *err)
{
	const char *s = json_string_value(v);

	if (!s || !digest_parse(s, out))
		return sc_fail(err, SC_ECORRUPT, 0, "%s is not a digest",
			       where);
	return 0;
}

static int decode(const struct field *f, char *base, const json_t *v,
		  const char *where, struct sc_err *err)
{
	void *p = base + f->offset;
	uint64_t n = 0;
	const char *s;

	switch (f->kind) {
	case FIELD_STR:
		*(char **)p = fields_unstring(v, where, err);
		return *(char **)p ? 0 : -1;
	case FIELD_STRV:
		return decode_list(v, p, where, err);
	case FIELD_U64:
		return decode_uint(v, INT64_MAX, p, where, err);
	case FIELD_UINT:
		if (decode_uint(v, UINT32_MAX, &n, where, err) < 0)
			return -1;
		*(unsigned *)p = (unsigned)n;
		return 0;
	case FIELD_TIME:
		s = json_string_value(v);
		if (s && manifest_time(s, p))
			return 0;
		return sc_fail(err, SC_ECORRUPT, 0, "%s is not a time", where);
	case FIELD_BOOL:
		if (!json_is_boolean(v))
			return sc_fail(err, SC_ECORRUPT, 0,
				       "%s is not true or false", where);
		*(bool *)p = json_is_true(v);
		return 0;
	case FIELD_REAL:
		return decode_real(v, p, where, err);
	case FIELD_DIGEST:
		return decode_digest(v, p, where, err);
	}
	return 0;
}

static int absent(const struct field *f, char *base, struct sc_err *err)
{
	void *p = base + f->offset;

	if (f->kind == FIELD_STR && !(*(char **)p = strdup("")))
		return sc_oom(err, f->key);
	if (f->kind == FIELD_STRV &&
	    !(*(char ***)p = calloc(1, sizeof(char *))))
		return sc_oom(err, f->key);
	return 0;
}

int fields_decode(const struct field *f, size_t n, void *base,
		  const json_t *obj, const char *where, struct sc_err *err)
{
	if (!json_is_object(obj))
		return sc_fail(err, SC_ECORRUPT, 0, "%s is not an object",
			       where);
	for (size_t i = 0; i < n; i++) {
		const json_t *v = json_object_get(obj, f[i].key);
		char at[96];
		int rc;

		snprintf(at, sizeof(at), "%s.%s", where, f[i].key);
		if (!v && f[i].required)
			return sc_fail(err, SC_ECORRUPT, 0, "%s is missing",
				       at);
		rc = v ? decode(&f[i], base, v, at, err)
		       : absent(&f[i], base, err);
		if (rc < 0)
			return -1;
	}
	return 0;
}

void fields_free(const struct field *f, size_t n, void *base)
{
	for (size_t i = 0; i < n; i++) {
		void *p = (char *)base + f[i].offset;

		if (f[i].kind == FIELD_STR) {
			free(*(char **)p);
			*(char **)p = NULL;
		} else if (f[i].kind == FIELD_STRV) {
			char **v = *(char ***)p;

			for (char **s = v; s && *s; s++)
				free(*s);
			free(v);
			*(char ***)p = NULL;
		}
	}
}
