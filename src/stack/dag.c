/* SPDX-License-Identifier: MIT */
#include "dag.h"

#include <pthread.h>
#include <stdlib.h>

#include <snapctl/base/group.h>
#include <snapctl/base/mem.h>

#define DAG_THREADS 32u

enum job { WAITING, RUNNING, DONE };

struct runner {
	const struct dag *d;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	enum job *jobs;
	size_t waiting, running;
	bool failed;
	struct sc_err first;
};

static bool ready(const struct runner *r, size_t job)
{
	if (r->jobs[job] != WAITING)
		return false;
	for (size_t i = 0; i < r->d->n; i++)
		if (i != job && r->jobs[i] != DONE &&
		    r->d->after(r->d->arg, job, i))
			return false;
	return true;
}

/* A job to begin, or n if there is none now. In a circle (refused long
 * before, but what was stopped has to be started) any one begins. */
static size_t next_job(const struct runner *r)
{
	size_t i;

	for (i = 0; i < r->d->n; i++)
		if (ready(r, i))
			return i;
	for (i = 0; r->running == 0 && i < r->d->n; i++)
		if (r->jobs[i] == WAITING)
			return i;
	return r->d->n;
}

static void run_one(struct runner *r, size_t job)
{
	struct sc_err e = { 0 };
	int rc;

	r->jobs[job] = RUNNING;
	r->waiting--;
	r->running++;
	pthread_mutex_unlock(&r->lock);
	rc = r->d->run(r->d->arg, job, &e);
	pthread_mutex_lock(&r->lock);
	r->jobs[job] = DONE;
	r->running--;
	if (rc < 0 && !r->failed) {
		r->failed = true;
		r->first = e;
	}
	pthread_cond_broadcast(&r->changed);
}

static int worker(void *arg, struct sc_err *err)
{
	struct runner *r = arg;

	(void)err;
	pthread_mutex_lock(&r->lock);
	while (r->waiting && !(r->failed && !r->d->keep_going)) {
		size_t job = next_job(r);

		if (job < r->d->n)
			run_one(r, job);
		else
			pthread_cond_wait(&r->changed, &r->lock);
	}
	pthread_mutex_unlock(&r->lock);
	return 0;
}

int dag_run(const struct dag *d, struct sc_err *err)
{
	struct runner r = { .d = d, .waiting = d->n };
	size_t threads = d->n < DAG_THREADS ? d->n : DAG_THREADS;
	auto_free enum job *jobs = calloc(d->n + 1, sizeof(*jobs));
	struct group *g = NULL;

	if (!jobs)
		return sc_oom(err, "jobs");
	r.jobs = jobs;
	pthread_mutex_init(&r.lock, NULL);
	pthread_cond_init(&r.changed, NULL);
	/* This thread is a worker, too: fewer others are only slower. */
	if (threads > 1 && group_new(&g, NULL) == 0)
		while (--threads > 0 && group_start(g, worker, &r, NULL) == 0)
			;
	(void)worker(&r, NULL);
	if (g)
		(void)group_join(g, NULL); /* workers report through r */
	pthread_cond_destroy(&r.changed);
	pthread_mutex_destroy(&r.lock);
	if (r.failed && err)
		*err = r.first;
	return r.failed ? -1 : 0;
}
