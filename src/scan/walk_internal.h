/* SPDX-License-Identifier: MIT */
/* What walk.c (threads), walk_stack.c (descriptors) and walk_dir.c (one
 * directory) share. */
#ifndef SNAPCTL_SCAN_WALK_INTERNAL_H
#define SNAPCTL_SCAN_WALK_INTERNAL_H

#include <pthread.h>
#include <stdbool.h>
#include <sys/stat.h>

#include <snapctl/base/buf.h>
#include <snapctl/base/group.h>
#include <snapctl/scan/walk.h>

#include "names.h"

#define WALK_BUF  (256u << 10)
#define WALK_WIDE (1u << 16) /* a directory from which all threads stat */
#define WALK_STEP 1024	     /* entries between looks at the stop flag */
#define WALK_PATH 512	     /* an escaped path in a message, cut */
#define WALK_DIR_OPEN \
	(O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK)

/* A directory whose subdirectories are not all open yet. It lies on the stack
 * until the last of them is taken, and lives until that one is open. */
struct node {
	struct node *above, *below;
	int fd; /* -1: closed to make room */
	uint32_t slot;
	const char *leave_out; /* the rest of that path beneath here, or NULL */
	uint32_t *sub;	       /* owned: slots of subdirectories */
	uint32_t nsub, next;
	unsigned users; /* threads opening a subdirectory */
};

/* A directory so large that idle threads help to stat its entries. */
struct wide {
	struct wide *next;
	int fd;
	uint32_t slot, base, n;
	const struct key *order;
	atomic_uint at;
	unsigned helpers;
};

struct walker {
	const struct walk_options *o;
	struct notes *notes;
	struct tree *tree;
	struct group *group;
	int rootfd;
	uint64_t dev, mnt_id, fs_type;
	bool has_mnt_id, partial_map;
	uint32_t overflow_uid, overflow_gid;
	atomic_uint sockets_noted;

	pthread_mutex_t lock; /* all below */
	pthread_cond_t changed;
	struct node *top, *bottom;
	struct wide *wide;
	bool root_pending;
	unsigned active;   /* threads that visit a directory */
	unsigned starving; /* those of them that wait for a descriptor */
	uint64_t closed;   /* rises when descriptors may have become free */
	uint32_t *gone;	   /* slots of directories that vanished */
	size_t ngone, gone_cap;
};

/* One thread. */
struct worker {
	struct walker *w;
	struct tree_arena arena;
	struct names names;
	unsigned char *dents; /* WALK_BUF bytes */
	struct buf path;
	struct walk_result sum; /* the counters */
};

/* Reads the directory (fd: borrowed) at slot into the tree. *sub: slots of
 * the subdirectories to go on with, owned by the caller, NULL when *nsub is
 * 0. */
int walk_dir(struct worker *k, int fd, uint32_t slot, const char *leave_out,
	     uint32_t **sub, uint32_t *nsub, struct sc_err *err);
/* Stats entries order[from … to-1] of a directory whose children have slots
 * from base on. */
int walk_dir_stat(struct worker *k, const struct wide *d, uint32_t from,
		  uint32_t to, struct sc_err *err);
/* Owner, stamps and so on of st into e. */
void walk_dir_fill(struct entry *e, const struct statx *st);
bool walk_dir_foreign(const struct walker *w, const struct statx *st);
void walk_dir_mount(struct worker *k, uint32_t slot); /* notes and marks */
int walk_dir_owner(struct worker *k, uint32_t slot, struct sc_err *err);
/* The path of slot, with "/" and name behind it when name is not NULL,
 * escaped. Returns out. */
const char *walk_dir_path(struct worker *k, char out[WALK_PATH], uint32_t slot,
			  const char *name, size_t len);
/* slot cannot be read: -1, or noted and marked when that is allowed. */
int walk_dir_unreadable(struct worker *k, uint32_t slot, int sys,
			const char *what, struct sc_err *err);

/* Puts n, owned from now on, on the stack. */
void walk_stack_push(struct walker *w, struct node *n);
/* The next subdirectory of the topmost; the stack is not empty. With the lock
 * held. The node stays valid until walk_stack_release. */
struct node *walk_stack_take(struct walker *w, uint32_t *slot);
void walk_stack_release(struct walker *w, struct node *n);
/* A descriptor of n's child at slot, of the root; or -1 and errno. */
int walk_stack_open(struct walker *w, struct node *n, uint32_t slot);
int walk_stack_open_root(struct walker *w);
void walk_stack_clear(struct walker *w); /* after the threads */

/* Lets idle threads join in; returns when all entries of d are done. */
int walk_wide(struct worker *k, struct wide *d, struct sc_err *err);
/* -1 when the walk is to end. */
int walk_go_on(struct worker *k, struct sc_err *err);

#endif
