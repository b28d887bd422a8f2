/* SPDX-License-Identifier: MIT */
#include "names.h"

#include <endian.h>
#include <stdlib.h>
#include <string.h>

#include <snapctl/base/mem.h>
#include <snapctl/scan/tree.h>

#define KEEP_NAMES (1u << 16)
#define SMALL	   24

void names_free(struct names *s)
{
	free(s->v);
	free(s->order);
	free(s->spare);
	*s = (struct names){ 0 };
}

void names_clear(struct names *s)
{
	if (s->cap > KEEP_NAMES)
		names_free(s);
	s->n = 0;
}

int names_add(struct names *s, const struct name *n, struct sc_err *err)
{
	const char *first;
	size_t i = 0;

	if (s->n == UINT32_MAX - 1 ||
	    mem_grow(&s->v, &s->cap, s->n + 1, sizeof(*s->v)) < 0)
		return sc_oom(err, "names of a directory");
	if (s->n == 0)
		s->common = n->len;
	first = s->n ? s->v[0].p : n->p;
	/* Both end in NUL, so the shorter one stops this. */
	while (i < s->common && n->p[i] == first[i])
		i++;
	s->common = i;
	s->v[s->n++] = *n;
	return 0;
}

/* -- keys --------------------------------------------------------------- */

static void sort_small(struct key *k, size_t n)
{
	for (size_t i = 1; i < n; i++) {
		struct key x = k[i];
		size_t j = i;

		for (; j > 0 && k[j - 1].key > x.key; j--)
			k[j] = k[j - 1];
		k[j] = x;
	}
}

/* One stable pass over the byte at shift. */
static void sort_pass(const struct key *from, struct key *to, size_t n,
		      unsigned shift)
{
	uint32_t start[256] = { 0 }, sum = 0, c;

	for (size_t i = 0; i < n; i++)
		start[from[i].key >> shift & 255]++;
	for (unsigned b = 0; b < 256; b++) {
		c = start[b];
		start[b] = sum;
		sum += c;
	}
	for (size_t i = 0; i < n; i++)
		to[start[from[i].key >> shift & 255]++] = from[i];
}

void names_sort_keys(struct names *s)
{
	uint64_t differ = 0;
	size_t n = s->n, cap;
	bool sorted = true;
	struct key *swap;

	for (size_t i = 1; i < n; i++) {
		differ |= s->order[i].key ^ s->order[0].key;
		sorted = sorted && s->order[i - 1].key <= s->order[i].key;
	}
	if (sorted)
		return;
	if (n <= SMALL) {
		sort_small(s->order, n);
		return;
	}
	for (unsigned shift = 0; shift < 64; shift += 8) {
		if (!(differ >> shift & 255))
			continue;
		sort_pass(s->order, s->spare, n, shift);
		swap = s->order;
		s->order = s->spare;
		s->spare = swap;
		cap = s->order_cap;
		s->order_cap = s->spare_cap;
		s->spare_cap = cap;
	}
}

/* -- names -------------------------------------------------------------- */

static uint64_t name_key(const struct name *n, size_t common)
{
	size_t left = n->len - common;
	uint64_t k = 0;

	/* Names hold no NUL: filling up with it puts the shorter first. */
	memcpy(&k, n->p + common, left < 8 ? left : 8);
	return be64toh(k);
}

static int key_cmp_whole(const void *a, const void *b, void *arg)
{
	const struct name *v = arg;
	const struct name *x = &v[((const struct key *)a)->at];
	const struct name *y = &v[((const struct key *)b)->at];

	return tree_name_cmp(x->p, x->len, y->p, y->len);
}

/* Sorts names of equal key among themselves and drops doubles. */
static void settle_equal(struct names *s)
{
	size_t to = 0, end;

	for (size_t i = 0; i < s->n; i = end) {
		for (end = i + 1; end < s->n; end++)
			if (s->order[end].key != s->order[i].key)
				break;
		if (end - i > 1)
			qsort_r(s->order + i, end - i, sizeof(*s->order),
				key_cmp_whole, s->v);
		s->order[to++] = s->order[i];
		for (size_t j = i + 1; j < end; j++)
			if (key_cmp_whole(&s->order[to - 1], &s->order[j],
					  s->v) != 0)
				s->order[to++] = s->order[j];
	}
	s->n = to;
}

int names_sort(struct names *s, struct sc_err *err)
{
	if (mem_grow(&s->order, &s->order_cap, s->n, sizeof(*s->order)) < 0 ||
	    mem_grow(&s->spare, &s->spare_cap, s->n, sizeof(*s->spare)) < 0)
		return sc_oom(err, "names of a directory");
	for (size_t i = 0; i < s->n; i++)
		s->order[i] = (struct key){ name_key(&s->v[i], s->common),
					    (uint32_t)i };
	names_sort_keys(s);
	settle_equal(s);
	return 0;
}
