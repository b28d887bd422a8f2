/* SPDX-License-Identifier: MIT */
#include "internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <snapctl/base/io.h>
#include <snapctl/base/mem.h>

/* Written back from here on, so that the fsync at the end is short. */
#define WRITEBACK   (8u << 20)
#define CHECK_PIECE (1u << 20)

struct blob_writer {
	struct repo *repo;
	struct hash *hash;
	int fd;
	uint64_t length, started; /* written; handed to writeback */
	char name[RUN_NAME];
};

int blob_new(struct repo *r, struct blob_writer **out, struct sc_err *err)
{
	struct blob_writer *w = calloc(1, sizeof(*w));

	if (!w) {
		sc_oom(err, "blob");
		return -1;
	}
	w->repo = r;
	w->fd = -1;
	if (!r->writable) {
		sc_fail(err, SC_EREFUSED, 0,
			"the repository was opened for reading");
		goto fail;
	}
	if (run_start(r, err) < 0 || hash_new(&w->hash, err) < 0 ||
	    io_random_name(w->name, sizeof(w->name), "blob-", err) < 0)
		goto fail;
	w->fd = openat(r->run, w->name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC,
		       0600);
	if (w->fd < 0) {
		sc_fail(err, SC_EIO, errno, "create a blob in %s", r->path);
		goto fail;
	}
	*out = w;
	return 0;
fail:
	hash_free(w->hash);
	free(w);
	return -1;
}

static void blob_free(struct blob_writer *w)
{
	hash_free(w->hash);
	mem_closep(&w->fd);
	free(w);
}

void blob_discard(struct blob_writer *w)
{
	if (!w)
		return;
	/* If it stays, it goes with the run's directory. */
	(void)unlinkat(w->repo->run, w->name, 0);
	blob_free(w);
}

int blob_write(struct blob_writer *w, const void *p, size_t n,
	       struct sc_err *err)
{
	if (io_write_all(w->fd, p, n, w->repo->path, err) < 0 ||
	    hash_update(w->hash, p, n, err) < 0)
		return -1;
	w->length += n;
	if (w->length - w->started >= WRITEBACK) {
		/* A hint: file systems without it lose nothing but time. */
		(void)sync_file_range(w->fd, (off_t)w->started,
				      (off_t)(w->length - w->started),
				      SYNC_FILE_RANGE_WRITE);
		w->started = w->length;
	}
	return 0;
}

uint64_t blob_length(const struct blob_writer *w)
{
	return w->length;
}

int blob_fd(const struct blob_writer *w)
{
	return w->fd;
}

static int remember(struct repo *r, const struct blob_writer *w,
		    const struct digest *d, struct sc_err *err)
{
	int rc;

	pthread_mutex_lock(&r->mutex);
	rc = mem_grow(&r->sealed, &r->sealed_cap, r->nsealed + 1,
		      sizeof(*r->sealed));
	if (rc == 0) {
		struct sealed *s = &r->sealed[r->nsealed++];

		*s = (struct sealed){ .digest = *d };
		memcpy(s->name, w->name, sizeof(s->name));
	}
	pthread_mutex_unlock(&r->mutex);
	return rc < 0 ? sc_oom(err, "blobs") : 0;
}

int blob_seal_as(struct blob_writer *w, const struct digest *digest,
		 struct sc_err *err)
{
	int rc = io_fsync(w->fd, w->repo->path, err);

	if (rc == 0)
		rc = remember(w->repo, w, digest, err);
	if (rc < 0) {
		blob_discard(w);
		return -1;
	}
	blob_free(w);
	return 0;
}

int blob_seal(struct blob_writer *w, struct digest *digest, uint64_t *length,
	      struct sc_err *err)
{
	uint64_t len = w->length;
	struct digest d = { 0 };

	if (hash_final(w->hash, &d, err) < 0) {
		blob_discard(w);
		return -1;
	}
	if (blob_seal_as(w, &d, err) < 0)
		return -1;
	if (digest)
		*digest = d;
	if (length)
		*length = len;
	return 0;
}

int blob_document(struct repo *r, const void *p, size_t n, struct digest *d,
		  struct sc_err *err)
{
	struct blob_writer *w;

	if (blob_new(r, &w, err) < 0)
		return -1;
	if (blob_write(w, p, n, err) < 0) {
		blob_discard(w);
		return -1;
	}
	return blob_seal(w, d, NULL, err);
}

/* -- reading ----------------------------------------------------------------
 */

int blob_stat(struct repo *r, const struct digest *d, uint64_t *size,
	      struct sc_err *err)
{
	char hex[DIGEST_HEX + 1];
	struct stat st;

	digest_hex(d, hex);
	if (fstatat(r->blobs, hex, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0
				       : sc_fail(err, SC_EIO, errno,
						 "blob sha256:%s", hex);
	if (!S_ISREG(st.st_mode))
		return sc_fail(err, SC_ECORRUPT, 0,
			       "blob sha256:%s is not a regular file", hex);
	*size = (uint64_t)st.st_size;
	return 1;
}

int blob_open(struct repo *r, const struct digest *d, int *fd, uint64_t *size,
	      struct sc_err *err)
{
	char hex[DIGEST_HEX + 1];
	auto_close int f = -1;
	struct stat st;

	digest_hex(d, hex);
	/* O_NONBLOCK: a fifo in its place must not hang us. */
	f = openat(r->blobs, hex,
		   O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (f < 0 && errno == ENOENT)
		return 0;
	if (f < 0)
		return sc_fail(err, errno == ELOOP ? SC_ECORRUPT : SC_EIO,
			       errno, "open blob sha256:%s", hex);
	if (fstat(f, &st) < 0)
		return sc_fail(err, SC_EIO, errno, "blob sha256:%s", hex);
	if (!S_ISREG(st.st_mode))
		return sc_fail(err, SC_ECORRUPT, 0,
			       "blob sha256:%s is not a regular file", hex);
	*fd = take_fd(&f);
	if (size)
		*size = (uint64_t)st.st_size;
	return 1;
}

int blob_read(struct repo *r, const struct digest *d, size_t max,
	      struct buf *out, struct sc_err *err)
{
	char name[DIGEST_STR];
	auto_close int fd = -1;
	auto_hash struct hash *h = NULL;
	struct digest got = { 0 };
	uint64_t size = 0;
	ssize_t n;
	int rc = blob_open(r, d, &fd, &size, err);

	digest_str(d, name);
	if (rc < 0)
		return -1;
	if (rc == 0)
		return sc_fail(err, SC_ECORRUPT, 0, "blob %s is missing", name);
	if (size > max)
		return sc_fail(
			err, SC_ECORRUPT, 0,
			"blob %s is %llu bytes, more than the %zu allowed",
			name, (unsigned long long)size, max);
	buf_clear(out);
	if (!buf_reserve(out, (size_t)size + 1))
		return sc_oom(err, name);
	n = io_read_some(fd, out->p, (size_t)size, name, err);
	if (n < 0)
		return -1;
	out->len = (size_t)n;
	if (hash_new(&h, err) < 0 ||
	    hash_once(h, out->p, out->len, &got, err) < 0)
		return -1;
	if (digest_cmp(&got, d) != 0)
		return sc_fail(
			err, SC_ECORRUPT, 0,
			"blob %s is damaged: its bytes have another digest",
			name);
	return 0;
}

static int check_bytes(int fd, uint64_t length, const char *name,
		       const struct blob_watch *w, struct hash *h,
		       struct sc_err *err)
{
	auto_buf struct buf b = { 0 };
	unsigned char *p = buf_reserve(&b, CHECK_PIECE);

	if (!p)
		return sc_oom(err, "blob");
	for (uint64_t off = 0; off < length;) {
		uint64_t left = length - off;
		size_t n = left < CHECK_PIECE ? (size_t)left : CHECK_PIECE;

		if (w && cancel_check(w->cancel, err) < 0)
			return -1;
		if (w && w->stop && atomic_load(w->stop))
			return sc_fail(err, SC_EINTR, 0, "stopped");
		if (io_pread_all(fd, p, n, off, name, err) < 0 ||
		    hash_update(h, p, n, err) < 0)
			return -1;
		off += n;
		if (w && w->bytes)
			atomic_fetch_add_explicit(w->bytes, n,
						  memory_order_relaxed);
	}
	return 0;
}

int blob_check(struct repo *r, const struct digest *d, uint64_t length,
	       const struct blob_watch *watch, struct sc_err *err)
{
	char name[DIGEST_STR];
	auto_close int fd = -1;
	auto_hash struct hash *h = NULL;
	struct digest got = { 0 };
	uint64_t size = 0;
	int rc = blob_open(r, d, &fd, &size, err);

	digest_str(d, name);
	if (rc < 0)
		return -1;
	if (rc == 0)
		return sc_fail(err, SC_ECORRUPT, 0, "blob %s is missing", name);
	if (size != length)
		return sc_fail(err, SC_ECORRUPT, 0,
			       "blob %s has %llu bytes instead of %llu", name,
			       (unsigned long long)size,
			       (unsigned long long)length);
	(void)posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL); /* a hint */
	if (hash_new(&h, err) < 0 ||
	    check_bytes(fd, length, name, watch, h, err) < 0 ||
	    hash_final(h, &got, err) < 0)
		return -1;
	if (digest_cmp(&got, d) != 0)
		return sc_fail(
			err, SC_ECORRUPT, 0,
			"blob %s is damaged: its bytes have another digest",
			name);
	return 0;
}
