/* SPDX-License-Identifier: MIT */
/* Puts right what libarchive's pax writer (3.6 to 3.8) gets wrong in the
 * extended header of an entry:
 *
 *   - with hdrcharset=BINARY each entry carries a record of that name, and
 *     GNU tar prints a warning for each: left out. Without that option names
 *     pass through iconv and the locale, and are no longer raw bytes.
 *   - SCHILY.devmajor and devminor, another warning: left out, since the
 *     main header's fields hold any device number that Linux has.
 *   - a time before 1970 with a fraction: it writes seconds and nanoseconds
 *     one after the other, but "-5.25" means 5.25 s before, not 4.75 s.
 *   - names of extended attributes are URL-encoded, while GNU tar takes
 *     "SCHILY.xattr." names literally but for "%25" and "%3D".
 *   - the size record of a sparse file is the length in the archive. */
#ifndef SNAPCTL_ARCHIVE_TARHDR_FIX_H
#define SNAPCTL_ARCHIVE_TARHDR_FIX_H

#include <stdint.h>

#include <snapctl/base/buf.h>
#include <snapctl/base/err.h>
#include <snapctl/scan/tree.h>

struct tarhdr_fix {
	struct buf records, key;
};

void tarhdr_fix_free(struct tarhdr_fix *f);

/* out from start on: the headers of one entry as libarchive made them.
 * data: how many bytes of data follow them. */
int tarhdr_fix(struct tarhdr_fix *f, const struct entry *e, uint64_t data,
	       struct buf *out, size_t start, struct sc_err *err);

#endif
