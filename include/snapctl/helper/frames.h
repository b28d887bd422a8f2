/* SPDX-License-Identifier: MIT */
/* What snapctl and its helper say to each other. This header is the
 * specification of protocol version 1.
 *
 * A frame is a u32 length of the payload, a u16 type, a u16 volume (its
 * number in the order of FRAME_VOLUME, or FRAME_NO_VOLUME), then the payload.
 * Everything is little-endian; "varint", "svarint" and "bytes" (varint length,
 * then so many bytes) are those of base/buf.h. Each type has a largest
 * payload (frame_limit); a longer frame, an unknown type or a frame out of
 * turn ends the session. Both sides treat the other as hostile.
 *
 * Session. The helper speaks first: HELLO. snapctl answers HELLO, then sends
 * one VOLUME for each volume, then commands, one at a time. Each command ends
 * with OK or FAIL from the helper; NOTE and PROGRESS may come in between.
 * PLAN, STAGE, RECHECK and COMMIT come in this order, each once (RECHECK may
 * be repeated); SCAN and TAKE may come in between. After FAIL of one of them
 * the helper still takes UNDO; after SC_EPARTIAL of COMMIT that fails, any
 * other FAIL of COMMIT (SC_EREFUSED) has changed nothing. snapctl
 * may send ABORT while SCAN, TAKE or STAGE run; the helper then stops early
 * with FAIL. The end of the stream means ABORT, then BYE: the helper undoes
 * an uncommitted stage and exits; a commit that has begun is finished.
 *
 * snapctl -> helper
 *   HELLO    u32 FRAME_MAGIC, varint version, varint features,
 *            varint threads, varint level, varint chunk average,
 *            varint SESSION_… flags
 *   VOLUME   bytes mount path in the helper, bytes path beneath it that is
 *            to be left out ("" if none)
 *   SCAN     empty: walk every volume once, live
 *   TAKE     varint TAKE_… flags: walk and read every volume
 *   INDEX    a stretch of a volume's index; the next one goes on
 *   PLAN     varint length of each volume's index, in order: load and plan
 *   STAGE    empty; snapctl then answers NEED frames with SEGMENT frames
 *   SEGMENT  stored bytes of one segment
 *   RECHECK COMMIT UNDO  empty
 *   BYE      empty: exit
 *   ABORT    bytes reason
 *
 * helper -> snapctl
 *   HELLO    u32 FRAME_MAGIC, varint version, varint features, bytes token,
 *            bytes /proc/self/uid_map
 *   OK       ends a command, as FAIL does: nothing follows until the next one;
 *            varint frames sent since the command began (this one not
 *            counted), varint payload bytes of them
 *   FAIL     of the volume it is about: varint sc_code, varint errno, bytes
 *            message
 *   NOTE     varint note_kind, bytes text
 *   PROGRESS of the current volume: varint done bytes, varint done files
 *   SCANNED  struct frame_scanned, one varint each
 *   SEGMENT  u32 plain length, stored bytes (TAKE)
 *   ALLREAD  empty: every byte of every volume was read; stamps checked
 *   COLUMN   u16 column, bytes of an index column (the rest of the payload)
 *   COLEND   varint column, varint codec, varint rows, varint plain length
 *   TAKEN    struct frame_taken, one varint each, after a volume's columns
 *   PLANNED  struct frame_planned, one varint each
 *   NEED     u32 segment numbers of the volume, ascending; several frames,
 *            then (all volumes done) an empty NEED with FRAME_NO_VOLUME.
 *            snapctl sends the SEGMENTs of all NEEDs in this order. */
#ifndef SNAPCTL_HELPER_FRAMES_H
#define SNAPCTL_HELPER_FRAMES_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <snapctl/base/buf.h>
#include <snapctl/base/cancel.h>
#include <snapctl/base/err.h>

#define FRAME_MAGIC	  0x46504e53u /* "SNPF" */
#define FRAME_VERSION	  1
#define FRAME_NO_VOLUME	  0xffff
#define FRAME_HEADER	  8
#define FRAME_TOKEN_LEN	  32	       /* hex digits */
#define FRAME_PIECE	  (256u << 10) /* INDEX and COLUMN payloads */
#define FRAME_UID_MAP_MAX (16u << 10)  /* the kernel allows 340 lines */
/* The helper's exit status when a stage could not be removed. */
#define FRAME_EXIT_LEFT	  4

enum frame_type {
	FRAME_HELLO = 1,
	FRAME_VOLUME,
	FRAME_SCAN,
	FRAME_TAKE,
	FRAME_INDEX,
	FRAME_PLAN,
	FRAME_STAGE,
	FRAME_RECHECK,
	FRAME_COMMIT,
	FRAME_UNDO,
	FRAME_BYE,
	FRAME_ABORT,
	FRAME_OK = 32,
	FRAME_FAIL,
	FRAME_NOTE,
	FRAME_PROGRESS,
	FRAME_SCANNED,
	FRAME_SEGMENT,
	FRAME_ALLREAD,
	FRAME_COLUMN,
	FRAME_COLEND,
	FRAME_TAKEN,
	FRAME_PLANNED,
	FRAME_NEED,
	FRAME_TYPES,
};

/* HELLO flags */
enum {
	SESSION_TRUSTED_XATTRS = 1,
	SESSION_ALLOW_INCOMPLETE = 2,
};

/* TAKE flags */
enum {
	TAKE_LIVE = 1, /* writers may be at work */
};

struct frame_scanned {
	uint64_t entries, files, bytes, vanished;
};

struct frame_taken {
	uint64_t entries, chunks, bytes, segments, stored, index_pieces,
		unreadable, changed, sockets, mounts, files;
};

struct frame_planned {
	uint64_t stage_files, stage_bytes, segments, stored_bytes, create,
		remove, change, kept;
};

/* The largest payload of a type; 0: no such type. */
size_t frame_limit(unsigned type);
const char *frame_name(unsigned type); /* "SEGMENT" … for messages */

/* A byte stream in both directions. read returns up to n bytes, 0 at the
 * end, -1; write writes all n. Both may be interrupted (SC_EINTR). */
struct channel {
	ssize_t (*read)(void *arg, void *p, size_t n, struct sc_err *err);
	int (*write)(void *arg, const void *p, size_t n, struct sc_err *err);
	void *arg;
};

/* A channel over descriptors (the same twice for a socket). cancel may be
 * NULL. Sets them non-blocking. */
struct channel_fds {
	int in, out;
	const struct cancel *cancel;
};
int channel_fds_init(struct channel_fds *f, struct channel *ch,
		     struct sc_err *err);

struct frames {
	struct channel ch;
	pthread_mutex_t send_lock;
	uint64_t sent, sent_bytes; /* since frames_count_reset */
};

struct frame {
	unsigned type;
	unsigned volume;
	struct buf payload; /* reused by the next frame_recv */
};

void frames_init(struct frames *f, const struct channel *ch);
void frames_destroy(struct frames *f);
void frames_count_reset(struct frames *f);

/* One frame whose payload is head then body (either may be empty; both
 * borrowed). From any thread. */
int frame_send(struct frames *f, enum frame_type type, unsigned volume,
	       const void *head, size_t nhead, const void *body, size_t nbody,
	       struct sc_err *err);
/* 1 a frame, 0 the stream ended between frames, -1 (SC_EPROTO for a frame
 * that breaks the rules). From one thread at a time. */
int frame_recv(struct frames *f, struct frame *out, struct sc_err *err);
void frame_free(struct frame *f);

/* volume: the one it is about, or FRAME_NO_VOLUME. */
int frame_send_fail(struct frames *f, unsigned volume,
		    const struct sc_err *cause, struct sc_err *err);
/* Turns a received FAIL into *err; returns -1. */
int frame_take_fail(struct frame *f, struct sc_err *err);
/* n varints of the payload into v, nothing after them; else SC_EPROTO. */
int frame_varints(const struct frame *f, uint64_t *v, size_t n,
		  struct sc_err *err);
/* n varints as a frame. */
int frame_send_varints(struct frames *f, enum frame_type type, unsigned volume,
		       const uint64_t *v, size_t n, struct sc_err *err);

#endif
