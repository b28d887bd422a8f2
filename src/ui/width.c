/* SPDX-License-Identifier: MIT */
#include <snapctl/ui/width.h>

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include <snapctl/base/mem.h>

/* Blocks shown in no column or in two. Coarse: a character that Unicode adds
 * tomorrow costs a ragged line, nothing else. */
static const struct {
	uint32_t first, last;
	unsigned cols;
} blocks[] = {
	{ 0x300, 0x36f, 0 },	 /* combining */
	{ 0x483, 0x489, 0 },	 /* Cyrillic marks */
	{ 0x591, 0x5bd, 0 },	 /* Hebrew points */
	{ 0x64b, 0x65f, 0 },	 /* Arabic marks */
	{ 0x1100, 0x115f, 2 },	 /* Hangul initials */
	{ 0x1ab0, 0x1aff, 0 },	 /* combining */
	{ 0x1dc0, 0x1dff, 0 },	 /* combining */
	{ 0x20d0, 0x20ff, 0 },	 /* for symbols */
	{ 0x2e80, 0x303e, 2 },	 /* CJK radicals */
	{ 0x3041, 0xa4cf, 2 },	 /* kana to Yi */
	{ 0xac00, 0xd7a3, 2 },	 /* Hangul */
	{ 0xf900, 0xfaff, 2 },	 /* CJK */
	{ 0xfe20, 0xfe2f, 0 },	 /* half marks */
	{ 0xfe30, 0xfe6f, 2 },	 /* CJK forms */
	{ 0xff00, 0xff60, 2 },	 /* full width */
	{ 0xffe0, 0xffe6, 2 },	 /* full width */
	{ 0x1f300, 0x1f64f, 2 }, /* pictures */
	{ 0x1f680, 0x1f6ff, 2 }, /* pictures */
	{ 0x1f900, 0x1f9ff, 2 }, /* pictures */
	{ 0x20000, 0x3fffd, 2 }, /* CJK */
};

static unsigned columns(uint32_t c)
{
	for (size_t i = 0; i < ARRAY_LEN(blocks); i++)
		if (c >= blocks[i].first && c <= blocks[i].last)
			return blocks[i].cols;
	return 1;
}

/* Bytes of the character at s, its columns in *cols. The text is valid
 * UTF-8 by contract; the bound holds even if not. */
static size_t next(const char *s, size_t n, unsigned *cols)
{
	unsigned char b = (unsigned char)s[0];
	size_t len = b < 0x80 ? 1 : b < 0xe0 ? 2 : b < 0xf0 ? 3 : 4;
	uint32_t c = len == 1 ? b : b & (0x7fu >> len);

	if (len > n)
		len = n;
	for (size_t i = 1; i < len; i++)
		c = c << 6 | ((unsigned char)s[i] & 0x3f);
	*cols = columns(c);
	return len;
}

size_t ui_width(const char *s, size_t n)
{
	size_t sum = 0, k;
	unsigned cols;

	for (; n; s += k, n -= k) {
		k = next(s, n, &cols);
		sum += cols;
	}
	return sum;
}

static void spaces(struct buf *out, size_t n)
{
	unsigned char *to = buf_reserve(out, n);

	if (to) {
		memset(to, ' ', n);
		out->len += n;
	}
}

void ui_fit(struct buf *out, const char *s, size_t n, size_t cols)
{
	size_t w = ui_width(s, n);
	size_t dots = w <= cols ? 0 : cols < 3 ? cols : 3;
	unsigned one;

	buf_put(out, "...", dots);
	while (w + dots > cols && n) {
		size_t k = next(s, n, &one);

		s += k;
		n -= k;
		w -= one;
	}
	/* A mark without its letter would sit on the dots. */
	while (dots && n) {
		size_t k = next(s, n, &one);

		if (one)
			break;
		s += k;
		n -= k;
	}
	buf_put(out, s, n);
	spaces(out, cols - dots - w);
}
