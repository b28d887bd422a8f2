/* SPDX-License-Identifier: MIT */
/* What is written down about a run: the snapshot document filled from the
 * stack, the engine and the helper's counts. */
#ifndef SNAPCTL_RECORD_H
#define SNAPCTL_RECORD_H

#include <stdbool.h>
#include <stddef.h>

#include <snapctl/base/err.h>
#include <snapctl/helper/frames.h>
#include <snapctl/repo/snapshot.h>

#include "task.h"

/* Stack, engine, containers as they were, volumes; created is now. */
int record_new(struct task *t, const char *mode, const char *note,
	       const char *const *tags, size_t ntags, struct snapshot **out,
	       struct sc_err *err);
/* The helper's map of owners as a snapshot records it: "" for all ids onto
 * themselves. Borrowed. */
const char *record_uid_map(const struct task *t);
/* One volume's counts, packs and index. */
int record_taken(struct snapshot_volume *v, const struct frame_taken *t,
		 const struct chunk_table *table, const struct digest *index,
		 uint64_t index_length, struct sc_err *err);
/* How it went: clean, torn, downtime, duration, how containers stopped,
 * warnings. */
int record_finish(struct task *t, struct snapshot *s, bool live,
		  struct sc_err *err);

#endif
