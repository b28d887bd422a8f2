/* SPDX-License-Identifier: MIT */
/* PLAN, STAGE, RECHECK, COMMIT, UNDO: restore.h over the protocol. */
#include "helper.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>

#include <snapctl/base/mem.h>
#include <snapctl/base/text.h>
#include <snapctl/scan/index.h>

/* One volume's index; 60 MB hold a million entries with their chunks. */
#define INDEX_MAX (8ull << 30)

void write_free(struct volume *v)
{
	restore_free(v->restore);
	v->restore = NULL;
	tree_free(v->tree);
	v->tree = NULL;
	chunk_table_free(&v->chunks);
	buf_free(&v->index);
}

int write_index(struct helper *h, struct sc_err *err)
{
	struct volume *v;

	if (h->phase != PHASE_OPEN || h->in.volume >= h->nvolumes)
		return sc_fail(err, SC_EPROTO, 0, "INDEX out of turn");
	v = &h->volumes[h->in.volume];
	if (v->index.len + h->in.payload.len > INDEX_MAX)
		return sc_fail(err, SC_EPROTO, 0, "INDEX is too long");
	buf_put(&v->index, h->in.payload.p, h->in.payload.len);
	return v->index.failed ? sc_oom(err, "index") : 0;
}

static int load_index(struct volume *v, unsigned number, struct sc_err *err)
{
	struct index_source src = index_source_mem(&v->index);
	struct index_reader *r;
	char name[40];
	int rc;

	snprintf(name, sizeof(name), "index of volume %u", number);
	if (index_open(&src, name, &r, err) < 0)
		return -1;
	rc = index_load(r, &v->tree, &v->chunks, err);
	index_close(r);
	buf_free(&v->index);
	return rc;
}

static int plan_volume(struct helper *h, unsigned i, struct sc_err *err)
{
	struct volume *v = &h->volumes[i];
	struct restore_options o = {
		.threads = h->threads,
		.leave_out = v->leave_out,
		.bytes = &h->bytes,
		.files = &h->files,
		.stop = &h->stop,
	};
	struct restore_summary s = { 0 };
	uint64_t out[8];

	watch_volume(h, i);
	if (load_index(v, i, err) < 0 ||
	    restore_plan(v->fd, v->tree, &v->chunks, &o, &h->notes, &v->restore,
			 &s, err) < 0)
		return -1;
	out[0] = s.stage_files;
	out[1] = s.stage_bytes;
	out[2] = s.segments;
	out[3] = s.stored_bytes;
	out[4] = s.create;
	out[5] = s.remove;
	out[6] = s.change;
	out[7] = s.kept;
	return frame_send_varints(&h->frames, FRAME_PLANNED, i, out, 8, err);
}

int write_plan(struct helper *h, struct sc_err *err)
{
	struct cur c = cur_of(h->in.payload.p, h->in.payload.len);

	for (unsigned i = 0; i < h->nvolumes; i++)
		if (cur_varint(&c) != h->volumes[i].index.len || c.bad)
			return sc_fail(
				err, SC_EPROTO, 0,
				"the index of volume %u did not arrive whole",
				i);
	for (unsigned i = 0; i < h->nvolumes; i++)
		if (plan_volume(h, i, err) < 0)
			return -1;
	return 0;
}

/* -- STAGE ---------------------------------------------------------------- */

static int send_needs(struct helper *h, unsigned i, struct sc_err *err)
{
	auto_buf struct buf b = { 0 };
	size_t n;
	const uint32_t *need = restore_needs(h->volumes[i].restore, &n);

	for (size_t k = 0; k < n; k++) {
		buf_u32(&b, need[k]);
		if (b.failed)
			return sc_oom(err, "list of segments");
		if (b.len < FRAME_PIECE && k + 1 < n)
			continue;
		if (frame_send(&h->frames, FRAME_NEED, i, NULL, 0, b.p, b.len,
			       err) < 0)
			return -1;
		buf_clear(&b);
	}
	return 0;
}

struct source {
	struct helper *h;
	unsigned volume;
	bool aborted;
	int wake; /* eventfd: do not wait for another segment */
};

/* Waits for the start of a frame, not within one: what follows a failure must
 * still be read frame by frame. */
static int wait_segment(struct source *s, struct sc_err *err)
{
	struct pollfd p[2] = {
		{ .fd = s->h->infd, .events = POLLIN },
		{ .fd = s->wake, .events = POLLIN },
	};

	while (poll(p, 2, -1) < 0)
		if (errno != EINTR)
			return sc_fail(err, SC_EIO, errno,
				       "wait for a segment");
	return p[1].revents ? sc_fail(err, SC_EINTR, 0, "staging has failed")
			    : 0;
}

static int next_segment(void *arg, struct buf *out, struct sc_err *err)
{
	struct source *s = arg;
	struct helper *h = s->h;
	struct buf swap;
	int rc;

	/* Another worker of the stage may ask once more before it sees that
	 * one has failed: nothing more comes. */
	if (s->aborted)
		return sc_fail(err, SC_EINTR, 0, "snapctl asked to stop");
	if (wait_segment(s, err) < 0)
		return -1;
	rc = frame_recv(&h->frames, &h->in, err);
	if (rc <= 0)
		h->ended = s->aborted = true;
	if (rc == 0)
		return sc_fail(err, SC_EINTR, 0, "snapctl went away");
	if (rc < 0)
		return -1;
	if (h->in.type == FRAME_ABORT) {
		s->aborted = true;
		return sc_fail(err, SC_EINTR, 0, "snapctl asked to stop");
	}
	if (h->in.type != FRAME_SEGMENT || h->in.volume != s->volume)
		return sc_fail(err, SC_EPROTO, 0,
			       "%s came instead of a segment",
			       frame_name(h->in.type));
	swap = *out;
	*out = h->in.payload;
	h->in.payload = swap;
	return 0;
}

/* After a failure of ours snapctl may still be sending: what comes is thrown
 * away until it says ABORT or there is nothing left to come. */
static void drain(struct source *s, uint64_t left)
{
	struct helper *h = s->h;
	struct sc_err ignored;

	while (left-- && !s->aborted) {
		if (frame_recv(&h->frames, &h->in, &ignored) <= 0)
			h->ended = s->aborted = true;
		else if (h->in.type == FRAME_ABORT)
			s->aborted = true;
	}
}

struct counted {
	struct source s;
	uint64_t left;
};

static int next_counted(void *arg, struct buf *out, struct sc_err *err)
{
	struct counted *c = arg;
	int rc = next_segment(&c->s, out, err);

	c->left -= rc == 0 && c->left;
	return rc;
}

static void stop_waiting(void *arg)
{
	struct counted *c = arg;

	/* Cannot fail: the counter is far from its end. */
	(void)eventfd_write(c->s.wake, 1);
}

/* Of every volume, then the empty one; *all of them. */
static int send_all_needs(struct helper *h, uint64_t *all, struct sc_err *err)
{
	for (unsigned i = 0; i < h->nvolumes; i++) {
		size_t n;

		(void)restore_needs(h->volumes[i].restore, &n);
		*all += n;
		if (send_needs(h, i, err) < 0)
			return -1;
	}
	return frame_send(&h->frames, FRAME_NEED, FRAME_NO_VOLUME, NULL, 0,
			  NULL, 0, err);
}

int write_stage(struct helper *h, struct sc_err *err)
{
	auto_close int wake = eventfd(0, EFD_CLOEXEC);
	struct counted c = { .s = { .h = h, .wake = wake } };
	struct restore_source src = { next_counted, stop_waiting, &c };
	struct sc_err lost;
	int rc = 0;

	if (wake < 0) {
		h->ended = true;
		return sc_fail(err, SC_EIO, errno, "eventfd");
	}
	if (send_all_needs(h, &c.left, err) < 0) {
		h->ended = true; /* nobody is told: the stream is broken */
		return -1;
	}
	for (unsigned i = 0; i < h->nvolumes && rc == 0; i++) {
		c.s.volume = i;
		watch_volume(h, i);
		rc = restore_stage(h->volumes[i].restore, &src, err);
	}
	if (rc < 0) {
		/* Said before draining: snapctl stops sending when it hears
		 * it. FAIL is the last frame of the command, so PROGRESS ends
		 * before it. */
		watch_stop(h->watch);
		if (frame_send_fail(&h->frames, atomic_load(&h->current), err,
				    &lost) < 0)
			h->ended = true;
		drain(&c.s, c.left);
	}
	return rc;
}

static int each(struct helper *h, int (*fn)(struct restore *, struct sc_err *),
		struct sc_err *err)
{
	for (unsigned i = 0; i < h->nvolumes; i++) {
		watch_volume(h, i);
		if (h->volumes[i].restore && fn(h->volumes[i].restore, err) < 0)
			return -1;
	}
	return 0;
}

int write_recheck(struct helper *h, struct sc_err *err)
{
	return each(h, restore_recheck, err);
}

/* As long as nothing was replaced a failure is SC_EREFUSED and UNDO works. */
int write_commit(struct helper *h, struct sc_err *err)
{
	if (each(h, restore_mark, err) < 0) {
		err->code = SC_EREFUSED;
		return -1;
	}
	for (unsigned i = 0; i < h->nvolumes; i++) {
		watch_volume(h, i);
		if (restore_commit(h->volumes[i].restore, err) < 0) {
			h->committing |= err->code == SC_EPARTIAL;
			err->code = h->committing ? SC_EPARTIAL : SC_EREFUSED;
			return -1;
		}
		h->committing = true;
	}
	return 0;
}

int write_undo(struct helper *h, struct sc_err *err)
{
	if (h->committing)
		return sc_fail(err, SC_EPARTIAL, 0,
			       "the commit has begun and cannot be undone");
	return write_clear(h, err);
}

int write_clear(struct helper *h, struct sc_err *err)
{
	struct sc_err e;
	int rc = 0;

	if (h->committing)
		return 0;
	for (unsigned i = 0; i < h->nvolumes; i++) {
		if (h->volumes[i].restore &&
		    restore_abort(h->volumes[i].restore, &e) < 0) {
			if (rc == 0)
				*err = e;
			rc = -1;
		}
	}
	return rc;
}
