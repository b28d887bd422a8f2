/* SPDX-License-Identifier: MIT */
/* Bringing a stack back: what was touched, dependencies first. Nothing here
 * gives up because one container failed, and nothing is interrupted. */
#include "held.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <snapctl/base/mem.h>

#include "dag.h"

#define POLL_MS	       2000 /* events wake earlier; in case one is lost */
#define COMPLETED_WAIT 60.0 /* seconds, for a job that was cut off */
#define WAIT_MAX       86400.0
#define ENGINE_WAIT    60.0

/* Two jobs for each container: start it (2i), wait for it (2i + 1). */
static size_t container_of(size_t job)
{
	return job / 2;
}

static bool waits(size_t job)
{
	return job % 2;
}

static void note_failure(struct quiesce *q, size_t i, const struct sc_err *e)
{
	struct sc_err err = *e;
	bool first;

	sc_wrap(&err, "container %s", SHOW(held_name(q, i)));

	pthread_mutex_lock(&q->lock);
	first = q->failures++ == 0;
	if (first)
		q->first_failure = err;
	pthread_mutex_unlock(&q->lock);
	/* The first one is the error; the others would be lost. */
	if (!first)
		notes_add(q->notes, NOTE_WARN, "not started: %s", err.msg);
}

/* -- starting ------------------------------------------------------------- */

/* The id is no more: the engine removed it as it was told to, or somebody
 * made it anew. */
static int start_another(struct quiesce *q, size_t i, struct sc_err *err)
{
	struct held *h = &q->held[i];
	struct docker_container *c = NULL;
	char *id;
	int rc = held_find_again(q, i, &c, err);

	if (rc < 0)
		return -1;
	if (rc == 0 && q->s->containers[i].c->auto_remove) {
		h->gone = h->ready = true;
		notes_add(q->notes, NOTE_WARN,
			  "container %s was removed when it stopped (--rm) "
			  "and does not run any more",
			  SHOW(held_name(q, i)));
		return 0;
	}
	if (rc == 0)
		return sc_fail(err, SC_ENOTFOUND, 0,
			       "it was removed; \"docker compose up -d\" "
			       "makes it again");
	id = strdup(c->id);
	docker_container_free(c);
	if (!id)
		return sc_oom(err, "container");
	free(h->id);
	h->id = id;
	return docker_container_start(q->d, id, err);
}

static int start_one(struct quiesce *q, size_t i, struct sc_err *err)
{
	struct held *h = &q->held[i];
	struct sc_err e = { 0 };

	/* A stop that was interrupted is still going on: a start now would
	 * find it running and be undone a moment later. */
	if (h->asked && !h->stopped)
		(void)held_stop_request(q, i, NULL); /* start tells */
	if (docker_container_start(q->d, h->id, &e) == 0)
		return 0;
	if (e.code == SC_ENOTFOUND)
		return start_another(q, i, err);
	*err = e;
	return -1;
}

static void start_job(struct quiesce *q, size_t i)
{
	struct held *h = &q->held[i];
	struct sc_err e = { 0 };
	double now;

	if (!h->touched || h->back)
		return;
	h->ready = false;
	if (q->s->containers[i].no_restart) {
		h->back = h->ready = true;
		return;
	}
	held_step(q, "start", i);
	if (start_one(q, i, &e) < 0) {
		/* One that never came up before has nothing to come back to. */
		if (h->restarting)
			notes_add(q->notes, NOTE_WARN,
				  "container %s, which kept restarting "
				  "before, could not be started: %s",
				  SHOW(held_name(q, i)), SHOW(e.msg));
		else
			note_failure(q, i, &e);
		h->back = h->restarting;
		h->ready = true;
		return;
	}
	h->back = true;
	now = held_now();
	pthread_mutex_lock(&q->lock);
	if (now > q->ended)
		q->ended = now;
	pthread_mutex_unlock(&q->lock);
	if (!h->gone)
		held_step(q, "started", i);
}

/* -- waiting -------------------------------------------------------------- */

static double or_default(int64_t ns, double seconds)
{
	return ns > 0 ? (double)ns / 1e9 : seconds;
}

/* Start period plus (retries + 1) times (interval + timeout). */
static double health_bound(const struct quiesce *q,
			   const struct docker_container *c)
{
	double bound;

	if (q->o.health_timeout >= 0)
		return q->o.health_timeout;
	bound = or_default(c->health_start_period, 0) +
		((c->health_retries > 0 ? c->health_retries : 3) + 1.0) *
			(or_default(c->health_interval, 30) +
			 or_default(c->health_timeout, 30));
	return bound < WAIT_MAX ? bound : WAIT_MAX;
}

/* Is the wait over? 1 as wished, 0 not yet, -1 it never will (*why). */
static int state_of(const struct docker_container *c, enum stack_condition want,
		    const char **why)
{
	bool over = c->state == DOCKER_EXITED || c->state == DOCKER_DEAD ||
		    c->state == DOCKER_CREATED;

	if (want == DEP_COMPLETED) {
		*why = "did not complete successfully";
		return over ? (c->exit_code == 0 ? 1 : -1) : 0;
	}
	*why = over ? "has ended instead of becoming healthy"
		    : "did not become healthy in time";
	if (over)
		return -1;
	return c->health == DOCKER_HEALTHY || c->health == DOCKER_NO_HEALTH;
}

static void await(struct quiesce *q, size_t i, enum stack_condition want)
{
	struct held *h = &q->held[i];
	double end = 0, left = 1, begun = held_now();
	const char *why = "could not be looked at";
	int rc = 0;

	while (rc == 0 && left > 0) {
		struct docker_container *c = NULL;
		uint64_t seen = q->watch ? watch_count(q->watch) : 0;
		struct sc_err e = { 0 };

		if (docker_container_inspect(q->d, h->id, &c, &e) <= 0)
			break;
		rc = state_of(c, want, &why);
		end = begun + (want == DEP_COMPLETED ? COMPLETED_WAIT
						     : health_bound(q, c));
		docker_container_free(c);
		left = end - held_now();
		if (rc == 0 && left > 0 && q->watch)
			watch_wait(q->watch, seen,
				   left * 1000 < POLL_MS
					   ? (int)(left * 1000) + 1
					   : POLL_MS);
	}
	if (rc > 0)
		held_step(q, want == DEP_COMPLETED ? "completed" : "healthy",
			  i);
	else
		notes_add(q->notes, NOTE_WARN,
			  "container %s %s; what depends on it is started all "
			  "the same",
			  SHOW(held_name(q, i)), why);
}

/* What those that are to be started want of i. */
static enum stack_condition wanted(const struct quiesce *q, size_t i)
{
	enum stack_condition want = DEP_STARTED;

	for (size_t j = 0; j < q->s->ncontainers; j++) {
		const struct stack_container *c = &q->s->containers[j];

		if (!q->held[j].touched || c->no_restart)
			continue;
		for (size_t d = 0; d < c->ndeps; d++)
			if (c->deps[d].on == i &&
			    c->deps[d].condition != DEP_STARTED)
				want = c->deps[d].condition;
	}
	return want;
}

static void wait_job(struct quiesce *q, size_t i)
{
	enum stack_condition want = wanted(q, i);
	struct held *h = &q->held[i];
	struct sc_err e = { 0 };

	if (!h->touched || !h->back || h->ready)
		return;
	h->ready = true;
	if (want != DEP_STARTED)
		await(q, i, want);
	if (h->paused && docker_container_pause(q->d, h->id, &e) < 0)
		notes_add(q->notes, NOTE_WARN,
			  "container %s was paused before and runs now: %s",
			  SHOW(held_name(q, i)), SHOW(e.msg));
}

/* -- the order ------------------------------------------------------------ */

static bool start_after(void *arg, size_t job, size_t other)
{
	const struct quiesce *q = arg;
	size_t i = container_of(job), j = container_of(other);
	const struct stack_container *c = &q->s->containers[i];

	if (waits(job))
		return i == j; /* on its own start */
	if (i == j || !q->held[i].touched || !q->held[j].touched)
		return false;
	for (size_t d = 0; d < c->ndeps; d++)
		if (c->deps[d].on == j)
			return !waits(other) ||
			       c->deps[d].condition != DEP_STARTED;
	return false;
}

static int resume_job(void *arg, size_t job, struct sc_err *err)
{
	struct quiesce *q = arg;

	(void)err; /* failures are kept in q: all are tried */
	if (waits(job))
		wait_job(q, container_of(job));
	else
		start_job(q, container_of(job));
	return 0;
}

/* The stop's watch may have been interrupted with the run; this one only
 * wakes. Without any, waiting goes on by the clock. */
static void watch_again(struct quiesce *q)
{
	struct sc_err e = { 0 };

	pthread_mutex_lock(&q->lock);
	q->watching = false;
	pthread_mutex_unlock(&q->lock);
	/* After this nothing of the old watch looks at q any more. */
	if (q->watch)
		watch_sync(q->watch);
	if (q->watch && watch_state(q->watch, &e) == 0)
		return;
	watch_close(q->watch);
	q->watch = NULL;
	(void)watch_open(q->d, NULL, NULL, &q->watch, &e);
}

/* Started is not yet running: one that ended at once is seen here. */
static void look_back(struct quiesce *q, size_t i)
{
	const struct held *h = &q->held[i];
	struct docker_container *c = NULL;

	if (!h->touched || !h->back || h->gone || h->restarting ||
	    q->s->containers[i].no_restart ||
	    docker_container_inspect(q->d, h->id, &c, NULL) <= 0)
		return;
	if (c->state == DOCKER_RESTARTING)
		notes_add(q->notes, NOTE_WARN,
			  "container %s was started and keeps restarting "
			  "(exit code %d)",
			  SHOW(held_name(q, i)), c->exit_code);
	else if (!stack_runs(c))
		notes_add(q->notes, c->exit_code ? NOTE_WARN : NOTE_INFO,
			  "container %s was started and has ended again "
			  "(exit code %d)",
			  SHOW(held_name(q, i)), c->exit_code);
	docker_container_free(c);
}

/* An engine that is being restarted is waited for: it holds the stack. There
 * is nothing to wait on but the clock. */
static void await_engine(struct quiesce *q)
{
	const struct timespec pause = { .tv_nsec = 250000000 };
	double end = held_now() + ENGINE_WAIT;

	while (held_now() < end) {
		char **ids = NULL;
		int rc = docker_container_ids(q->d, false, LABEL_HELPER, &ids,
					      NULL);

		docker_strv_free(ids);
		if (rc == 0)
			return;
		nanosleep(&pause, NULL);
	}
}

int quiesce_start(struct quiesce *q, struct sc_err *err)
{
	struct dag jobs = { .n = 2 * q->s->ncontainers,
			    .after = start_after,
			    .run = resume_job,
			    .arg = q,
			    .keep_going = true };
	int rc;

	if (!q->any)
		return 0;
	docker_shield(q->d, true);
	q->failures = 0;
	await_engine(q);
	watch_again(q);
	rc = dag_run(&jobs, err);
	for (size_t i = 0; i < q->s->ncontainers; i++)
		look_back(q, i);
	docker_shield(q->d, false);
	if (rc < 0)
		return -1;
	if (q->failures) {
		*err = q->first_failure;
		err->code = SC_EENGINE;
		return q->failures == 1
			       ? -1
			       : sc_wrap(err,
					 "%zu containers were not started, "
					 "the first is",
					 q->failures);
	}
	if (q->o.after_start)
		q->o.after_start(q->o.arg);
	return 0;
}
