/* SPDX-License-Identifier: MIT */
/* SCAN and TAKE. All volumes are read before any index is encoded: encoding
 * needs no stopped stack. */
#include "helper.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <snapctl/archive/take.h>
#include <snapctl/base/mem.h>
#include <snapctl/scan/index.h>

/* The kernel's clock for stamps ticks at 100 Hz at the slowest. */
#define GRAIN_NS 10000000u

static int walk(struct helper *h, struct volume *v, bool live,
		struct walk_result *out, struct sc_err *err)
{
	struct walk_options o = {
		.threads = h->threads,
		.leave_out = v->leave_out,
		.allow_incomplete = (h->flags & SESSION_ALLOW_INCOMPLETE) != 0,
		.live = live,
		.stop = &h->stop,
	};

	return walk_tree(v->fd, &o, &h->notes, out, err);
}

/* A volume that is neither old nor new is not worth a snapshot. */
static int refuse_unfinished(struct volume *v, struct sc_err *err)
{
	int rc = restore_unfinished(v->fd, err);

	if (rc > 0)
		return sc_fail(err, SC_EREFUSED, 0,
			       "a restore of it did not end, it may be half "
			       "old and half new; run snapctl restore again");
	return rc;
}

int read_scan(struct helper *h, struct sc_err *err)
{
	for (unsigned i = 0; i < h->nvolumes; i++) {
		struct walk_result r = { 0 };
		uint64_t out[4];

		watch_volume(h, i);
		if (refuse_unfinished(&h->volumes[i], err) < 0)
			return -1;
		if (walk(h, &h->volumes[i], true, &r, err) < 0)
			return -1;
		tree_free(r.tree);
		out[0] = r.entries;
		out[1] = r.files;
		out[2] = r.bytes;
		out[3] = r.vanished;
		if (frame_send_varints(&h->frames, FRAME_SCANNED, i, out, 4,
				       err) < 0)
			return -1;
	}
	return 0;
}

/* -- TAKE ----------------------------------------------------------------- */

/* One volume on its way from walk to index. */
struct taken {
	struct helper *h;
	unsigned number;
	bool last;
	struct walk_result walk;
	struct chunk_table chunks;
	struct take_result read;
	struct timespec t0;
	uint64_t stored;
	uint64_t pieces;
};

static int send_segment(void *arg, const void *stored, size_t n, uint32_t plain,
			struct sc_err *err)
{
	struct taken *t = arg;
	unsigned char head[4];

	for (int i = 0; i < 4; i++)
		head[i] = (unsigned char)(plain >> (8 * i));
	t->stored += n;
	return frame_send(&t->h->frames, FRAME_SEGMENT, t->number, head, 4,
			  stored, n, err);
}

static void all_read(void *arg)
{
	struct taken *t = arg;
	struct sc_err ignored;

	/* A broken stream is found by the next segment or column. */
	if (t->last)
		(void)frame_send(&t->h->frames, FRAME_ALLREAD, FRAME_NO_VOLUME,
				 NULL, 0, NULL, 0, &ignored);
}

static int read_volume(struct helper *h, struct taken *t, bool live,
		       struct sc_err *err)
{
	struct volume *v = &h->volumes[t->number];
	struct take_options o = {
		.threads = h->threads,
		.level = h->level,
		.chunk_avg = h->chunk_avg,
		.allow_incomplete = (h->flags & SESSION_ALLOW_INCOMPLETE) != 0,
		.live = live,
		.trusted_xattrs = (h->flags & SESSION_TRUSTED_XATTRS) != 0,
		.bytes = &h->bytes,
		.files = &h->files,
		.stop = &h->stop,
	};
	struct take_sink sink = { send_segment, all_read, t };

	watch_volume(h, t->number);
	if (clock_gettime(CLOCK_REALTIME, &t->t0) < 0)
		return sc_fail(err, SC_EIO, errno, "read the clock");
	/* A store through mmap to a dirty page moves no stamp: beside
	 * writers the file system is synced first. */
	if (live && syncfs(v->fd) < 0)
		return sc_fail(err, SC_EIO, errno, "sync volume %u", t->number);
	if (walk(h, v, live, &t->walk, err) < 0)
		return -1;
	if (!live && t->walk.vanished)
		return sc_fail(err, SC_ETORN, 0,
			       "%llu entries vanished while the volume was "
			       "walked: something writes to it",
			       (unsigned long long)t->walk.vanished);
	return take_full(v->fd, t->walk.tree, &o, &sink, &h->notes, &t->chunks,
			 &t->read, err);
}

static int send_piece(void *arg, unsigned id, const void *p, size_t n,
		      struct sc_err *err)
{
	struct taken *t = arg;
	unsigned char head[2] = { (unsigned char)id, (unsigned char)(id >> 8) };
	const unsigned char *at = p;

	while (n) {
		size_t k = n < FRAME_PIECE ? n : FRAME_PIECE;

		if (frame_send(&t->h->frames, FRAME_COLUMN, t->number, head, 2,
			       at, k, err) < 0)
			return -1;
		t->pieces++;
		at += k;
		n -= k;
	}
	return 0;
}

static int send_colend(void *arg, unsigned id, unsigned codec, uint64_t rows,
		       uint64_t plain, struct sc_err *err)
{
	struct taken *t = arg;
	uint64_t v[4] = { id, codec, rows, plain };

	return frame_send_varints(&t->h->frames, FRAME_COLEND, t->number, v, 4,
				  err);
}

/* Where stamps cannot be relied on, the snapshot is no parent of another. */
static bool stamps_hold(uint64_t fs_type)
{
	static const uint32_t not [] = {
		0x01021994, /* tmpfs */
		0x858458f6, /* ramfs */
		0x6969,	    /* NFS */
		0x65735546, /* FUSE */
	};

	for (size_t i = 0; i < ARRAY_LEN(not ); i++)
		if (fs_type == not [i])
			return false;
	return true;
}

static uint64_t sum_of_sizes(const struct tree *t)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < tree_count(t); i++)
		if (entry_is_reg(tree_at(t, i)))
			sum += tree_at(t, i)->size;
	return sum;
}

static int send_index(struct taken *t, bool live, struct sc_err *err)
{
	const struct walk_result *w = &t->walk;
	struct index_sink sink = { send_piece, send_colend, t };
	struct index_meta m = {
		.entries = tree_count(w->tree),
		.chunks = t->chunks.nchunks,
		.bytes = sum_of_sizes(w->tree),
		.t0 = t->t0.tv_sec,
		.t0_ns = (uint32_t)t->t0.tv_nsec,
		.grain_ns = GRAIN_NS,
		.beside_writers = live,
		.parent_ok = stamps_hold(w->fs_type) || !live,
		.fs_type = w->fs_type,
		.fs_id = w->fs_id,
		.dev = w->dev,
		.chunk_avg = t->h->chunk_avg,
	};
	uint64_t v[11];

	if (index_encode(w->tree, &t->chunks, &m, &sink, err) < 0)
		return -1;
	v[0] = m.entries;
	v[1] = m.chunks;
	v[2] = m.bytes;
	v[3] = t->read.segments;
	v[4] = t->stored;
	v[5] = t->pieces;
	v[6] = t->read.unreadable + w->unreadable;
	v[7] = t->read.changed;
	v[8] = w->sockets;
	v[9] = w->mounts;
	v[10] = t->read.files;
	return frame_send_varints(&t->h->frames, FRAME_TAKEN, t->number, v, 11,
				  err);
}

static void taken_free(struct taken *t)
{
	tree_free(t->walk.tree);
	t->walk.tree = NULL;
	chunk_table_free(&t->chunks);
}

int read_take(struct helper *h, unsigned flags, struct sc_err *err)
{
	bool live = (flags & TAKE_LIVE) != 0;
	struct taken *all = calloc(h->nvolumes + 1, sizeof(*all));
	int rc = 0;

	if (!all)
		return sc_oom(err, "volumes");
	for (unsigned i = 0; i < h->nvolumes && rc == 0; i++) {
		all[i].h = h;
		all[i].number = i;
		all[i].last = i + 1 == h->nvolumes;
		rc = read_volume(h, &all[i], live, err);
	}
	for (unsigned i = 0; i < h->nvolumes && rc == 0; i++) {
		rc = send_index(&all[i], live, err);
		taken_free(&all[i]);
	}
	for (unsigned i = 0; i < h->nvolumes; i++)
		taken_free(&all[i]);
	free(all);
	return rc;
}
