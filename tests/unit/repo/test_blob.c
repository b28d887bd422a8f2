/* SPDX-License-Identifier: MIT */
/* Opening repositories, and blobs on their way into them. */
#include "fixture.h"

#include <signal.h>
#include <sys/file.h>
#include <sys/wait.h>

static const char abc_hex[] =
	"ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

static void test_create(void **state)
{
	struct place *p = *state;
	struct repo *r;
	auto_buf struct buf text = { 0 };
	struct stat st;
	char path[256];
	uint64_t bytes = 0;

	snprintf(p->repo, sizeof(p->repo), "%s/a/b/repo", p->dir);
	r = open_repo(p, REPO_WRITE);
	assert_string_equal(repo_path(r), p->repo);
	OK(repo_free_space(r, &bytes, &failure));
	assert_true(bytes > 0);
	assert_int_equal(stat(p->repo, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0700);
	snprintf(path, sizeof(path), "%s/index.json", p->repo);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	snprintf(path, sizeof(path), "%s/blobs/sha256", p->repo);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0700);
	read_text(p, "oci-layout", &text);
	assert_string_equal(text.p, "{\"imageLayoutVersion\":\"1.0.0\"}");
	repo_close(r);
	/* again, and for reading */
	repo_close(open_repo(p, REPO_WRITE));
	repo_close(open_repo(p, REPO_READ));
}

static void open_fails(struct place *p, int mode, enum sc_code code)
{
	struct repo *r = NULL;
	struct sc_err err = { 0 };

	assert_int_equal(repo_open(p->repo, mode, &r, &err), -1);
	if (err.code != code)
		fail_msg("code %d: %s", err.code, err.msg);
}

static void test_refusals(void **state)
{
	struct place *p = *state;
	char path[128];

	open_fails(p, REPO_READ, SC_ENOTFOUND);
	assert_int_equal(access(p->repo, F_OK), -1);
	assert_int_equal(mkdir(p->repo, 0755), 0);
	open_fails(p, REPO_READ, SC_ENOTFOUND);
	write_text(p, "precious", "x", 1);
	open_fails(p, REPO_WRITE, SC_EREFUSED);
	assert_int_equal(count_files(p, "."), 1);
	open_fails(p, REPO_READ, SC_ENOTFOUND);
	/* an interrupted creation is finished */
	write_text(p, "index.json", "{\"schemaVersion\":2,\"manifests\":[]}",
		   34);
	open_fails(p, REPO_WRITE, SC_EREFUSED);
	open_fails(p, REPO_READ, SC_ECORRUPT);
	snprintf(path, sizeof(path), "%s/precious", p->repo);
	assert_int_equal(unlink(path), 0);
	repo_close(open_repo(p, REPO_WRITE));
	/* somebody else's: read, but nothing is put there */
	assert_int_equal(chown(p->repo, 1234, 1234), 0);
	open_fails(p, REPO_WRITE, SC_EREFUSED);
	repo_close(open_repo(p, REPO_READ));
	assert_int_equal(chown(p->repo, geteuid(), getegid()), 0);
	write_text(p, "oci-layout", "{\"imageLayoutVersion\":\"2.0.0\"}", 30);
	open_fails(p, REPO_READ, SC_ECORRUPT);
	open_fails(p, REPO_WRITE, SC_ECORRUPT);
	/* a file in its place */
	snprintf(p->repo + strlen(p->repo), 16, "/oci-layout");
	open_fails(p, REPO_READ, SC_EREFUSED);
}

/* Damage of the list is found before a stack is stopped for nothing. */
static void test_damaged_list(void **state)
{
	struct place *p = *state;
	static const char *const bad[] = {
		"",
		"{",
		"[]",
		"{}",
		"{\"schemaVersion\":2}",
		"{\"schemaVersion\":2,\"manifests\":{}}",
		"{\"schemaVersion\":2,\"manifests\":[1]}",
		"{\"schemaVersion\":1,\"manifests\":[]}",
		"{\"schemaVersion\":2,\"manifests\":[],\"manifests\":[]}",
		"{\"schemaVersion\":2,\"manifests\":[]}x",
	};

	repo_close(open_repo(p, REPO_WRITE));
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		write_text(p, "index.json", bad[i], strlen(bad[i]));
		open_fails(p, REPO_WRITE, SC_ECORRUPT);
		repo_close(open_repo(p, REPO_READ));
	}
}

static void publish_empty(struct repo *r)
{
	struct snapshot *s = new_snapshot("web", CREATED);

	OK(repo_publish(r, s, &failure));
	snapshot_free(s);
}

static void test_write_and_read(void **state)
{
	struct place *p = *state;
	struct repo *r = open_repo(p, REPO_WRITE);
	struct blob_writer *w = NULL, *x = NULL;
	auto_buf struct buf got = { 0 };
	struct digest d, e;
	uint64_t n = 0;
	char hex[DIGEST_HEX + 1];
	int fd = -1;

	OK(blob_new(r, &w, &failure));
	OK(blob_write(w, "a", 1, &failure));
	OK(blob_write(w, "", 0, &failure));
	OK(blob_write(w, "bc", 2, &failure));
	assert_int_equal(blob_length(w), 3);
	OK(blob_seal(w, &d, &n, &failure));
	digest_hex(&d, hex);
	assert_string_equal(hex, abc_hex);
	assert_int_equal(n, 3);
	/* not to be seen yet */
	assert_int_equal(blob_open(r, &d, &fd, &n, &failure), 0);
	assert_int_equal(count_files(p, "blobs/sha256"), 0);
	/* filled by its descriptor */
	OK(blob_new(r, &w, &failure));
	memset(&e, 0x5a, sizeof(e));
	OK(io_write_all(blob_fd(w), "other", 5, "x", &failure));
	OK(blob_seal_as(w, &e, &failure));
	/* and one that is given up */
	OK(blob_new(r, &x, &failure));
	OK(blob_write(x, "gone", 4, &failure));
	blob_discard(x);
	publish_empty(r);
	assert_int_equal(count_files(p, "blobs/sha256"), 4);
	assert_int_equal(blob_open(r, &d, &fd, &n, &failure), 1);
	assert_int_equal(n, 3);
	close(fd);
	OK(blob_read(r, &d, 3, &got, &failure));
	assert_int_equal(got.len, 3);
	assert_memory_equal(got.p, "abc", 3);
	/* too long, wrong, absent */
	assert_int_equal(blob_read(r, &d, 2, &got, &failure), -1);
	assert_int_equal(failure.code, SC_ECORRUPT);
	assert_non_null(strstr(failure.msg, abc_hex));
	assert_int_equal(blob_read(r, &e, 100, &got, &failure), -1);
	assert_int_equal(failure.code, SC_ECORRUPT);
	e.b[0]++;
	assert_int_equal(blob_read(r, &e, 100, &got, &failure), -1);
	assert_int_equal(failure.code, SC_ECORRUPT);
	assert_non_null(strstr(failure.msg, "missing"));
	repo_close(r);
	r = open_repo(p, REPO_READ);
	assert_int_equal(blob_new(r, &w, &failure), -1);
	assert_int_equal(failure.code, SC_EREFUSED);
	repo_close(r);
}

/* More than one writeback window; digest against one pass over it. */
static void test_large(void **state)
{
	struct place *p = *state;
	struct repo *r = open_repo(p, REPO_WRITE);
	const size_t len = (20 << 20) + 7;
	unsigned char *all = malloc(len);
	struct blob_writer *w = NULL;
	auto_buf struct buf got = { 0 };
	auto_hash struct hash *h = NULL;
	struct digest want, d;

	assert_non_null(all);
	fill_bytes(all, len, 3);
	OK(hash_new(&h, &failure));
	OK(hash_once(h, all, len, &want, &failure));
	OK(blob_new(r, &w, &failure));
	for (size_t at = 0; at < len; at += 1000003)
		OK(blob_write(w, all + at,
			      len - at < 1000003 ? len - at : 1000003,
			      &failure));
	OK(blob_seal(w, &d, NULL, &failure));
	assert_int_equal(digest_cmp(&d, &want), 0);
	publish_empty(r);
	OK(blob_read(r, &d, len, &got, &failure));
	assert_int_equal(got.len, len);
	assert_memory_equal(got.p, all, len);
	free(all);
	repo_close(r);
}

/* What a killed run leaves is removed by the next; a live run's stays. */
static void test_leftovers(void **state)
{
	struct place *p = *state;
	struct repo *live = open_repo(p, REPO_WRITE), *r;
	struct blob_writer *w = NULL;
	pid_t child;
	int status;

	OK(blob_new(live, &w, &failure));
	OK(blob_write(w, "abc", 3, &failure));
	child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		struct blob_writer *x = NULL;

		r = open_repo(p, REPO_WRITE);
		if (blob_new(r, &x, NULL) < 0 ||
		    blob_write(x, "xyz", 3, NULL) < 0 ||
		    blob_seal(x, NULL, NULL, NULL) < 0)
			_exit(1);
		kill(getpid(), SIGKILL);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFSIGNALED(status));
	assert_int_equal(count_files(p, "state/partial"), 2);
	repo_close(open_repo(p, REPO_READ)); /* touches nothing */
	assert_int_equal(count_files(p, "state/partial"), 2);
	r = open_repo(p, REPO_WRITE);
	assert_int_equal(count_files(p, "state/partial"), 1);
	repo_close(r);
	OK(blob_seal(w, NULL, NULL, &failure));
	publish_empty(live);
	assert_int_equal(count_files(p, "blobs/sha256"), 3);
	repo_close(live);
	assert_int_equal(count_files(p, "state/partial"), 0);
}

/* A blob that is there is replaced: publishing heals a damaged one. */
static void test_heals(void **state)
{
	struct place *p = *state;
	struct repo *r = open_repo(p, REPO_WRITE);
	auto_buf struct buf got = { 0 };
	char name[128];
	struct digest d;

	for (int i = 0; i < 2; i++) {
		struct blob_writer *w = NULL;

		OK(blob_new(r, &w, &failure));
		OK(blob_write(w, "abc", 3, &failure));
		OK(blob_seal(w, &d, NULL, &failure));
		publish_empty(r);
		if (i == 0) {
			snprintf(name, sizeof(name), "blobs/sha256/%s",
				 abc_hex);
			write_text(p, name, "bad", 3);
			assert_int_equal(blob_read(r, &d, 3, &got, &failure),
					 -1);
		}
	}
	OK(blob_read(r, &d, 3, &got, &failure));
	assert_memory_equal(got.p, "abc", 3);
	repo_close(r);
}

/* Links out of the repository and other kinds of files are no blobs. */
static void test_not_regular(void **state)
{
	struct place *p = *state;
	struct repo *r = open_repo(p, REPO_WRITE);
	char path[256], name[DIGEST_STR];
	struct digest d;
	uint64_t n;
	int fd = -1;

	snprintf(name, sizeof(name), "sha256:%s", abc_hex);
	assert_true(digest_parse(name, &d));
	snprintf(path, sizeof(path), "%s/blobs/sha256/%s", p->repo, abc_hex);
	assert_int_equal(symlink("/etc/passwd", path), 0);
	assert_int_equal(blob_open(r, &d, &fd, &n, &failure), -1);
	assert_int_equal(failure.code, SC_ECORRUPT);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(mkfifo(path, 0600), 0);
	assert_int_equal(blob_open(r, &d, &fd, &n, &failure), -1);
	assert_int_equal(failure.code, SC_ECORRUPT);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(mkdir(path, 0700), 0);
	assert_int_equal(blob_open(r, &d, &fd, &n, &failure), -1);
	assert_int_equal(failure.code, SC_ECORRUPT);
	assert_int_equal(fd, -1);
	repo_close(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_create),	 TEST(test_refusals),
		TEST(test_damaged_list), TEST(test_write_and_read),
		TEST(test_large),	 TEST(test_leftovers),
		TEST(test_heals),	 TEST(test_not_regular),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
