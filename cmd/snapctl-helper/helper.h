/* SPDX-License-Identifier: MIT */
/* The helper: PID 1 of an empty image, one conversation, then it exits.
 *
 * main.c   finds the stream, speaks the protocol's frame (frames.h)
 * watch.c  the thread beside a command: ABORT comes in, PROGRESS goes out
 * read.c   SCAN and TAKE
 * write.c  PLAN, STAGE, RECHECK, COMMIT, UNDO */
#ifndef SNAPCTL_HELPER_H
#define SNAPCTL_HELPER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include <snapctl/base/buf.h>
#include <snapctl/base/err.h>
#include <snapctl/base/notes.h>
#include <snapctl/helper/frames.h>
#include <snapctl/restore/restore.h>
#include <snapctl/scan/walk.h>

struct volume {
	char *path;	 /* where it is mounted */
	char *leave_out; /* beneath it, or NULL */
	int fd;		 /* its root */
	/* restore */
	struct buf index;
	struct tree *tree;
	struct chunk_table chunks;
	struct restore *restore;
};

/* How far a restore is. What is out of turn ends the session. */
enum phase {
	PHASE_OPEN = 1,	   /* VOLUME, INDEX, PLAN */
	PHASE_PLANNED = 2, /* STAGE */
	PHASE_STAGED = 4,  /* RECHECK */
	PHASE_CHECKED = 8, /* RECHECK again, COMMIT */
	PHASE_OVER = 16,   /* committed, undone or failed */
};

struct watch;

struct helper {
	struct frames frames;
	struct frame in;
	int infd;
	unsigned threads;
	int level;
	uint32_t chunk_avg;
	unsigned flags; /* SESSION_… */
	struct volume *volumes;
	unsigned nvolumes;
	struct notes notes; /* each goes out as a NOTE frame */
	/* Progress within the current volume. */
	atomic_uint_fast64_t bytes, files;
	atomic_uint current;
	atomic_bool stop; /* ABORT came, or the stream ended */
	bool ended;	  /* nothing more comes in */
	enum phase phase;
	bool committing;     /* something was replaced: no way back */
	bool left;	     /* a stage could not be removed */
	struct watch *watch; /* of the command that runs */
};

/* -- watch.c ------------------------------------------------------------ */

/* Listens while a command runs that takes no input: sets h->stop when ABORT
 * comes or the stream ends. Sends PROGRESS about 6 times a second. */
struct watch {
	struct helper *h;
	int wake; /* eventfd */
	bool listen, runs;
	pthread_t thread;
};
/* listen: false when the command itself reads frames. */
int watch_start(struct watch *w, struct helper *h, bool listen,
		struct sc_err *err);
/* After it nothing is sent but by the caller. May be called twice. */
void watch_stop(struct watch *w);
/* Progress counts from zero for this volume. */
void watch_volume(struct helper *h, unsigned volume);

/* -- read.c ------------------------------------------------------------- */

int read_scan(struct helper *h, struct sc_err *err);
int read_take(struct helper *h, unsigned flags, struct sc_err *err);

/* -- write.c ------------------------------------------------------------ */

int write_index(struct helper *h, struct sc_err *err);
int write_plan(struct helper *h, struct sc_err *err);
int write_stage(struct helper *h, struct sc_err *err);
int write_recheck(struct helper *h, struct sc_err *err);
int write_commit(struct helper *h, struct sc_err *err);
int write_undo(struct helper *h, struct sc_err *err);
/* At the end of the conversation: what is staged and not committed goes. */
int write_clear(struct helper *h, struct sc_err *err);
void write_free(struct volume *v);

#endif
