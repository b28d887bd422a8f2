/* SPDX-License-Identifier: MIT */
/* Bytes being written (struct buf) and bytes being read (struct cur).
 *
 * Everything on disk and on the wire is little-endian and is built and taken
 * apart with these, never by casting structs. Both latch their failure: a run
 * of calls needs one check at its end. */
#ifndef SNAPCTL_BASE_BUF_H
#define SNAPCTL_BASE_BUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Zero-initialised is valid and empty. Owned; release with buf_free. */
struct buf {
	unsigned char *p;
	size_t len, cap;
	bool failed; /* an allocation failed; contents are not to be used */
};

#define auto_buf __attribute__((cleanup(buf_free)))

void buf_free(struct buf *b);
void buf_clear(struct buf *b); /* length 0, memory kept */
/* Room for n more bytes; returns where they go, or NULL (latched). */
unsigned char *buf_reserve(struct buf *b, size_t n);
void buf_put(struct buf *b, const void *p, size_t n);
void buf_zero(struct buf *b, size_t n);
void buf_u8(struct buf *b, uint8_t v);
void buf_u16(struct buf *b, uint16_t v);
void buf_u32(struct buf *b, uint32_t v);
void buf_u64(struct buf *b, uint64_t v);
void buf_varint(struct buf *b, uint64_t v);		/* LEB128 */
void buf_svarint(struct buf *b, int64_t v);		/* zigzag, LEB128 */
void buf_bytes(struct buf *b, const void *p, size_t n); /* varint n, bytes */
void buf_str(struct buf *b, const char *s); /* buf_bytes of strlen */
void buf_printf(struct buf *b, const char *fmt, ...)
	__attribute__((format(printf, 2, 3))); /* text, no NUL counted */
/* The bytes with a NUL after them (not counted), "" when empty; NULL if
 * failed. Borrowed until the next call on b. */
const char *buf_cstr(struct buf *b);

/* A bounded reader over borrowed bytes. Reading past the end latches bad and
 * returns 0 / NULL from then on. */
struct cur {
	const unsigned char *p, *end;
	bool bad;
};

static inline struct cur cur_of(const void *p, size_t n)
{
	/* Nothing may be added to NULL, which no bytes may be. */
	const unsigned char *at = (const unsigned char *)p;
	struct cur c = { at, n ? at + n : at, false };

	return c;
}

static inline size_t cur_left(const struct cur *c)
{
	return c->bad ? 0 : (size_t)(c->end - c->p);
}

uint8_t cur_u8(struct cur *c);
uint16_t cur_u16(struct cur *c);
uint32_t cur_u32(struct cur *c);
uint64_t cur_u64(struct cur *c);
uint64_t cur_varint(struct cur *c); /* over-long or > 64 bit: bad */
int64_t cur_svarint(struct cur *c);
const unsigned char *cur_take(struct cur *c, size_t n);
/* varint length then bytes; *n set. NULL and bad when longer than max. */
const unsigned char *cur_bytes(struct cur *c, size_t max, size_t *n);
/* cur_bytes as a fresh C string (malloc, owned); bad if it holds a NUL. */
char *cur_str(struct cur *c, size_t max);

#endif
