/* SPDX-License-Identifier: MIT */
/* Putting a volume back, inside the helper (DESIGN section 6).
 *
 *   plan     compare the live volume with the index: what has to be staged,
 *            removed, created, mended; refuse what cannot be done
 *   stage    needed segments come in, every chunk is hashed, files are
 *            written under short random names into STAGE_NAME, with owner,
 *            mode, xattrs and times; nothing live changes
 *   recheck  after the stop: walk again, plan again against what is there
 *            now; staged files must still be as they were
 *   commit   renames, removals, metadata; times last, directories deepest
 *            first, the root at the end; one syncfs before, one after
 *   abort    before a commit: the stage is removed, the root's mtime put back
 *
 * plan.c, merge.c (live directories beside the index's), work.c (which chunks
 * go where), stage.c, make.c (one entry of the stage), commit.c, remove.c,
 * meta.c (owner, mode, xattrs, flags, times), direct.c and flush.c (how large
 * data gets to the disk), journal.c (the stage's header, abort and, later,
 * replay).
 *
 * Every path is opened beneath the root with openat2(RESOLVE_BENEATH |
 * RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV), or relative to a directory opened
 * so. */
#ifndef SNAPCTL_RESTORE_RESTORE_H
#define SNAPCTL_RESTORE_RESTORE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <snapctl/base/err.h>
#include <snapctl/base/notes.h>
#include <snapctl/scan/index.h>
#include <snapctl/scan/tree.h>
#include <snapctl/scan/walk.h>

struct restore_options {
	unsigned threads;
	/* The directory holding the repository, from the root, or NULL: never
	 * touched. */
	const char *leave_out;
	atomic_uint_fast64_t *bytes, *files; /* staged so far; may be NULL */
	const atomic_bool *stop;
};

/* Where segments come from: called by restore_stage from one thread at a
 * time, exactly in the order of the needs. out (cleared first) gets the
 * stored bytes. */
struct restore_source {
	int (*next)(void *arg, struct buf *out, struct sc_err *err);
	/* Staging has failed elsewhere: a next that waits is to return, with
	 * any failure. From any thread, at most once. May be NULL. */
	void (*stop)(void *arg);
	void *arg;
};

struct restore_summary {
	uint64_t stage_files, stage_bytes; /* plain bytes to be written */
	uint64_t segments, stored_bytes;   /* to be fetched */
	uint64_t create, remove, change;   /* entries */
	uint64_t kept;			   /* already right */
};

struct restore; /* one volume's restore */

/* rootfd, tree, chunks: borrowed until restore_free; the tree was loaded by
 * index_load and is not changed. Walks the live volume, directory by directory
 * beside the index (it is never in memory as a whole), and plans.
 * Refusals (SC_EREFUSED) name the entry: a STAGE_NAME that is not ours; an
 * immutable or append-only live entry that has to change; a mount point where
 * the index wants something else; too little room (statfs) for the stage. A
 * stage of a dead run that never reached its commit is removed first. */
int restore_plan(int rootfd, struct tree *tree,
		 const struct chunk_table *chunks,
		 const struct restore_options *o, struct notes *notes,
		 struct restore **out, struct restore_summary *sum,
		 struct sc_err *err);
/* Numbers of the segments needed, ascending; borrowed, *n of them. */
const uint32_t *restore_needs(const struct restore *r, size_t *n);

/* Makes the stage and fills it. Decompression, hashing and writing are spread
 * over threads; writeback starts as it goes. A segment or chunk that is not
 * what was recorded is SC_ECORRUPT naming what it belongs to. */
int restore_stage(struct restore *r, const struct restore_source *src,
		  struct sc_err *err);
/* The stack is stopped: look again. SC_EREFUSED when the stage was meddled
 * with or what changed needs a new plan: abort, nothing has changed. */
int restore_recheck(struct restore *r, struct sc_err *err);
/* syncfs, then the point of no return. A failure from here on is
 * SC_EPARTIAL. Flags that cannot be set again are warnings. */
int restore_commit(struct restore *r, struct sc_err *err);
/* Of several volumes that are committed together, first each is marked: then
 * a crash among the commits leaves no volume that looks as if nothing had been
 * begun. syncfs, then the journal says committing. Until restore_commit it can
 * be aborted. */
int restore_mark(struct restore *r, struct sc_err *err);
/* Does the volume hold a commit that did not end (or was only marked)? Then it
 * may be neither old nor new: a snapshot of it is refused, a restore mends it.
 * 1, 0 or -1. */
int restore_unfinished(int rootfd, struct sc_err *err);
/* Undoes a stage that was not committed. Safe at any time before commit. */
int restore_abort(struct restore *r, struct sc_err *err);
void restore_free(struct restore *r); /* NULL allowed; does not abort */

#endif
