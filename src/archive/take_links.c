/* SPDX-License-Identifier: MIT */
/* Hard-link groups: the first name in canonical order has the data, the later
 * ones point to it in the tar and repeat its runs in the index. */
#include <stdlib.h>

#include <snapctl/base/mem.h>
#include <snapctl/base/text.h>

#include "take_internal.h"

struct group_of {
	uint64_t ino;
	uint32_t slot, names; /* names: 0 is a free place */
	uint32_t seq;
};

struct links {
	struct group_of *v; /* open addressing */
	size_t n, len;	    /* len: a power of two */
	uint32_t *later;    /* slots of later names */
	size_t nlater, later_cap;
};

int links_new(struct links **out, struct sc_err *err)
{
	*out = calloc(1, sizeof(**out));
	return *out ? 0 : sc_oom(err, "hard links");
}

void links_free(struct links *l)
{
	if (!l)
		return;
	free(l->v);
	free(l->later);
	free(l);
}

static struct group_of *find(struct group_of *v, size_t len, uint64_t ino)
{
	size_t i = (size_t)((ino * UINT64_C(0x9e3779b97f4a7c15)) >> 32);

	for (i &= len - 1; v[i].names && v[i].ino != ino;)
		i = (i + 1) & (len - 1);
	return &v[i];
}

static int make_room(struct links *l)
{
	size_t len = l->len ? l->len * 2 : 256;
	struct group_of *v;

	if (l->n < l->len / 2)
		return 0;
	v = calloc(len, sizeof(*v));
	if (!v)
		return -1;
	for (size_t i = 0; i < l->len; i++)
		if (l->v[i].names)
			*find(v, len, l->v[i].ino) = l->v[i];
	free(l->v);
	l->v = v;
	l->len = len;
	return 0;
}

int links_later(struct links *l, struct tree *t, uint32_t slot,
		struct sc_err *err)
{
	struct entry *e = tree_at(t, slot);
	struct group_of *g = l->len ? find(l->v, l->len, e->ino) : NULL;

	if (!g || !g->names)
		return 0;
	if (mem_grow(&l->later, &l->later_cap, l->nlater + 1,
		     sizeof(*l->later)) < 0)
		return sc_oom(err, "hard links");
	g->names++;
	e->bits |= ENTRY_LINK;
	e->first = g->slot;
	e->count = g->seq;
	l->later[l->nlater++] = slot;
	return 1;
}

int links_first(struct links *l, struct tree *t, uint32_t slot, uint64_t seq,
		struct sc_err *err)
{
	uint64_t ino = tree_at(t, slot)->ino;

	if (make_room(l) < 0)
		return sc_oom(err, "hard links");
	*find(l->v, l->len, ino) =
		(struct group_of){ ino, slot, 1, (uint32_t)seq };
	l->n++;
	return 0;
}

/* Same inode, so all but the name is the same. */
static int copy_first(struct tree *t, uint32_t slot, struct sc_err *err)
{
	struct entry *e = tree_at(t, slot);
	const struct entry *f = tree_at(t, e->first);
	uint32_t from = e->first, n;
	const struct extent *x;

	if (!(e->bits & ENTRY_UNREADABLE)) {
		e->size = f->size;
		e->mtime = f->mtime;
		e->mtime_ns = f->mtime_ns;
		e->ctime = f->ctime;
		e->ctime_ns = f->ctime_ns;
		e->uid = f->uid;
		e->gid = f->gid;
		e->mode = f->mode;
		e->nlink = f->nlink;
		e->flags = f->flags;
		e->xattrs = f->xattrs;
		e->bits |= f->bits & (ENTRY_UNREADABLE | ENTRY_CHANGED);
	}
	e->first = f->first;
	e->count = f->count;
	if (e->bits & ENTRY_UNREADABLE && !S_ISLNK(e->mode))
		e->first = e->count = 0;
	if (!(f->bits & ENTRY_SPARSE) || e->bits & ENTRY_UNREADABLE)
		return 0;
	x = tree_extents(t, from, &n);
	return tree_set_extents(t, slot, x, n, err);
}

/* Names that lie elsewhere cannot be brought back as one file with these. */
static int warn_outside(struct links *l, struct take *k, struct sc_err *err)
{
	uint32_t one = UINT32_MAX;
	struct buf path = { 0 };
	uint64_t files = 0;
	char shown[400];

	for (size_t i = 0; i < l->len; i++) {
		const struct group_of *g = &l->v[i];

		if (!g->names || g->names >= tree_at(k->t, g->slot)->nlink)
			continue;
		files++;
		if (g->slot < one)
			one = g->slot;
	}
	if (files == 0)
		return 0;
	if (tree_path(k->t, one, &path, err) < 0) {
		buf_free(&path);
		return -1;
	}
	text_escaped(shown, sizeof(shown), path.p, path.len);
	notes_add(k->notes, NOTE_WARN,
		  "%llu file(s) have further hard links outside of the volume, "
		  "the first is %s",
		  (unsigned long long)files, shown);
	buf_free(&path);
	return 0;
}

int links_finish(struct links *l, struct take *k, struct sc_err *err)
{
	for (size_t i = 0; i < l->nlater; i++)
		if (copy_first(k->t, l->later[i], err) < 0)
			return -1;
	return warn_outside(l, k, err);
}
