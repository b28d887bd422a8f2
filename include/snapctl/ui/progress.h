/* SPDX-License-Identifier: MIT */
/* Progress: atomic counters, filled from any thread, and one renderer at about
 * 6 Hz in a thread of its own that reads them. */
#ifndef SNAPCTL_UI_PROGRESS_H
#define SNAPCTL_UI_PROGRESS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <snapctl/ui/ui.h>

/* One volume. Totals are 0 while unknown and may grow. Relaxed order does:
 * nothing is decided by these numbers. */
struct ui_count {
	atomic_uint_least64_t bytes, bytes_total;
	atomic_uint_least64_t files, files_total;
	atomic_bool done;
};

static inline void ui_count_add(struct ui_count *c, uint64_t bytes,
				uint64_t files)
{
	atomic_fetch_add_explicit(&c->bytes, bytes, memory_order_relaxed);
	atomic_fetch_add_explicit(&c->files, files, memory_order_relaxed);
}

/* For a layer below that reports sums instead of steps. */
static inline void ui_count_set(struct ui_count *c, uint64_t bytes,
				uint64_t files)
{
	atomic_store_explicit(&c->bytes, bytes, memory_order_relaxed);
	atomic_store_explicit(&c->files, files, memory_order_relaxed);
}

static inline void ui_count_total(struct ui_count *c, uint64_t bytes,
				  uint64_t files)
{
	atomic_store_explicit(&c->bytes_total, bytes, memory_order_relaxed);
	atomic_store_explicit(&c->files_total, files, memory_order_relaxed);
}

static inline void ui_count_done(struct ui_count *c)
{
	atomic_store_explicit(&c->done, true, memory_order_relaxed);
}

struct ui_progress;

/* Starts the display of n volumes (names copied, raw bytes); one at a time
 * per ui. Starts no thread where nothing is displayed; the counters work all
 * the same. */
int ui_progress_start(struct ui *ui, const char *const *names, size_t n,
		      struct ui_progress **out, struct sc_err *err);
/* Volume i, 0 <= i < n; valid until ui_progress_end. */
struct ui_count *ui_progress_volume(struct ui_progress *p, size_t i);
/* What is being done, "read", "stop web"; copied, cut at 200 bytes. */
void ui_progress_phase(struct ui_progress *p, const char *phase);
/* Zeroes the counters and the rates, for a second pass. */
void ui_progress_restart(struct ui_progress *p);
/* The stack goes down or is up again: how long it is down is displayed. */
void ui_progress_down(struct ui_progress *p, bool down);
/* Draws the last frame, which stays, joins the thread and frees p. NULL
 * allowed. To be called when the stack runs again: it waits for a terminal
 * that is stopped. */
void ui_progress_end(struct ui_progress *p);

/* Without the thread, for tests: the same, and one frame by hand. */
int ui_progress_open(struct ui *ui, const char *const *names, size_t n,
		     struct ui_progress **out, struct sc_err *err);
void ui_progress_tick(struct ui_progress *p);

#endif
