/* SPDX-License-Identifier: MIT */
/* What volumes.c and binds.c share while the list of volumes is made. */
#ifndef SNAPCTL_STACK_VOLUMES_H
#define SNAPCTL_STACK_VOLUMES_H

#include "internal.h"

/* While the list is made: what is known of each volume beside its fields. */
struct facts {
	bool writable;	   /* some container may write to it */
	bool included;	   /* a service that is not excluded has it */
	char *excluded_by; /* borrowed: a service with the exclude label */
	bool named;	   /* by --volume or --bind */
	bool bind_ok;	   /* a bind mount taken by name, label or last time */
	size_t ntargets, targets_cap;
};

struct filling {
	struct docker *d;
	struct stack *s;
	const struct stack_options *o;
	struct notes *notes;
	bool local;
	struct facts *facts;
	size_t cap, facts_cap;
};

/* Finds or adds. Returns 0, or -1 when out of memory. */
int volumes_add(struct filling *f, enum stack_kind kind, const char *name,
		size_t *index);
int volumes_leave_out(struct stack_volume *v, const char *why);
const struct stack_volume *volumes_by_key(const struct stack *s,
					  const char *name);
/* SC_ENOTFOUND for a name given with option, with near ones. */
int volumes_unknown(struct filling *f, const char *option, const char *name,
		    struct sc_err *err);

/* -- binds.c -------------------------------------------------------------- */

/* One --bind (or a --volume that is a path): a path no container mounts is
 * taken where it can be seen. */
int binds_name(struct filling *f, const char *option, const char *path,
	       struct sc_err *err);
/* The label io.snapctl.bind of the services: allows their bind mounts. */
int binds_labels(struct filling *f, struct sc_err *err);
/* Decides on volume i, a bind mount. -1 when out of memory. */
int binds_choose(struct filling *f, size_t i);
/* A selected bind mount beneath another one is part of that. */
int binds_nested(struct filling *f);
/* Sets repo_below where the repository lies in a selected volume. */
int binds_repo(struct filling *f);

#endif
