/* SPDX-License-Identifier: MIT */
/* What the files of this module share. */
#ifndef SNAPCTL_STACK_INTERNAL_H
#define SNAPCTL_STACK_INTERNAL_H

#include <snapctl/stack/stack.h>

#define LABEL_PROJECT	  "com.docker.compose.project"
#define LABEL_SERVICE	  "com.docker.compose.service"
#define LABEL_NUMBER	  "com.docker.compose.container-number"
#define LABEL_ONEOFF	  "com.docker.compose.oneoff"
#define LABEL_DEPENDS_ON  "com.docker.compose.depends_on"
#define LABEL_WORKING_DIR "com.docker.compose.project.working_dir"
#define LABEL_FILES	  "com.docker.compose.project.config_files"
#define LABEL_CONFIG_HASH "com.docker.compose.config-hash"
#define LABEL_VOLUME	  "com.docker.compose.volume"
#define LABEL_EXCLUDE	  "io.snapctl.exclude"
#define LABEL_STOP	  "io.snapctl.stop"
#define LABEL_BIND	  "io.snapctl.bind"
#define LABEL_HELPER	  "io.snapctl.helper"
#define LABEL_SWARM	  "com.docker.swarm.task.id"
#define LABEL_PODMAN_UNIT "PODMAN_SYSTEMD_UNIT"

/* Names out of an engine, safe in a message; cut when long. */
struct shown {
	char s[300];
};
const char *stack_show(struct shown *b, const char *name);
#define SHOW(name) stack_show(&(struct shown){ { 0 } }, (name))

/* The value of a container's label, or "". Borrowed. */
const char *stack_label(const struct docker_container *c, const char *key);
bool stack_label_is(const struct docker_container *c, const char *key,
		    const char *value);
bool stack_has(const char *const *list, const char *name);
/* "web" or, outside a project, the container's name. */
const char *stack_who(const struct stack_container *c);

/* Is inner equal to outer or beneath it? Both absolute and normal. */
bool path_within(const char *outer, const char *inner);
/* Without doubled or trailing slashes, "." and ".." resolved by text. */
char *path_normal(const char *path);

/* -- project.c ------------------------------------------------------------ */

/* Distinct strings, NULL-terminated once there are any. Zero is empty. */
struct names {
	char **v;
	size_t n, cap;
};
void names_free(struct names *l);
#define auto_names __attribute__((cleanup(names_free)))
int names_add(struct names *l, const char *name); /* -1: out of memory */
int names_compare(const void *a, const void *b);  /* for qsort */

/* Sets s->name, and s->adhoc while nothing says that it is a project. */
int project_name(struct docker *d, struct stack *s,
		 const struct stack_options *o, struct sc_err *err);
/* For a name without containers: a stack that is down has volumes, or had
 * some; -p NAME with --volume may name an ad-hoc one (sets s->adhoc); else it
 * is unknown. */
int project_check_known(struct docker *d, struct stack *s,
			const struct stack_options *o, struct sc_err *err);

/* -- the other files ------------------------------------------------------ */

/* volumes.c: fills s->volumes from s->containers, labels and options. */
int volumes_fill(struct docker *d, struct stack *s,
		 const struct stack_options *o, struct notes *notes,
		 struct sc_err *err);
void volumes_free(struct stack_volume *v, size_t n);
/* deps.c: fills deps of all containers. local: files may be read. */
int deps_fill(struct stack *s, const struct stack_options *o, bool local,
	      struct notes *notes, struct sc_err *err);
/* Does container i join a namespace of container j? */
bool deps_joins(const struct docker_container *c,
		const struct docker_container *owner);

/* order.c: marks who is stopped. */
int order_mark(struct stack *s, const struct stack_options *o,
	       struct notes *notes, struct sc_err *err);

#endif
