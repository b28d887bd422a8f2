/* SPDX-License-Identifier: MIT */
/* Shared by the files of src/helper, nobody else. */
#ifndef SNAPCTL_HELPER_INTERNAL_H
#define SNAPCTL_HELPER_INTERNAL_H

#include <snapctl/helper/session.h>

/* -- container.c -------------------------------------------------------- */

/* The container's name for a stack: "snapctl-" and the stack's name, made
 * fit (and then made unique by a digest of the original). */
int container_name(const char *stack, char out[128], struct sc_err *err);
/* socket_dir: a private directory to be mounted at CONTAINER_RUN, or NULL to
 * open stdin for attach. token: put into the environment. */
#define CONTAINER_RUN	 "/run/snapctl"
#define CONTAINER_SOCKET CONTAINER_RUN "/s"
int container_create(struct docker *d, const struct session_options *o,
		     const char *image, const char *socket_dir,
		     const char *token, char **id, struct sc_err *err);
/* How a helper that went away ended, as a sentence, into out. */
void container_epitaph(struct docker *d, const char *id, char *out, size_t cap);
void container_mount_path(char out[32], unsigned volume);

/* -- link.c ------------------------------------------------------------- */

/* The way to a running helper: a socket or an attach connection. */
struct link {
	enum session_transport kind;
	struct channel ch;
	struct channel_fds fds;	      /* socket */
	int sock;		      /* socket, -1 */
	char *dir;		      /* private directory, or NULL */
	struct docker_attach *attach; /* attach, or NULL */
	char token[FRAME_TOKEN_LEN + 1];
	char *container; /* id */
};

/* Creates, starts and connects a helper by this transport. On -1 nothing is
 * left; *retry tells whether the other transport is worth a try. */
int link_open(struct docker *d, const struct session_options *o,
	      const char *image, enum session_transport kind, struct link *out,
	      bool *retry, struct sc_err *err);
/* Ends the connection for whoever reads or writes on it, from any thread. */
void link_abort(struct link *l);
/* Cuts the connection, which nobody uses any more; the container remains. */
void link_cut(struct link *l);
/* Removes the container too. 0 or -1. */
int link_close(struct docker *d, struct link *l, struct sc_err *err);

/* -- session.c ---------------------------------------------------------- */

struct session {
	struct docker *d;
	struct session_options o;
	unsigned ntaken; /* volumes that are not held */
	struct link link;
	struct frames frames;
	struct frame in;
	bool broken; /* no conversation any more: only removal */
	bool ended;  /* a helper that writes has exited; how: */
	int exit_code;
	char *uid_map;
	uint64_t got, got_bytes; /* frames since the command began */
};

/* Sends a command and counts from there. */
int session_command(struct session *s, enum frame_type type, const void *p,
		    size_t n, struct sc_err *err);
/* The next frame that is neither NOTE nor PROGRESS nor FAIL. 1: in s->in; 0:
 * it was OK and its counts are right: the command has ended; -1 (a FAIL
 * leaves the conversation intact, everything else breaks it). */
int session_next(struct session *s, struct sc_err *err);
/* session_next for a command that answers with nothing but OK. */
int session_finish(struct session *s, struct sc_err *err);
/* *err becomes "the helper …" with how it ended; marks s broken. */
int session_lost(struct session *s, struct sc_err *err);
/* Something could not be sent: *err becomes the FAIL with which the helper
 * ended before it heard us, or what session_lost says. */
int session_unsent(struct session *s, struct sc_err *err);
/* Ends the conversation with a helper that writes and waits until it has
 * undone what it had not committed, or finished its commit. */
int session_settle(struct session *s, struct sc_err *err);
int session_protocol(struct session *s, const char *what, struct sc_err *err);

#endif
