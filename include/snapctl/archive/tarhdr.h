/* SPDX-License-Identifier: MIT */
/* Tar headers, made by libarchive's pax writer and taken out of its output:
 * the data that follows never passes through libarchive.
 *
 * pax format, SCHILY.xattr records only, names and values as raw bytes
 * (hdrcharset BINARY), numeric owners, no ctime and atime, GNU.sparse 1.0
 * for sparse files. Names start with "./"; the root is "./", or "./file" when
 * the volume is a single file. Where libarchive's output and GNU tar do not
 * agree it is corrected (src/archive/tarhdr_fix.h). */
#ifndef SNAPCTL_ARCHIVE_TARHDR_H
#define SNAPCTL_ARCHIVE_TARHDR_H

#include <snapctl/base/buf.h>
#include <snapctl/base/err.h>
#include <snapctl/scan/tree.h>

struct tarhdr; /* for one thread at a time */

struct tarhdr_entry {
	const char *path;      /* from the root, NUL-terminated, "" = root */
	const struct entry *e; /* stat fields */
	const char *target;    /* symlink target, or NULL */
	const char *hardlink;  /* path of the group's first name, or NULL */
	const void *xattrs;    /* blob as in tree.h */
	size_t xattrs_len;
	const struct extent *extents; /* ENTRY_SPARSE only */
	uint32_t nextents;
};

int tarhdr_new(struct tarhdr **out, struct sc_err *err);
void tarhdr_free(struct tarhdr *h);
/* Appends the headers (and, for a sparse file, its map) to out. What must
 * follow: the data (size bytes, or the extents end to end), then zeros to a
 * multiple of 512 counted from the end of the headers, *pad of them (a sparse
 * map is padded already). */
int tarhdr_put(struct tarhdr *h, const struct tarhdr_entry *e, struct buf *out,
	       unsigned *pad, struct sc_err *err);
/* The two zero blocks at the end. */
void tarhdr_end(struct buf *out);

#endif
