/* SPDX-License-Identifier: MIT */
/* Sending off what was written while the workers go on: sync_file_range
 * waits where the disk is busy, so one thread does nothing else. It is only a
 * hint that makes the syncfs before the commit short; what does not fit in
 * the queue is left to that. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <snapctl/base/mem.h>

#include "internal.h"

#define QUEUE 64
#define PAGE  4096

struct stretch {
	int fd;
	uint64_t off, len;
};

struct rflush {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct stretch v[QUEUE];
	unsigned first, n;
	bool ending;
	struct group *group;
};

static int work(void *arg, struct sc_err *err)
{
	struct rflush *f = arg;
	struct stretch s;

	(void)err;
	pthread_mutex_lock(&f->lock);
	for (;;) {
		while (f->n == 0 && !f->ending)
			pthread_cond_wait(&f->changed, &f->lock);
		if (f->n == 0)
			break;
		s = f->v[f->first];
		f->first = (f->first + 1) % QUEUE;
		f->n--;
		pthread_mutex_unlock(&f->lock);
		(void)sync_file_range(s.fd, (off_t)s.off, (off_t)s.len,
				      SYNC_FILE_RANGE_WRITE);
		mem_closep(&s.fd);
		pthread_mutex_lock(&f->lock);
	}
	pthread_mutex_unlock(&f->lock);
	return 0;
}

int rflush_start(struct rflush **out, struct sc_err *err)
{
	struct rflush *f = calloc(1, sizeof(*f));

	if (!f)
		return sc_oom(err, "flusher");
	pthread_mutex_init(&f->lock, NULL);
	pthread_cond_init(&f->changed, NULL);
	*out = f;
	if (group_new(&f->group, err) < 0)
		return -1;
	return group_start(f->group, work, f, err);
}

void rflush_end(struct rflush *f)
{
	if (!f)
		return;
	pthread_mutex_lock(&f->lock);
	f->ending = true;
	pthread_cond_broadcast(&f->changed);
	pthread_mutex_unlock(&f->lock);
	/* It has nothing to fail with. */
	if (f->group)
		(void)group_join(f->group, NULL);
	pthread_mutex_destroy(&f->lock);
	pthread_cond_destroy(&f->changed);
	free(f);
}

void rflush_add(struct rflush *f, int fd, uint64_t off, uint64_t len)
{
	uint64_t from = (off + PAGE - 1) & ~(uint64_t)(PAGE - 1);
	uint64_t to = (off + len) & ~(uint64_t)(PAGE - 1);
	int copy = -1;

	if (to <= from)
		return;
	pthread_mutex_lock(&f->lock);
	if (f->n < QUEUE)
		copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	if (copy >= 0) {
		f->v[(f->first + f->n++) % QUEUE] =
			(struct stretch){ copy, from, to - from };
		pthread_cond_signal(&f->changed);
	}
	pthread_mutex_unlock(&f->lock);
}
