/* SPDX-License-Identifier: MIT */
/* Knowing that nothing ran on the volumes while they were read: by the
 * engine's events for what came and went, by looking again for what stayed. */
#include "held.h"

#include <stdio.h>
#include <string.h>

#include <snapctl/base/mem.h>

int held_least(const struct quiesce *q)
{
	return q->s->for_restore ? 1 : 2;
}

/* -- events while it is held ---------------------------------------------- */

static size_t index_of(const struct quiesce *q, const char *id)
{
	size_t i;

	for (i = 0; i < q->s->ncontainers; i++)
		if (q->held[i].id && strcmp(q->held[i].id, id) == 0)
			break;
	return i;
}

/* Does a container that is none of the stack's have the volumes? Asked once
 * for each id: mounts do not change. 1, 0, -1 (also when it is gone). */
static int stranger_holds(struct quiesce *q, const char *id, char *name,
			  size_t cap)
{
	struct docker_container *c = NULL;
	struct stranger s = { 0 };
	int rc;

	if (q->o.helper_id && strcmp(q->o.helper_id, id) == 0)
		return 0;
	pthread_mutex_lock(&q->lock);
	for (size_t i = 0; i < q->nstrangers; i++) {
		if (strcmp(q->strangers[i].id, id) == 0) {
			rc = q->strangers[i].holds;
			pthread_mutex_unlock(&q->lock);
			return rc;
		}
	}
	pthread_mutex_unlock(&q->lock);
	rc = docker_container_inspect(q->d, id, &c, NULL);
	if (rc <= 0)
		return -1;
	snprintf(s.id, sizeof(s.id), "%s", id);
	s.holds = stack_holds_selected(q->s, c, false) >= held_least(q);
	snprintf(name, cap, "%s", SHOW(c->name));
	docker_container_free(c);
	pthread_mutex_lock(&q->lock);
	if (mem_grow(&q->strangers, &q->strangers_cap, q->nstrangers + 1,
		     sizeof(s)) == 0)
		q->strangers[q->nstrangers++] = s;
	pthread_mutex_unlock(&q->lock);
	return s.holds;
}

static void intrude(struct quiesce *q, const char *name, const char *how)
{
	pthread_mutex_lock(&q->lock);
	if (!q->intruded)
		snprintf(q->intruder, sizeof(q->intruder), "container %s %s",
			 name, how);
	q->intruded = true;
	pthread_mutex_unlock(&q->lock);
}

static void stranger_event(struct quiesce *q, const struct docker_event *e)
{
	bool start = strcmp(e->action, "start") == 0;
	char name[256];
	int holds;

	/* On create already: a short-lived one may be gone at its start. */
	if (!start && strcmp(e->action, "create") != 0)
		return;
	snprintf(name, sizeof(name), "%.12s", e->id);
	holds = stranger_holds(q, e->id, name, sizeof(name));
	if (start && holds > 0)
		intrude(q, SHOW(name), "was started with one of the volumes");
	else if (start && holds < 0)
		intrude(q, SHOW(name),
			"was started and vanished before it could be seen "
			"whether it had one of the volumes");
}

void held_told(void *arg, const struct docker_event *e)
{
	struct quiesce *q = arg;
	bool watching;
	size_t i;

	pthread_mutex_lock(&q->lock);
	watching = q->watching;
	pthread_mutex_unlock(&q->lock);
	if (!watching)
		return;
	i = index_of(q, e->id);
	if (i == q->s->ncontainers) {
		stranger_event(q, e);
		return;
	}
	pthread_mutex_lock(&q->lock);
	if (strcmp(e->action, "start") == 0 &&
	    (q->held[i].stopped || !q->held[i].ran))
		q->held[i].started_again = true;
	else if (strcmp(e->action, "oom") == 0)
		q->held[i].oom = true;
	else if (strcmp(e->action, "die") == 0)
		q->held[i].die_code = e->exit_code;
	pthread_mutex_unlock(&q->lock);
}

/* -- nobody else runs on the volumes -------------------------------------- */

int held_check_strangers(struct quiesce *q, struct sc_err *err)
{
	char **ids = NULL;
	char name[256] = "";
	int rc = docker_container_ids(q->d, false, NULL, &ids, err);

	for (char **id = ids; rc == 0 && id && *id; id++) {
		if (index_of(q, *id) == q->s->ncontainers &&
		    stranger_holds(q, *id, name, sizeof(name)) > 0)
			rc = sc_fail(err, SC_ETORN, 0,
				     "container %s runs with one of the "
				     "volumes; it was started in the meantime",
				     *name ? name : *id);
	}
	docker_strv_free(ids);
	return rc;
}

static int torn_by(const struct quiesce *q, size_t i, struct sc_err *err)
{
	return sc_fail(err, SC_ETORN, 0,
		       "container %s was started while its volumes were read; "
		       "a supervisor or a \"compose up\" in the foreground is "
		       "a likely cause",
		       SHOW(held_name(q, i)));
}

/* Is i as it was left? Those let through are not looked at. */
static int check_held(struct quiesce *q, size_t i, struct sc_err *err)
{
	const struct stack_container *c = &q->s->containers[i];
	struct held *h = &q->held[i];
	struct docker_container *now = NULL;
	bool again;
	int rc;

	if (!h->id || h->gone || (h->ran && !h->stopped) ||
	    stack_holds_selected(q->s, c->c, c->member) < held_least(q))
		return 0;
	rc = docker_container_inspect(q->d, h->id, &now, err);
	if (rc <= 0)
		return rc;
	pthread_mutex_lock(&q->lock);
	again = h->started_again;
	pthread_mutex_unlock(&q->lock);
	if (again || stack_runs(now) ||
	    strcmp(now->started_at, h->started_at) != 0 ||
	    now->restart_count != h->restart_count)
		rc = torn_by(q, i, err);
	else
		rc = 0;
	docker_container_free(now);
	return rc;
}

int quiesce_check(struct quiesce *q, struct sc_err *err)
{
	struct sc_err why = { 0 };
	int rc = 0;

	if (q->s->no_stop)
		return 0;
	if (!q->watch)
		return sc_fail(err, SC_ETORN, 0, "the stack was not held");
	watch_sync(q->watch);
	if (watch_state(q->watch, &why) < 0) {
		if (why.code != SC_EINTR)
			return sc_fail(err, SC_ETORN, 0,
				       "the engine's events broke off while "
				       "the volumes were read (%s): what ran "
				       "meanwhile is not known",
				       why.msg);
		*err = why;
		return -1;
	}
	for (size_t i = 0; rc == 0 && i < q->s->ncontainers; i++)
		rc = check_held(q, i, err);
	if (rc == 0)
		rc = held_check_strangers(q, err);
	pthread_mutex_lock(&q->lock);
	if (rc == 0 && q->intruded)
		rc = sc_fail(err, SC_ETORN, 0, "%s while they were read",
			     q->intruder);
	pthread_mutex_unlock(&q->lock);
	return rc;
}
