/* SPDX-License-Identifier: MIT */
/* A terminal and a clock for tests: keeps what was written, and plays it on a
 * screen that knows the few sequences the renderer uses. */
#ifndef TEST_SCREEN_H
#define TEST_SCREEN_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <snapctl/base/buf.h>
#include <snapctl/ui/ui.h>

#define SCREEN_ROWS 200
#define SCREEN_COLS 300

struct screen {
	struct buf raw;
	uint64_t ns;
	unsigned cols, rows;
	bool tty;   /* plays what is written */
	bool stuck; /* takes nothing that may be dropped */
	bool gone;
	char cell[SCREEN_ROWS][SCREEN_COLS];
	unsigned y, x;
	bool wrapped; /* a line reached the right edge */
};

static inline void screen_clear_from(struct screen *s, unsigned y, unsigned x)
{
	memset(s->cell[y] + x, 0, SCREEN_COLS - x);
}

static inline const char *screen_escape(struct screen *s, const char *p)
{
	unsigned n = 0;

	for (p += 2; *p >= '0' && *p <= '9'; p++)
		n = n * 10 + (unsigned)(*p - '0');
	if (*p == 'A') {
		s->y = n > s->y ? 0 : s->y - n;
	} else if (*p == 'K') {
		screen_clear_from(s, s->y, s->x);
	} else if (*p == 'J') {
		screen_clear_from(s, s->y, s->x);
		for (unsigned y = s->y + 1; y < SCREEN_ROWS; y++)
			screen_clear_from(s, y, 0);
	} else {
		abort(); /* a sequence this screen does not know */
	}
	return p + 1;
}

static inline void screen_play(struct screen *s, const char *p, size_t n)
{
	const char *end = p + n;

	while (p < end) {
		if (p[0] == '\033' && p[1] == '[') {
			p = screen_escape(s, p);
			continue;
		}
		if (*p == '\n') {
			s->y++;
			s->x = 0;
		} else if (*p == '\r') {
			s->x = 0;
		} else {
			s->cell[s->y][s->x++] = *p;
			s->wrapped = s->wrapped || s->x >= s->cols;
		}
		if (s->y >= SCREEN_ROWS || s->x >= SCREEN_COLS - 1)
			abort();
		p++;
	}
}

static inline int screen_write(void *arg, const char *p, size_t n, bool drop)
{
	struct screen *s = arg;

	if (s->gone)
		return -1;
	if (drop && s->stuck)
		return 0;
	buf_put(&s->raw, p, n);
	if (s->tty)
		screen_play(s, p, n);
	return 1;
}

static inline void screen_size(void *arg, unsigned *cols, unsigned *rows)
{
	struct screen *s = arg;

	*cols = s->cols;
	*rows = s->rows;
}

static inline uint64_t screen_now(void *arg)
{
	struct screen *s = arg;

	return s->ns;
}

static inline struct ui_term screen_term(struct screen *s, bool tty)
{
	s->tty = tty;
	return (struct ui_term){
		.write = screen_write,
		.size = screen_size,
		.now = screen_now,
		.arg = s,
		.tty = tty,
	};
}

static inline struct screen *screen_new(unsigned cols, unsigned rows)
{
	struct screen *s = calloc(1, sizeof(*s));

	if (!s)
		abort();
	s->cols = cols;
	s->rows = rows;
	s->ns = 1000000000;
	return s;
}

static inline void screen_free(struct screen *s)
{
	buf_free(&s->raw);
	free(s);
}

static inline void screen_seconds(struct screen *s, double d)
{
	s->ns += (uint64_t)(d * 1e9);
}

#endif
