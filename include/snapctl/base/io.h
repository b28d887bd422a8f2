/* SPDX-License-Identifier: MIT */
/* Whole reads and writes, and the one way to publish a file. */
#ifndef SNAPCTL_BASE_IO_H
#define SNAPCTL_BASE_IO_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <snapctl/base/buf.h>
#include <snapctl/base/err.h>

/* All n bytes or -1. EINTR is retried. name: for the message, borrowed. */
int io_write_all(int fd, const void *p, size_t n, const char *name,
		 struct sc_err *err);
int io_pwrite_all(int fd, const void *p, size_t n, uint64_t off,
		  const char *name, struct sc_err *err);
/* Reads until n bytes or end of file; the count, or -1. */
ssize_t io_read_some(int fd, void *p, size_t n, const char *name,
		     struct sc_err *err);
ssize_t io_pread_some(int fd, void *p, size_t n, uint64_t off, const char *name,
		      struct sc_err *err);
/* Exactly n bytes; a short file is SC_ECORRUPT. */
int io_pread_all(int fd, void *p, size_t n, uint64_t off, const char *name,
		 struct sc_err *err);
/* A whole file into out, which is replaced. Anything but a regular file of at
 * most max bytes is SC_ECORRUPT. Returns 1, 0 when there is no such file
 * (out is as it was), or -1. */
int io_read_file(int dir, const char *name, size_t max, struct buf *out,
		 struct sc_err *err);
int io_fsync(int fd, const char *name, struct sc_err *err);
/* mkdir; an existing directory is fine. Returns 0 or -1. */
int io_mkdir(int dir, const char *name, mode_t mode, struct sc_err *err);
/* fsyncs fd, renames dir/tmp to dir2/name, fsyncs dir2 (and dir if another).
 * The one step by which anything durable appears. */
int io_publish(int fd, int dir, const char *tmp, int dir2, const char *name,
	       struct sc_err *err);
/* Writes p to a temporary beside name in dir (mode 0600), then io_publish. */
int io_write_file(int dir, const char *name, const void *p, size_t n,
		  struct sc_err *err);
/* "PREFIX" + 16 random lower-case hex digits into out (size n). */
int io_random_name(char *out, size_t n, const char *prefix, struct sc_err *err);

#endif
