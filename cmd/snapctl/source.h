/* SPDX-License-Identifier: MIT */
/* The stored side of a restore: indexes to send, segments to fetch. */
#ifndef SNAPCTL_SOURCE_H
#define SNAPCTL_SOURCE_H

#include <stdint.h>

#include <snapctl/base/buf.h>
#include <snapctl/base/err.h>
#include <snapctl/helper/session.h>
#include <snapctl/repo/repo.h>

struct source; /* opaque */

/* volumes: n of a snapshot's, in the session's order, borrowed. Opens every
 * index and pack. */
int source_open(struct repo *r, struct snapshot_volume *const *volumes,
		size_t n, struct source **out, struct sc_err *err);
void source_close(struct source *s); /* NULL allowed */
/* Sends every index through the session; lengths: n of them are set. */
int source_send_indexes(struct source *s, struct session *to, uint64_t *lengths,
			struct sc_err *err);
/* For session_stage: arg is the source. A segment there is not, or a pack
 * that is too short, is SC_ECORRUPT naming the blob. */
int source_segment(void *arg, unsigned volume, uint32_t segment,
		   struct buf *out, struct sc_err *err);

#endif
