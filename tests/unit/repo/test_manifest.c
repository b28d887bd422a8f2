/* SPDX-License-Identifier: MIT */
/* Publishing, listing and finding snapshots. With "--make DIR STACK" it adds
 * one to a repository, for the tests of the command line. */
#include "fixture.h"

#include <jansson.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>

static void test_publish_and_load(void **state)
{
	struct place *p = *state;
	struct repo *r = open_repo(p, REPO_WRITE);
	struct snapshot *s = new_snapshot("web", CREATED), *back = NULL;
	struct snapshot_ref *v = NULL;
	size_t n = 0;

	add_volume(r, s, "web_data", 5, 30000, 1);
	add_volume(r, s, "web_logs", 1, 30000, 100);
	s->note = copy("before the upgrade");
	assert_true(s->volumes[0].npacks > 1);
	OK(repo_publish(r, s, &failure));
	assert_string_equal(s->id, "web-" CREATED_ID);
	OK(repo_list(r, &v, &n, &failure));
	assert_int_equal(n, 1);
	assert_string_equal(v[0].id, s->id);
	assert_string_equal(v[0].stack, "web");
	assert_int_equal(v[0].created, CREATED);
	assert_null(v[0].damage);
	OK(repo_load(r, &v[0], &back, &failure));
	assert_string_equal(back->id, s->id);
	assert_string_equal(back->note, "before the upgrade");
	assert_int_equal(back->nvolumes, 2);
	assert_int_equal(back->volumes[0].npacks, s->volumes[0].npacks);
	assert_memory_equal(&back->volumes[0].index, &s->volumes[0].index,
			    sizeof(struct digest));
	OK(repo_check_present(r, back, NULL, &failure));
	/* nothing but what was published: packs, indexes, config, manifest */
	assert_int_equal(count_files(p, "blobs/sha256"),
			 s->volumes[0].npacks + s->volumes[1].npacks + 2 + 2);
	snapshot_refs_free(v, n);
	snapshot_free(back);
	snapshot_free(s);
	repo_close(r);
	assert_int_equal(count_files(p, "state/partial"), 0);
}

/* The documents, as other tools will read them. */
static void test_documents(void **state)
{
	struct place *p = *state;
	struct repo *r = open_repo(p, REPO_WRITE);
	struct snapshot *s = new_snapshot("web", CREATED);
	struct snapshot_ref ref = { 0 };
	auto_buf struct buf text = { 0 };
	json_t *m, *layers, *d;
	const char *mt, *title;

	add_volume(r, s, "../a/b", 2, 1, 1);
	add_volume(r, s, "same", 2, 1, 1); /* equal bytes */
	OK(repo_publish(r, s, &failure));
	OK(repo_find(r, "latest", NULL, &ref, &failure));
	OK(blob_read(r, &ref.manifest, 1 << 20, &text, &failure));
	m = json_loadb((char *)text.p, text.len, 0, NULL);
	assert_non_null(m);
	assert_int_equal(
		json_integer_value(json_object_get(m, "schemaVersion")), 2);
	assert_string_equal(
		json_string_value(json_object_get(m, "artifactType")),
		MEDIA_SNAPSHOT);
	layers = json_object_get(m, "layers");
	/* deduplicated: two packs and one index for both volumes */
	assert_int_equal(json_array_size(layers), 3);
	d = json_array_get(layers, 1);
	assert_int_equal(json_unpack(d, "{s:s,s:{s:s}}", "mediaType", &mt,
				     "annotations",
				     "org.opencontainers.image.title", &title),
			 0);
	assert_string_equal(mt, MEDIA_PACK_TAR);
	assert_string_equal(title, "_._a_b.002.tar.zst");
	d = json_array_get(layers, 2);
	assert_string_equal(json_string_value(json_object_get(d, "mediaType")),
			    MEDIA_INDEX);
	json_decref(m);

	read_text(p, "index.json", &text);
	m = json_loads((char *)text.p, 0, NULL);
	assert_non_null(m);
	d = json_array_get(json_object_get(m, "manifests"), 0);
	assert_int_equal(json_object_size(d), 5);
	assert_int_equal(json_integer_value(json_object_get(d, "size")),
			 ref.manifest_size);
	d = json_object_get(d, "annotations");
	assert_string_equal(json_string_value(json_object_get(
				    d, "org.opencontainers.image.ref.name")),
			    "web-" CREATED_ID);
	assert_string_equal(json_string_value(json_object_get(
				    d, "org.opencontainers.image.created")),
			    "2026-09-21T14:13:20Z");
	assert_string_equal(
		json_string_value(json_object_get(d, "io.snapctl.stack")),
		"web");
	json_decref(m);
	snapshot_ref_clear(&ref);
	snapshot_free(s);
	repo_close(r);
}

static void test_clash(void **state)
{
	struct place *p = *state;
	struct repo *r = open_repo(p, REPO_WRITE);
	struct snapshot_ref ref = { 0 }, *v = NULL;
	size_t n = 0;
	char want[64];

	for (unsigned i = 1; i <= 11; i++) {
		struct snapshot *s = publish_one(r, "web", CREATED, i);

		snprintf(want, sizeof(want), i > 1 ? "web-%s-%u" : "web-%s",
			 CREATED_ID, i);
		assert_string_equal(s->id, want);
		snapshot_free(s);
	}
	OK(repo_list(r, &v, &n, &failure));
	assert_int_equal(n, 11);
	assert_string_equal(v[9].id, "web-" CREATED_ID "-10");
	snapshot_refs_free(v, n);
	/* the first is a prefix of all others, and still found */
	OK(repo_find(r, "web-" CREATED_ID, NULL, &ref, &failure));
	assert_string_equal(ref.id, "web-" CREATED_ID);
	snapshot_ref_clear(&ref);
	OK(repo_find(r, "latest", "web", &ref, &failure));
	assert_string_equal(ref.id, "web-" CREATED_ID "-11");
	snapshot_ref_clear(&ref);
	repo_close(r);
}

/* Whatever a stack is called, its snapshot is found again. */
static void test_odd_stacks(void **state)
{
	static const char *const odd[] = { "e\nv/il", "a\\b",	  "../x",
					   "-",	      "\xff\xfe", "\x1b[31m" };
	struct place *p = *state;
	struct repo *r = open_repo(p, REPO_WRITE);
	struct snapshot_ref *v = NULL;
	size_t n = 0;

	for (unsigned i = 0; i < ARRAY_LEN(odd); i++)
		snapshot_free(publish_one(r, odd[i], CREATED + i, i));
	OK(repo_list(r, &v, &n, &failure));
	assert_int_equal(n, ARRAY_LEN(odd));
	for (size_t i = 0; i < n; i++)
		if (v[i].damage)
			fail_msg("%s: %s", v[i].id, v[i].damage);
	snapshot_refs_free(v, n);
	repo_close(r);
}

static void find_fails(struct repo *r, const char *name, const char *stack,
		       enum sc_code code, const char *text)
{
	struct snapshot_ref ref = { 0 };
	struct sc_err err = { 0 };

	assert_int_equal(repo_find(r, name, stack, &ref, &err), -1);
	if (err.code != code || !strstr(err.msg, text))
		fail_msg("%s: code %d: %s", name, err.code, err.msg);
}

static void test_find(void **state)
{
	struct place *p = *state;
	struct repo *r = open_repo(p, REPO_WRITE);
	struct snapshot_ref ref = { 0 };

	find_fails(r, "latest", NULL, SC_ENOTFOUND, "none at all");
	snapshot_free(publish_one(r, "web", CREATED, 1));
	snapshot_free(publish_one(r, "web", CREATED + 60, 2));
	OK(repo_find(r, "latest", NULL, &ref, &failure));
	assert_string_equal(ref.id, "web-20260921T141420Z");
	snapshot_ref_clear(&ref);
	snapshot_free(publish_one(r, "mail", CREATED + 120, 3));
	find_fails(r, "latest", NULL, SC_EUSAGE, "which stack");
	find_fails(r, "latest", "wen", SC_ENOTFOUND, "of stack wen");
	find_fails(r, "web-2026", NULL, SC_EUSAGE,
		   "web-20260921T141320Z, web-20260921T141420Z");
	find_fails(r, "web-20260921T141325Z", NULL, SC_ENOTFOUND,
		   "near names: web-20260921T141320Z");
	find_fails(r, "", NULL, SC_ENOTFOUND, "no snapshot");
	find_fails(r, "mail", "web", SC_ENOTFOUND, "no snapshot mail");
	OK(repo_find(r, "mail", NULL, &ref, &failure));
	assert_string_equal(ref.id, "mail-20260921T141520Z");
	snapshot_ref_clear(&ref);
	OK(repo_find(r, "latest", "web", &ref, &failure));
	assert_string_equal(ref.id, "web-20260921T141420Z");
	snapshot_ref_clear(&ref);
	OK(repo_find(r, "web-20260921T1413", "web", &ref, &failure));
	assert_string_equal(ref.id, "web-20260921T141320Z");
	snapshot_ref_clear(&ref);
	repo_close(r);
}

static const char foreign[] =
	"{\"schemaVersion\":2,\"manifests\":[{\"mediaType\":"
	"\"application/vnd.oci.image.manifest.v1+json\",\"digest\":\"sha256:"
	"0123456789012345678901234567890123456789012345678901234567890123\","
	"\"size\":7,\"platform\":{\"os\":\"linux\",\"os.features\":[\"a\"]},"
	"\"annotations\":{\"org.opencontainers.image.ref.name\":"
	"\"web-" CREATED_ID
	"\",\"x\":\"\\u0000\\u00e4\"},\"unknown\":[1.5,null,true]}],"
	"\"annotations\":{\"by\":\"others\"},\"new\":{\"deep\":[{}]}}";

static void test_foreign(void **state)
{
	struct place *p = *state;
	struct repo *r = open_repo(p, REPO_WRITE);
	struct snapshot_ref *v = NULL;
	auto_buf struct buf text = { 0 };
	size_t n = 9;
	json_t *was, *is, *list;
	struct snapshot *s;

	write_text(p, "index.json", foreign, strlen(foreign));
	OK(repo_list(r, &v, &n, &failure));
	/* It has the tag of a snapshot and its manifest is missing. */
	assert_int_equal(n, 1);
	assert_non_null(v[0].damage);
	snapshot_refs_free(v, n);
	s = publish_one(r, "web", CREATED, 1);
	assert_string_equal(s->id, "web-" CREATED_ID "-2");
	snapshot_free(s);
	read_text(p, "index.json", &text);
	is = json_loadb((char *)text.p, text.len, JSON_ALLOW_NUL, NULL);
	was = json_loads(foreign, JSON_ALLOW_NUL, NULL);
	assert_non_null(is);
	list = json_object_get(is, "manifests");
	assert_int_equal(json_array_size(list), 2);
	assert_int_equal(json_array_remove(list, 1), 0);
	assert_true(json_equal(is, was));
	json_decref(is);
	json_decref(was);
	/* The list before the change, for people. */
	read_text(p, "state/index.json.previous", &text);
	assert_string_equal(text.p, foreign);
	repo_close(r);
}

/* A copying tool keeps tag, digest and size. */
static void test_copied(void **state)
{
	struct place *p = *state;
	struct repo *r = open_repo(p, REPO_WRITE);
	struct snapshot *s = publish_one(r, "web", CREATED, 1), *back = NULL;
	struct snapshot_ref ref = { 0 };
	char digest[DIGEST_STR], text[512];

	OK(repo_find(r, s->id, NULL, &ref, &failure));
	digest_str(&ref.manifest, digest);
	snprintf(text, sizeof(text),
		 "{\"schemaVersion\":2,\"manifests\":[{\"mediaType\":\"%s\","
		 "\"digest\":\"%s\",\"size\":%llu,\"annotations\":{"
		 "\"org.opencontainers.image.ref.name\":\"kept\"}}]}",
		 MEDIA_MANIFEST, digest, (unsigned long long)ref.manifest_size);
	write_text(p, "index.json", text, strlen(text));
	snapshot_ref_clear(&ref);
	OK(repo_find(r, "latest", "web", &ref, &failure));
	assert_string_equal(ref.id, "kept");
	assert_int_equal(ref.created, CREATED);
	OK(repo_load(r, &ref, &back, &failure));
	assert_string_equal(back->id, "kept");
	snapshot_free(back);
	snapshot_free(s);
	snapshot_ref_clear(&ref);
	repo_close(r);
}

/* In every step that a limit can stop, nothing of it is left. */
static void publish_under_limit(struct place *p, rlim_t limit)
{
	pid_t child = fork();
	int status;

	assert_true(child >= 0);
	if (child == 0) {
		struct rlimit rl = { limit, limit };
		struct repo *r = open_repo(p, REPO_WRITE);
		struct snapshot *s = new_snapshot("web", CREATED + 1);
		struct sc_err err = { 0 };
		int rc;

		add_volume(r, s, "data", 1, 1 << 30, 50);
		s->note = calloc(1, 60000);
		memset(s->note, 'n', 59999);
		signal(SIGXFSZ, SIG_IGN);
		if (setrlimit(RLIMIT_FSIZE, &rl) < 0)
			_exit(3);
		rc = repo_publish(r, s, &err);
		if (rc == 0 || s->id || err.sys != EFBIG)
			_exit(4);
		snapshot_free(s);
		repo_close(r);
		_exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(WIFEXITED(status) ? WEXITSTATUS(status) : -1, 0);
}

static void test_limit(void **state)
{
	struct place *p = *state;
	struct repo *r = open_repo(p, REPO_WRITE);
	auto_buf struct buf before = { 0 }, after = { 0 };
	unsigned blobs;

	snapshot_free(publish_one(r, "web", CREATED, 1));
	repo_close(r);
	blobs = count_files(p, "blobs/sha256");
	read_text(p, "index.json", &before);
	publish_under_limit(p, 0);     /* the config's first byte */
	publish_under_limit(p, 50000); /* in the config */
	read_text(p, "index.json", &after);
	assert_string_equal(before.p, after.p);
	assert_int_equal(count_files(p, "blobs/sha256"), blobs);
	assert_int_equal(count_files(p, "state/partial"), 0);
}

/* The last step fails: blobs are renamed by then, and taken back; one that
 * was there before stays. */
static void test_withdraw(void **state)
{
	struct place *p = *state;
	struct repo *r = open_repo(p, REPO_WRITE);
	struct snapshot *s = publish_one(r, "web", CREATED, 1);
	auto_buf struct buf text = { 0 };
	struct sc_err err = { 0 };
	struct rlimit was, small = { 100000, 0 };
	char *big;
	unsigned blobs = count_files(p, "blobs/sha256");

	snapshot_free(s);
	/* A list too long for the limit, everything else is short. */
	big = calloc(1, 200000);
	memset(big, 'x', 150000);
	read_text(p, "index.json", &text);
	text.len--;
	buf_printf(&text, ",\"long\":\"%s\"}", big);
	write_text(p, "index.json", text.p, text.len);
	free(big);
	s = new_snapshot("web", CREATED + 5);
	add_volume(r, s, "data", 3, 1 << 30, 1); /* as the first one */
	add_volume(r, s, "more", 1, 1 << 30, 7);
	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &was), 0);
	small.rlim_max = was.rlim_max;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
	assert_int_equal(repo_publish(r, s, &err), -1);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &was), 0);
	assert_int_equal(err.sys, EFBIG);
	assert_null(s->id);
	assert_int_equal(count_files(p, "blobs/sha256"), blobs);
	snapshot_free(s);
	/* and the next one works */
	snapshot_free(publish_one(r, "web", CREATED + 6, 9));
	repo_close(r);
}

/* A full file system, as small as it gets. */
static void test_disk_full(void **state)
{
	struct place *p = *state;
	struct repo *r;
	struct snapshot *s;
	struct sc_err err = { 0 };
	struct blob_writer *w = NULL;
	static char page[65536];
	unsigned blobs;
	int rc = 0;

	if (mkdir(p->repo, 0700) < 0 ||
	    mount("none", p->repo, "tmpfs", 0, "size=512k") < 0)
		skip(); /* needs root */
	r = open_repo(p, REPO_WRITE);
	snapshot_free(publish_one(r, "web", CREATED, 1));
	blobs = count_files(p, "blobs/sha256");
	OK(blob_new(r, &w, &failure));
	while (rc == 0)
		rc = blob_write(w, page, sizeof(page), &err);
	assert_int_equal(err.sys, ENOSPC);
	/* nothing left for config and manifest */
	s = new_snapshot("web", CREATED + 1);
	assert_int_equal(repo_publish(r, s, &err), -1);
	assert_int_equal(err.sys, ENOSPC);
	snapshot_free(s);
	blob_discard(w);
	repo_close(r);
	assert_int_equal(count_files(p, "blobs/sha256"), blobs);
	assert_int_equal(count_files(p, "state/partial"), 0);
	r = open_repo(p, REPO_WRITE);
	snapshot_free(publish_one(r, "web", CREATED, 3));
	repo_close(r);
	assert_int_equal(umount(p->repo), 0);
}

static void test_missing_pack(void **state)
{
	struct place *p = *state;
	struct repo *r = open_repo(p, REPO_WRITE);
	struct snapshot *s = new_snapshot("web", CREATED);
	struct sc_err err = { 0 };

	add_volume(r, s, "data", 1, 1 << 30, 1);
	memset(&s->volumes[0].packs[0].digest, 7, sizeof(struct digest));
	assert_int_equal(repo_publish(r, s, &err), -1);
	assert_int_equal(err.code, SC_ECORRUPT);
	assert_int_equal(count_files(p, "blobs/sha256"), 0);
	snapshot_free(s);
	repo_close(r);
}

static int make(const char *dir, const char *stack)
{
	struct snapshot *s = new_snapshot(stack, CREATED);
	struct repo *r = NULL;

	OK(repo_open(dir, REPO_WRITE, &r, &failure));
	add_volume(r, s, "data", 5, 30000, 1);
	add_volume(r, s, "logs", 1, 30000, 100);
	s->note = copy("before\n2.0");
	OK(repo_publish(r, s, &failure));
	puts(s->id);
	snapshot_free(s);
	repo_close(r);
	return 0;
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		TEST(test_publish_and_load),
		TEST(test_documents),
		TEST(test_clash),
		TEST(test_odd_stacks),
		TEST(test_find),
		TEST(test_foreign),
		TEST(test_copied),
		TEST(test_limit),
		TEST(test_withdraw),
		TEST(test_disk_full),
		TEST(test_missing_pack),
	};

	if (argc == 4 && strcmp(argv[1], "--make") == 0)
		return make(argv[2], argv[3]);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
