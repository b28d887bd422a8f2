/* SPDX-License-Identifier: MIT */
/* A volume's entries in memory, whether walked or loaded from an index.
 *
 * An entry takes 88 bytes and its name; a million of them fit in about
 * 110 MB. Entries live in slabs that never move and are addressed by slot.
 * Slot 0 is the root. The children of a directory have consecutive slots,
 * sorted by their name's bytes, and come after their parent's slot.
 *
 * Canonical order is pre-order with siblings sorted by bytes; tree_order
 * gives each rank's slot. A tree loaded from an index has slot == rank (and
 * then a directory's children are not consecutive: see tree_next_sibling).
 *
 * Names, link targets and xattrs are bytes of any kind. */
#ifndef SNAPCTL_SCAN_TREE_H
#define SNAPCTL_SCAN_TREE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include <snapctl/base/buf.h>
#include <snapctl/base/err.h>

#define TREE_NONE UINT32_MAX

/* entry.bits */
enum {
	ENTRY_SPARSE = 1,     /* has extents (tree_extents) */
	ENTRY_UNREADABLE = 2, /* recorded without data (--allow-incomplete) */
	ENTRY_MOUNT = 4,      /* a mount point: not entered */
	ENTRY_CHANGED = 8,    /* changed while it was read (recorded as such) */
	ENTRY_LINK = 16,      /* a later name of a hard-link group */
	ENTRY_MATCHED = 32,   /* for users of the tree, not stored */
};
#define ENTRY_STORED_BITS 31

struct entry {
	const char *name;     /* NUL-terminated for openat; "" for the root */
	uint64_t size;	      /* regular: bytes; device: its st_rdev; else 0 */
	int64_t mtime, ctime; /* seconds since the epoch, may be negative */
	uint64_t ino;
	uint32_t mtime_ns, ctime_ns;
	uint32_t parent; /* slot; the root is its own */
	uint32_t uid, gid;
	uint32_t nlink;
	uint32_t flags;	 /* inode flags as FS_IOC_GETFLAGS gives them */
	uint32_t xattrs; /* number of a set in the tree, 0: none */
	/* Directory: count is its number of children; first is the first
	 * child's slot in a walked tree, in a loaded one the slot after its
	 * last descendant (tree_first_child and tree_next_sibling know).
	 * Regular: first run and number of runs. Symlink: number of its
	 * target, 0. */
	uint32_t first, count;
	uint16_t name_len; /* 1 to 255, 0 for the root */
	uint16_t mode;	   /* S_IFMT and 07777 */
	uint8_t bits;
};

/* count chunks of the chunk table from first on. */
struct run {
	uint32_t first, count;
};

/* A stretch of data in a sparse file; holes lie between. */
struct extent {
	uint64_t off, len;
};

struct tree; /* opaque */

int tree_new(struct tree **out, struct sc_err *err);
void tree_free(struct tree *t); /* NULL allowed */

/* Number of entries (and of slots and ranks). */
uint32_t tree_count(const struct tree *t);
struct entry *tree_at(const struct tree *t, uint32_t slot);
uint32_t tree_order(const struct tree *t, uint32_t rank);

/* Takes n consecutive slots (zeroed, name NULL), from any thread. A new tree
 * is empty: the first call takes the root's slot 0. */
int tree_alloc(struct tree *t, uint32_t n, uint32_t *first, struct sc_err *err);
/* n slots from first on, the last of one tree_alloc, are not needed after
 * all. tree_seal closes the gap: until then slots are not final. */
int tree_give_back(struct tree *t, uint32_t first, uint32_t n,
		   struct sc_err *err);
/* Copies name (len bytes, no NUL) into the names; returns a NUL-terminated
 * copy that lives as long as the tree, or NULL. From any thread; arena: one
 * per thread, zero-initialised, the memory belongs to the tree. */
struct tree_arena {
	char *p;
	size_t left;
};
const char *tree_name(struct tree *t, struct tree_arena *a, const char *name,
		      size_t len);
/* After the last tree_alloc of a walk: computes the canonical order. */
int tree_seal(struct tree *t, struct sc_err *err);
/* The same for a tree whose slots are in canonical order already: fills first
 * and count of directories from the entries' parents. */
int tree_seal_preorder(struct tree *t, struct sc_err *err);

/* Slots of a sealed tree, of either kind; TREE_NONE when there is none. */
uint32_t tree_first_child(const struct tree *t, uint32_t slot);
uint32_t tree_next_sibling(const struct tree *t, uint32_t slot);

/* The path from the root, "" for the root, appended to out (cleared first).
 * No leading "./" or "/". */
int tree_path(const struct tree *t, uint32_t slot, struct buf *out,
	      struct sc_err *err);

/* Link targets: ids from 1 on; 0 is none, and "". From any thread. */
int tree_target_add(struct tree *t, const char *target, size_t len,
		    uint32_t *id, struct sc_err *err);
const char *tree_target(const struct tree *t, uint32_t id); /* NUL-ended */

/* Sets of xattrs, equal ones kept once. blob: for each xattr in byte order of
 * names: varint name length, name, varint value length, value. Empty: id 0.
 * From any thread. */
int tree_xattrs_add(struct tree *t, const void *blob, size_t len, uint32_t *id,
		    struct sc_err *err);
const void *tree_xattrs(const struct tree *t, uint32_t id, size_t *len);
/* ids are 1 … count; not while others add */
uint32_t tree_xattrs_count(const struct tree *t);

/* Data runs of a regular file. Sets e->first and e->count. From any thread;
 * one call per entry. */
int tree_set_runs(struct tree *t, struct entry *e, const struct run *runs,
		  uint32_t n, struct sc_err *err);
const struct run *tree_runs(const struct tree *t, const struct entry *e);

/* Extents of a sparse file (n may be 0: all hole); sets ENTRY_SPARSE. From
 * any thread; one call per slot. Sorted by offset, not touching, within the
 * file's size. */
int tree_set_extents(struct tree *t, uint32_t slot, const struct extent *x,
		     uint32_t n, struct sc_err *err);
const struct extent *tree_extents(const struct tree *t, uint32_t slot,
				  uint32_t *n);

/* Byte order of sibling names: memcmp, shorter first. */
int tree_name_cmp(const char *a, size_t alen, const char *b, size_t blen);

static inline bool entry_is_dir(const struct entry *e)
{
	return S_ISDIR(e->mode);
}

static inline bool entry_is_reg(const struct entry *e)
{
	return S_ISREG(e->mode);
}

#endif
