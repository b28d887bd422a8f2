/* SPDX-License-Identifier: MIT */
/* The live side of a restore: which snapshot goes into which volumes. */
#ifndef SNAPCTL_TARGET_H
#define SNAPCTL_TARGET_H

#include <stdbool.h>
#include <stddef.h>

#include <snapctl/base/err.h>
#include <snapctl/repo/snapshot.h>

#include "task.h"

struct target {
	/* Of the snapshot (borrowed), in the order of task.volumes. */
	struct snapshot_volume **volumes;
	size_t n;
	const char **refs; /* how each is known on the engine */
	char **owned;	   /* those of refs that were made here */
	bool *created;	   /* by target_create; undone by target_undo */
	bool all_new;	   /* nothing there before: nothing to save */
};

/* The snapshot that the command line names, loaded and checked. */
int target_snapshot(struct task *t, struct snapshot **out, struct sc_err *err);
/* Resolves the stack for these volumes (--volume, or all of them) and fills
 * t->volumes and t->mounts. Everything that the snapshot needs is present. */
int target_choose(struct target *g, struct task *t, struct snapshot *from,
		  struct sc_err *err);
/* Creates missing volumes as they were. */
int target_create(struct target *g, struct task *t, struct sc_err *err);
/* Removes what target_create made, before the helper goes: its container
 * must be gone, so this closes the session. */
void target_undo(struct target *g, struct task *t);
void target_free(struct target *g);

#endif
