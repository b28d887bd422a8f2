/* SPDX-License-Identifier: MIT */
#include <snapctl/base/io.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <snapctl/base/mem.h>

int io_write_all(int fd, const void *p, size_t n, const char *name,
		 struct sc_err *err)
{
	const char *at = p;

	while (n) {
		ssize_t k = write(fd, at, n);

		if (k < 0 && errno == EINTR)
			continue;
		if (k < 0)
			return sc_fail(err, SC_EIO, errno, "write %s", name);
		at += k;
		n -= (size_t)k;
	}
	return 0;
}

int io_pwrite_all(int fd, const void *p, size_t n, uint64_t off,
		  const char *name, struct sc_err *err)
{
	const char *at = p;

	while (n) {
		ssize_t k = pwrite(fd, at, n, (off_t)off);

		if (k < 0 && errno == EINTR)
			continue;
		if (k < 0)
			return sc_fail(err, SC_EIO, errno, "write %s", name);
		at += k;
		off += (uint64_t)k;
		n -= (size_t)k;
	}
	return 0;
}

ssize_t io_read_some(int fd, void *p, size_t n, const char *name,
		     struct sc_err *err)
{
	size_t got = 0;

	while (got < n) {
		ssize_t k = read(fd, (char *)p + got, n - got);

		if (k < 0 && errno == EINTR)
			continue;
		if (k < 0)
			return sc_fail(err, SC_EIO, errno, "read %s", name);
		if (k == 0)
			break;
		got += (size_t)k;
	}
	return (ssize_t)got;
}

ssize_t io_pread_some(int fd, void *p, size_t n, uint64_t off, const char *name,
		      struct sc_err *err)
{
	size_t got = 0;

	while (got < n) {
		ssize_t k =
			pread(fd, (char *)p + got, n - got, (off_t)(off + got));

		if (k < 0 && errno == EINTR)
			continue;
		if (k < 0)
			return sc_fail(err, SC_EIO, errno, "read %s", name);
		if (k == 0)
			break;
		got += (size_t)k;
	}
	return (ssize_t)got;
}

int io_pread_all(int fd, void *p, size_t n, uint64_t off, const char *name,
		 struct sc_err *err)
{
	ssize_t got = io_pread_some(fd, p, n, off, name, err);

	if (got < 0)
		return -1;
	if ((size_t)got != n)
		return sc_fail(
			err, SC_ECORRUPT, 0,
			"%s is too short: %zu bytes wanted at %llu, %zd there",
			name, n, (unsigned long long)off, got);
	return 0;
}

int io_read_file(int dir, const char *name, size_t max, struct buf *out,
		 struct sc_err *err)
{
	/* O_NONBLOCK: a fifo in a hostile place must not hang us. */
	auto_close int fd =
		openat(dir, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct stat st;
	ssize_t n;

	if (fd < 0 && errno == ENOENT)
		return 0;
	if (fd < 0)
		return sc_fail(err, SC_EIO, errno, "open %s", name);
	if (fstat(fd, &st) < 0)
		return sc_fail(err, SC_EIO, errno, "stat %s", name);
	if (!S_ISREG(st.st_mode))
		return sc_fail(err, SC_ECORRUPT, 0, "%s is not a file", name);
	if ((uint64_t)st.st_size > max)
		return sc_fail(
			err, SC_ECORRUPT, 0,
			"%s is %lld bytes, more than the %zu expected at most",
			name, (long long)st.st_size, max);
	buf_clear(out);
	if (!buf_reserve(out, (size_t)st.st_size + 1))
		return sc_oom(err, name);
	n = io_read_some(fd, out->p, (size_t)st.st_size, name, err);
	if (n < 0)
		return -1;
	out->len = (size_t)n;
	return 1;
}

int io_fsync(int fd, const char *name, struct sc_err *err)
{
	if (fsync(fd) < 0)
		return sc_fail(err, SC_EIO, errno, "fsync %s", name);
	return 0;
}

int io_mkdir(int dir, const char *name, mode_t mode, struct sc_err *err)
{
	if (mkdirat(dir, name, mode) < 0 && errno != EEXIST)
		return sc_fail(err, SC_EIO, errno, "create directory %s", name);
	return 0;
}

int io_publish(int fd, int dir, const char *tmp, int dir2, const char *name,
	       struct sc_err *err)
{
	if (io_fsync(fd, tmp, err) < 0)
		return -1;
	if (renameat(dir, tmp, dir2, name) < 0)
		return sc_fail(err, SC_EIO, errno, "rename %s to %s", tmp,
			       name);
	if (io_fsync(dir2, "directory", err) < 0)
		return -1;
	return dir == dir2 ? 0 : io_fsync(dir, "directory", err);
}

int io_write_file(int dir, const char *name, const void *p, size_t n,
		  struct sc_err *err)
{
	char tmp[64];
	auto_close int fd = -1;

	if (io_random_name(tmp, sizeof(tmp), ".tmp-", err) < 0)
		return -1;
	fd = openat(dir, tmp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		return sc_fail(err, SC_EIO, errno, "create %s", tmp);
	if (io_write_all(fd, p, n, name, err) < 0 ||
	    io_publish(fd, dir, tmp, dir, name, err) < 0) {
		/* Gone already if the rename happened. */
		if (unlinkat(dir, tmp, 0) < 0 && errno != ENOENT)
			sc_wrap(err, "left %s behind", tmp);
		return -1;
	}
	return 0;
}

int io_random_name(char *out, size_t n, const char *prefix, struct sc_err *err)
{
	uint64_t r;

	if (getrandom(&r, sizeof(r), 0) != sizeof(r))
		return sc_fail(err, SC_EIO, errno, "random bytes");
	snprintf(out, n, "%s%016llx", prefix, (unsigned long long)r);
	return 0;
}
