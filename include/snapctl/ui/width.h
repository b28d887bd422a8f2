/* SPDX-License-Identifier: MIT */
/* How many columns a text takes. wcwidth(3) would ask the locale, which may
 * be C while the terminal shows UTF-8. */
#ifndef SNAPCTL_UI_WIDTH_H
#define SNAPCTL_UI_WIDTH_H

#include <stddef.h>

#include <snapctl/base/buf.h>

/* s: n bytes of escaped text (text_escape), so valid UTF-8. */
size_t ui_width(const char *s, size_t n);
/* Appends s padded with spaces to cols columns, or, when longer, its tail
 * after "..." (stack_volume: the end is what differs). */
void ui_fit(struct buf *out, const char *s, size_t n, size_t cols);

#endif
