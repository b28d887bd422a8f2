/* SPDX-License-Identifier: MIT */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <snapctl/base/mem.h>

#include "internal.h"

#define DENTS_LEN (32u << 10)

static int cmp(const void *a, const void *b, void *bytes)
{
	const struct live_name *x = a, *y = b;
	const char *p = bytes;

	return tree_name_cmp(p + x->at, x->len, p + y->at, y->len);
}

static int add(struct live_names *l, const struct dirent64 *d,
	       struct sc_err *err)
{
	size_t len = strlen(d->d_name);

	if (strcmp(d->d_name, ".") == 0 || strcmp(d->d_name, "..") == 0)
		return 0;
	/* A broken file system may say anything; these would lead out. */
	if (len == 0 || len > 255 || memchr(d->d_name, '/', len))
		return sc_fail(err, SC_EIO, 0,
			       "the file system gave a name that is none");
	if (mem_grow(&l->v, &l->cap, l->n + 1, sizeof(*l->v)) < 0)
		return sc_oom(err, "names");
	l->v[l->n++] =
		(struct live_name){ l->bytes.len, (uint16_t)len, d->d_type };
	buf_put(&l->bytes, d->d_name, len + 1);
	return l->bytes.failed ? sc_oom(err, "names") : 0;
}

static int read_all(struct live_names *l, int fd, char *dents,
		    struct sc_err *err)
{
	const struct dirent64 *d;
	ssize_t got;

	while ((got = getdents64(fd, dents, DENTS_LEN)) > 0)
		for (ssize_t at = 0; at < got; at += d->d_reclen) {
			d = (const struct dirent64 *)(dents + at);
			if (add(l, d, err) < 0)
				return -1;
		}
	if (got < 0 && errno != ENOENT)
		return sc_fail(err, SC_EIO, errno, "read directory");
	return 0;
}

int rnames_read(struct live_names *l, int fd, struct sc_err *err)
{
	auto_free char *dents = malloc(DENTS_LEN);

	if (!dents)
		return sc_oom(err, "directory buffer");
	l->n = 0;
	buf_clear(&l->bytes);
	if (lseek(fd, 0, SEEK_SET) < 0)
		return sc_fail(err, SC_EIO, errno, "rewind directory");
	if (read_all(l, fd, dents, err) < 0)
		return -1;
	if (l->n)
		qsort_r(l->v, l->n, sizeof(*l->v), cmp, l->bytes.p);
	return 0;
}

void rnames_free(struct live_names *l)
{
	buf_free(&l->bytes);
	free(l->v);
}
