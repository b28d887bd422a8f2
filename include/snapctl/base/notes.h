/* SPDX-License-Identifier: MIT */
/* What a run wants to say besides success or failure: collected as it goes,
 * shown by cmd/, kept in the manifest. A warning makes the exit code 3. */
#ifndef SNAPCTL_BASE_NOTES_H
#define SNAPCTL_BASE_NOTES_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

enum note_kind {
	NOTE_INFO, /* worth knowing, changes nothing */
	NOTE_WARN, /* done, but not all is well: exit 3 */
};

struct note {
	enum note_kind kind;
	char *text; /* owned; names in it are escaped already */
};

/* May be added to from several threads. */
struct notes {
	pthread_mutex_t lock;
	struct note *v;
	size_t n, cap;
	size_t warnings;
	size_t lost; /* not kept: out of memory, or above NOTES_MAX */
	/* Called for each as it comes (may be NULL), outside the lock. */
	void (*sink)(void *arg, enum note_kind kind, const char *text);
	void *sink_arg;
};

#define NOTES_MAX 10000

void notes_init(struct notes *n);
void notes_free(struct notes *n);
/* n may be NULL: nothing is kept. */
void notes_add(struct notes *n, enum note_kind kind, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

#endif
