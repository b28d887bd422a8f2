/* SPDX-License-Identifier: MIT */
/* Taking a snapshot within a task: what the helper sends becomes packs,
 * indexes and a snapshot, published at the end. Used by create and, for the
 * state before a restore, by restore. */
#ifndef SNAPCTL_CAPTURE_H
#define SNAPCTL_CAPTURE_H

#include <stdbool.h>
#include <stdint.h>

#include <snapctl/base/err.h>

#include "task.h"

struct capture; /* opaque */

struct capture_options {
	const char *mode; /* "stop", "no-stop", "pre-restore" */
	const char *note; /* or NULL */
	const char *const *tags;
	size_t ntags;
	uint64_t max_pack;
	bool live; /* writers may be at work */
	/* Called, from another thread, once everything was read and nothing
	 * had run meanwhile. May be NULL. */
	void (*all_read)(void *arg);
	void *arg;
};

/* Reads every volume of the task's session. On -1 all_read may or may not have
 * been called, and has ended. */
int capture_take(struct task *t, const struct capture_options *o,
		 struct capture **out, struct sc_err *err);
/* Fills in how the run went and publishes. */
int capture_publish(struct capture *c, struct sc_err *err);
const struct snapshot *capture_snapshot(const struct capture *c);
void capture_free(struct capture *c); /* NULL allowed */

#endif
