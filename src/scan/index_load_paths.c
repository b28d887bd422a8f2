/* SPDX-License-Identifier: MIT */
/* The paths of an index: each entry finds its directory above it. */
#include <stdlib.h>
#include <string.h>

#include <snapctl/base/mem.h>

#include "index_load_internal.h"

#define BATCH 4096 /* entries taken from the tree at a time */

/* The entry before and the directories above it. */
struct above {
	uint32_t slot, child; /* child: the last one seen, 0 none */
	size_t len;	      /* of its path */
};

struct paths {
	struct buf path;
	size_t shared; /* with the one before */
	struct above *up;
	size_t n, cap;
};

/* The path before becomes this row's. */
static int next_path(struct index_col *c, struct paths *p, struct sc_err *err)
{
	uint64_t shared, len;
	size_t old = p->path.len;
	unsigned char *rest;
	int first;

	if (index_load_get(c, old, &shared, err) < 0 ||
	    index_load_get(c, INDEX_PATH_MAX - shared, &len, err) < 0)
		return -1;
	if (len > index_col_left(c))
		return index_col_bad(c, err, "length out of range");
	first = shared < old ? p->path.p[shared] : -1;
	p->path.len = shared;
	rest = buf_reserve(&p->path, len + 1);
	if (!rest)
		return sc_oom(err, "path");
	if (index_col_bytes(c, rest, len, err) < 0)
		return -1;
	/* What is shared is shared whole: so the directories above are. */
	if (len && rest[0] == first)
		return index_col_bad(c, err, "path not shortened");
	p->path.len = shared + len;
	p->shared = shared;
	return 0;
}

static bool name_ok(const unsigned char *s, size_t n)
{
	if (n == 0 || n > 255 || memchr(s, 0, n))
		return false;
	return !(s[0] == '.' && (n == 1 || (n == 2 && s[1] == '.')));
}

/* Hangs this row's entry beneath the directory that its path names, which is
 * the entry before or above it; behind its elder siblings. */
static int hang(struct load *l, struct index_col *c, struct paths *p,
		uint32_t slot, struct sc_err *err)
{
	struct entry *e = tree_at(l->t, slot), *elder;
	const unsigned char *path = p->path.p, *slash, *name = path;
	struct above *dir;
	size_t up = 0;

	slash = memrchr(path, '/', p->path.len);
	if (slash) {
		up = (size_t)(slash - path);
		name = slash + 1;
	}
	while (p->n > 1 && p->up[p->n - 1].len > up)
		p->n--;
	dir = &p->up[p->n - 1];
	e->name_len = (uint16_t)(p->path.len - (size_t)(name - path));
	if (dir->len != up || up > p->shared || (slash && up == 0) ||
	    !name_ok(name, p->path.len - (size_t)(name - path)))
		return index_col_bad(c, err, "a path that leads nowhere");
	e->name = tree_name(l->t, &l->arena, (const char *)name, e->name_len);
	if (!e->name)
		return sc_oom(err, "names");
	e->parent = dir->slot;
	elder = tree_at(l->t, dir->child);
	if (dir->child && tree_name_cmp(elder->name, elder->name_len, e->name,
					e->name_len) >= 0)
		return index_col_bad(c, err, "names out of order");
	dir->child = slot;
	return 0;
}

static int one_path(struct load *l, struct index_col *c, struct paths *p,
		    uint32_t slot, struct sc_err *err)
{
	if (next_path(c, p, err) < 0)
		return -1;
	if (slot == 0 && p->path.len != 0)
		return index_col_bad(c, err, "the root has a name");
	if (slot == 0)
		tree_at(l->t, 0)->name = "";
	else if (hang(l, c, p, slot, err) < 0)
		return -1;
	if (mem_grow(&p->up, &p->cap, p->n + 1, sizeof(*p->up)) < 0)
		return sc_oom(err, "path");
	p->up[p->n++] = (struct above){ slot, 0, p->path.len };
	return 0;
}

int index_load_paths(struct load *l, struct index_col *c, struct sc_err *err)
{
	struct paths p = { 0 };
	uint32_t first;
	int rc = 0;

	for (uint32_t i = 0; rc == 0 && i < l->n; i++) {
		if (i % BATCH == 0)
			rc = tree_alloc(l->t,
					l->n - i < BATCH ? l->n - i : BATCH,
					&first, err);
		if (rc == 0)
			rc = one_path(l, c, &p, i, err);
	}
	buf_free(&p.path);
	free(p.up);
	return rc;
}
