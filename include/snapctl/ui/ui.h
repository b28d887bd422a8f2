/* SPDX-License-Identifier: MIT */
/* What the user sees: messages, progress, tables, JSON.
 *
 * log.c       messages on stderr, by level; the context struct ui
 * term.c      the real terminal behind struct ui_term
 * progress.c  atomic counters and one renderer (progress.h)
 * frame.c     what one frame of it looks like
 * table.c     aligned columns (table.h)
 * json.c      one document on stdout (json.h)
 * width.c     how many columns a text takes (width.h)
 *
 * Results go to stdout, everything else to stderr. While progress bars stand
 * on the terminal a message is printed above them. Clock and terminal are
 * injected, so that all of it is tested. Below cmd/ nothing calls this
 * module: lower layers fill counters, return errors and collect notes.
 *
 * A message may carry names of volumes and texts of the engine: what could
 * act on the terminal is escaped, a newline too, so one call is one line.
 * Backslashes stay as they are: names are often escaped already. */
#ifndef SNAPCTL_UI_UI_H
#define SNAPCTL_UI_UI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <snapctl/base/err.h>

enum ui_level {
	UI_QUIET = -1, /* -q: warnings and errors only, no progress */
	UI_NORMAL = 0,
	UI_VERBOSE = 1, /* -v: ui_detail too */
};

enum ui_mode {
	UI_AUTO,  /* UI_TTY on a terminal, else UI_PLAIN */
	UI_TTY,	  /* one line per volume, redrawn in place */
	UI_PLAIN, /* a line when the phase changes and every 10 s */
	UI_JSON,  /* one JSON object per line; messages too */
	UI_NONE,
};

/* Where messages and progress go, and what time it is. */
struct ui_term {
	/* All n bytes or -1. droppable: return 0 at once, having written
	 * nothing, when the reader does not keep up (a terminal stopped by
	 * ^S must not keep a stack down); 1 when written. */
	int (*write)(void *arg, const char *p, size_t n, bool droppable);
	/* Columns and rows; left alone when unknown. May be NULL. */
	void (*size)(void *arg, unsigned *cols, unsigned *rows);
	uint64_t (*now)(void *arg); /* monotonic, ns */
	void *arg;		    /* borrowed */
	bool tty;    /* a terminal that understands cursor movement */
	bool colour; /* wanted on it */
};

/* stderr: tty unless TERM is dumb or unset, colour unless NO_COLOR is. */
struct ui_term ui_term_stderr(void);

struct ui; /* safe to use from several threads */

int ui_new(const struct ui_term *term, enum ui_mode mode, int level,
	   struct ui **out, struct sc_err *err);
/* NULL allowed; progress has ended. Waits until the terminal has taken all
 * messages. */
void ui_free(struct ui *ui);
/* "tty" … as --progress takes it; false if unknown. */
bool ui_mode_parse(const char *s, enum ui_mode *out);
/* The mode in force: never UI_AUTO, UI_NONE when quiet. */
enum ui_mode ui_mode(const struct ui *ui);

/* None of these waits for a terminal that is stopped or a pipe that is full:
 * the line is kept and written as soon as it is taken (up to 1 MiB). */
#define UI_PRINTF __attribute__((format(printf, 2, 3)))

void ui_error(struct ui *ui, const char *fmt, ...) UI_PRINTF;  /* error: */
void ui_warn(struct ui *ui, const char *fmt, ...) UI_PRINTF;   /* warning: */
void ui_note(struct ui *ui, const char *fmt, ...) UI_PRINTF;   /* snapctl: */
void ui_detail(struct ui *ui, const char *fmt, ...) UI_PRINTF; /* with -v */

#endif
