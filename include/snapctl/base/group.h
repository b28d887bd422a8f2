/* SPDX-License-Identifier: MIT */
/* Threads that succeed or fail together: the first failure is kept and tells
 * the others to stop, all are joined, none is lost. */
#ifndef SNAPCTL_BASE_GROUP_H
#define SNAPCTL_BASE_GROUP_H

#include <pthread.h>
#include <stdbool.h>

#include <snapctl/base/err.h>

struct group; /* opaque, owned by its starter */

typedef int (*group_fn)(void *arg, struct sc_err *err);

int group_new(struct group **out, struct sc_err *err);
/* Runs fn(arg) on a new thread. A -1 from it is kept (the first one) and
 * stops the group. on failure to start: -1, the group is told to stop. */
int group_start(struct group *g, group_fn fn, void *arg, struct sc_err *err);
/* True once any member failed (or group_stop was called): give up soon. */
bool group_stopping(const struct group *g);
/* Called once, from the failing thread, when the group stops: wakes members
 * that wait on their own conditions. Set before the first group_start. */
void group_on_stop(struct group *g, void (*wake)(void *), void *arg);
void group_stop(struct group *g);
/* Joins all and frees g. 0 if all returned 0, else -1 and the first error. */
int group_join(struct group *g, struct sc_err *err);

/* Cores this process may use (sched_getaffinity), at least 1. */
unsigned group_cores(void);

#endif
