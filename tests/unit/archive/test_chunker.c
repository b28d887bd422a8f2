/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <snapctl/archive/chunker.h>
#include <snapctl/base/hash.h>

#include "../../../src/archive/gear.h"

#define LEN (3u << 20)

/* xorshift64: the same bytes on every machine. */
static unsigned char *noise(size_t n, uint64_t x)
{
	unsigned char *p = malloc(n);

	assert_non_null(p);
	for (size_t i = 0; i < n; i++) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		p[i] = (unsigned char)(x >> 32);
	}
	return p;
}

/* Ends of all chunks. */
static size_t cuts_of(const struct chunker *c, const unsigned char *p, size_t n,
		      uint64_t *cuts)
{
	uint32_t *cand = malloc(chunker_cand_max(n) * sizeof(*cand) + 4);
	uint32_t *lens = malloc((n / c->min + 2) * sizeof(*lens));
	size_t count;
	uint64_t at = 0;

	assert_non_null(cand);
	assert_non_null(lens);
	count = chunker_all(c, p, n, cand, lens);
	for (size_t i = 0; i < count; i++)
		cuts[i] = at += lens[i];
	free(cand);
	free(lens);
	assert_int_equal(at, n);
	return count;
}

/* The definition, word for word: the hash over a window of 64 bytes, the
 * first strict candidate, and so on. Slow. */
static uint64_t plain_hash(const unsigned char *p, size_t pos)
{
	uint64_t h = 0;

	for (size_t i = pos > 64 ? pos - 64 : 0; i < pos; i++)
		h = (h << 1) + gear[p[i]];
	return h;
}

static size_t plain_cuts(const struct chunker *c, const unsigned char *p,
			 size_t n, uint64_t *cuts)
{
	size_t s = 0, count = 0, pos;

	while (s < n) {
		for (pos = s + c->min; pos < n && pos < s + c->max; pos++) {
			uint64_t h = plain_hash(p, pos);

			if (!(h & (pos < s + c->avg ? c->strict : c->loose)))
				break;
		}
		if (pos > n)
			pos = n;
		cuts[count++] = s = pos;
	}
	return count;
}

static void test_gear_is_fixed(void **state)
{
	struct hash *h = NULL;
	struct digest d;
	char text[32];

	(void)state;
	assert_int_equal(hash_new(&h, NULL), 0);
	for (int i = 0; i < 256; i++) {
		uint64_t v = 0;
		int n = snprintf(text, sizeof(text), "snapctl gear %d", i);

		assert_int_equal(hash_once(h, text, (size_t)n, &d, NULL), 0);
		for (int k = 7; k >= 0; k--)
			v = v << 8 | d.b[k];
		assert_true(v == gear[i]);
	}
	hash_free(h);
}

static void test_known_cuts(void **state)
{
	static const uint64_t want[] = {
		41384,	 135137,  223785,  296449,  419079,  488682,  558701,
		649806,	 737483,  808928,  844363,  911017,  929441,  1001408,
		1039471, 1081420, 1152610, 1243099, 1370150, 1444590, 1463667,
		1543590, 1639566, 1740425, 1900709, 1970387, 2043500, 2112705,
		2185496, 2258150, 2281670, 2347635, 2429083, 2552297, 2626048,
		2702109, 2755372, 2797130, 2882170, 2966826, 3033900, 3106186,
		3145728
	};
	uint64_t cuts[300];
	struct chunker c;
	unsigned char *p = noise(LEN, 42);
	size_t n;

	(void)state;
	chunker_init(&c, CHUNK_AVG_DEFAULT);
	assert_int_equal(c.min, 16384);
	assert_int_equal(c.max, 262144);
	n = cuts_of(&c, p, LEN, cuts);
	assert_int_equal(n, sizeof(want) / sizeof(*want));
	assert_memory_equal(cuts, want, sizeof(want));
	free(p);
}

static void test_definition(void **state)
{
	static const uint32_t avgs[] = { 64u << 10, 128u << 10, 1u << 20 };
	uint64_t cuts[300], want[300];
	unsigned char *p = noise(LEN, 7);
	struct chunker c;

	(void)state;
	for (size_t a = 0; a < 3; a++) {
		size_t n;

		chunker_init(&c, avgs[a]);
		n = cuts_of(&c, p, LEN, cuts);
		assert_int_equal(n, plain_cuts(&c, p, LEN, want));
		assert_memory_equal(cuts, want, n * sizeof(*cuts));
	}
	free(p);
}

static void test_min_max(void **state)
{
	uint64_t cuts[300];
	unsigned char *p = noise(LEN, 99);
	struct chunker c;
	size_t n;

	(void)state;
	chunker_init(&c, CHUNK_AVG_DEFAULT);
	n = cuts_of(&c, p, LEN, cuts);
	for (size_t i = 0; i < n; i++) {
		uint64_t len = cuts[i] - (i ? cuts[i - 1] : 0);

		assert_true(len <= c.max);
		assert_true(len >= c.min || i == n - 1);
	}
	/* The mean is near the average asked for. */
	assert_in_range(n, LEN / (96 << 10), LEN / (48 << 10));
	free(p);
}

static void test_repeated_bytes(void **state)
{
	uint64_t cuts[300];
	unsigned char *p = malloc(LEN);
	struct chunker c;

	(void)state;
	assert_non_null(p);
	chunker_init(&c, CHUNK_AVG_DEFAULT);
	for (int b = 0; b < 256; b += 5) {
		memset(p, b, LEN);
		assert_int_equal(cuts_of(&c, p, LEN, cuts), LEN / c.max);
		assert_int_equal(cuts[0], c.max);
	}
	free(p);
}

static void test_small(void **state)
{
	uint64_t cuts[8];
	unsigned char *p = noise(20000, 3);
	struct chunker c;

	(void)state;
	chunker_init(&c, CHUNK_AVG_DEFAULT);
	assert_int_equal(cuts_of(&c, p, 0, cuts), 0);
	assert_int_equal(cuts_of(&c, p, 1, cuts), 1);
	assert_int_equal(cuts_of(&c, p, 16384, cuts), 1);
	assert_int_equal(cuts[0], 16384);
	free(p);
}

static size_t common_cuts(const uint64_t *a, size_t na, const uint64_t *b,
			  size_t nb, uint64_t shift)
{
	size_t common = 0;

	for (size_t i = 0, j = 0; i < na && j < nb;) {
		if (a[i] + shift == b[j])
			common++, i++, j++;
		else if (a[i] + shift < b[j])
			i++;
		else
			j++;
	}
	return common;
}

/* After an inserted byte the cuts are soon the old ones again. */
static void test_insertion(void **state)
{
	uint64_t cuts[300], moved[300];
	unsigned char *p = noise(LEN, 5), *q = malloc(LEN + 1);
	struct chunker c;
	size_t n, m, before = 0;

	(void)state;
	assert_non_null(q);
	chunker_init(&c, CHUNK_AVG_DEFAULT);
	n = cuts_of(&c, p, LEN, cuts);

	q[0] = 'x';
	memcpy(q + 1, p, LEN);
	m = cuts_of(&c, q, LEN + 1, moved);
	assert_in_range(common_cuts(cuts, n, moved, m, 1), n - 3, n);

	memcpy(q, p, LEN / 2);
	q[LEN / 2] = 'x';
	memcpy(q + LEN / 2 + 1, p + LEN / 2, LEN - LEN / 2);
	m = cuts_of(&c, q, LEN + 1, moved);
	while (cuts[before] < LEN / 2) {
		assert_int_equal(cuts[before], moved[before]);
		before++;
	}
	assert_in_range(before + common_cuts(cuts + before, n - before,
					     moved + before, m - before, 1),
			n - 3, n);
	free(p);
	free(q);
}

/* Stretches of given length, each marked by itself, then one pass. */
static size_t split_cuts(const struct chunker *c, const unsigned char *p,
			 size_t n, size_t step, uint64_t *cuts)
{
	uint32_t *cand = malloc(chunker_cand_max(step) * sizeof(*cand));
	struct chunk_cutter k = { c, 0 };
	size_t count = 0;
	uint64_t cut;

	assert_non_null(cand);
	for (size_t at = 0; at < n; at += step) {
		size_t len = n - at < step ? n - at : step;
		size_t before = at < 64 ? at : 64;
		size_t m = chunker_mark(c, p + at, len, p + at - before, before,
					cand);

		for (size_t i = 1; i < m; i++)
			assert_true((cand[i - 1] & ~CAND_STRICT) <
				    (cand[i] & ~CAND_STRICT));
		while ((cut = chunker_cut(&k, cand, m, at, at + len,
					  at + len == n)) != 0)
			cuts[count++] = cut;
	}
	free(cand);
	return count;
}

static void test_any_split(void **state)
{
	static const size_t steps[] = { 1,	100,	 4096, 65536 + 1,
					262144, 1 << 20, LEN };
	uint64_t cuts[300], split[300];
	unsigned char *p = noise(LEN, 11);
	struct chunker c;
	size_t n;

	(void)state;
	/* And a stretch without candidates. */
	memset(p + (1 << 20), 0, 600000);
	chunker_init(&c, CHUNK_AVG_DEFAULT);
	n = cuts_of(&c, p, LEN, cuts);
	for (size_t i = 0; i < sizeof(steps) / sizeof(*steps); i++) {
		assert_int_equal(split_cuts(&c, p, LEN, steps[i], split), n);
		assert_memory_equal(cuts, split, n * sizeof(*cuts));
	}
	free(p);
}

/* Every position a candidate: none is written outside of cand, none lost. */
static void test_every_position(void **state)
{
	struct chunker c = { 16384, 65536, 262144, 0, 0 };
	unsigned char *p = noise(LEN, 1);
	uint32_t *cand = malloc(LEN * sizeof(*cand));

	(void)state;
	assert_non_null(cand);
	assert_int_equal(chunker_mark(&c, p, LEN - 3, NULL, 0, cand), LEN - 3);
	for (uint32_t i = 0; i < LEN - 3; i++)
		assert_int_equal(cand[i], (i + 1) | CAND_STRICT);
	free(cand);
	free(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_gear_is_fixed),
		cmocka_unit_test(test_known_cuts),
		cmocka_unit_test(test_definition),
		cmocka_unit_test(test_min_max),
		cmocka_unit_test(test_repeated_bytes),
		cmocka_unit_test(test_small),
		cmocka_unit_test(test_insertion),
		cmocka_unit_test(test_any_split),
		cmocka_unit_test(test_every_position),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
