/* SPDX-License-Identifier: MIT */
/* What create and restore have in common: engine, repository, stack, locks,
 * helper, stopping and starting, in the order of DESIGN sections 4 and 6.
 *
 * A command opens a task, goes through its steps and closes it on every path.
 * task_close starts the stack if it is still down, before anything else. */
#ifndef SNAPCTL_TASK_H
#define SNAPCTL_TASK_H

#include <jansson.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include <snapctl/base/err.h>
#include <snapctl/base/notes.h>
#include <snapctl/docker/docker.h>
#include <snapctl/helper/session.h>
#include <snapctl/repo/repo.h>
#include <snapctl/stack/quiesce.h>
#include <snapctl/stack/stack.h>
#include <snapctl/ui/progress.h>

struct app;
struct args;

struct task {
	struct app *app;
	const struct args *args;
	const char *command; /* "create", "restore" */
	struct notes notes;
	struct docker *docker;
	struct repo *repo;
	struct stack *stack;
	struct stack_options stack_options;
	struct repo_lock *stack_lock, *repo_lock;
	/* The helper and the volumes it takes, in its numbering: the first
	 * nvolumes of mounts; what follows is only held. */
	struct session *session;
	struct session_volume *mounts;
	size_t nmounts;
	struct stack_volume **volumes;
	size_t nvolumes;
	struct quiesce *quiesce;
	struct ui_progress *progress;
	unsigned at;	 /* the volume that progress was last about */
	double began;	 /* task_now at task_open */
	bool leave_down; /* task_close must not start the stack */
	bool tried, up;	 /* starting it was tried; it runs again */
	const char **volume_args, **exclude_args, **bind_args;
};

/* Seconds on a monotonic clock. */
double task_now(void);

/* Engine and repository. */
int task_open(struct task *t, struct app *app, const struct args *args,
	      const char *command, struct sc_err *err);
/* Stack, refusals, then the locks. project: NULL to be found. known: names of
 * volumes (NULL-terminated) a stack that is down had, or NULL. */
int task_resolve(struct task *t, const char *project, const char *const *known,
		 struct sc_err *err);
int task_lock(struct task *t, struct sc_err *err);
/* Volumes the helper takes, from what is selected and there. */
int task_choose_volumes(struct task *t, struct sc_err *err);
/* t->mounts, which has room for all of the stack's volumes, from t->volumes:
 * these in order, then tmpfs volumes that must only be held. */
void task_mounts(struct task *t);
/* Starts the helper with the volumes chosen. */
int task_helper(struct task *t, struct sc_err *err);
int task_progress(struct task *t, struct sc_err *err);
/* All that was to be read or staged is. */
void task_volumes_done(struct task *t);
int task_stop(struct task *t, struct sc_err *err);
/* Starts what ran, if it is not up yet. A failure is not lost: task_close
 * tries once more and has the last word. */
void task_try_start(struct task *t);
/* Starts the stack if needed, removes the helper, releases everything. rc is
 * how it went so far, *err why if it is -1; a failure to start the stack is
 * put before that. Returns 0 or -1. */
int task_close(struct task *t, int rc, struct sc_err *err);
/* "name, name": what a dry run would stop and start; the JSON of both. */
int task_dry(struct task *t, const char *id, struct sc_err *err);
/* The texts of the run's warnings, as JSON. */
json_t *task_warnings(struct task *t);

#endif
