/* SPDX-License-Identifier: MIT */
/* A run's helper container and the conversation with it.
 *
 * image.c      the image, embedded and loaded
 * container.c  the container's configuration, its name as a lock
 * link.c       the two transports: unix socket, hijacked attach
 * session.c    commands of the protocol (frames.h)
 * stage.c      the restore half of it
 *
 * session_open does everything that may fail before a stop: image loaded,
 * container created, started and connected. session_close removes the
 * container; a tmpfs volume lives as long as the helper mounts it, so it is
 * called when the stack is up again. */
#ifndef SNAPCTL_HELPER_SESSION_H
#define SNAPCTL_HELPER_SESSION_H

#include <stdbool.h>
#include <stdint.h>

#include <snapctl/base/cancel.h>
#include <snapctl/base/err.h>
#include <snapctl/base/notes.h>
#include <snapctl/docker/docker.h>
#include <snapctl/helper/frames.h>

enum session_transport { TRANSPORT_AUTO, TRANSPORT_SOCKET, TRANSPORT_ATTACH };

struct session_volume {
	const char *volume;    /* an engine's volume, or NULL */
	const char *bind;      /* else a host path */
	const char *leave_out; /* beneath it, or NULL */
	bool held;	       /* only mounted, not taken (tmpfs): last ones */
};

struct session_options {
	const char *stack;   /* names the container */
	const char *command; /* "create", "restore": for whoever finds it */
	const struct session_volume *volumes; /* borrowed while open */
	size_t nvolumes;
	bool write; /* mount read-write, restore's capabilities */
	bool cap_sys_admin, allow_incomplete;
	enum session_transport transport;
	unsigned threads; /* 0: the cores of the engine's machine */
	int level;
	uint32_t chunk_avg;
	const void *binary; /* the embedded helper */
	size_t binary_len;
	struct notes *notes;
	struct cancel *cancel;
	/* Told of progress: what is done of the volume that the helper is
	 * at. May be NULL; may come from another thread (session_stage). */
	void (*progress)(void *arg, unsigned volume, uint64_t bytes,
			 uint64_t files);
	void *progress_arg;
};

struct session;

/* A second run on the same stack and engine is SC_ELOCKED naming the holder;
 * a helper left by a dead run is removed. */
int session_open(struct docker *d, const struct session_options *o,
		 struct session **out, struct sc_err *err);
/* Says BYE, waits for a helper that writes to end what it is at, removes the
 * container. Failure to remove it is a warning in
 * notes. NULL allowed. */
void session_close(struct session *s);
const char *session_transport_name(const struct session *s);
const char *session_container(const struct session *s); /* its id */
const char *session_uid_map(const struct session *s);

/* Walks every volume live. out: one for each volume that is not held. */
int session_scan(struct session *s, struct frame_scanned *out,
		 struct sc_err *err);

struct session_sink {
	int (*segment)(void *arg, unsigned volume, const void *stored, size_t n,
		       uint32_t plain, struct sc_err *err);
	/* Everything was read: the stack may be started. 0 or -1. */
	int (*all_read)(void *arg, struct sc_err *err);
	int (*column)(void *arg, unsigned volume, unsigned id, const void *p,
		      size_t n, struct sc_err *err);
	int (*column_end)(void *arg, unsigned volume, unsigned id,
			  unsigned codec, uint64_t rows, uint64_t plain,
			  struct sc_err *err);
	int (*taken)(void *arg, unsigned volume, const struct frame_taken *t,
		     struct sc_err *err);
	void *arg;
};
/* flags: TAKE_LIVE. The counts of the helper are checked against what came.
 * A sink's -1 ends the session: the helper is told to stop. */
int session_take(struct session *s, unsigned flags,
		 const struct session_sink *sink, struct sc_err *err);

/* -- restore ------------------------------------------------------------- */

/* A stretch of a volume's index; call until all of it is sent. */
int session_index(struct session *s, unsigned volume, const void *p, size_t n,
		  struct sc_err *err);
/* lengths: of each volume's index. out: one for each volume. */
int session_plan(struct session *s, const uint64_t *lengths,
		 struct frame_planned *out, struct sc_err *err);
/* get: puts the stored bytes of a segment into out (cleared first). */
int session_stage(struct session *s,
		  int (*get)(void *arg, unsigned volume, uint32_t segment,
			     struct buf *out, struct sc_err *err),
		  void *arg, struct sc_err *err);
int session_recheck(struct session *s, struct sc_err *err);
/* Not interrupted by cancel. */
int session_commit(struct session *s, struct sc_err *err);
/* Undoes a stage. Not interrupted by cancel. Also when the conversation is
 * over (a ^C, a lost connection): the helper then undoes by itself, and is
 * waited for. */
int session_undo(struct session *s, struct sc_err *err);

#endif
