/* SPDX-License-Identifier: MIT */
/* "Please stop": set by a signal handler, seen by loops and by poll(2). */
#ifndef SNAPCTL_BASE_CANCEL_H
#define SNAPCTL_BASE_CANCEL_H

#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>

#include <snapctl/base/err.h>

/* Zero is not valid; cancel_init. fd becomes readable, for good, when set. */
struct cancel {
	/* 0, or the signal that asked. Lock-free, so fit for a handler. */
	atomic_int sig;
	int fd, wfd;
};

int cancel_init(struct cancel *c, struct sc_err *err);
void cancel_close(struct cancel *c);
/* SIGINT, SIGTERM, SIGHUP set c (one per process); SIGPIPE is ignored. */
int cancel_on_signals(struct cancel *c, struct sc_err *err);
void cancel_set(struct cancel *c, int sig); /* async-signal-safe */
static inline bool cancel_is_set(const struct cancel *c)
{
	return c && atomic_load_explicit(&c->sig, memory_order_relaxed) != 0;
}
/* -1 with SC_EINTR "interrupted by SIGINT" if c is set, else 0. */
int cancel_check(const struct cancel *c, struct sc_err *err);

#endif
