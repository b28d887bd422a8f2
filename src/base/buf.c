/* SPDX-License-Identifier: MIT */
#include <snapctl/base/buf.h>

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void buf_free(struct buf *b)
{
	free(b->p);
	*b = (struct buf){ 0 };
}

void buf_clear(struct buf *b)
{
	b->len = 0;
	b->failed = false;
}

unsigned char *buf_reserve(struct buf *b, size_t n)
{
	size_t cap = b->cap ? b->cap : 64;
	unsigned char *p;

	if (b->failed || n > SIZE_MAX - b->len)
		goto fail;
	/* Of an empty one too, NULL means failure only. */
	if (b->p && b->len + n <= b->cap)
		return b->p + b->len;
	while (cap < b->len + n) {
		if (cap > SIZE_MAX / 2)
			goto fail;
		cap += cap / 2 + 64;
	}
	p = realloc(b->p, cap);
	if (!p)
		goto fail;
	b->p = p;
	b->cap = cap;
	return b->p + b->len;
fail:
	b->failed = true;
	return NULL;
}

void buf_put(struct buf *b, const void *p, size_t n)
{
	unsigned char *to = buf_reserve(b, n);

	if (to && n) {
		memcpy(to, p, n);
		b->len += n;
	}
}

void buf_zero(struct buf *b, size_t n)
{
	unsigned char *to = buf_reserve(b, n);

	if (to && n) {
		memset(to, 0, n);
		b->len += n;
	}
}

static void put_le(struct buf *b, uint64_t v, unsigned n)
{
	unsigned char *to = buf_reserve(b, n);

	if (!to)
		return;
	for (unsigned i = 0; i < n; i++)
		to[i] = (unsigned char)(v >> (8 * i));
	b->len += n;
}

void buf_u8(struct buf *b, uint8_t v)
{
	put_le(b, v, 1);
}

void buf_u16(struct buf *b, uint16_t v)
{
	put_le(b, v, 2);
}

void buf_u32(struct buf *b, uint32_t v)
{
	put_le(b, v, 4);
}

void buf_u64(struct buf *b, uint64_t v)
{
	put_le(b, v, 8);
}

void buf_varint(struct buf *b, uint64_t v)
{
	unsigned char *to = buf_reserve(b, 10);
	size_t n = 0;

	if (!to)
		return;
	for (; v >= 0x80; v >>= 7)
		to[n++] = (unsigned char)(v | 0x80);
	to[n++] = (unsigned char)v;
	b->len += n;
}

void buf_svarint(struct buf *b, int64_t v)
{
	buf_varint(b, ((uint64_t)v << 1) ^ (uint64_t)(v >> 63));
}

void buf_bytes(struct buf *b, const void *p, size_t n)
{
	buf_varint(b, n);
	buf_put(b, p, n);
}

void buf_str(struct buf *b, const char *s)
{
	buf_bytes(b, s, strlen(s));
}

void buf_printf(struct buf *b, const char *fmt, ...)
{
	va_list ap;
	int n;
	unsigned char *to;

	va_start(ap, fmt);
	n = vsnprintf(NULL, 0, fmt, ap);
	va_end(ap);
	to = n < 0 ? NULL : buf_reserve(b, (size_t)n + 1);
	if (!to) {
		b->failed = true;
		return;
	}
	va_start(ap, fmt);
	vsnprintf((char *)to, (size_t)n + 1, fmt, ap);
	va_end(ap);
	b->len += (size_t)n;
}

const char *buf_cstr(struct buf *b)
{
	unsigned char *to = buf_reserve(b, 1);

	if (!to)
		return NULL;
	*to = 0;
	return (const char *)b->p;
}

const unsigned char *cur_take(struct cur *c, size_t n)
{
	const unsigned char *p = c->p;

	if (c->bad || n > (size_t)(c->end - c->p)) {
		c->bad = true;
		return NULL;
	}
	if (n)
		c->p += n;
	return p;
}

static uint64_t get_le(struct cur *c, unsigned n)
{
	const unsigned char *p = cur_take(c, n);
	uint64_t v = 0;

	for (unsigned i = 0; p && i < n; i++)
		v |= (uint64_t)p[i] << (8 * i);
	return v;
}

uint8_t cur_u8(struct cur *c)
{
	return (uint8_t)get_le(c, 1);
}

uint16_t cur_u16(struct cur *c)
{
	return (uint16_t)get_le(c, 2);
}

uint32_t cur_u32(struct cur *c)
{
	return (uint32_t)get_le(c, 4);
}

uint64_t cur_u64(struct cur *c)
{
	return get_le(c, 8);
}

uint64_t cur_varint(struct cur *c)
{
	uint64_t v = 0;

	for (unsigned shift = 0; shift < 64; shift += 7) {
		unsigned char b = cur_u8(c);

		if (c->bad || (shift == 63 && b > 1))
			break;
		v |= (uint64_t)(b & 0x7f) << shift;
		if (!(b & 0x80))
			return v;
	}
	c->bad = true;
	return 0;
}

int64_t cur_svarint(struct cur *c)
{
	uint64_t v = cur_varint(c);

	return (int64_t)(v >> 1) ^ -(int64_t)(v & 1);
}

const unsigned char *cur_bytes(struct cur *c, size_t max, size_t *n)
{
	uint64_t len = cur_varint(c);

	*n = 0;
	if (c->bad || len > max) {
		c->bad = true;
		return NULL;
	}
	*n = (size_t)len;
	return cur_take(c, (size_t)len);
}

char *cur_str(struct cur *c, size_t max)
{
	size_t n;
	const unsigned char *p = cur_bytes(c, max, &n);
	char *s;

	if (c->bad || memchr(p, 0, n) || !(s = malloc(n + 1))) {
		c->bad = true;
		return NULL;
	}
	memcpy(s, p, n);
	s[n] = 0;
	return s;
}
