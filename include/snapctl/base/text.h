/* SPDX-License-Identifier: MIT */
/* Text for people: escaping of hostile names, sizes, times, near names. */
#ifndef SNAPCTL_BASE_TEXT_H
#define SNAPCTL_BASE_TEXT_H

#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include <snapctl/base/buf.h>

/* Appends n bytes so that they are safe on a terminal and can be read back:
 * valid printable UTF-8 stays; control characters, DEL, C1, invalid bytes
 * become \n, \t, \\ or \xNN. */
void text_escape(struct buf *out, const void *p, size_t n);
/* Into a fixed buffer, cut with "..." when too long; returns out. */
const char *text_escaped(char *out, size_t cap, const void *p, size_t n);

/* "512 B", "1.4 MiB" … binary units, 3 significant digits. Returns out. */
const char *text_size(char out[16], uint64_t bytes);
/* "0.42 s", "12.3 s", "3 min 05 s", "2 h 04 min". Returns out. */
const char *text_duration(char out[32], double seconds);
/* UTC "2026-01-31T12:00:00Z" and "20260131T120000Z" (compact). */
const char *text_utc(char out[32], time_t t, int compact);
/* "25 s ago", "3 min ago", "2 d ago". */
const char *text_age(char out[32], time_t then, time_t now);

/* Edit distance (optimal string alignment) for near-name suggestions. */
unsigned text_distance(const char *a, const char *b);
/* Appends up to 5 of the n names nearest to wanted, as "a, b, c"; nothing if
 * none is near (distance above a third of the length, and no prefix). */
void text_near(struct buf *out, const char *wanted, const char *const *names,
	       size_t n);

#endif
