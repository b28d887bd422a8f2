/* SPDX-License-Identifier: MIT */
/* Steps that batches and blocks share: recording an entry, its header, its
 * chunks, and what to do when it cannot be read or is not what it was. */
#include <errno.h>
#include <string.h>

#include <snapctl/base/mem.h>
#include <snapctl/base/text.h>

#include "take_internal.h"

const char *entry_shown(struct worker *w, uint32_t slot, char *out, size_t cap)
{
	if (slot == 0)
		return "the volume's root";
	if (tree_path(w->k->t, slot, &w->path2, NULL) < 0)
		return "an entry";
	return text_escaped(out, cap, w->path2.p, w->path2.len);
}

unsigned entry_mark(struct take *k, struct entry *e, unsigned bits)
{
	unsigned before;

	pthread_mutex_lock(&k->lock);
	before = e->bits;
	e->bits |= (uint8_t)bits;
	pthread_mutex_unlock(&k->lock);
	return before;
}

unsigned entry_marks(struct take *k, const struct entry *e)
{
	unsigned bits;

	pthread_mutex_lock(&k->lock);
	bits = e->bits;
	pthread_mutex_unlock(&k->lock);
	return bits;
}

static int add_blob(struct job *j, uint32_t slot, bool target,
		    const struct buf *b, struct sc_err *err)
{
	size_t at = j->blobs.len;

	if (b->len)
		buf_put(&j->blobs, b->p, b->len);
	if (j->blobs.failed || mem_grow(&j->blob, &j->blobs_cap, j->nblobs + 1,
					sizeof(*j->blob)) < 0)
		return sc_oom(err, "attributes");
	j->blob[j->nblobs++] = (struct job_blob){ slot, target, at, b->len };
	return 0;
}

int entry_no_target(struct job *j, uint32_t slot, const struct entry *e,
		    struct sc_err *err)
{
	static const struct buf empty;

	return S_ISLNK(e->mode) ? add_blob(j, slot, true, &empty, err) : 0;
}

static bool means_gone(int sys)
{
	return sys == ENOENT || sys == ENOTDIR || sys == ELOOP ||
	       sys == ENXIO || sys == ESTALE;
}

/* What fails for want of resources would fail for the next entry too. */
static bool means_exhausted(int sys)
{
	return sys == EMFILE || sys == ENFILE || sys == ENOMEM;
}

int entry_lost(struct worker *w, struct job *j, uint32_t slot, int sys,
	       struct sc_err *err)
{
	const struct take_options *o = w->k->o;
	struct entry *e = tree_at(w->k->t, slot);
	bool gone = means_gone(sys);
	struct sc_err why;
	char room[400];
	const char *name = entry_shown(w, slot, room, sizeof(room));

	if (gone && !o->live)
		return sc_fail(err, SC_ETORN, 0,
			       "%s vanished while it was taken", name);
	if (means_exhausted(sys) || (!gone && !o->allow_incomplete))
		return sc_fail(err, SC_EIO, sys, "read %s", name);
	if (!(e->bits & ENTRY_LINK) && entry_no_target(j, slot, e, err) < 0)
		return -1;
	entry_mark(w->k, e, ENTRY_UNREADABLE | (gone ? ENTRY_CHANGED : 0));
	if (gone) {
		j->sum.vanished++;
		notes_add(w->k->notes, NOTE_WARN,
			  "%s vanished while it was taken", name);
		return 0;
	}
	j->sum.unreadable++;
	sc_fail(&why, SC_EIO, sys, "%s was left out, it cannot be read", name);
	notes_add(w->k->notes, NOTE_WARN, "%s", why.msg);
	return 0;
}

int entry_changed(struct worker *w, struct job *j, uint32_t slot,
		  const char *how, struct sc_err *err)
{
	struct entry *e = tree_at(w->k->t, slot);
	char room[400];
	const char *name = entry_shown(w, slot, room, sizeof(room));

	if (!w->k->o->live)
		return sc_fail(err, SC_ETORN, 0, "%s %s", name, how);
	if (!(entry_mark(w->k, e, ENTRY_CHANGED) & ENTRY_CHANGED)) {
		j->sum.changed++;
		notes_add(w->k->notes, NOTE_WARN, "%s %s", name, how);
	}
	return 0;
}

int entry_keep(struct worker *w, struct job *j, uint32_t slot,
	       struct sc_err *err)
{
	struct entry *e = tree_at(w->k->t, slot);
	struct meta *m = &w->meta;

	stat_to_entry(&m->st, e);
	e->flags = m->flags;
	if (m->xattrs.len && add_blob(j, slot, false, &m->xattrs, err) < 0)
		return -1;
	if (S_ISLNK(m->st.st_mode))
		return add_blob(j, slot, true, &m->target, err);
	if (S_ISREG(m->st.st_mode) && m->sparse)
		return tree_set_extents(w->k->t, slot, m->x, m->nx, err);
	return 0;
}

int entry_header(struct worker *w, uint32_t slot, const char *hardlink,
		 struct buf *out, unsigned *pad, struct sc_err *err)
{
	struct meta *m = &w->meta;
	struct entry e = *tree_at(w->k->t, slot);
	struct tarhdr_entry h = { .e = &e, .hardlink = hardlink };

	if (tree_path(w->k->t, slot, &w->path, err) < 0)
		return -1;
	h.path = buf_cstr(&w->path);
	if (!h.path)
		return sc_oom(err, "path");
	if (!hardlink && !(e.bits & ENTRY_MOUNT)) {
		stat_to_entry(&m->st, &e);
		h.xattrs = m->xattrs.p;
		h.xattrs_len = m->xattrs.len;
	}
	if (S_ISLNK(e.mode) && !hardlink && !(h.target = buf_cstr(&m->target)))
		return sc_oom(err, "link target");
	if (entry_is_reg(&e) && !hardlink && m->sparse) {
		e.bits |= ENTRY_SPARSE;
		h.extents = m->x;
		h.nextents = m->nx;
	}
	return tarhdr_put(w->hdr, &h, out, pad, err);
}

int job_chunk(struct worker *w, struct job *j, const unsigned char *p,
	      size_t off, uint32_t len, struct sc_err *err)
{
	struct chunk *c;

	if (mem_grow(&j->chunks, &j->chunks_cap, j->nchunks + 1,
		     sizeof(*j->chunks)) < 0)
		return sc_oom(err, "chunks");
	c = &j->chunks[j->nchunks];
	if (hash_once(w->hash, p + off, len, &c->hash, err) < 0)
		return -1;
	c->len = len;
	c->segment = (uint32_t)j->nsegs;
	c->offset = (uint32_t)off;
	j->nchunks++;
	return 0;
}

int job_segment(struct worker *w, struct job *j, const unsigned char *p,
		size_t n, struct sc_err *err)
{
	struct segment_out *s;

	if (n == 0)
		return 0;
	if (mem_grow(&j->segs, &j->segs_cap, j->nsegs + 1, sizeof(*j->segs)) <
	    0)
		return sc_oom(err, "segments");
	s = &j->segs[j->nsegs];
	if (order_spare(w->k, zst_bound(n), s, err) < 0)
		return -1;
	j->nsegs++;
	s->plain = (uint32_t)n;
	return zst_encode(w->enc, p, n, s->p, s->cap, &s->n, err);
}
