/* SPDX-License-Identifier: MIT */
/* A file taken in blocks of about 4 MiB. Blocks are read and searched for
 * chunk boundaries side by side; then the baton goes from block to block. It
 * carries the bytes after the last cut, which the next block puts before its
 * own: so no chunk straddles two segments, and the cuts are those of a
 * sequential pass. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <snapctl/base/mem.h>

#include "take_internal.h"

#define PAGE 4096u

void bigfile_free(struct bigfile *f)
{
	if (!f)
		return;
	if (f->fd >= 0)
		close(f->fd);
	buf_free(&f->header);
	free(f->x);
	free(f->carry);
	free(f);
}

/* Blocks of equal length, none of them tiny. */
static uint64_t block_len(const struct bigfile *f)
{
	uint64_t len = (f->len + f->blocks - 1) / f->blocks;

	return (len + PAGE - 1) & ~(uint64_t)(PAGE - 1);
}

static uint64_t blocks_of(uint64_t len)
{
	uint64_t n = (len + BLOCK_LEN / 2) / BLOCK_LEN;

	return n ? n : 1;
}

/* -- opening, by the planner --------------------------------------------- */

static int open_big(struct worker *w, struct job *j, uint32_t slot,
		    struct bigfile *f, struct sc_err *err)
{
	const struct entry *e = tree_at(w->k->t, slot);
	struct sc_err why = { 0 };
	int dir;

	if (slot == 0) {
		f->fd = fcntl(w->k->rootfd, F_DUPFD_CLOEXEC, 0);
	} else if (dirs_get(&w->dirs, e->parent, &dir, &why) < 0) {
		return entry_lost(w, j, slot, why.sys, err);
	} else {
		f->fd = openat(dir, e->name,
			       O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY |
				       O_CLOEXEC);
	}
	if (f->fd < 0)
		return entry_lost(w, j, slot, errno, err);
	if (meta_read(&w->meta, f->fd, false, w->k->o->trusted_xattrs, &why) <
	    0) {
		if (why.code == SC_EIO)
			return entry_lost(w, j, slot, why.sys, err);
		*err = why;
		return -1;
	}
	if (!S_ISREG(w->meta.st.st_mode))
		return entry_lost(w, j, slot, ESTALE, err);
	if (!w->k->o->live && !stat_is_entry(&w->meta.st, e))
		return entry_changed(w, j, slot, "changed before it was taken",
				     err);
	return 1;
}

static int fill_big(struct worker *w, struct bigfile *f, struct sc_err *err)
{
	const struct meta *m = &w->meta;

	f->before = m->st;
	f->len = m->data;
	f->blocks = f->unread = blocks_of(f->len);
	f->carry = malloc(w->k->chunker.max);
	if (m->sparse)
		f->x = malloc(m->nx * sizeof(*f->x));
	if (!f->carry || (m->sparse && !f->x))
		return sc_oom(err, "file");
	if (m->sparse) {
		memcpy(f->x, m->x, m->nx * sizeof(*f->x));
		f->nx = m->nx;
	}
	return entry_header(w, f->slot, NULL, &f->header, &f->pad, err);
}

int block_open(struct worker *w, struct job *j, uint32_t slot,
	       struct bigfile **out, uint64_t *data, struct sc_err *err)
{
	struct bigfile *f = calloc(1, sizeof(*f));
	int rc;

	if (!f)
		return sc_oom(err, "file");
	f->slot = slot;
	f->fd = -1;
	rc = open_big(w, j, slot, f, err);
	if (rc > 0 && w->meta.data <= BIG_ABOVE) {
		*data = w->meta.data;
		bigfile_free(f);
		return 0;
	}
	if (rc > 0)
		rc = fill_big(w, f, err) < 0 ? -1 : 1;
	if (rc > 0)
		rc = entry_keep(w, j, slot, err) < 0 ? -1 : 1;
	if (rc > 0) {
		*out = f;
		return 1;
	}
	bigfile_free(f);
	return rc < 0 ? -1 : 2;
}

/* -- one block ----------------------------------------------------------- */

/* Where things lie in w->plain: room for the header or the carried bytes,
 * then the block's data at data_at. */
struct layout {
	uint64_t off;	/* of the block in the file's data */
	size_t len;	/* of it */
	size_t data_at; /* in w->plain */
	size_t from;	/* where the segment begins */
};

static int place(struct worker *w, const struct job *j, struct layout *l,
		 struct sc_err *err)
{
	const struct bigfile *f = j->f;
	uint64_t per = block_len(f), end = (j->block + 1) * per;
	size_t room = w->k->chunker.max;

	if (j->block == 0 && f->header.len > room)
		room = f->header.len;
	l->off = j->block * per;
	l->len = (size_t)((end < f->len ? end : f->len) - l->off);
	l->data_at = (room + PAGE - 1) & ~(size_t)(PAGE - 1);
	l->from = l->data_at;
	buf_clear(&w->plain);
	if (!buf_reserve(&w->plain, l->data_at + l->len + 512))
		return sc_oom(err, "segment");
	return 0;
}

/* The block's data, and the bytes before it that the hash looks at. */
static int read_block(struct worker *w, const struct job *j,
		      const struct layout *l, bool *missing)
{
	const struct bigfile *f = j->f;
	size_t before = j->block ? CHUNK_WINDOW : 0;

	return data_read(f->fd, f->x, f->nx, l->off - before,
			 w->plain.p + l->data_at - before, before + l->len,
			 missing);
}

/* Who read the last block looks whether the file is still what it was. */
static int end_of_reading(struct worker *w, struct job *j, struct sc_err *err)
{
	struct bigfile *f = j->f;
	struct stat after;
	bool last;

	pthread_mutex_lock(&w->k->lock);
	last = --f->unread == 0;
	pthread_mutex_unlock(&w->k->lock);
	if (!last)
		return 0;
	if (fstat(f->fd, &after) < 0)
		return sc_fail(err, SC_EIO, errno, "stat");
	close(f->fd);
	f->fd = -1;
	if (!stat_same(&f->before, &after) &&
	    entry_changed(w, j, f->slot, "changed while it was read", err) < 0)
		return -1;
	j->sum.files++;
	if (w->k->o->files)
		atomic_fetch_add_explicit(w->k->o->files, 1,
					  memory_order_relaxed);
	return 0;
}

/* A block that cannot be read is zeros in the tar, whose header is out
 * already; the index says that the file has no data. */
static int block_lost(struct worker *w, struct job *j, const struct layout *l,
		      int sys, struct sc_err *err)
{
	struct bigfile *f = j->f;
	bool first;

	memset(w->plain.p + l->data_at, 0, l->len);
	pthread_mutex_lock(&w->k->lock);
	first = !f->unreadable;
	f->unreadable = true;
	pthread_mutex_unlock(&w->k->lock);
	return first ? entry_lost(w, j, f->slot, sys, err) : 0;
}

static int get_block(struct worker *w, struct job *j, const struct layout *l,
		     struct sc_err *err)
{
	bool missing = false;

	if (read_block(w, j, l, &missing) < 0 &&
	    block_lost(w, j, l, errno, err) < 0)
		return -1;
	if (missing && entry_changed(w, j, j->f->slot,
				     "changed while it was read", err) < 0)
		return -1;
	j->sum.bytes += l->len;
	if (w->k->o->bytes)
		atomic_fetch_add_explicit(w->k->o->bytes, l->len,
					  memory_order_relaxed);
	return end_of_reading(w, j, err);
}

/* -- the baton ----------------------------------------------------------- */

static int take_baton(struct worker *w, struct job *j, struct layout *l,
		      struct sc_err *err)
{
	struct take *k = w->k;
	struct bigfile *f = j->f;
	bool mine;

	pthread_mutex_lock(&k->lock);
	while (!(mine = f->turn == j->block) && !group_stopping(k->group))
		pthread_cond_wait(&k->step, &k->lock);
	pthread_mutex_unlock(&k->lock);
	if (!mine)
		return sc_fail(err, SC_EINTR, 0, "interrupted");
	l->from = l->data_at - f->ncarry;
	if (f->ncarry)
		memcpy(w->plain.p + l->from, f->carry, f->ncarry);
	return 0;
}

static void pass_baton(struct worker *w, struct job *j,
		       const unsigned char *rest, size_t n)
{
	struct bigfile *f = j->f;

	if (n)
		memcpy(f->carry, rest, n);
	f->ncarry = n;
	pthread_mutex_lock(&w->k->lock);
	f->turn++;
	pthread_cond_broadcast(&w->k->step);
	pthread_mutex_unlock(&w->k->lock);
}

/* Picks the cuts of the block; lengths into w->lens. The position of the
 * carried bytes' first is the start of the chunk. */
static size_t cut_block(struct worker *w, const struct job *j,
			const struct layout *l, size_t ncand)
{
	uint64_t start = l->off - (l->data_at - l->from), cut;
	struct chunk_cutter c = { &w->k->chunker, start };
	bool end = j->block + 1 == j->f->blocks;
	size_t n = 0;

	while ((cut = chunker_cut(&c, w->cand, ncand, l->off, l->off + l->len,
				  end)) != 0) {
		w->lens[n++] = (uint32_t)(cut - start);
		start = cut;
	}
	return n;
}

/* -- the segment --------------------------------------------------------- */

static int close_block(struct worker *w, struct job *j, struct layout *l,
		       size_t nlens, struct sc_err *err)
{
	const struct bigfile *f = j->f;
	unsigned char *p = w->plain.p;
	size_t at = 0;

	if (j->block == 0) {
		l->from -= f->header.len;
		memcpy(p + l->from, f->header.p, f->header.len);
		at = f->header.len;
	}
	p += l->from;
	for (size_t i = 0; i < nlens; i++) {
		if (job_chunk(w, j, p, at, w->lens[i], err) < 0)
			return -1;
		at += w->lens[i];
	}
	if (j->block + 1 == f->blocks) {
		memset(p + at, 0, f->pad);
		at += f->pad;
	}
	return job_segment(w, j, p, at, err);
}

int block_run(struct worker *w, struct job *j, struct sc_err *err)
{
	struct layout l;
	size_t ncand, nlens, used = 0;

	if (place(w, j, &l, err) < 0 || get_block(w, j, &l, err) < 0)
		return -1;
	order_read(w->k, j);
	ncand = chunker_mark(&w->k->chunker, w->plain.p + l.data_at, l.len,
			     w->plain.p + l.data_at - CHUNK_WINDOW,
			     j->block ? CHUNK_WINDOW : 0, w->cand);
	if (take_baton(w, j, &l, err) < 0)
		return -1;
	nlens = cut_block(w, j, &l, ncand);
	for (size_t i = 0; i < nlens; i++)
		used += w->lens[i];
	pass_baton(w, j, w->plain.p + l.from + used,
		   l.data_at + l.len - l.from - used);
	return close_block(w, j, &l, nlens, err);
}
