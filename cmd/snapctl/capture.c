/* SPDX-License-Identifier: MIT */
#include "capture.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <snapctl/base/mem.h>
#include <snapctl/base/text.h>

#include "app.h"
#include "record.h"

#define PACK_DEFAULT (4ull << 30)

/* A volume on its way into the repository. */
struct incoming {
	struct packs *packs;
	struct chunk_table table; /* segments and packs only */
	struct blob_writer *blob; /* the index */
	struct index_writer *index;
	struct index_sink sink;
};

struct capture {
	struct task *t;
	struct capture_options o;
	struct snapshot *snapshot;
	struct incoming *in;
	/* The stack is started while the helper still compresses. */
	pthread_t starter;
	bool starting;
	int check_rc;
	struct sc_err check_err;
};

/* -- what the helper sends ------------------------------------------------ */

static int on_segment(void *arg, unsigned volume, const void *stored, size_t n,
		      uint32_t plain, struct sc_err *err)
{
	struct capture *c = arg;
	struct incoming *in = &c->in[volume];

	return packs_append(in->packs, stored, n, plain, &in->table, err);
}

static void *after_read(void *arg)
{
	struct capture *c = arg;

	c->check_rc = 0;
	if (c->t->quiesce)
		c->check_rc = quiesce_check(c->t->quiesce, &c->check_err);
	if (c->check_rc == 0 && c->o.all_read)
		c->o.all_read(c->o.arg);
	return NULL;
}

static int on_all_read(void *arg, struct sc_err *err)
{
	struct capture *c = arg;
	int rc = pthread_create(&c->starter, NULL, after_read, c);

	if (rc)
		return sc_fail(err, SC_EIO, rc, "start thread");
	c->starting = true;
	task_volumes_done(c->t);
	if (c->t->progress)
		ui_progress_phase(c->t->progress, "finish");
	return 0;
}

static int on_column(void *arg, unsigned volume, unsigned id, const void *p,
		     size_t n, struct sc_err *err)
{
	struct capture *c = arg;
	struct index_sink *s = &c->in[volume].sink;

	return s->piece(s->arg, id, p, n, err);
}

static int on_column_end(void *arg, unsigned volume, unsigned id,
			 unsigned codec, uint64_t rows, uint64_t plain,
			 struct sc_err *err)
{
	struct capture *c = arg;
	struct index_sink *s = &c->in[volume].sink;

	if (id == COL_SEGMENT || id == COL_PACK)
		return sc_fail(err, SC_EPROTO, 0,
			       "the helper sent places it cannot know");
	return s->end(s->arg, id, codec, rows, plain, err);
}

/* What was written must be readable, and be what the helper counted. */
static int check_index(struct incoming *in, uint64_t length,
		       const struct frame_taken *t, const char *volume,
		       struct sc_err *err)
{
	int fd = blob_fd(in->blob);
	struct index_source src = index_source_fd(&fd, length);
	const struct index_meta *m;
	struct index_reader *r;
	int rc = 0;

	if (index_open(&src, volume, &r, err) < 0)
		return -1;
	m = index_meta(r);
	if (m->entries != t->entries || m->chunks != t->chunks ||
	    m->bytes != t->bytes)
		rc = sc_fail(err, SC_EPROTO, 0,
			     "the index of %s does not hold what was read",
			     volume);
	index_close(r);
	return rc;
}

static int on_taken(void *arg, unsigned volume, const struct frame_taken *t,
		    struct sc_err *err)
{
	struct capture *c = arg;
	struct incoming *in = &c->in[volume];
	struct snapshot_volume *v = &c->snapshot->volumes[volume];
	struct digest digest;
	uint64_t length;

	if (packs_finish(in->packs, &in->table, err) < 0 ||
	    index_encode_places(&in->table, &in->sink, err) < 0 ||
	    index_writer_finish(in->index, &digest, &length, err) < 0 ||
	    check_index(in, length, t, v->name, err) < 0)
		return -1;
	index_writer_free(in->index);
	in->index = NULL;
	if (blob_seal_as(mem_take(&in->blob), &digest, err) < 0)
		return -1;
	return record_taken(v, t, &in->table, &digest, length, err);
}

/* -- taking --------------------------------------------------------------- */

static int open_incoming(struct capture *c, size_t i, struct sc_err *err)
{
	struct incoming *in = &c->in[i];
	struct repo *repo = c->t->repo;
	uint64_t max = c->o.max_pack ? c->o.max_pack : PACK_DEFAULT;

	if (packs_new(repo, PACK_TAR, max, &in->packs, err) < 0 ||
	    blob_new(repo, &in->blob, err) < 0 ||
	    index_writer_new(blob_fd(in->blob), INDEX_FULL, &in->index, err) <
		    0)
		return -1;
	in->sink = index_writer_sink(in->index);
	return 0;
}

static int take(struct capture *c, struct sc_err *err)
{
	struct session_sink sink = { on_segment,    on_all_read, on_column,
				     on_column_end, on_taken,	 c };
	int rc = session_take(c->t->session, c->o.live ? TAKE_LIVE : 0, &sink,
			      err);

	if (c->starting) {
		pthread_join(c->starter, NULL);
		/* A torn snapshot explains what else went wrong. */
		if (c->check_rc < 0) {
			*err = c->check_err;
			rc = -1;
		}
	}
	return rc;
}

int capture_take(struct task *t, const struct capture_options *o,
		 struct capture **out, struct sc_err *err)
{
	struct capture *c = calloc(1, sizeof(*c));
	int rc;

	if (!c)
		return sc_oom(err, "snapshot");
	c->t = t;
	c->o = *o;
	c->in = calloc(t->nvolumes + 1, sizeof(*c->in));
	if (!c->in) {
		sc_oom(err, "snapshot");
		goto fail;
	}
	rc = record_new(t, o->mode, o->note, o->tags, o->ntags, &c->snapshot,
			err);
	for (size_t i = 0; i < t->nvolumes && rc == 0; i++)
		rc = open_incoming(c, i, err);
	if (rc == 0)
		rc = take(c, err);
	if (rc < 0)
		goto fail;
	*out = c;
	return 0;
fail:
	capture_free(c);
	return -1;
}

int capture_publish(struct capture *c, struct sc_err *err)
{
	if (record_finish(c->t, c->snapshot, c->o.live, err) < 0)
		return -1;
	return repo_publish(c->t->repo, c->snapshot, err);
}

const struct snapshot *capture_snapshot(const struct capture *c)
{
	return c->snapshot;
}

void capture_free(struct capture *c)
{
	if (!c)
		return;
	for (size_t i = 0; c->in && i < c->t->nvolumes; i++) {
		packs_free(c->in[i].packs);
		index_writer_free(c->in[i].index);
		blob_discard(c->in[i].blob);
		chunk_table_free(&c->in[i].table);
	}
	free(c->in);
	snapshot_free(c->snapshot);
	free(c);
}
