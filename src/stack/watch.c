/* SPDX-License-Identifier: MIT */
#include "watch.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include <snapctl/base/group.h>

struct watch {
	struct docker_events *events;
	void (*told)(void *arg, const struct docker_event *e);
	void *arg;
	struct group *thread;
	int wake; /* eventfd: look at asked and stop */
	pthread_mutex_t lock;
	pthread_cond_t changed;
	uint64_t count;
	unsigned asked, answered; /* watch_sync */
	bool stop, broken;
	struct sc_err why;
};

/* Everything that is there now. */
static int drain(struct watch *w, struct sc_err *err)
{
	struct docker_event e;
	int rc;

	while ((rc = docker_events_next(w->events, 0, &e, err)) > 0) {
		if (w->told)
			w->told(w->arg, &e);
		pthread_mutex_lock(&w->lock);
		w->count++;
		pthread_cond_broadcast(&w->changed);
		pthread_mutex_unlock(&w->lock);
	}
	return rc;
}

static int wait_readable(struct watch *w, struct sc_err *err)
{
	struct pollfd p[2] = {
		{ .fd = docker_events_fd(w->events), .events = POLLIN },
		{ .fd = w->wake, .events = POLLIN },
	};
	uint64_t n;

	if (poll(p, 2, -1) < 0 && errno != EINTR)
		return sc_fail(err, SC_EIO, errno, "wait for events");
	/* Only clears it; nothing there (EAGAIN) is as good. */
	if (p[1].revents && read(w->wake, &n, sizeof(n)) < 0 && errno != EAGAIN)
		return sc_fail(err, SC_EIO, errno, "wait for events");
	return 0;
}

static int watch_loop(void *arg, struct sc_err *err)
{
	struct watch *w = arg;
	bool stop = false;
	unsigned asked;
	int rc = 0;

	while (rc == 0 && !stop) {
		rc = wait_readable(w, err);
		pthread_mutex_lock(&w->lock);
		asked = w->asked;
		stop = w->stop;
		pthread_mutex_unlock(&w->lock);
		if (rc == 0 && !stop)
			rc = drain(w, err);
		pthread_mutex_lock(&w->lock);
		w->answered = asked;
		if (rc < 0) {
			w->broken = true;
			w->why = *err;
		}
		pthread_cond_broadcast(&w->changed);
		pthread_mutex_unlock(&w->lock);
	}
	return 0;
}

static int poke(struct watch *w)
{
	uint64_t one = 1;

	return write(w->wake, &one, sizeof(one)) == sizeof(one) ? 0 : -1;
}

int watch_open(struct docker *d,
	       void (*told)(void *arg, const struct docker_event *e), void *arg,
	       struct watch **out, struct sc_err *err)
{
	struct watch *w = calloc(1, sizeof(*w));
	pthread_condattr_t attr;

	if (!w)
		return sc_oom(err, "event watch");
	w->told = told;
	w->arg = arg;
	pthread_mutex_init(&w->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&w->changed, &attr);
	pthread_condattr_destroy(&attr);
	w->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (w->wake < 0)
		sc_fail(err, SC_EIO, errno, "eventfd");
	else if (docker_events_open(d, &w->events, err) == 0 &&
		 group_new(&w->thread, err) == 0 &&
		 group_start(w->thread, watch_loop, w, err) == 0) {
		*out = w;
		return 0;
	}
	watch_close(w);
	return -1;
}

void watch_close(struct watch *w)
{
	if (!w)
		return;
	if (w->thread) {
		pthread_mutex_lock(&w->lock);
		w->stop = true;
		pthread_mutex_unlock(&w->lock);
		/* Cannot fail: the counter is far from full. */
		(void)poke(w);
		(void)group_join(w->thread, NULL);
	}
	if (w->events)
		docker_events_close(w->events);
	if (w->wake >= 0)
		(void)close(w->wake);
	pthread_cond_destroy(&w->changed);
	pthread_mutex_destroy(&w->lock);
	free(w);
}

void watch_sync(struct watch *w)
{
	unsigned mine;

	pthread_mutex_lock(&w->lock);
	mine = ++w->asked;
	if (poke(w) == 0)
		while (!w->broken && (int)(w->answered - mine) < 0)
			pthread_cond_wait(&w->changed, &w->lock);
	pthread_mutex_unlock(&w->lock);
}

int watch_state(struct watch *w, struct sc_err *err)
{
	int rc = 0;

	pthread_mutex_lock(&w->lock);
	if (w->broken) {
		*err = w->why;
		rc = -1;
	}
	pthread_mutex_unlock(&w->lock);
	return rc;
}

uint64_t watch_count(struct watch *w)
{
	uint64_t n;

	pthread_mutex_lock(&w->lock);
	n = w->count;
	pthread_mutex_unlock(&w->lock);
	return n;
}

void watch_wait(struct watch *w, uint64_t seen, int ms)
{
	struct timespec t;
	int rc = 0;

	clock_gettime(CLOCK_MONOTONIC, &t);
	t.tv_sec += ms / 1000;
	t.tv_nsec += (long)(ms % 1000) * 1000000;
	if (t.tv_nsec >= 1000000000) {
		t.tv_nsec -= 1000000000;
		t.tv_sec++;
	}
	pthread_mutex_lock(&w->lock);
	while (w->count == seen && rc == 0)
		rc = pthread_cond_timedwait(&w->changed, &w->lock, &t);
	pthread_mutex_unlock(&w->lock);
}
