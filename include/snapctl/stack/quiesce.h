/* SPDX-License-Identifier: MIT */
/* Stopping a stack and bringing it back.
 *
 * quiesce_stop stops what stack_resolve marked, dependents first, containers
 * that do not depend on each other at the same time. quiesce_start brings
 * back what ran, dependencies first, waiting for health where depends_on
 * says so. Between the two nothing destroys a struct quiesce: the caller
 * calls quiesce_start on every path, once anything was stopped, whatever
 * failed. The journal (intent before effect) hooks in through the callbacks:
 * before_stop is called once before the first stop and may refuse;
 * after_start once everything runs again. */
#ifndef SNAPCTL_STACK_QUIESCE_H
#define SNAPCTL_STACK_QUIESCE_H

#include <stdbool.h>
#include <stdint.h>

#include <snapctl/base/err.h>
#include <snapctl/base/notes.h>
#include <snapctl/docker/docker.h>
#include <snapctl/stack/stack.h>

struct quiesce_options {
	int stop_timeout;   /* seconds, -1: each container's own */
	int health_timeout; /* seconds, -1: computed (DESIGN 7) */
	/* Id of the run's own helper container, which holds the volumes and
	 * is held against nobody. Borrowed; may be NULL when it mounts them
	 * read-only (other read-only users are never held against it). */
	const char *helper_id;
	/* Told of each step, for progress: "stop", "stopped", "start",
	 * "started", "healthy", "completed". May be NULL. Called from any
	 * thread. */
	void (*step)(void *arg, const char *what, const char *container);
	int (*before_stop)(void *arg, struct sc_err *err); /* may be NULL */
	void (*after_start)(void *arg);			   /* may be NULL */
	void *arg;
};

struct quiesce;

/* d, s, notes are borrowed and must outlive *out. */
int quiesce_new(struct docker *d, struct stack *s,
		const struct quiesce_options *o, struct notes *notes,
		struct quiesce **out, struct sc_err *err);
/* Only when nothing is stopped (any more). */
void quiesce_free(struct quiesce *q);

/* Looks at the containers again, opens the event stream, then stops. On -1
 * some may be stopped: call quiesce_start. With --no-stop (stack->no_stop)
 * nothing is stopped, watched or held against anybody. One re-created since
 * stack_resolve is SC_EREFUSED, before any stop. Sets what quiesce_clean
 * reports: a container with a writable selected mount that ended by KILL (137,
 * unless its StopSignal is KILL) or by an oom event makes the stop not clean (a
 * warning in notes). */
int quiesce_stop(struct quiesce *q, struct sc_err *err);

/* After the last read, before starting: did anything run that had one of the
 * selected volumes? Lists containers again, compares StartedAt and
 * RestartCount, and looks at the events seen; an event stream that broke or
 * an engine that restarted counts. SC_ETORN naming the cause. With sharing
 * ignored the outside users known at the stop are not held against it. */
int quiesce_check(struct quiesce *q, struct sc_err *err);

/* Starts what ran, in order; containers re-created meanwhile are found by
 * project, service, number. Not healthy in time: a warning, the rest is
 * started all the same. A container that cannot be started is -1 after all
 * others were tried, naming it. Not interrupted by the client's cancel
 * (docker_shield). Nothing stopped: 0 at once. May be called again. */
int quiesce_start(struct quiesce *q, struct sc_err *err);

bool quiesce_stopped_any(const struct quiesce *q);
bool quiesce_clean(const struct quiesce *q);
/* Seconds from the first stop request to the last start done; 0 before. */
double quiesce_downtime(const struct quiesce *q);
/* How the container ended, for the manifest: "exited 0", "killed (137)",
 * "was not running". Borrowed. index: into stack->containers. */
const char *quiesce_how(const struct quiesce *q, size_t index);

#endif
