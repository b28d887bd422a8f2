/* SPDX-License-Identifier: MIT */
/* Large files are written past the page cache: their bytes are in memory
 * already, once, at the right place (see skew in stage.c). That saves the copy
 * and the page, which cost more than decompression and hashing together,
 * leaves the cache to the stack that still runs, and lets the threads write
 * to one file at the same time, which needs its blocks to be there.
 *
 * Only where this is known to be sound and fast: elsewhere direct writes are
 * refused, emulated, or bypass the file system's own compression. */
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "internal.h"

#define DIRECT_MIN (16u << 20)
#ifndef XFS_SUPER_MAGIC
#define XFS_SUPER_MAGIC 0x58465342
#endif

bool rdirect_volume(const struct restore *r)
{
	struct statfs fs;

	if (fstatfs(r->rootfd, &fs) < 0)
		return false;
	return fs.f_type == EXT4_SUPER_MAGIC || fs.f_type == XFS_SUPER_MAGIC;
}

bool rdirect_file(const struct restore *r, uint32_t slot)
{
	const struct entry *e = tree_at(r->tree, slot);

	return r->direct && e->size >= DIRECT_MIN && !(e->bits & ENTRY_SPARSE);
}

int rdirect_begin(struct restore *r, struct partial *p, int fd,
		  struct sc_err *err)
{
	const struct entry *e = tree_at(r->tree, p->slot);

	if (!rdirect_file(r, p->slot) || atomic_exchange(&p->begun, true))
		return 0;
	if (fallocate(fd, 0, 0, (off_t)e->size) == 0 || errno == EOPNOTSUPP)
		return 0;
	return sc_fail(err, SC_EIO, errno, "room in the stage");
}

int rdirect_write(int fd, const unsigned char **p, size_t *n, uint64_t *off,
		  struct sc_err *err)
{
	ssize_t done;

	if ((uintptr_t)*p % DIRECT_ALIGN || *off % DIRECT_ALIGN)
		return 0;
	if (fcntl(fd, F_SETFL, O_DIRECT) < 0)
		return 0;
	while (*n >= DIRECT_ALIGN) {
		done = pwrite(fd, *p, *n & ~(size_t)(DIRECT_ALIGN - 1),
			      (off_t)*off);
		if (done < 0 && errno == EINTR)
			continue;
		if (done < 0 && errno != EINVAL)
			return sc_fail(err, SC_EIO, errno, "write");
		if (done < DIRECT_ALIGN)
			break;
		/* A write that fell short goes on at a whole page. */
		done -= done % DIRECT_ALIGN;
		*p += done;
		*n -= (size_t)done;
		*off += (uint64_t)done;
	}
	if (fcntl(fd, F_SETFL, 0) < 0)
		return sc_fail(err, SC_EIO, errno, "end direct writes");
	return 0;
}
