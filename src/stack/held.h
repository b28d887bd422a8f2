/* SPDX-License-Identifier: MIT */
/* What quiesce.c (stopping), check.c (what ran meanwhile) and resume.c
 * (starting) share. */
#ifndef SNAPCTL_STACK_HELD_H
#define SNAPCTL_STACK_HELD_H

#include <pthread.h>

#include <snapctl/stack/quiesce.h>

#include "internal.h"
#include "watch.h"

/* One for each of stack->containers. */
struct held {
	char *id;	   /* now; another after a re-creation */
	char *started_at;  /* while held: what it must still be */
	char *finished_at; /* before the stop */
	int restart_count;
	bool ran; /* was running, paused or restarting at the stop */
	bool paused, restarting;
	bool touched; /* unpaused or asked to stop: to be put back */
	bool asked;   /* a stop was sent */
	bool stopped; /* and it is known to have worked */
	bool gone;    /* removed by the engine when it stopped */
	bool back;    /* runs again, or was not to */
	bool ready;   /* and needs no more waiting for */
	/* Set by the watch, under lock. */
	bool started_again, oom;
	int die_code; /* of the last die event, -1 */
	char how[48];
};

/* A container that is none of the stack's, and whether it has the volumes. */
struct stranger {
	char id[80];
	bool holds;
};

struct quiesce {
	struct docker *d;
	struct stack *s;
	struct quiesce_options o;
	struct notes *notes;
	struct watch *watch;
	struct held *held; /* s->ncontainers */
	/* Under lock: the rest of the watch's findings. */
	pthread_mutex_t lock;
	struct stranger *strangers;
	size_t nstrangers, strangers_cap;
	bool intruded, watching;
	char intruder[320]; /* text: who started meanwhile */
	bool clean;
	bool any;	     /* something was touched */
	double begun, ended; /* monotonic seconds */
	/* resume.c, under lock. */
	size_t failures;
	struct sc_err first_failure;
};

double held_now(void);
void held_step(const struct quiesce *q, const char *what, size_t i);
const char *held_name(const struct quiesce *q, size_t i);
/* The container that is now that service and number (outside a project:
 * that name). 1 and *out owned, 0, -1. */
int held_find_again(const struct quiesce *q, size_t i,
		    struct docker_container **out, struct sc_err *err);
/* How much a container must have of a volume to count: anything (1) when it
 * is about to be replaced, else write access (2). */
int held_least(const struct quiesce *q);
/* For the watch: one event, on its thread. arg: the quiesce. */
void held_told(void *arg, const struct docker_event *e);
/* SC_ETORN if a container that is none of the stack's runs with a volume. */
int held_check_strangers(struct quiesce *q, struct sc_err *err);
/* Sends a stop; a container that is gone is gone. */
int held_stop_request(struct quiesce *q, size_t i, struct sc_err *err);

#endif
