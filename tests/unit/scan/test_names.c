/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <snapctl/scan/tree.h>

#include "../../../src/scan/names.h"

#define MAX 5000

static char text[MAX][256];

static void add(struct names *s, unsigned i, uint64_t ino)
{
	struct name n = { text[i], ino, (uint16_t)strlen(text[i]), 0 };

	assert_int_equal(names_add(s, &n, NULL), 0);
}

static void check(struct names *s, unsigned n, size_t want)
{
	const struct name *a, *b;

	names_clear(s);
	for (unsigned i = 0; i < n; i++)
		add(s, i, i);
	assert_int_equal(names_sort(s, NULL), 0);
	assert_int_equal(s->n, want);
	for (size_t i = 1; i < s->n; i++) {
		a = &s->v[s->order[i - 1].at];
		b = &s->v[s->order[i].at];
		assert_true(tree_name_cmp(a->p, a->len, b->p, b->len) < 0);
	}
}

static void test_none_and_one(void **state)
{
	struct names s = { 0 };

	(void)state;
	check(&s, 0, 0);
	strcpy(text[0], "only");
	check(&s, 1, 1);
	names_free(&s);
}

static void test_kinds_of_names(void **state)
{
	struct names s = { 0 };
	unsigned seed = 1;

	(void)state;
	/* numbers behind a common beginning */
	for (unsigned i = 0; i < MAX; i++)
		snprintf(text[i], 256, "file-%06u", i * 7919 % MAX);
	check(&s, MAX, MAX);
	/* one a beginning of the other, all bytes */
	for (unsigned i = 0; i < 250; i++) {
		memset(text[i], 'a', 256);
		text[i][i + 1] = 0;
	}
	check(&s, 250, 250);
	for (unsigned i = 0; i < 255; i++)
		snprintf(text[i], 256, "%c", (int)(255 - i));
	check(&s, 255, 255);
	/* the same for longer than a key, then different */
	for (unsigned i = 0; i < MAX; i++)
		snprintf(text[i], 256, "%c0123456789abcdef%u",
			 'a' + rand_r(&seed) % 2, i);
	check(&s, MAX, MAX);
	for (unsigned i = 0; i < 20; i++)
		snprintf(text[i], 256, "%u", (20 - i) * 37);
	check(&s, 20, 20);
	names_free(&s);
}

static void test_doubles_are_dropped(void **state)
{
	struct names s = { 0 };

	(void)state;
	for (unsigned i = 0; i < MAX; i++)
		snprintf(text[i], 256, "a name of some length %u", i % 1000);
	check(&s, MAX, 1000);
	for (unsigned i = 0; i < 6; i++)
		snprintf(text[i], 256, "%u", i % 2);
	check(&s, 6, 2);
	names_free(&s);
}

static void test_keys_keep_their_place(void **state)
{
	struct names s = { 0 };

	(void)state;
	for (unsigned i = 0; i < MAX; i++)
		snprintf(text[i], 256, "%05u", i);
	check(&s, MAX, MAX);
	for (uint32_t i = 0; i < MAX; i++)
		s.order[i] =
			(struct key){ (uint64_t)(i * 2654435761u) << 20, i };
	names_sort_keys(&s);
	for (uint32_t i = 0; i < MAX; i++) {
		assert_int_equal(s.order[i].key,
				 (uint64_t)(s.order[i].at * 2654435761u) << 20);
		if (i)
			assert_true(s.order[i - 1].key <= s.order[i].key);
	}
	names_free(&s);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_none_and_one),
		cmocka_unit_test(test_kinds_of_names),
		cmocka_unit_test(test_doubles_are_dropped),
		cmocka_unit_test(test_keys_keep_their_place),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
