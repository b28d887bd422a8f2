/* SPDX-License-Identifier: MIT */
/* Damage of every kind, in every file of a repository, is found and named. */
#include "fixture.h"

#include <jansson.h>

struct found {
	unsigned n;
	char blob[96], snapshot[96], text[512];
};

static void note(void *arg, const char *blob, const char *snapshot,
		 const char *text)
{
	struct found *f = arg;

	if (f->n++ == 0) {
		snprintf(f->blob, sizeof(f->blob), "%s", blob);
		snprintf(f->snapshot, sizeof(f->snapshot), "%s",
			 snapshot ? snapshot : "");
		snprintf(f->text, sizeof(f->text), "%s", text);
	}
}

static struct found verify(struct repo *r, bool deep, struct verify_result *out)
{
	struct found f = { 0 };
	struct verify_options o = {
		.deep = deep, .threads = 2, .problem = note, .arg = &f
	};

	OK(repo_verify(r, NULL, 0, &o, out, &failure));
	assert_int_equal(f.n, out->problems);
	return f;
}

/* What a restore does first; false when it refuses. */
static bool can_restore(struct repo *r, const char *id, struct sc_err *err)
{
	struct snapshot_ref ref = { 0 };
	struct snapshot *s = NULL;
	bool ok = repo_find(r, id, NULL, &ref, err) == 0 &&
		  repo_load(r, &ref, &s, err) == 0 &&
		  repo_check_present(r, s, NULL, err) == 0;

	snapshot_free(s);
	snapshot_ref_clear(&ref);
	return ok;
}

static struct repo *two_snapshots(struct place *p)
{
	struct repo *r = open_repo(p, REPO_WRITE);
	struct snapshot *s = new_snapshot("web", CREATED);

	add_volume(r, s, "data", 4, 30000, 1);
	add_volume(r, s, "logs", 1, 30000, 50);
	OK(repo_publish(r, s, &failure));
	snapshot_free(s);
	snapshot_free(publish_one(r, "web", CREATED + 60, 100));
	return r;
}

static void test_clean(void **state)
{
	struct repo *r = two_snapshots(*state);
	struct verify_result out;
	atomic_uint_fast64_t bytes = 0, total = 0;
	struct verify_options o = { .bytes = &bytes, .total = &total };
	const char *id = "web-" CREATED_ID;

	assert_int_equal(verify(r, false, &out).n, 0);
	assert_int_equal(out.snapshots, 2);
	/* 4 packs at one or two segments, 2 indexes, 2 documents, twice */
	assert_int_equal(out.blobs, count_files(*state, "blobs/sha256"));
	assert_int_equal(verify(r, true, &out).n, 0);
	OK(repo_verify(r, &id, 1, &o, &out, &failure));
	assert_int_equal(out.snapshots, 1);
	assert_true(total <= out.bytes && bytes > 0 && bytes <= total);
	id = "web-none";
	assert_int_equal(repo_verify(r, &id, 1, &o, &out, &failure), -1);
	assert_int_equal(failure.code, SC_ENOTFOUND);
	repo_close(r);
}

/* Calls fn for the content of every blob and puts it back afterwards. */
static void each_blob(struct place *p,
		      void (*fn)(struct place *p, const char *name,
				 struct buf *content))
{
	char path[256];
	DIR *d;
	struct dirent *e;

	snprintf(path, sizeof(path), "%s/blobs/sha256", p->repo);
	d = opendir(path);
	assert_non_null(d);
	while ((e = readdir(d))) {
		auto_buf struct buf text = { 0 };
		char name[300];

		if (e->d_name[0] == '.')
			continue;
		snprintf(name, sizeof(name), "blobs/sha256/%s", e->d_name);
		read_text(p, name, &text);
		fn(p, name, &text);
		write_text(p, name, text.p, text.len);
	}
	closedir(d);
}

static void expect_named(struct place *p, const char *name)
{
	struct repo *r = open_repo(p, REPO_READ);
	const char *hex = strrchr(name, '/') + 1;
	struct verify_result out;
	struct found f = verify(r, false, &out);

	if (!f.n || !strstr(f.blob, hex) || !strstr(f.text, hex) ||
	    strncmp(f.snapshot, "web-", 4) != 0)
		fail_msg("%s: found %u, %s in %s: %s", name, f.n, f.blob,
			 f.snapshot, f.text);
	repo_close(r);
}

static void damage_blob(struct place *p, const char *name, struct buf *b)
{
	static const size_t at[] = { 0, 50, 99 }; /* percent */

	for (size_t i = 0; i < 3; i++) {
		size_t k = (b->len - 1) * at[i] / 99;

		b->p[k] ^= 1;
		write_text(p, name, b->p, b->len);
		expect_named(p, name);
		b->p[k] ^= 1;
	}
	write_text(p, name, b->p, b->len - 1);
	expect_named(p, name);
	write_text(p, name, b->p, 0);
	expect_named(p, name);
	buf_put(b, "x", 1);
	write_text(p, name, b->p, b->len);
	expect_named(p, name);
	b->len--;
}

static void test_blobs(void **state)
{
	struct place *p = *state;
	struct repo *r = two_snapshots(p);
	struct verify_result out;

	repo_close(r);
	each_blob(p, damage_blob);
	r = open_repo(p, REPO_READ);
	assert_int_equal(verify(r, true, &out).n, 0);
	repo_close(r);
}

static void remove_blob(struct place *p, const char *name, struct buf *b)
{
	char path[512];

	(void)b;
	snprintf(path, sizeof(path), "%s/%s", p->repo, name);
	assert_int_equal(unlink(path), 0);
	expect_named(p, name);
	assert_int_equal(mkfifo(path, 0600), 0);
	expect_named(p, name);
	assert_int_equal(unlink(path), 0);
}

static void test_missing(void **state)
{
	struct place *p = *state;

	repo_close(two_snapshots(p));
	each_blob(p, remove_blob);
}

/* Every byte of index.json, and cuts everywhere. */
static void test_index_json(void **state)
{
	struct place *p = *state;
	auto_buf struct buf text = { 0 };
	struct repo *r = two_snapshots(p);
	struct verify_result out;
	struct found f;
	struct sc_err err = { 0 };

	read_text(p, "index.json", &text);
	for (size_t i = 0; i < text.len; i++)
		for (unsigned bit = i % 4; bit < 8; bit += 4) {
			text.p[i] ^= (unsigned char)(1u << bit);
			write_text(p, "index.json", text.p, text.len);
			f = verify(r, false, &out);
			if (!f.n)
				fail_msg("flip of bit %u at %zu not found", bit,
					 i);
			/* Never the wrong one, never in silence. */
			if (can_restore(r, "latest", &err)) {
				struct snapshot_ref ref = { 0 };

				OK(repo_find(r, "latest", NULL, &ref,
					     &failure));
				assert_string_equal(ref.id,
						    "web-20260921T141420Z");
				snapshot_ref_clear(&ref);
			}
			text.p[i] ^= (unsigned char)(1u << bit);
		}
	for (size_t n = 0; n < text.len; n += 7) {
		write_text(p, "index.json", text.p, n);
		f = verify(r, false, &out);
		assert_int_equal(f.n, 1);
		assert_string_equal(f.blob, "index.json");
		assert_false(can_restore(r, "latest", &err));
		assert_int_equal(err.code, SC_ECORRUPT);
	}
	repo_close(r);
}

static void test_layout(void **state)
{
	struct place *p = *state;
	struct repo *r = two_snapshots(p), *again = NULL;
	auto_buf struct buf text = { 0 };
	struct verify_result out;
	struct found f;

	read_text(p, "oci-layout", &text);
	for (size_t i = 0; i < text.len; i++) {
		text.p[i] ^= 1;
		write_text(p, "oci-layout", text.p, text.len);
		f = verify(r, false, &out);
		assert_int_equal(f.n, 1);
		assert_string_equal(f.blob, "oci-layout");
		text.p[i] ^= 1;
	}
	repo_close(r);
	write_text(p, "oci-layout", text.p, 5);
	assert_int_equal(repo_open(p->repo, REPO_READ, &again, &failure), -1);
	assert_int_equal(failure.code, SC_ECORRUPT);
	assert_non_null(strstr(failure.msg, "oci-layout"));
	assert_int_equal(repo_open(p->repo, REPO_WRITE, &again, &failure), -1);
	assert_int_equal(failure.code, SC_ECORRUPT);
}

/* A restore refuses damage in everything but the data, which it checks as it
 * reads; missing and cut packs are seen as well. */
static void refuse_cut(struct place *p, const char *name, struct buf *b)
{
	struct repo *r = open_repo(p, REPO_READ);
	struct sc_err one = { 0 }, two = { 0 };

	write_text(p, name, b->p, b->len - 1);
	assert_false(can_restore(r, "web-" CREATED_ID, &one) &&
		     can_restore(r, "web-20260921T141420Z", &two));
	assert_true(strstr(one.msg, strrchr(name, '/') + 1) ||
		    strstr(two.msg, strrchr(name, '/') + 1));
	repo_close(r);
}

static void test_restore_refuses(void **state)
{
	struct place *p = *state;

	repo_close(two_snapshots(p));
	each_blob(p, refuse_cut);
}

/* The pack is what its name says, but the chunk's hash is another one. */
static void test_deep(void **state)
{
	struct place *p = *state;
	struct repo *r = open_repo(p, REPO_WRITE);
	struct snapshot *s = new_snapshot("web", CREATED);
	struct verify_result out;
	struct found f;

	wrong_chunk = 4;
	add_volume(r, s, "data", 3, 1 << 30, 1);
	wrong_chunk = UINT32_MAX;
	OK(repo_publish(r, s, &failure));
	assert_int_equal(verify(r, false, &out).n, 0);
	f = verify(r, true, &out);
	assert_int_equal(f.n, 1);
	assert_non_null(strstr(f.text, "the chunk at 5512"));
	assert_string_equal(f.snapshot, s->id);
	snapshot_free(s);
	repo_close(r);
}

/* The index is a valid one, but not this snapshot's. */
static void test_other_index(void **state)
{
	struct place *p = *state;
	struct repo *r = open_repo(p, REPO_WRITE);
	struct snapshot *s = new_snapshot("web", CREATED);
	struct verify_result out;
	struct digest d;
	uint64_t n;
	struct found f;

	add_volume(r, s, "data", 2, 1 << 30, 1);
	add_volume(r, s, "logs", 2, 1 << 30, 9);
	d = s->volumes[0].index;
	n = s->volumes[0].index_length;
	s->volumes[0].index = s->volumes[1].index;
	s->volumes[0].index_length = s->volumes[1].index_length;
	s->volumes[1].index = d;
	s->volumes[1].index_length = n;
	OK(repo_publish(r, s, &failure));
	f = verify(r, false, &out);
	assert_int_equal(f.n, 2);
	assert_non_null(strstr(f.text, "other packs"));
	snapshot_free(s);
	repo_close(r);
}

static void test_cancel(void **state)
{
	struct repo *r = two_snapshots(*state);
	struct cancel c;
	struct verify_options o = { .cancel = &c };
	struct verify_result out;

	OK(cancel_init(&c, &failure));
	cancel_set(&c, SIGINT);
	assert_int_equal(repo_verify(r, NULL, 0, &o, &out, &failure), -1);
	assert_int_equal(failure.code, SC_EINTR);
	cancel_close(&c);
	repo_close(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_clean),   TEST(test_blobs),
		TEST(test_missing), TEST(test_index_json),
		TEST(test_layout),  TEST(test_restore_refuses),
		TEST(test_deep),    TEST(test_other_index),
		TEST(test_cancel),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
