/* SPDX-License-Identifier: MIT */
/* Stopping a stack (check.c: what ran meanwhile, resume.c: the way back). */
#include "held.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include <snapctl/base/mem.h>

#include "dag.h"

#define STOP_TRIES     3
#define STOP_SETTLE_MS 300 /* in which a crash loop would start again */

double held_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

const char *held_name(const struct quiesce *q, size_t i)
{
	return q->s->containers[i].c->name;
}

void held_step(const struct quiesce *q, const char *what, size_t i)
{
	if (q->o.step)
		q->o.step(q->o.arg, what, held_name(q, i));
}

int quiesce_new(struct docker *d, struct stack *s,
		const struct quiesce_options *o, struct notes *notes,
		struct quiesce **out, struct sc_err *err)
{
	struct quiesce *q = calloc(1, sizeof(*q));

	if (!q)
		return sc_oom(err, "stack");
	q->held = calloc(s->ncontainers + 1, sizeof(*q->held));
	if (!q->held) {
		free(q);
		return sc_oom(err, "stack");
	}
	pthread_mutex_init(&q->lock, NULL);
	q->d = d;
	q->s = s;
	q->o = *o;
	q->notes = notes;
	q->clean = true;
	for (size_t i = 0; i < s->ncontainers; i++) {
		q->held[i].die_code = -1;
		snprintf(q->held[i].how, sizeof(q->held[i].how), "%s",
			 stack_runs(s->containers[i].c) ? "left running"
							: "was not running");
	}
	*out = q;
	return 0;
}

void quiesce_free(struct quiesce *q)
{
	if (!q)
		return;
	watch_close(q->watch);
	for (size_t i = 0; i < q->s->ncontainers; i++) {
		free(q->held[i].id);
		free(q->held[i].started_at);
		free(q->held[i].finished_at);
	}
	free(q->held);
	free(q->strangers);
	pthread_mutex_destroy(&q->lock);
	free(q);
}

/* -- looking again -------------------------------------------------------- */

int held_find_again(const struct quiesce *q, size_t i,
		    struct docker_container **out, struct sc_err *err)
{
	const struct stack_container *c = &q->s->containers[i];
	auto_free char *label = NULL;
	char **ids = NULL;
	int rc, found = 0;

	if (!*c->project || !*c->service)
		return docker_container_inspect(q->d, c->c->name, out, err);
	if (asprintf(&label, "%s=%s", LABEL_PROJECT, c->project) < 0)
		return sc_oom(err, "containers");
	rc = docker_container_ids(q->d, true, label, &ids, err);
	for (char **id = ids; rc == 0 && !found && id && *id; id++) {
		struct docker_container *o = NULL;
		int got = docker_container_inspect(q->d, *id, &o, err);

		if (got < 0)
			rc = -1;
		else if (got > 0 &&
			 stack_label_is(o, LABEL_SERVICE, c->service) &&
			 strtoul(stack_label(o, LABEL_NUMBER), NULL, 10) ==
				 c->number &&
			 strcasecmp(stack_label(o, LABEL_ONEOFF), "true") != 0)
			found = 1;
		if (found)
			*out = o;
		else
			docker_container_free(o);
	}
	docker_strv_free(ids);
	return rc < 0 ? -1 : found;
}

/* The id stays once it is known: the watch compares it. */
static int remember(struct held *h, const struct docker_container *c)
{
	char *started = strdup(c->started_at);
	char *finished = strdup(c->finished_at);

	if (!h->id)
		h->id = strdup(c->id);
	if (!h->id || !started || !finished) {
		free(started);
		free(finished);
		return -1;
	}
	free(h->started_at);
	free(h->finished_at);
	h->started_at = started;
	h->finished_at = finished;
	h->restart_count = c->restart_count;
	return 0;
}

/* A member that is up only now, on volumes of the snapshot, has to stop like
 * those that were up before. */
static bool came_up(const struct quiesce *q, const struct stack_container *c,
		    const struct docker_container *now)
{
	return !c->stop && c->member && !c->oneoff && !c->keep &&
	       !stack_runs(c->c) && stack_runs(now) &&
	       stack_holds_selected(q->s, now, true) >= held_least(q);
}

static int look_at(struct quiesce *q, size_t i, struct sc_err *err)
{
	struct stack_container *c = &q->s->containers[i];
	struct held *h = &q->held[i];
	struct docker_container *now = NULL;
	int rc = docker_container_inspect(q->d, c->c->id, &now, err);

	if (rc == 0 && c->member && !c->oneoff) {
		rc = held_find_again(q, i, &now, err);
		docker_container_free(now);
		if (rc > 0)
			return sc_fail(err, SC_EREFUSED, 0,
				       "container %s was re-created in the "
				       "meantime; nothing was stopped, try "
				       "again",
				       SHOW(c->c->name));
		now = NULL;
	}
	if (rc < 0)
		return -1;
	if (rc == 0) {
		h->gone = true;
		snprintf(h->how, sizeof(h->how), "was not running");
		return 0;
	}
	if (came_up(q, c, now))
		c->stop = true;
	h->ran = stack_runs(now);
	h->paused = now->state == DOCKER_PAUSED;
	h->restarting = now->state == DOCKER_RESTARTING ||
			now->restart_count != c->c->restart_count;
	snprintf(h->how, sizeof(h->how), "%s",
		 h->ran ? "left running" : "was not running");
	rc = remember(h, now);
	docker_container_free(now);
	return rc < 0 ? sc_oom(err, "container") : 0;
}

/* -- stopping ------------------------------------------------------------- */

int held_stop_request(struct quiesce *q, size_t i, struct sc_err *err)
{
	struct held *h = &q->held[i];
	struct sc_err e = { 0 };

	if (docker_container_stop(q->d, h->id, q->o.stop_timeout, &e) == 0)
		return 0;
	if (e.code == SC_ENOTFOUND) {
		h->gone = true;
		return 0;
	}
	if (err)
		*err = e;
	return sc_wrap(err, "container %s", SHOW(held_name(q, i)));
}

static bool is_kill(const char *signal)
{
	return strcmp(signal, "SIGKILL") == 0 || strcmp(signal, "KILL") == 0 ||
	       strcmp(signal, "9") == 0;
}

/* What is known of its end goes into how; a kill on data is a warning. */
static void record_end(struct quiesce *q, size_t i,
		       const struct docker_container *now)
{
	struct stack_container *c = &q->s->containers[i];
	struct held *h = &q->held[i];
	bool ended = !now || strcmp(now->finished_at, h->finished_at) != 0;
	int code = now ? now->exit_code : -1;
	bool killed, oom;

	pthread_mutex_lock(&q->lock);
	if (!now)
		code = h->die_code;
	oom = h->oom;
	pthread_mutex_unlock(&q->lock);
	killed = ended && code == 137 && !is_kill(c->c->stop_signal);
	snprintf(h->how, sizeof(h->how), killed ? "killed (%d)" : "exited %d",
		 code);
	if (!now && code < 0)
		snprintf(h->how, sizeof(h->how), "removed");
	if (!killed && !oom)
		return;
	if (stack_holds_selected(q->s, c->c, true) < 2) {
		notes_add(q->notes, NOTE_INFO,
			  "container %s was killed; it does not write to what "
			  "is taken",
			  SHOW(held_name(q, i)));
		return;
	}
	pthread_mutex_lock(&q->lock);
	q->clean = false;
	pthread_mutex_unlock(&q->lock);
	notes_add(q->notes, NOTE_WARN,
		  "container %s %s: its volumes are as after a power cut, the "
		  "snapshot is not clean",
		  SHOW(held_name(q, i)),
		  oom ? "ran out of memory while it stopped"
		      : "did not stop in time and was killed");
}

/* A container that was in a crash loop may be started again by what it was
 * started by before: those get a moment in which that would show. */
static bool doubtful(const struct quiesce *q, size_t i)
{
	const char *policy = q->s->containers[i].c->restart_policy;

	return q->held[i].restarting || (docker_info(q->d)->podman && policy &&
					 *policy && strcmp(policy, "no") != 0);
}

/* 1 and *out it does not run, 0 it does, or is gone (h->gone), -1. */
static int is_still(struct quiesce *q, size_t i,
		    const struct docker_container *before,
		    struct docker_container **out, struct sc_err *err)
{
	struct docker_container *c = NULL;
	int rc = docker_container_inspect(q->d, q->held[i].id, &c, err);

	if (rc < 0)
		return -1;
	q->held[i].gone = rc == 0;
	rc = c && !stack_runs(c) &&
	     (!before || (c->restart_count == before->restart_count &&
			  strcmp(c->started_at, before->started_at) == 0));
	if (rc)
		*out = c;
	else
		docker_container_free(c);
	return rc;
}

/* Two inspects; while in doubt, one after each event until the moment is
 * over. 1 it holds still (*out NULL if it was removed), 0, -1. */
static int holds_still(struct quiesce *q, size_t i,
		       struct docker_container **out, struct sc_err *err)
{
	double end =
		held_now() + (doubtful(q, i) ? STOP_SETTLE_MS / 1000.0 : 0);
	struct docker_container *a = NULL, *b = NULL;
	uint64_t seen = watch_count(q->watch);
	int rc = is_still(q, i, NULL, &a, err);

	while (rc > 0) {
		double left = end - held_now();

		if (left > 0)
			watch_wait(q->watch, seen, (int)(left * 1000) + 1);
		seen = watch_count(q->watch);
		docker_container_free(b);
		b = NULL;
		rc = is_still(q, i, a, &b, err);
		if (left <= 0)
			break;
	}
	docker_container_free(a);
	if (rc > 0)
		*out = b;
	return rc == 0 && q->held[i].gone ? 1 : rc;
}

static int unpause(struct quiesce *q, size_t i, struct sc_err *err)
{
	struct held *h = &q->held[i];
	struct sc_err e = { 0 };

	if (!h->paused)
		return 0;
	h->touched = true;
	if (docker_container_unpause(q->d, h->id, &e) == 0 ||
	    e.code == SC_ENOTFOUND)
		return 0;
	*err = e;
	return sc_wrap(err, "container %s", SHOW(held_name(q, i)));
}

static int stop_one(struct quiesce *q, size_t i, struct sc_err *err)
{
	struct held *h = &q->held[i];
	struct docker_container *now = NULL;
	int rc = 0;

	if (unpause(q, i, err) < 0)
		return -1;
	h->touched = h->asked = true;
	for (int tries = 0; rc == 0 && tries < STOP_TRIES; tries++) {
		if (held_stop_request(q, i, err) < 0)
			return -1;
		rc = holds_still(q, i, &now, err);
	}
	if (rc < 0)
		return -1;
	if (rc == 0)
		return sc_fail(err, SC_EENGINE, 0,
			       "container %s does not stay stopped",
			       SHOW(held_name(q, i)));
	/* A start before the stop is told before the stop counts, and if the
	 * container was removed only its last event knows how it ended. */
	watch_sync(q->watch);
	record_end(q, i, now);
	rc = now ? remember(h, now) : 0;
	docker_container_free(now);
	pthread_mutex_lock(&q->lock);
	h->stopped = true;
	pthread_mutex_unlock(&q->lock);
	return rc < 0 ? sc_oom(err, "container") : 0;
}

static bool to_stop(const struct quiesce *q, size_t i)
{
	return q->s->containers[i].stop && q->held[i].ran && q->held[i].id;
}

static int stop_job(void *arg, size_t i, struct sc_err *err)
{
	struct quiesce *q = arg;

	if (!to_stop(q, i))
		return 0;
	held_step(q, "stop", i);
	if (stop_one(q, i, err) < 0)
		return -1;
	held_step(q, "stopped", i);
	return 0;
}

static bool depends(const struct stack_container *c, size_t on)
{
	for (size_t d = 0; d < c->ndeps; d++)
		if (c->deps[d].on == on)
			return true;
	return false;
}

/* A container stops after those that depend on it. */
static bool stop_after(void *arg, size_t job, size_t other)
{
	const struct quiesce *q = arg;

	return to_stop(q, other) && to_stop(q, job) &&
	       depends(&q->s->containers[other], job);
}

/* Writers that were let through (an option, a label) make it not clean. */
static void look_for_writers(struct quiesce *q)
{
	for (size_t i = 0; i < q->s->ncontainers; i++) {
		const struct stack_container *c = &q->s->containers[i];

		if (q->held[i].ran && !q->held[i].stopped &&
		    stack_holds_selected(q->s, c->c, c->member) == 2)
			q->clean = false;
	}
}

static int look_at_all(struct quiesce *q, size_t *n, struct sc_err *err)
{
	*n = 0;
	for (size_t i = 0; i < q->s->ncontainers; i++) {
		if (look_at(q, i, err) < 0)
			return -1;
		*n += !q->s->no_stop && to_stop(q, i);
	}
	return 0;
}

int quiesce_stop(struct quiesce *q, struct sc_err *err)
{
	struct dag jobs = { .n = q->s->ncontainers,
			    .after = stop_after,
			    .run = stop_job,
			    .arg = q };
	size_t n;
	int rc;

	/* Ids are known before the watch is told of any. */
	if (look_at_all(q, &n, err) < 0)
		return -1;
	if (q->s->no_stop) {
		look_for_writers(q);
		return 0;
	}
	q->watching = true;
	if (watch_open(q->d, held_told, q, &q->watch, err) < 0)
		return -1;
	/* Before the stop, so that looking at everybody costs no downtime. */
	if (held_check_strangers(q, err) < 0) {
		if (err->code == SC_ETORN)
			err->code = SC_EREFUSED;
		return -1;
	}
	if (n && q->o.before_stop && q->o.before_stop(q->o.arg, err) < 0)
		return -1;
	if (n) {
		q->begun = q->ended = held_now();
		q->any = true;
		rc = dag_run(&jobs, err);
		if (rc < 0)
			return -1;
	}
	look_for_writers(q);
	return held_check_strangers(q, err);
}

bool quiesce_stopped_any(const struct quiesce *q)
{
	return q->any;
}

bool quiesce_clean(const struct quiesce *q)
{
	return q->clean;
}

double quiesce_downtime(const struct quiesce *q)
{
	return q->any ? q->ended - q->begun : 0;
}

const char *quiesce_how(const struct quiesce *q, size_t index)
{
	return q->held[index].how;
}
