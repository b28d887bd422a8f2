/* SPDX-License-Identifier: MIT */
/* Taking a volume: "tar | zstd -T0" in one process.
 *
 * The entries of a walked tree, in canonical order, become a tar stream that
 * is cut into segments of about 4 MiB, each one zstd frame. One thread plans
 * jobs; as many workers as there are cores open and read files, make headers,
 * hash chunks and compress; finished segments leave in order. Two kinds of
 * jobs:
 *
 *   batch  consecutive entries whose headers and data fit in one segment
 *   block  4 MiB of a larger file; blocks are searched for chunk boundaries
 *          in parallel, then the baton passes from block to block: it carries
 *          the bytes after the last cut, so that a chunk never straddles two
 *          segments
 *
 * The planner also runs ahead with readahead for the files of coming jobs,
 * so that cold small files do not serialise. Directories are opened from
 * their parents, never by a path. */
#ifndef SNAPCTL_ARCHIVE_TAKE_H
#define SNAPCTL_ARCHIVE_TAKE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <snapctl/base/err.h>
#include <snapctl/base/notes.h>
#include <snapctl/scan/index.h>
#include <snapctl/scan/tree.h>

#define SEGMENT_TARGET (4u << 20)

struct take_sink {
	/* One segment, in order, from any thread but one at a time.
	 * stored: borrowed. */
	int (*segment)(void *arg, const void *stored, size_t n, uint32_t plain,
		       struct sc_err *err);
	/* Everything of this volume has been read; compression may go on. */
	void (*read_done)(void *arg);
	void *arg;
};

struct take_options {
	unsigned threads; /* workers */
	int level;	  /* zstd */
	uint32_t chunk_avg;
	bool allow_incomplete; /* unreadable: record, warn, go on */
	/* Writers may be at work (--no-stop): a file that changes while it is
	 * read is recorded as ENTRY_CHANGED with a warning instead of failing
	 * the run as torn. */
	bool live;
	bool trusted_xattrs; /* look at trusted.* (needs CAP_SYS_ADMIN) */
	atomic_uint_fast64_t *bytes, *files; /* progress, may be NULL */
	const atomic_bool *stop; /* give up with SC_EINTR when set */
};

struct take_result {
	uint64_t bytes; /* plain data bytes read */
	uint64_t plain; /* plain bytes of the tar stream */
	uint64_t files;
	uint32_t segments;
	uint64_t unreadable, changed, vanished;
};

/* t: a walked tree of rootfd; its entries get what was seen when they were
 * read (stat again, flags, xattrs, targets, extents, runs). chunks: empty on
 * entry; filled with chunks whose segment counts from 0 in the order of
 * sink->segment. What comes out does not depend on the number of threads.
 *
 * Not live: whatever differs from the walk, or before and after it was read,
 * or is gone, is SC_ETORN naming it. Live: what differs from the walk is
 * taken as it is now; a small file that changes while it is read is read once
 * more, then recorded as ENTRY_CHANGED (missing bytes are zeros); what is gone
 * stays an entry without data, ENTRY_CHANGED and ENTRY_UNREADABLE.
 *
 * Later names of a hard-link group become ENTRY_LINK and get the first name's
 * fields and runs. A group with names outside of t is a warning. Unreadable
 * symlinks have an empty target. On failure t's entries are not to be used. */
int take_full(int rootfd, struct tree *t, const struct take_options *o,
	      const struct take_sink *sink, struct notes *notes,
	      struct chunk_table *chunks, struct take_result *out,
	      struct sc_err *err);

#endif
