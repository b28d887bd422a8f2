/* SPDX-License-Identifier: MIT */
/* Hard-link groups of the index, by the inode they had: the name without
 * ENTRY_LINK is the one with the data, the others become links to it. */
#include <errno.h>
#include <stdlib.h>

#include <snapctl/base/mem.h>

#include "internal.h"

static int cmp(const void *a, const void *b)
{
	const struct link_group *x = a, *y = b;

	return x->ino < y->ino ? -1 : x->ino > y->ino;
}

static struct link_group *find(const struct restore *r, uint64_t ino)
{
	struct link_group key = { ino, 0 };

	if (r->nlinks == 0)
		return NULL;
	return bsearch(&key, r->links, r->nlinks, sizeof(key), cmp);
}

static int collect(struct restore *r, struct sc_err *err)
{
	size_t cap = 0, n = 0;

	for (uint32_t s = 0; s < r->n; s++) {
		const struct entry *e = tree_at(r->tree, s);

		if (!is_link(e) || entry_is_dir(e))
			continue;
		if (mem_grow(&r->links, &cap, r->nlinks + 1,
			     sizeof(*r->links)) < 0)
			return sc_oom(err, "hard links");
		r->links[r->nlinks++] =
			(struct link_group){ e->ino, TREE_NONE };
	}
	if (r->nlinks == 0)
		return 0;
	qsort(r->links, r->nlinks, sizeof(*r->links), cmp);
	for (size_t i = 0; i < r->nlinks; i++)
		if (n == 0 || r->links[n - 1].ino != r->links[i].ino)
			r->links[n++] = r->links[i];
	r->nlinks = n;
	return 0;
}

static int check(const struct restore *r, uint32_t slot, struct sc_err *err)
{
	const struct entry *e = tree_at(r->tree, slot);
	uint32_t leader = find(r, e->ino)->leader;
	char path[RPATH];

	if (leader == TREE_NONE || leader > slot ||
	    (tree_at(r->tree, leader)->mode & S_IFMT) != (e->mode & S_IFMT))
		return sc_fail(err, SC_ECORRUPT, 0,
			       "index: hard link %s has no first name",
			       rpath(r, slot, path));
	return 0;
}

int rlinks_build(struct restore *r, struct sc_err *err)
{
	if (collect(r, err) < 0)
		return -1;
	if (r->nlinks == 0)
		return 0;
	for (uint32_t s = 0; s < r->n; s++) {
		const struct entry *e = tree_at(r->tree, s);
		struct link_group *g;

		if (is_link(e) || entry_is_dir(e))
			continue;
		g = find(r, e->ino);
		if (g && g->leader == TREE_NONE)
			g->leader = s;
	}
	for (uint32_t s = 0; s < r->n; s++)
		if (is_link(tree_at(r->tree, s)) && check(r, s, err) < 0)
			return -1;
	return 0;
}

uint32_t rlinks_leader(const struct restore *r, uint32_t slot)
{
	const struct entry *e = tree_at(r->tree, slot);
	const struct link_group *g;

	if (r->nlinks == 0 || entry_is_dir(e))
		return TREE_NONE;
	g = find(r, e->ino);
	if (!g || (!is_link(e) && g->leader != slot))
		return TREE_NONE;
	return g->leader;
}
