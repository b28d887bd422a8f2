/* SPDX-License-Identifier: MIT */
#include "tarhdr_fix.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define BLOCK	    512u
#define SIZE_AT	    124
#define SIZE_DIGITS 11
#define SUM_AT	    148
#define TYPE_AT	    156
#define XATTR_KEY   "SCHILY.xattr."
#define XATTR_LEN   (sizeof(XATTR_KEY) - 1)

struct record {
	const unsigned char *all, *key, *value;
	size_t len, nkey, nvalue;
};

void tarhdr_fix_free(struct tarhdr_fix *f)
{
	buf_free(&f->records);
	buf_free(&f->key);
}

/* -- header fields ------------------------------------------------------ */

/* Octal digits up to the first other character. */
static uint64_t get_octal(const unsigned char *p, size_t n)
{
	uint64_t v = 0;

	for (size_t i = 0; i < n && p[i] >= '0' && p[i] <= '7'; i++)
		v = v * 8 + (p[i] - '0');
	return v;
}

static void put_octal(unsigned char *p, size_t digits, uint64_t v)
{
	for (size_t i = digits; i-- > 0; v /= 8)
		p[i] = (unsigned char)('0' + v % 8);
}

/* The sum of all bytes, its own field counted as spaces. */
static void put_sum(unsigned char *block)
{
	unsigned sum = 0;

	memset(block + SUM_AT, ' ', 8);
	for (size_t i = 0; i < BLOCK; i++)
		sum += block[i];
	put_octal(block + SUM_AT, 6, sum);
	block[SUM_AT + 6] = 0;
}

/* -- records ------------------------------------------------------------ */

/* "LEN KEY=VALUE\n", LEN counting itself. False: no record here. */
static bool next_record(struct cur *c, struct record *r)
{
	const unsigned char *eq;
	size_t len = 0, digits = 0;

	r->all = c->p;
	while (digits < cur_left(c) && digits < 9 && c->p[digits] >= '0' &&
	       c->p[digits] <= '9')
		len = len * 10 + (c->p[digits++] - '0');
	if (digits == 0 || len < digits + 3 || len > cur_left(c) ||
	    c->p[digits] != ' ')
		return false;
	r->len = len;
	r->key = c->p + digits + 1;
	eq = memchr(r->key, '=', len - digits - 1);
	if (!eq)
		return false;
	r->nkey = (size_t)(eq - r->key);
	r->value = eq + 1;
	r->nvalue = len - (size_t)(r->value - r->all) - 1;
	c->p += len;
	return true;
}

static bool key_is(const struct record *r, const char *key)
{
	return r->nkey == strlen(key) && memcmp(r->key, key, r->nkey) == 0;
}

static void put_record(struct buf *b, const void *key, size_t nkey,
		       const void *value, size_t nvalue)
{
	size_t rest = 1 + nkey + 1 + nvalue + 1, len = rest + 1;
	char digits[24];
	int n;

	/* One more digit can make the length one digit longer, once. */
	while ((n = snprintf(digits, sizeof(digits), "%zu", len)) > 0 &&
	       len != rest + (size_t)n)
		len = rest + (size_t)n;
	buf_put(b, digits, (size_t)n);
	buf_u8(b, ' ');
	buf_put(b, key, nkey);
	buf_u8(b, '=');
	buf_put(b, value, nvalue);
	buf_u8(b, '\n');
}

static void put_mtime(struct buf *b, const struct entry *e)
{
	/* Below zero the fraction counts down from the next second. */
	uint64_t before = (uint64_t)(-(e->mtime + 1));
	uint32_t ns = 1000000000 - e->mtime_ns;
	char text[48];
	int n = snprintf(text, sizeof(text), "-%" PRIu64 ".%09u", before, ns);

	put_record(b, "mtime", 5, text, (size_t)n);
}

static void put_size(struct buf *b, uint64_t size)
{
	char text[24];
	int n = snprintf(text, sizeof(text), "%" PRIu64, size);

	put_record(b, "size", 4, text, (size_t)n);
}

static unsigned hex(unsigned char c)
{
	return c <= '9' ? c - 48u : (c | 32u) - 97u + 10u;
}

/* From libarchive's URL encoding to GNU tar's. */
static void put_xattr(struct tarhdr_fix *f, const struct record *r)
{
	buf_clear(&f->key);
	for (size_t i = 0; i < r->nkey; i++) {
		unsigned char c = r->key[i];

		if (c == '%' && i + 2 < r->nkey) {
			c = (unsigned char)(hex(r->key[i + 1]) << 4 |
					    hex(r->key[i + 2]));
			i += 2;
		}
		if (c == '%')
			buf_put(&f->key, "%25", 3);
		else if (c == '=')
			buf_put(&f->key, "%3D", 3);
		else
			buf_u8(&f->key, c);
	}
	put_record(&f->records, f->key.p, f->key.len, r->value, r->nvalue);
}

static bool is_coded_xattr(const struct record *r)
{
	return r->nkey > XATTR_LEN &&
	       memcmp(r->key, XATTR_KEY, XATTR_LEN) == 0 &&
	       memchr(r->key, '%', r->nkey);
}

static int fix_records(struct tarhdr_fix *f, const struct entry *e,
		       uint64_t stored, const unsigned char *p, size_t n)
{
	struct cur c = cur_of(p, n);
	struct record r;

	buf_clear(&f->records);
	while (cur_left(&c)) {
		if (!next_record(&c, &r))
			return -1;
		if (key_is(&r, "hdrcharset") || key_is(&r, "SCHILY.devmajor") ||
		    key_is(&r, "SCHILY.devminor"))
			continue;
		if (key_is(&r, "mtime") && e->mtime < 0 && e->mtime_ns)
			put_mtime(&f->records, e);
		else if (key_is(&r, "size"))
			put_size(&f->records, stored);
		else if (is_coded_xattr(&r))
			put_xattr(f, &r);
		else
			buf_put(&f->records, r.all, r.len);
	}
	return 0;
}

/* -- the whole ---------------------------------------------------------- */

static size_t padded(size_t n)
{
	return (n + BLOCK - 1) & ~(size_t)(BLOCK - 1);
}

/* Replaces the old bytes at out->p + at by f->records, padded. */
static int splice(struct tarhdr_fix *f, struct buf *out, size_t at, size_t old,
		  struct sc_err *err)
{
	size_t len = padded(f->records.len), tail = out->len - at - old;

	if (f->records.failed || f->key.failed || out->failed)
		return sc_oom(err, "tar header");
	if (len > old && !buf_reserve(out, len - old))
		return sc_oom(err, "tar header");
	if (len != old)
		memmove(out->p + at + len, out->p + at + old, tail);
	out->len = at + len + tail;
	if (f->records.len)
		memcpy(out->p + at, f->records.p, f->records.len);
	memset(out->p + at + f->records.len, 0, len - f->records.len);
	return 0;
}

int tarhdr_fix(struct tarhdr_fix *f, const struct entry *e, uint64_t data,
	       struct buf *out, size_t start, struct sc_err *err)
{
	size_t n, at = start + BLOCK, old;
	unsigned char *x;

	if (out->failed)
		return sc_oom(err, "tar header");
	x = out->p + start;
	if (out->len < at || x[TYPE_AT] != 'x')
		return 0;
	n = get_octal(x + SIZE_AT, SIZE_DIGITS);
	old = padded(n);
	if (out->len - at < old + BLOCK)
		return sc_fail(err, SC_EIO, 0, "tar header: cut short");
	/* What follows the main header is the map of a sparse file. */
	if (fix_records(f, e, out->len - at - old - BLOCK + data, x + BLOCK,
			n) < 0)
		return sc_fail(err, SC_EIO, 0, "tar header: odd record");
	if (f->records.len == 0) {
		at = start;
		old += BLOCK;
	} else {
		put_octal(x + SIZE_AT, SIZE_DIGITS, f->records.len);
		put_sum(x);
	}
	return splice(f, out, at, old, err);
}
