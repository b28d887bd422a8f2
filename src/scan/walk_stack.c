/* SPDX-License-Identifier: MIT */
/* The directories whose subdirectories are still to be opened, and their
 * descriptors. Where descriptors run out, those of the directories that will
 * be needed last are closed; they are opened again from the root, name by
 * name, and must be the same then. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <snapctl/base/mem.h>

#include "walk_internal.h"

/* -- the stack ---------------------------------------------------------- */

static void unlink_node(struct walker *w, struct node *n)
{
	*(n->above ? &n->above->below : &w->top) = n->below;
	*(n->below ? &n->below->above : &w->bottom) = n->above;
	n->above = n->below = NULL;
}

void walk_stack_push(struct walker *w, struct node *n)
{
	pthread_mutex_lock(&w->lock);
	n->below = w->top;
	*(w->top ? &w->top->above : &w->bottom) = n;
	w->top = n;
	pthread_cond_broadcast(&w->changed);
	pthread_mutex_unlock(&w->lock);
}

/* With the lock held. */
struct node *walk_stack_take(struct walker *w, uint32_t *slot)
{
	struct node *n = w->top;

	*slot = n->sub[n->next++];
	n->users++;
	if (n->next == n->nsub)
		unlink_node(w, n);
	return n;
}

static void free_node(struct node *n)
{
	mem_closep(&n->fd);
	free(n->sub);
	free(n);
}

void walk_stack_release(struct walker *w, struct node *n)
{
	bool last;

	pthread_mutex_lock(&w->lock);
	n->users--;
	last = n->users == 0 && n->next == n->nsub;
	pthread_mutex_unlock(&w->lock);
	if (last)
		free_node(n);
}

/* -- descriptors -------------------------------------------------------- */

/* With the lock held: closes half of what is not in use, the lowest on the
 * stack first (needed last, and nearest to the root). Returns how many. */
static unsigned close_some(struct walker *w)
{
	unsigned open = 0, closed = 0;

	for (struct node *n = w->bottom; n; n = n->above)
		open += n->fd >= 0 && n->users == 0;
	for (struct node *n = w->bottom; n && 2 * closed < open; n = n->above) {
		if (n->fd < 0 || n->users)
			continue;
		mem_closep(&n->fd);
		n->fd = -1;
		closed++;
	}
	return closed;
}

/* With the lock held: after this an open is worth another try, unless -1. */
static int make_room(struct walker *w)
{
	uint64_t seen = w->closed;

	if (close_some(w) > 0)
		return 0;
	if (w->starving + 1 >= w->active)
		return -1;
	w->starving++;
	while (w->closed == seen && !group_stopping(w->group))
		pthread_cond_wait(&w->changed, &w->lock);
	w->starving--;
	return 0;
}

/* Opens name in dir, or -1 and errno. With the lock held. */
static int open_locked(struct walker *w, int dir, const char *name)
{
	int fd;

	for (;;) {
		fd = openat(dir, name, WALK_DIR_OPEN);
		if (fd >= 0 || (errno != EMFILE && errno != ENFILE))
			return fd;
		if (make_room(w) < 0) {
			errno = EMFILE;
			return -1;
		}
	}
}

static int open_in(struct walker *w, int dir, const char *name)
{
	int fd = openat(dir, name, WALK_DIR_OPEN);

	if (fd >= 0 || (errno != EMFILE && errno != ENFILE))
		return fd;
	pthread_mutex_lock(&w->lock);
	fd = open_locked(w, dir, name);
	pthread_mutex_unlock(&w->lock);
	return fd;
}

static int same_dir(const struct walker *w, int fd, uint32_t slot)
{
	const struct entry *e = tree_at(w->tree, slot);
	struct stat st;

	if (fstat(fd, &st) < 0)
		return -1;
	errno = ESTALE;
	return st.st_ino == e->ino && st.st_dev == w->dev ? 0 : -1;
}

/* From the root down to slot, whose depth ups holds. With the lock held. */
static int open_down(struct walker *w, const uint32_t *ups, size_t depth)
{
	int fd = open_locked(w, w->rootfd, "."), next;

	while (fd >= 0 && depth > 0) {
		next = open_locked(w, fd, tree_at(w->tree, ups[--depth])->name);
		mem_closep(&fd);
		fd = next;
	}
	return fd;
}

/* Opens n again, which close_some closed. -1 and errno. */
static int reopen(struct walker *w, struct node *n)
{
	auto_free uint32_t *ups = NULL;
	size_t depth = 0, cap = 0;
	auto_close int fd = -1;

	for (uint32_t s = n->slot; s; s = tree_at(w->tree, s)->parent) {
		if (mem_grow(&ups, &cap, depth + 1, sizeof(*ups)) < 0)
			return -1;
		ups[depth++] = s;
	}
	fd = open_down(w, ups, depth);
	if (fd < 0 || same_dir(w, fd, n->slot) < 0)
		return -1;
	/* Waiting for room lets go of the lock: another may have been here. */
	if (n->fd < 0)
		n->fd = take_fd(&fd);
	return 0;
}

/* The subdirectory at slot, a child of n; or -1 and errno. */
int walk_stack_open(struct walker *w, struct node *n, uint32_t slot)
{
	const char *name = tree_at(w->tree, slot)->name;
	int rc = 0;

	/* Not closed by anybody while this thread uses it. */
	pthread_mutex_lock(&w->lock);
	if (n->fd < 0)
		rc = reopen(w, n);
	pthread_mutex_unlock(&w->lock);
	return rc < 0 ? -1 : open_in(w, n->fd, name);
}

int walk_stack_open_root(struct walker *w)
{
	return open_in(w, w->rootfd, ".");
}

void walk_stack_clear(struct walker *w)
{
	struct node *n;

	while ((n = w->top)) {
		unlink_node(w, n);
		free_node(n);
	}
}
