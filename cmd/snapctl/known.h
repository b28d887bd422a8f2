/* SPDX-License-Identifier: MIT */
/* The volumes that a stack's last snapshot had: what a stack that is down is
 * known by. */
#ifndef SNAPCTL_KNOWN_H
#define SNAPCTL_KNOWN_H

#include <snapctl/base/err.h>
#include <snapctl/repo/snapshot.h>

struct known {
	const char **names; /* NULL-terminated, or NULL if none are known */
	struct snapshot *from;
};

/* repo: path; stack may be NULL. No repository, or no snapshot in it that can
 * be read, is no failure: nothing is known. */
int known_volumes(const char *repo, const char *stack, struct known *out,
		  struct sc_err *err);
void known_free(struct known *k);

#endif
