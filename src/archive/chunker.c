/* SPDX-License-Identifier: MIT */
#include <snapctl/archive/chunker.h>

#include <string.h>

#include "gear.h"

/* Normalised cuts (level 2): four times rarer than the average before it,
 * four times more frequent after it. The masks take the highest bits, those
 * that depend on the most bytes. */
void chunker_init(struct chunker *c, uint32_t avg)
{
	unsigned bits = (unsigned)__builtin_ctz(avg);

	c->min = avg / 4;
	c->avg = avg;
	c->max = avg * 4;
	c->loose = ~UINT64_C(0) << (64 - (bits - 2));
	c->strict = ~UINT64_C(0) << (64 - (bits + 2));
}

size_t chunker_cand_max(size_t n)
{
	return n;
}

/* The hash after n bytes. Only the last 64 of them can be seen in it. */
static uint64_t hash_over(const unsigned char *p, size_t n)
{
	uint64_t h = 0;

	for (size_t i = n > CHUNK_WINDOW ? n - CHUNK_WINDOW : 0; i < n; i++)
		h = (h << 1) + gear[p[i]];
	return h;
}

static inline uint32_t candidate(const struct chunker *c, uint64_t h,
				 size_t pos)
{
	return (uint32_t)pos | (h & c->strict ? 0 : CAND_STRICT);
}

/* Bytes [at, end) of p with the hash h before them. */
static size_t mark_one(const struct chunker *c, const unsigned char *p,
		       size_t at, size_t end, uint64_t h, uint32_t *out)
{
	const uint64_t loose = c->loose;
	size_t n = 0;

	for (size_t i = at; i < end; i++) {
		h = (h << 1) + gear[p[i]];
		if (__builtin_expect(!(h & loose), 0))
			out[n++] = candidate(c, h, i + 1);
	}
	return n;
}

#define LANES 4

struct lanes {
	const struct chunker *c;
	size_t quarter; /* lane k begins at k quarters */
	uint32_t *out[LANES];
	size_t n[LANES];
};

/* Out of line: what it needs would push the loop's values out of registers. */
static __attribute__((noinline, cold)) void found(struct lanes *l, size_t k,
						  size_t i, uint64_t h)
{
	l->out[k][l->n[k]++] = candidate(l->c, h, k * l->quarter + i + 1);
}

/* Each step of the hash waits for the one before it. Four quarters side by
 * side keep the core busy meanwhile. */
static void mark_lanes(struct lanes *l, const unsigned char *p0, uint64_t h0)
{
	const size_t quarter = l->quarter;
	const uint64_t loose = l->c->loose;
	const unsigned char *p1 = p0 + quarter, *p2 = p1 + quarter,
			    *p3 = p2 + quarter;
	uint64_t h1 = hash_over(p1 - CHUNK_WINDOW, CHUNK_WINDOW);
	uint64_t h2 = hash_over(p2 - CHUNK_WINDOW, CHUNK_WINDOW);
	uint64_t h3 = hash_over(p3 - CHUNK_WINDOW, CHUNK_WINDOW);

#define STEP(k)                                           \
	do {                                              \
		h##k = (h##k << 1) + gear[p##k[i]];       \
		if (__builtin_expect(!(h##k & loose), 0)) \
			found(l, k, i, h##k);             \
	} while (0)

#pragma GCC unroll 4
	for (size_t i = 0; i < quarter; i++) {
		STEP(0);
		STEP(1);
		STEP(2);
		STEP(3);
	}
#undef STEP
}

size_t chunker_mark(const struct chunker *c, const unsigned char *p, size_t n,
		    const unsigned char *before, size_t nbefore, uint32_t *out)
{
	uint64_t h = hash_over(before, nbefore);
	struct lanes l = { .c = c, .quarter = n / LANES };
	size_t end = LANES * l.quarter, total;

	if (l.quarter < (size_t)8 * CHUNK_WINDOW)
		return mark_one(c, p, 0, n, h, out);
	for (size_t k = 0; k < LANES; k++)
		l.out[k] = out + k * l.quarter;
	mark_lanes(&l, p, h);
	total = l.n[0];
	for (size_t k = 1; k < LANES; k++) {
		memmove(out + total, l.out[k], l.n[k] * sizeof(*out));
		total += l.n[k];
	}
	h = hash_over(p, end);
	return total + mark_one(c, p, end, n, h, out + total);
}

static uint64_t cand_pos(uint32_t cand, uint64_t base)
{
	return base + (cand & ~CAND_STRICT);
}

/* The first of n candidates at pos or behind it. */
static size_t first_at(const uint32_t *cand, size_t n, uint64_t base,
		       uint64_t pos)
{
	size_t lo = 0, hi = n;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (cand_pos(cand[mid], base) < pos)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

uint64_t chunker_cut(struct chunk_cutter *k, const uint32_t *cand, size_t n,
		     uint64_t base, uint64_t known, bool end)
{
	const struct chunker *c = k->c;
	uint64_t s = k->start, pos, cut = 0;

	for (size_t i = first_at(cand, n, base, s + c->min); i < n; i++) {
		pos = cand_pos(cand[i], base);
		if (pos >= s + c->max)
			break;
		if (pos < s + c->avg && !(cand[i] & CAND_STRICT))
			continue;
		cut = pos;
		break;
	}
	if (!cut && known >= s + c->max)
		cut = s + c->max;
	if (!cut && end && known > s)
		cut = known;
	if (cut)
		k->start = cut;
	return cut;
}

size_t chunker_all(const struct chunker *c, const unsigned char *p, size_t n,
		   uint32_t *scratch, uint32_t *lens)
{
	struct chunk_cutter k = { c, 0 };
	size_t cands = chunker_mark(c, p, n, NULL, 0, scratch), count = 0;
	uint64_t from = 0, cut;

	while ((cut = chunker_cut(&k, scratch, cands, 0, n, true)) != 0) {
		lens[count++] = (uint32_t)(cut - from);
		from = cut;
	}
	return count;
}
