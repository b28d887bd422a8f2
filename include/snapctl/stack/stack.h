/* SPDX-License-Identifier: MIT */
/* A stack: which containers and volumes, who depends on whom.
 *
 * project.c  which project is meant, near names
 * stack.c    its containers, and others that a stop may touch
 * volumes.c  which volumes; binds.c: which bind mounts; what is left out
 * compose.c  depends_on from compose files (libyaml), for Compose 1.x
 * deps.c     who depends on whom: labels, files, namespaces, links
 * order.c    who is stopped, in which order, refusals (DESIGN 7)
 * quiesce.c  stopping; resume.c: starting again; check.c: that nothing ran
 *            in between (quiesce.h). dag.c, watch.c: jobs and events for these
 *
 * Everything is read before anything is stopped; nothing here changes the
 * engine but quiesce. */
#ifndef SNAPCTL_STACK_STACK_H
#define SNAPCTL_STACK_STACK_H

#include <stdbool.h>
#include <stddef.h>

#include <snapctl/base/err.h>
#include <snapctl/base/notes.h>
#include <snapctl/docker/docker.h>

enum stack_kind {
	STACK_NAMED, /* a named volume */
	STACK_ANON,  /* an anonymous volume: known by service and target */
	STACK_BIND,  /* a host directory (or file) taken by rule or by name */
};

struct stack_volume {
	enum stack_kind kind;
	/* Key within the stack, unique: the volume's name; the host path of a
	 * bind; for an anonymous one its present 64-digit name. */
	char *name;
	/* From the engine; driver "", no labels for a bind. */
	struct docker_volume info;
	char *source; /* host path of a bind, else "" */
	/* For STACK_ANON: where it belongs. */
	char *service, *target;
	unsigned number;
	char **targets; /* "service:/path", NULL-terminated, sorted */
	bool selected;
	char *left_out; /* why it is not selected, "" if it is */
	bool missing;	/* known by name (restore, down stack), not there */
	bool tmpfs;	/* local driver, type=tmpfs: lives while mounted */
	bool no_stop;	/* label io.snapctl.stop=false: nobody stops for it */
	/* Where the repository lies inside it, relative to its root: to be
	 * left out of the walk. "" if it does not. */
	char *repo_below;
};

enum stack_condition { DEP_STARTED, DEP_HEALTHY, DEP_COMPLETED };

struct stack_dep {
	size_t on; /* index of the container depended on */
	enum stack_condition condition;
};

struct stack_container {
	struct docker_container *c; /* as inspected at resolve time */
	char *service;		    /* "" outside a project */
	unsigned number;
	bool oneoff;
	char *project; /* "" outside any project */
	bool member;   /* of this stack; others only share a volume */
	bool stop;     /* is to be stopped */
	bool keep;     /* label io.snapctl.stop=false: left running */
	/* It runs outside the stack and joins a namespace of one that stops. */
	bool shares_namespace;
	bool no_restart; /* one-off let through: stopped, not started again */
	struct stack_dep *deps;
	size_t ndeps;
};

struct stack {
	char *name;
	char *working_dir;   /* "" if unknown */
	char **config_files; /* absolute, NULL-terminated; may be empty */
	char *config_hash;   /* of all services' config hashes, "" if none */
	bool adhoc;	     /* made of --volume only, no compose project */
	bool down;	     /* no service container exists */
	bool for_restore, no_stop, ignore_sharing; /* as in the options */
	struct stack_volume *volumes;
	size_t nvolumes;
	struct stack_container *containers;
	size_t ncontainers;
};

struct stack_options {
	const char *project;	    /* -p or the argument, or NULL */
	const char *const *volumes; /* --volume, NULL-terminated or NULL */
	const char *const *exclude_volumes;
	const char *const *binds; /* --bind */
	/* Volumes the stack's last snapshot had, for a stack that is down
	 * (names; missing ones are listed as missing). */
	const char *const *known_volumes;
	const char *repo; /* absolute; a bind holding it is noted */
	bool for_restore; /* stop read-only users as well */
	bool allow_rm, ignore_sharing, stop_sharing, stop_oneoff, no_stop;
};

/* Finds the stack (DESIGN 7 "Project"): project, else COMPOSE_PROJECT_NAME,
 * else the one whose working_dir is the current directory (several:
 * SC_EUSAGE listing them). With volumes only and no project: an ad-hoc stack
 * named after the first volume (their containers are found, and stopped, all
 * the same). An unknown stack or volume is SC_ENOTFOUND, naming near ones and
 * the command that lists them. Fills volumes, containers, dependencies; marks
 * who is to be stopped. notes: volumes left out, external ones not found
 * (warnings), and the like. *out owned, stack_free. */
int stack_resolve(struct docker *d, const struct stack_options *o,
		  struct notes *notes, struct stack **out, struct sc_err *err);
void stack_free(struct stack *s);

/* Names of all projects on the engine, sorted, NULL-terminated, owned:
 * docker_strv_free. */
int stack_names(struct docker *d, char ***names, struct sc_err *err);

/* The refusals of DESIGN 7 (AutoRemove, sharing, supervised, one-off, cycles),
 * each naming the container and the option that lets it through: SC_EREFUSED.
 * To be called before anything is stopped. */
int stack_check(const struct stack *s, const struct stack_options *o,
		struct sc_err *err);

/* Containers to stop, in an order in which dependents come before what they
 * depend on. *order: indices, *n of them, owned (free). A cycle is
 * SC_EREFUSED naming it. */
int stack_stop_order(const struct stack *s, size_t **order, size_t *n,
		     struct sc_err *err);

/* Volume by key, by its name in the compose file (the label
 * com.docker.compose.volume) or by "service:/target"; NULL if none, or if a
 * short name fits several. Borrowed. */
const struct stack_volume *stack_volume_find(const struct stack *s,
					     const char *name);
/* The anonymous volume that belongs there now; NULL if none. Borrowed. */
const struct stack_volume *stack_volume_anon(const struct stack *s,
					     const char *service,
					     unsigned number,
					     const char *target);

/* State running, paused or restarting. */
bool stack_runs(const struct docker_container *c);
/* Does c hold v: 0 no, 1 for reading only, 2 writable. A bind mount counts
 * for v when its source is v's directory or lies beneath it; above it only
 * with above set (the whole of /srv mounted writes to /srv/data too). */
int stack_holds(const struct docker_container *c, const struct stack_volume *v,
		bool above);
/* The strongest stack_holds of any selected volume. */
int stack_holds_selected(const struct stack *s,
			 const struct docker_container *c, bool above);

/* -- compose.c ---------------------------------------------------------- */

struct compose_service {
	char *name;
	char **deps;			  /* services, NULL-terminated */
	enum stack_condition *conditions; /* one for each of deps */
};

/* Reads services and their depends_on (both spellings), links, volumes_from,
 * network_mode, pid, ipc ("service:X") of one file; extends and includes of
 * later files merge by name. Hostile input: files above 4 MiB, deep nesting,
 * aliases bombs are refused. *out: *n services, owned, compose_free. */
int compose_read(const char *path, struct compose_service **out, size_t *n,
		 struct sc_err *err);
void compose_free(struct compose_service *v, size_t n);

#endif
