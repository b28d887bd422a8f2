/* SPDX-License-Identifier: MIT */
/* Walking a volume: getdents64 and statx relative to directory descriptors,
 * directories spread over threads, O_NOFOLLOW, never across a mount point,
 * never a path string reopened. A parent's descriptor is held until its
 * subdirectories are open; work is taken last in, first out, so that few are
 * open at a time. */
#ifndef SNAPCTL_SCAN_WALK_H
#define SNAPCTL_SCAN_WALK_H

#include <stdatomic.h>
#include <stdint.h>

#include <snapctl/base/err.h>
#include <snapctl/base/notes.h>
#include <snapctl/scan/tree.h>

/* What is ours in a volume's root and never part of a snapshot. */
#define STAGE_NAME ".snapctl-stage"

struct walk_options {
	unsigned threads; /* at least 1 */
	/* A directory to leave out with a note (the repository within a bind
	 * mount): path from the root, or NULL. */
	const char *leave_out;
	/* Record what cannot be read (ENTRY_UNREADABLE, a warning) instead of
	 * failing. Overflow owners in a partial uid map count as well. */
	bool allow_incomplete;
	/* An entry that goes away between the directory read and its stat is
	 * ignored (a running stack) instead of counted in vanished. */
	bool live;
	/* Filled as it goes, for progress; may be NULL. */
	atomic_uint_fast64_t *entries, *bytes;
	const atomic_bool
		*stop; /* give up with SC_EINTR when set; may be NULL */
};

struct walk_result {
	struct tree *tree; /* owned by the caller, tree_free */
	uint64_t entries, files, dirs, bytes; /* bytes: sizes of regular files,
					       * each hard-link group once is
					       * not tried: every name counts */
	uint64_t sockets; /* skipped, the first 20 noted by name */
	uint64_t mounts;  /* mount points not entered, noted (warning) */
	uint64_t unreadable, vanished;
	/* The file system: statfs f_type, f_fsid, st_dev of the root. */
	uint64_t fs_type, fs_id, dev;
};

/* rootfd: the volume's root, O_RDONLY|O_DIRECTORY, borrowed. For a volume
 * that is a single file (bind mount of a file): a tree of one entry that is
 * the file. Without allow_incomplete an unreadable entry is -1 (SC_EIO)
 * naming it, escaped. */
int walk_tree(int rootfd, const struct walk_options *o, struct notes *notes,
	      struct walk_result *out, struct sc_err *err);

#endif
