/* SPDX-License-Identifier: MIT */
#ifndef SNAPCTL_RESTORE_MERGE_H
#define SNAPCTL_RESTORE_MERGE_H

#include "internal.h"

/* Decides every entry whose directory is there, and collects the removals.
 * Entries with ROP_SKIP stay so. */
int rmerge_run(struct restore *r, struct sc_err *err);

static inline void rmerge_set(struct restore *r, uint32_t slot, unsigned op)
{
	r->op[slot] = (uint8_t)((r->op[slot] & (ROP_FLAT | ROP_IN)) | op);
}

#endif
