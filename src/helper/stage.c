/* SPDX-License-Identifier: MIT */
/* The restore half of the conversation. */
#include <snapctl/helper/session.h>

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include <snapctl/base/mem.h>

#include "internal.h"

int session_index(struct session *s, unsigned volume, const void *p, size_t n,
		  struct sc_err *err)
{
	const unsigned char *at = p;

	while (n) {
		size_t k = n < FRAME_PIECE ? n : FRAME_PIECE;

		if (frame_send(&s->frames, FRAME_INDEX, volume, NULL, 0, at, k,
			       err) < 0)
			return session_unsent(s, err);
		at += k;
		n -= k;
	}
	return 0;
}

int session_plan(struct session *s, const uint64_t *lengths,
		 struct frame_planned *out, struct sc_err *err)
{
	auto_buf struct buf b = { 0 };
	unsigned seen = 0;
	uint64_t v[8];
	int rc;

	for (unsigned i = 0; i < s->ntaken; i++)
		buf_varint(&b, lengths[i]);
	if (b.failed)
		return sc_oom(err, "frame");
	if (session_command(s, FRAME_PLAN, b.p, b.len, err) < 0)
		return -1;
	while ((rc = session_next(s, err)) > 0) {
		if (s->in.type != FRAME_PLANNED || s->in.volume != seen ||
		    seen >= s->ntaken)
			return session_protocol(s, frame_name(s->in.type), err);
		if (frame_varints(&s->in, v, 8, err) < 0)
			return session_protocol(s, "a broken PLANNED", err);
		out[seen++] = (struct frame_planned){ v[0], v[1], v[2], v[3],
						      v[4], v[5], v[6], v[7] };
	}
	if (rc == 0 && seen != s->ntaken)
		return session_protocol(s, "a volume was not planned", err);
	return rc;
}

/* -- stage ---------------------------------------------------------------- */

struct need {
	uint32_t volume, segment;
};

struct staging {
	struct session *s;
	struct need *v;
	size_t n, cap;
	bool unsent; /* a send failed: what was sent may end within a frame */
	/* The reader thread: takes what the helper says while we send. */
	atomic_bool ended;
	int rc;
	struct sc_err err;
};

static int take_needs(struct staging *st, struct sc_err *err)
{
	struct session *s = st->s;
	struct cur c = cur_of(s->in.payload.p, s->in.payload.len);

	if (s->in.volume >= s->ntaken || s->in.payload.len % 4)
		return session_protocol(s, "a broken NEED", err);
	if (mem_grow(&st->v, &st->cap, st->n + s->in.payload.len / 4,
		     sizeof(*st->v)) < 0)
		return sc_oom(err, "list of segments");
	while (cur_left(&c))
		st->v[st->n++] = (struct need){ s->in.volume, cur_u32(&c) };
	return 0;
}

/* NEED frames up to the empty one. */
static int collect_needs(struct staging *st, struct sc_err *err)
{
	int rc;

	while ((rc = session_next(st->s, err)) > 0) {
		if (st->s->in.type != FRAME_NEED)
			break;
		if (st->s->in.volume == FRAME_NO_VOLUME)
			return 0;
		if (take_needs(st, err) < 0)
			return -1;
	}
	return rc < 0 ? -1
		      : session_protocol(st->s, frame_name(st->s->in.type),
					 err);
}

static void *read_answers(void *arg)
{
	struct staging *st = arg;

	st->rc = session_finish(st->s, &st->err);
	atomic_store(&st->ended, true);
	return NULL;
}

static int send_segments(struct staging *st,
			 int (*get)(void *, unsigned, uint32_t, struct buf *,
				    struct sc_err *),
			 void *arg, struct sc_err *err)
{
	auto_buf struct buf b = { 0 };

	for (size_t i = 0; i < st->n && !atomic_load(&st->ended); i++) {
		buf_clear(&b);
		if (get(arg, st->v[i].volume, st->v[i].segment, &b, err) < 0)
			return -1;
		if (frame_send(&st->s->frames, FRAME_SEGMENT, st->v[i].volume,
			       NULL, 0, b.p, b.len, err) < 0) {
			st->unsent = true;
			return -1;
		}
	}
	return 0;
}

/* The helper is told why no more segments come; it answers with FAIL. */
static int send_abort(struct session *s, const char *why, struct sc_err *err)
{
	auto_buf struct buf b = { 0 };

	buf_bytes(&b, why, strnlen(why, 1000));
	if (b.failed)
		return sc_oom(err, "frame");
	return frame_send(&s->frames, FRAME_ABORT, FRAME_NO_VOLUME, NULL, 0,
			  b.p, b.len, err);
}

int session_stage(struct session *s,
		  int (*get)(void *arg, unsigned volume, uint32_t segment,
			     struct buf *out, struct sc_err *err),
		  void *arg, struct sc_err *err)
{
	struct staging st = { .s = s };
	struct sc_err ours = { 0 }, unsent;
	pthread_t reader;
	bool lost;
	int rc;

	rc = session_command(s, FRAME_STAGE, NULL, 0, err);
	if (rc == 0)
		rc = collect_needs(&st, err);
	if (rc < 0)
		goto out;
	rc = pthread_create(&reader, NULL, read_answers, &st);
	if (rc) {
		rc = sc_fail(err, SC_EIO, rc, "start thread");
		goto out;
	}
	rc = send_segments(&st, get, arg, &ours);
	if (rc < 0 && (st.unsent || send_abort(s, ours.msg, &unsent) < 0))
		link_abort(&s->link);
	pthread_join(reader, NULL);
	if (st.unsent)
		s->broken = true;
	/* A helper that failed throws segments away until it is told that no
	 * more come. */
	if (rc == 0 && st.rc < 0 && !s->broken &&
	    send_abort(s, "", &unsent) < 0)
		s->broken = true;
	/* Our own failure is the cause of what the helper then says; a lost
	 * helper is the cause of a failed send. */
	lost = st.unsent && (ours.code == SC_EIO || ours.code == SC_EENGINE);
	if (rc < 0 && (st.rc == 0 || !lost))
		*err = ours;
	else if (st.rc < 0)
		*err = st.err;
	if (st.rc < 0)
		rc = -1;
out:
	free(st.v);
	return rc;
}

int session_recheck(struct session *s, struct sc_err *err)
{
	if (session_command(s, FRAME_RECHECK, NULL, 0, err) < 0)
		return -1;
	return session_finish(s, err);
}

/* Runs a command that must not be left half-way for a ^C. */
static int uninterrupted(struct session *s, enum frame_type type,
			 struct sc_err *err)
{
	const struct cancel *saved = s->link.fds.cancel;
	int rc;

	docker_shield(s->d, true);
	s->link.fds.cancel = NULL;
	rc = session_command(s, type, NULL, 0, err);
	if (rc == 0)
		rc = session_finish(s, err);
	s->link.fds.cancel = saved;
	docker_shield(s->d, false);
	return rc;
}

int session_commit(struct session *s, struct sc_err *err)
{
	return uninterrupted(s, FRAME_COMMIT, err);
}

int session_undo(struct session *s, struct sc_err *err)
{
	if (!s->broken)
		return uninterrupted(s, FRAME_UNDO, err);
	if (session_settle(s, err) < 0)
		return -1;
	if (s->exit_code == FRAME_EXIT_LEFT || s->exit_code > 128)
		return sc_fail(
			err, SC_EENGINE, 0,
			"the helper ended (%d) and may have left its stage in "
			"the volumes; the next restore removes it",
			s->exit_code);
	return 0;
}
