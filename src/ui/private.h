/* SPDX-License-Identifier: MIT */
/* What the files of src/ui share. */
#ifndef SNAPCTL_UI_PRIVATE_H
#define SNAPCTL_UI_PRIVATE_H

#include <pthread.h>

#include <snapctl/base/buf.h>
#include <snapctl/ui/ui.h>

struct ui_progress;

struct ui {
	pthread_mutex_t lock; /* all below, and all of a shown progress */
	struct ui_term term;
	enum ui_mode mode;
	bool json; /* messages as JSON, also when quiet */
	int level;
	bool broken; /* stderr is gone: stay silent, the exit code speaks */
	struct buf pending; /* message lines the terminal has not taken yet */
	struct ui_progress *shown;
};

/* Writes to the terminal with the lock held. False when nothing was written:
 * dropped, failed, or b is not whole. */
bool ui_put(struct ui *ui, const struct buf *b, bool droppable);
/* Writes what is pending, above the bars, with the lock held. droppable: only
 * if the terminal takes it now. */
void ui_flush(struct ui *ui, bool droppable);
/* s without what could act on a terminal; backslashes stay single. */
void ui_sanitise(struct buf *out, const char *s, size_t n);

/* Bars on the terminal: takes them away / puts them back, into out, with the
 * lock held. No bars: nothing. */
void ui_progress_erase(struct ui_progress *p, struct buf *out);
void ui_progress_redraw(struct ui_progress *p, struct buf *out);

/* -- frame.c: what is known at one moment, and how it looks --------------- */

struct ui_row {
	const char *name; /* escaped, borrowed */
	size_t name_len;
	uint64_t bytes, bytes_total, files, files_total;
	double rate; /* bytes per second; 0 while unknown */
	bool done;
};

struct ui_frame {
	const struct ui_row *rows;
	size_t n;
	const char *phase; /* escaped, borrowed, "" for none */
	double elapsed;	   /* seconds since the start */
	double down; /* seconds the stack is or was down; below 0: never */
	bool last;   /* stays on the screen: all rows, no status line */
};

/* Lines for a terminal of cols by rows, each ended by "\033[K\n"; their
 * number. No line reaches the last column. */
unsigned ui_frame_tty(struct buf *out, const struct ui_frame *f, unsigned cols,
		      unsigned rows);
/* One line of text. */
void ui_frame_plain(struct buf *out, const struct ui_frame *f, bool counts);
/* One JSON object and a newline. */
void ui_frame_json(struct buf *out, const struct ui_frame *f);

#endif
