/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <snapctl/base/group.h>
#include <snapctl/scan/tree.h>

static struct tree_arena arena;

static struct tree *fresh(void)
{
	struct tree *t;

	arena = (struct tree_arena){ 0 };
	assert_int_equal(tree_new(&t, NULL), 0);
	return t;
}

static void set(struct tree *t, uint32_t slot, uint32_t parent, mode_t mode,
		const char *name)
{
	struct entry *e = tree_at(t, slot);

	e->name = tree_name(t, &arena, name, strlen(name));
	e->name_len = (uint16_t)strlen(name);
	e->mode = (uint16_t)mode;
	e->parent = parent;
}

static void children(struct tree *t, uint32_t dir, uint32_t first, uint32_t n)
{
	tree_at(t, dir)->first = first;
	tree_at(t, dir)->count = n;
}

static void expect_path(struct tree *t, uint32_t slot, const char *want)
{
	auto_buf struct buf b = { 0 };

	assert_int_equal(tree_path(t, slot, &b, NULL), 0);
	assert_string_equal(buf_cstr(&b), want);
}

/* root { a { x, y }, b, c { z } }, as two threads might have left it */
static struct tree *sample(void)
{
	struct tree *t = fresh();
	uint32_t s;

	assert_int_equal(tree_alloc(t, 1, &s, NULL), 0);
	assert_int_equal(s, 0);
	assert_int_equal(tree_alloc(t, 3, &s, NULL), 0);
	assert_int_equal(s, 1);
	assert_int_equal(tree_alloc(t, 1, &s, NULL), 0); /* c's */
	assert_int_equal(tree_alloc(t, 2, &s, NULL), 0); /* a's */
	set(t, 0, 0, S_IFDIR, "");
	set(t, 1, 0, S_IFDIR, "a");
	set(t, 2, 0, S_IFREG, "b");
	set(t, 3, 0, S_IFDIR, "c");
	set(t, 4, 3, S_IFREG, "z");
	set(t, 5, 1, S_IFREG, "x");
	set(t, 6, 1, S_IFDIR, "y");
	children(t, 0, 1, 3);
	children(t, 1, 5, 2);
	children(t, 3, 4, 1);
	return t;
}

static void test_order_is_preorder(void **state)
{
	static const uint32_t want[] = { 0, 1, 5, 6, 2, 3, 4 };
	struct tree *t = sample();

	(void)state;
	assert_int_equal(tree_seal(t, NULL), 0);
	assert_int_equal(tree_count(t), 7);
	for (uint32_t r = 0; r < 7; r++)
		assert_int_equal(tree_order(t, r), want[r]);
	expect_path(t, 0, "");
	expect_path(t, 2, "b");
	expect_path(t, 6, "a/y");
	assert_int_equal(tree_first_child(t, 0), 1);
	assert_int_equal(tree_next_sibling(t, 1), 2);
	assert_int_equal(tree_next_sibling(t, 3), TREE_NONE);
	assert_int_equal(tree_first_child(t, 6), TREE_NONE);
	assert_int_equal(tree_next_sibling(t, 0), TREE_NONE);
	tree_free(t);
}

static void test_preorder_children(void **state)
{
	struct tree *t = fresh();
	uint32_t s;

	(void)state;
	tree_alloc(t, 6, &s, NULL);
	set(t, 0, 0, S_IFDIR, "");
	set(t, 1, 0, S_IFDIR, "a");
	set(t, 2, 1, S_IFDIR, "x");
	set(t, 3, 2, S_IFREG, "deep");
	set(t, 4, 1, S_IFREG, "y");
	set(t, 5, 0, S_IFREG, "b");
	assert_int_equal(tree_seal_preorder(t, NULL), 0);
	assert_int_equal(tree_at(t, 0)->count, 2);
	assert_int_equal(tree_at(t, 1)->count, 2);
	assert_int_equal(tree_first_child(t, 0), 1);
	assert_int_equal(tree_next_sibling(t, 1), 5);
	assert_int_equal(tree_next_sibling(t, 5), TREE_NONE);
	assert_int_equal(tree_next_sibling(t, 2), 4);
	assert_int_equal(tree_next_sibling(t, 3), TREE_NONE);
	expect_path(t, 3, "a/x/deep");
	tree_at(t, 4)->parent = 5; /* behind it, and a file */
	assert_int_equal(tree_seal_preorder(t, NULL), -1);
	tree_free(t);
}

static void test_given_back_slots_close(void **state)
{
	struct tree *t = sample();

	(void)state;
	/* b and x are gone */
	tree_at(t, 2)->mode = 0;
	*tree_at(t, 2) = *tree_at(t, 3); /* c moves down, z's parent is c */
	tree_at(t, 4)->parent = 2;
	tree_at(t, 0)->count = 2;
	assert_int_equal(tree_give_back(t, 3, 1, NULL), 0);
	*tree_at(t, 5) = *tree_at(t, 6);
	tree_at(t, 1)->count = 1;
	assert_int_equal(tree_give_back(t, 6, 1, NULL), 0);
	assert_int_equal(tree_seal(t, NULL), 0);
	assert_int_equal(tree_count(t), 5);
	expect_path(t, tree_order(t, 0), "");
	expect_path(t, tree_order(t, 1), "a");
	expect_path(t, tree_order(t, 2), "a/y");
	expect_path(t, tree_order(t, 3), "c");
	expect_path(t, tree_order(t, 4), "c/z");
	tree_free(t);
}

static void test_broken_shape_is_refused(void **state)
{
	struct tree *t = sample();

	(void)state;
	tree_at(t, 0)->count = 2; /* c hangs nowhere */
	assert_int_equal(tree_seal(t, NULL), -1);
	tree_at(t, 0)->count = 3;
	tree_at(t, 6)->first = 1; /* a circle */
	tree_at(t, 6)->count = 1;
	assert_int_equal(tree_seal(t, NULL), -1);
	tree_free(t);
}

static void test_xattr_sets_are_kept_once(void **state)
{
	struct tree *t = fresh();
	uint32_t id, again;
	const void *got;
	char blob[16];
	size_t len;

	(void)state;
	assert_int_equal(tree_xattrs_add(t, "", 0, &id, NULL), 0);
	assert_int_equal(id, 0);
	for (uint32_t i = 1; i <= 5000; i++) {
		snprintf(blob, sizeof(blob), "%u", i);
		tree_xattrs_add(t, blob, strlen(blob), &id, NULL);
		assert_int_equal(id, i);
	}
	for (uint32_t i = 1; i <= 5000; i++) {
		snprintf(blob, sizeof(blob), "%u", i);
		tree_xattrs_add(t, blob, strlen(blob), &again, NULL);
		assert_int_equal(again, i);
		got = tree_xattrs(t, i, &len);
		assert_int_equal(len, strlen(blob));
		assert_memory_equal(got, blob, len);
	}
	assert_int_equal(tree_xattrs_count(t), 5000);
	tree_xattrs(t, 0, &len);
	assert_int_equal(len, 0);
	tree_free(t);
}

static void test_runs_lie_side_by_side(void **state)
{
	struct tree *t = fresh();
	struct run *v = calloc(100010, sizeof(*v));
	const struct run *got;
	uint32_t s, n[] = { 1, 1000, 0, 5, 100000, 2, 1024, 70000 };

	(void)state;
	for (uint32_t i = 0; i < 100010; i++)
		v[i] = (struct run){ i, i + 1 };
	tree_alloc(t, 8, &s, NULL);
	for (uint32_t i = 0; i < 8; i++) {
		tree_at(t, i)->mode = S_IFREG;
		assert_int_equal(
			tree_set_runs(t, tree_at(t, i), v + i, n[i], NULL), 0);
	}
	for (uint32_t i = 0; i < 8; i++) {
		const struct entry *e = tree_at(t, i);

		got = tree_runs(t, e);
		assert_int_equal(e->count, n[i]);
		for (uint32_t j = 0; j < e->count; j++) {
			assert_int_equal(got[j].first, i + j);
			assert_int_equal(got[j].count, i + j + 1);
		}
	}
	free(v);
	tree_free(t);
}

static void test_extents_and_targets(void **state)
{
	static const struct extent x[] = { { 0, 4096 }, { 8192, 1 } };
	struct tree *t = fresh();
	uint32_t s, n = 9, id;

	(void)state;
	tree_alloc(t, 70000, &s, NULL);
	assert_null(tree_extents(t, 69999, &n));
	assert_int_equal(n, 0);
	assert_int_equal(tree_set_extents(t, 69999, x, 2, NULL), 0);
	assert_int_equal(tree_set_extents(t, 3, NULL, 0, NULL), 0);
	assert_memory_equal(tree_extents(t, 69999, &n), x, sizeof(x));
	assert_int_equal(n, 2);
	assert_int_equal(tree_at(t, 69999)->bits, ENTRY_SPARSE);
	assert_non_null(tree_extents(t, 3, &n));
	assert_int_equal(n, 0);
	assert_null(tree_extents(t, 4, &n));

	assert_int_equal(tree_target_add(t, "over/there\n", 10, &id, NULL), 0);
	assert_int_equal(id, 1);
	assert_string_equal(tree_target(t, id), "over/there");
	assert_string_equal(tree_target(t, 0), "");
	tree_free(t);
}

static void test_names_compare_as_bytes(void **state)
{
	(void)state;
	assert_true(tree_name_cmp("a", 1, "b", 1) < 0);
	assert_true(tree_name_cmp("a", 1, "ab", 2) < 0);
	assert_true(tree_name_cmp("ab", 2, "a", 1) > 0);
	assert_true(tree_name_cmp("\xff", 1, "a", 1) > 0);
	assert_int_equal(tree_name_cmp("ab", 2, "ab", 2), 0);
	assert_true(tree_name_cmp("a.b", 3, "a", 1) > 0);
}

#define EACH 60000

static int filler(void *arg, struct sc_err *err)
{
	struct tree *t = arg;
	struct tree_arena a = { 0 };
	uint32_t s, id;
	char name[32];

	for (int i = 0; i < EACH; i++) {
		if (tree_alloc(t, 1 + i % 3, &s, err) < 0)
			return -1;
		snprintf(name, sizeof(name), "%u", s);
		tree_at(t, s)->name = tree_name(t, &a, name, strlen(name));
		tree_at(t, s)->mode = S_IFREG;
		if (tree_xattrs_add(t, name, strlen(name) / 2, &id, err) < 0 ||
		    tree_set_runs(t, tree_at(t, s), &(struct run){ s, 1 }, 1,
				  err) < 0)
			return -1;
		tree_at(t, s)->xattrs = id;
	}
	return 0;
}

static void test_filled_from_threads(void **state)
{
	struct tree *t = fresh();
	uint32_t seen = 0;
	struct group *g;
	char name[32];
	size_t len;

	(void)state;
	assert_int_equal(group_new(&g, NULL), 0);
	for (int i = 0; i < 4; i++)
		assert_int_equal(group_start(g, filler, t, NULL), 0);
	assert_int_equal(group_join(g, NULL), 0);
	assert_int_equal(tree_count(t), 4 * EACH * 2);
	for (uint32_t s = 0; s < tree_count(t); s++) {
		const struct entry *e = tree_at(t, s);

		if (!e->name)
			continue;
		seen++;
		snprintf(name, sizeof(name), "%u", s);
		assert_string_equal(e->name, name);
		assert_int_equal(tree_runs(t, e)->first, s);
		assert_memory_equal(tree_xattrs(t, e->xattrs, &len), name,
				    strlen(name) / 2);
		assert_int_equal(len, strlen(name) / 2);
	}
	assert_int_equal(seen, 4 * EACH);
	tree_free(t);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_order_is_preorder),
		cmocka_unit_test(test_preorder_children),
		cmocka_unit_test(test_given_back_slots_close),
		cmocka_unit_test(test_broken_shape_is_refused),
		cmocka_unit_test(test_xattr_sets_are_kept_once),
		cmocka_unit_test(test_runs_lie_side_by_side),
		cmocka_unit_test(test_extents_and_targets),
		cmocka_unit_test(test_names_compare_as_bytes),
		cmocka_unit_test(test_filled_from_threads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
