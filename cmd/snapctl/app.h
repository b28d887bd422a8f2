/* SPDX-License-Identifier: MIT */
/* The one context a command gets. */
#ifndef SNAPCTL_APP_H
#define SNAPCTL_APP_H

#include <stdbool.h>

#include <snapctl/base/buf.h>
#include <snapctl/base/cancel.h>
#include <snapctl/base/err.h>
#include <snapctl/ui/ui.h>

struct args;

struct app {
	struct ui *ui;
	struct cancel cancel; /* set by INT, TERM, HUP */
	char *repo;	      /* owned; NULL unless the command needs one */
	const char *host;     /* -H, or NULL: the environment decides */
	unsigned wait;	      /* seconds to wait for a lock */
	bool json;	      /* results as one JSON document */
};

enum app_exit {
	EXIT_DONE = 0,
	EXIT_FAILED = 1, /* nothing was changed */
	EXIT_USAGE = 2,
	EXIT_WARNED = 3,  /* done, with warnings */
	EXIT_CHANGED = 4, /* failed after changing something */
	EXIT_LOCKED = 5,
	EXIT_INTERRUPTED = 130, /* the stack was started again */
};

/* Everything but cancel, from what was given on the command line and in the
 * environment. app_close it also after -1. */
int app_open(struct app *app, const struct args *args, struct sc_err *err);
void app_close(struct app *app);

/* The exit status of a failure. */
int app_status(const struct sc_err *err);
/* Prints err and returns its exit status. */
int app_fail(struct app *app, const struct sc_err *err);
/* Prints out on stdout; -1 when it cannot be written. */
int app_print(const struct buf *out, struct sc_err *err);

#endif
