/* SPDX-License-Identifier: MIT */
/* Runs jobs beside each other as soon as those they wait for are done: no
 * waves, so one slow container holds up only what depends on it. */
#ifndef SNAPCTL_STACK_DAG_H
#define SNAPCTL_STACK_DAG_H

#include <stdbool.h>
#include <stddef.h>

#include <snapctl/base/err.h>

struct dag {
	size_t n;
	/* Must job wait for other? Called with a lock held: quick. */
	bool (*after)(void *arg, size_t job, size_t other);
	int (*run)(void *arg, size_t job, struct sc_err *err);
	void *arg;
	bool keep_going; /* a failed job counts as done */
};

/* 0 when all were run and returned 0, else -1 and the first error. Without
 * keep_going no job is begun after a failure; those running are waited for.
 * Works with as many threads as there are to be had, one at least. */
int dag_run(const struct dag *d, struct sc_err *err);

#endif
