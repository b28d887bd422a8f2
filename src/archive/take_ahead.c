/* SPDX-License-Identifier: MIT */
/* Reading ahead for the jobs that come next. Only while data turns out not to
 * be in memory: for what is, opening each file once more would be waste. */
#include <errno.h>
#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

#include "take_internal.h"

/* Is the byte at off in memory? */
static bool is_cached(int fd, uint64_t off)
{
	char c;
	struct iovec v = { &c, 1 };

	return !(preadv2(fd, &v, 1, (off_t)off, RWF_NOWAIT) < 0 &&
		 errno == EAGAIN);
}

/* True if something had to be asked for. What goes wrong here will go wrong
 * again, and be reported, when the entry is taken. */
static bool ahead_file(struct worker *w, const struct entry *e)
{
	bool asked = false;
	int dir, fd;

	if (dirs_get(&w->dirs, e->parent, &dir, NULL) < 0)
		return false;
	fd = openat(dir, e->name,
		    O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (fd < 0)
		return false;
	if (!is_cached(fd, 0)) {
		posix_fadvise(fd, 0, (off_t)e->size, POSIX_FADV_WILLNEED);
		asked = true;
	}
	close(fd);
	return asked;
}

void ahead_batch(struct worker *w, const struct job *j)
{
	const struct tree *t = w->k->t;
	const struct entry *e;
	bool asked = false;
	uint32_t slot;

	if (!atomic_exchange_explicit(&w->k->cold, false, memory_order_relaxed))
		return;
	for (uint32_t i = 0; i < j->count; i++) {
		slot = tree_order(t, j->rank + i);
		e = tree_at(t, slot);
		if (slot && entry_is_reg(e) && e->size &&
		    e->size <= BIG_ABOVE &&
		    !(e->bits & (ENTRY_UNREADABLE | ENTRY_LINK)))
			asked |= ahead_file(w, e);
	}
	if (asked)
		atomic_store_explicit(&w->k->cold, true, memory_order_relaxed);
}

void ahead_block(struct take *k, const struct bigfile *f, uint64_t block)
{
	uint64_t per = (f->len + f->blocks - 1) / f->blocks;
	uint64_t off = block * per;

	(void)k;
	if (!f->x && !is_cached(f->fd, off))
		posix_fadvise(f->fd, (off_t)off, (off_t)per,
			      POSIX_FADV_WILLNEED);
}
