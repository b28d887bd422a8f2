/* SPDX-License-Identifier: MIT */
/* Segments into packs. */
#include "fixture.h"

static void append(struct packs *p, struct chunk_table *t, const char *s)
{
	OK(packs_append(p, s, strlen(s), 7, t, &failure));
}

static void publish_and_compare(struct repo *r, const struct pack_ref *ref,
				const char *want)
{
	auto_buf struct buf got = { 0 };

	OK(blob_read(r, &ref->digest, 1000, &got, &failure));
	assert_int_equal(got.len, strlen(want));
	assert_int_equal(ref->length, strlen(want));
	assert_memory_equal(got.p, want, strlen(want));
}

static void publish_empty(struct repo *r)
{
	struct snapshot *s = new_snapshot("web", CREATED);

	OK(repo_publish(r, s, &failure));
	snapshot_free(s);
}

static void test_split(void **state)
{
	struct repo *r = open_repo(*state, REPO_WRITE);
	struct chunk_table t = { 0 };
	struct packs *p = NULL;
	static const struct segment want[] = {
		{ .pack = 0, .stored = 4, .plain = 7, .offset = 0 },
		{ .pack = 0, .stored = 6, .plain = 7, .offset = 4 },
		{ .pack = 1, .stored = 1, .plain = 7, .offset = 0 },
		{ .pack = 2, .stored = 12, .plain = 7, .offset = 0 },
		{ .pack = 3, .stored = 1, .plain = 7, .offset = 0 },
	};

	OK(packs_new(r, PACK_TAR, 10, &p, &failure));
	append(p, &t, "aaaa");
	append(p, &t, "bbbbbb"); /* ten: just fits */
	append(p, &t, "c");
	append(p, &t, "dddddddddddd"); /* longer than a pack may be */
	append(p, &t, "e");
	OK(packs_finish(p, &t, &failure));
	packs_free(p);
	assert_int_equal(t.npacks, 4);
	assert_int_equal(t.nsegments, ARRAY_LEN(want));
	for (size_t i = 0; i < t.nsegments; i++) {
		assert_int_equal(t.segments[i].pack, want[i].pack);
		assert_int_equal(t.segments[i].stored, want[i].stored);
		assert_int_equal(t.segments[i].plain, want[i].plain);
		assert_int_equal(t.segments[i].offset, want[i].offset);
	}
	publish_empty(r);
	publish_and_compare(r, &t.packs[0], "aaaabbbbbb");
	publish_and_compare(r, &t.packs[1], "c");
	publish_and_compare(r, &t.packs[2], "dddddddddddd");
	publish_and_compare(r, &t.packs[3], "e");
	assert_int_equal(t.packs[0].kind, PACK_TAR);
	chunk_table_free(&t);
	repo_close(r);
}

/* Two volumes in the same packs: each numbers those it is in. */
static void test_shared(void **state)
{
	struct repo *r = open_repo(*state, REPO_WRITE);
	struct chunk_table t = { 0 }, u = { 0 };
	struct packs *p = NULL;

	OK(packs_new(r, PACK_CHUNKS, 8, &p, &failure));
	append(p, &t, "t1t1");
	append(p, &t, "t2t2");
	append(p, &t, "t3");
	append(p, &u, "u1");
	append(p, &t, "t4");
	append(p, &u, "u2u2u2");
	OK(packs_finish(p, &u, &failure));
	packs_free(p);
	assert_int_equal(t.npacks, 2);
	assert_int_equal(u.npacks, 2);
	assert_int_equal(t.segments[3].pack, 1);
	assert_int_equal(t.segments[3].offset, 4);
	assert_int_equal(u.segments[0].pack, 0);
	assert_int_equal(u.segments[0].offset, 2);
	assert_int_equal(u.segments[1].pack, 1);
	assert_int_equal(digest_cmp(&t.packs[1].digest, &u.packs[0].digest), 0);
	publish_empty(r);
	publish_and_compare(r, &t.packs[0], "t1t1t2t2");
	publish_and_compare(r, &t.packs[1], "t3u1t4");
	publish_and_compare(r, &u.packs[1], "u2u2u2");
	assert_int_equal(u.packs[1].kind, PACK_CHUNKS);
	chunk_table_free(&t);
	chunk_table_free(&u);
	repo_close(r);
}

static void test_empty_and_unfinished(void **state)
{
	struct place *pl = *state;
	struct repo *r = open_repo(pl, REPO_WRITE);
	struct chunk_table t = { 0 };
	struct packs *p = NULL;

	OK(packs_new(r, PACK_TAR, 100, &p, &failure));
	OK(packs_finish(p, &t, &failure));
	assert_int_equal(t.npacks, 0);
	packs_free(p);
	OK(packs_new(r, PACK_TAR, 100, &p, &failure));
	append(p, &t, "gone");
	packs_free(p);
	publish_empty(r);
	assert_int_equal(count_files(pl, "blobs/sha256"), 2);
	chunk_table_free(&t);
	repo_close(r);
}

static void test_bounds(void **state)
{
	struct repo *r = open_repo(*state, REPO_WRITE);
	struct chunk_table t = { 0 };
	struct packs *p = NULL;

	OK(packs_new(r, PACK_TAR, 100, &p, &failure));
	assert_int_equal(packs_append(p, "", 0, 1, &t, &failure), -1);
	assert_int_equal(failure.code, SC_EPROTO);
	assert_int_equal(
		packs_append(p, "x", 1, SEGMENT_PLAIN_MAX + 1, &t, &failure),
		-1);
	assert_int_equal(
		packs_append(p, "x", SEGMENT_STORED_MAX + 1, 1, &t, &failure),
		-1);
	assert_int_equal(t.nsegments, 0);
	packs_free(p);
	chunk_table_free(&t);
	repo_close(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_split),
		TEST(test_shared),
		TEST(test_empty_and_unfinished),
		TEST(test_bounds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
