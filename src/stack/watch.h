/* SPDX-License-Identifier: MIT */
/* The engine's events while a stack is held: a thread reads them, tells the
 * owner of each, and wakes those who wait for something to change. */
#ifndef SNAPCTL_STACK_WATCH_H
#define SNAPCTL_STACK_WATCH_H

#include <stdbool.h>
#include <stdint.h>

#include <snapctl/docker/docker.h>

struct watch;

/* told (may be NULL) is called on the watch's thread for each event. */
int watch_open(struct docker *d,
	       void (*told)(void *arg, const struct docker_event *e), void *arg,
	       struct watch **out, struct sc_err *err);
void watch_close(struct watch *w); /* NULL allowed */
/* Waits until everything the engine has sent was told. */
void watch_sync(struct watch *w);
/* 0 while the stream stands, else -1 and why it broke. */
int watch_state(struct watch *w, struct sc_err *err);
/* How many events have come. */
uint64_t watch_count(struct watch *w);
/* Waits until watch_count is not seen any more, at most ms. A broken stream
 * is waited out. */
void watch_wait(struct watch *w, uint64_t seen, int ms);

#endif
