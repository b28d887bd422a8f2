/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <snapctl/base/mem.h>

#include "take_internal.h"

#define DIRS_OPEN 32

static void close_level(struct dir_level *l)
{
	if (l->fd >= 0)
		close(l->fd);
	l->fd = -1;
}

static void cut_to(struct dirs *d, size_t n)
{
	while (d->n > n)
		close_level(&d->v[--d->n]);
}

void dirs_free(struct dirs *d)
{
	cut_to(d, 0);
	free(d->v);
	free(d->path);
}

/* The slots from below the root down to slot into d->path. */
static int path_to(struct dirs *d, uint32_t slot, size_t *depth,
		   struct sc_err *err)
{
	size_t n = 0;

	for (uint32_t s = slot; s != 0; s = tree_at(d->tree, s)->parent)
		n++;
	if (mem_grow(&d->path, &d->path_cap, n, sizeof(*d->path)) < 0 ||
	    mem_grow(&d->v, &d->cap, n, sizeof(*d->v)) < 0)
		return sc_oom(err, "directories");
	*depth = n;
	for (uint32_t s = slot; s != 0; s = tree_at(d->tree, s)->parent)
		d->path[--n] = s;
	return 0;
}

static int open_level(struct dirs *d, size_t i, struct sc_err *err)
{
	int above = i ? d->v[i - 1].fd : d->rootfd;
	int fd = openat(above, tree_at(d->tree, d->path[i])->name,
			O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0)
		return sc_fail(err, SC_EIO, errno, "open directory");
	d->v[i] = (struct dir_level){ d->path[i], fd };
	if (d->n < i + 1)
		d->n = i + 1;
	if (i >= DIRS_OPEN)
		close_level(&d->v[i - DIRS_OPEN]);
	return 0;
}

int dirs_get(struct dirs *d, uint32_t slot, int *fd, struct sc_err *err)
{
	size_t depth = 0, same = 0, from;

	if (slot == 0) {
		*fd = d->rootfd;
		return 0;
	}
	if (d->n && d->v[d->n - 1].slot == slot && d->v[d->n - 1].fd >= 0) {
		*fd = d->v[d->n - 1].fd;
		return 0;
	}
	if (path_to(d, slot, &depth, err) < 0)
		return -1;
	while (same < d->n && same < depth && d->v[same].slot == d->path[same])
		same++;
	cut_to(d, same);
	for (from = same; from > 0 && d->v[from - 1].fd < 0; from--)
		;
	for (size_t i = from; i < depth; i++)
		if (open_level(d, i, err) < 0)
			return -1;
	*fd = d->v[depth - 1].fd;
	return 0;
}
