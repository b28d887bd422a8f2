/* SPDX-License-Identifier: MIT */
/* Taking a tree that changes, cannot be read, or into a sink that fails. */
#include "take_world.h"

static void test_changed_since_walk(void **state)
{
	static const char *const names[] = { "small", "big", "dir", "link" };
	struct taken t;

	(void)state;
	for (size_t i = 0; i < 4; i++) {
		write_file("small", 100, 1);
		write_file("big", 9 << 20, 2);
		shell("cd %s/src && mkdir -p dir && ln -sf x link && "
		      "ln -f small other",
		      base);
		walk(&t);
		set_time(names[i], 1000, (long)i);
		assert_int_equal(take(&t, (struct take_options){ 0 }), -1);
		assert_int_equal(t.err.code, SC_ETORN);
		if (i)
			assert_non_null(strstr(t.err.msg, names[i]));
		assert_int_equal(t.reads, 0);
		taken_free(&t);
	}
}

static void test_vanished(void **state)
{
	struct taken t;

	(void)state;
	write_file("a", 100, 1);
	shell("cd %s/src && mkdir d && touch d/x && ln -s t s && "
	      "touch h && ln h h2",
	      base);
	walk(&t);
	shell("cd %s/src && rm -r a d s h", base);
	assert_int_equal(take(&t, (struct take_options){ 0 }), -1);
	assert_int_equal(t.err.code, SC_ETORN);
	taken_free(&t);

	write_file("b", 100, 1);
	walk(&t);
	shell("cd %s/src && rm b && touch -d '%s' .", base, "2020-01-01");
	assert_int_equal(take(&t, (struct take_options){ 0 }), -1);
	assert_int_equal(t.err.code, SC_ETORN);
	taken_free(&t);

	shell("cd %s/src && touch a h2 && mkdir d && touch d/x && ln -s t s && "
	      "ln h2 h",
	      base);
	walk(&t);
	shell("cd %s/src && rm -r a d s h", base);
	assert_int_equal(take(&t, (struct take_options){ .live = true }), 0);
	assert_int_equal(t.res.vanished, 5);
	assert_int_equal(t.notes.warnings, 5);
	assert_int_equal(at(&t, "d/x")->bits, ENTRY_UNREADABLE | ENTRY_CHANGED);
	assert_int_equal(at(&t, "a")->count, 0);
	assert_string_equal(tree_target(t.tree, at(&t, "s")->first), "");
	/* The first name is gone: the second has no data to point to. */
	assert_true(at(&t, "h2")->bits & ENTRY_UNREADABLE);
	assert_true(at(&t, "h2")->bits & ENTRY_LINK);
	assert_index(&t);
	shell("rm %s/src/h2", base);
	set_time(".", at(&t, "")->mtime, at(&t, "")->mtime_ns);
	assert_tar_equal(&t);
	taken_free(&t);
}

/* While the first segment leaves, later files are changed. */
static void meddle(void)
{
	write_file("z-big", 3 << 20, 5);
	write_file("z-small", 7, 5);
}

static void test_changed_while_taken(void **state)
{
	struct taken t;
	char name[32];

	(void)state;
	for (int i = 0; i < 40; i++) {
		snprintf(name, sizeof(name), "f%02d", i);
		write_file(name, 4 << 20, (uint64_t)i + 1);
	}
	write_file("z-big", 200 << 20, 0);
	write_file("z-small", 10, 1);
	walk(&t);
	t.meddle = meddle;
	assert_int_equal(take(&t, (struct take_options){ .threads = 1 }), -1);
	assert_int_equal(t.err.code, SC_ETORN);
	assert_non_null(strstr(t.err.msg, "z-"));
	taken_free(&t);
}

/* A file that is written to all the time, beside writers. */
static atomic_bool enough;

static void *scribble(void *arg)
{
	int small = openat(src, "small", O_WRONLY | O_CLOEXEC);
	int big = openat(src, "big", O_WRONLY | O_CLOEXEC);

	(void)arg;
	for (uint64_t i = 0; !atomic_load(&enough); i++) {
		struct timespec t[2] = { { 0, UTIME_OMIT }, { (time_t)i, 1 } };

		if (pwrite(small, &i, 8, (off_t)(i * 8 % 300000)) != 8 ||
		    pwrite(big, &i, 8, (off_t)(i * 4096 % (12 << 20))) != 8 ||
		    futimens(small, t) < 0 || futimens(big, t) < 0)
			break;
	}
	close(small);
	close(big);
	return NULL;
}

/* The first segment is the root's; the next one is from big, whose blocks are
 * more than can be under way at that moment. */
static void cut_big(void)
{
	int fd = openat(src, "big", O_WRONLY | O_CLOEXEC);

	assert_int_equal(ftruncate(fd, 50 << 20), 0);
	close(fd);
}

static void test_live(void **state)
{
	struct plain p = { 0 };
	struct taken t;
	pthread_t thread;

	(void)state;
	write_file("small", 300000, 1);
	write_file("big", 60 << 20, 2);
	write_file("quiet", 5000, 3);
	atomic_store(&enough, false);
	walk(&t);
	t.meddle = cut_big;
	t.meddle_at = 1;
	assert_int_equal(pthread_create(&thread, NULL, scribble, NULL), 0);
	assert_int_equal(
		take(&t, (struct take_options){ .live = true, .threads = 3 }),
		0);
	atomic_store(&enough, true);
	pthread_join(thread, NULL);
	assert_int_equal(at(&t, "quiet")->bits, 0);
	assert_int_equal(at(&t, "big")->bits & ENTRY_CHANGED, ENTRY_CHANGED);
	assert_true(t.res.changed >= 1);
	assert_int_equal(t.notes.warnings, t.res.changed);
	/* What was recorded is what is stored, whatever it is; what is missing
	 * is zeros. */
	decode_all(&t, &p);
	assert_chunks(&t, &p);
	plain_free(&t, &p);
	assert_int_equal(at(&t, "big")->size, 60 << 20);
	assert_int_equal(t.res.bytes, (60 << 20) + 5000 + 300000);
	assert_index(&t);
	taken_free(&t);
}

static void test_grown_live(void **state)
{
	struct taken t;

	(void)state;
	write_file("log", 100, 1);
	write_file("huge", 100, 1);
	walk(&t);
	write_file("log", 5000, 2);
	write_file("huge", 20 << 20, 3);
	assert_int_equal(take(&t, (struct take_options){ .live = true }), 0);
	assert_int_equal(at(&t, "log")->size, 5000);
	assert_int_equal(at(&t, "log")->bits, 0);
	/* Only its beginning, and that is said. */
	assert_int_equal(at(&t, "huge")->size, 8 << 20);
	assert_int_equal(at(&t, "huge")->bits, ENTRY_CHANGED);
	assert_int_equal(t.res.changed, 1);
	assert_files(&t);
	taken_free(&t);
}

static void test_sink_fails(void **state)
{
	struct taken t;
	char name[32];

	(void)state;
	for (int i = 0; i < 20; i++) {
		snprintf(name, sizeof(name), "f%02d", i);
		write_file(name, 3 << 20, (uint64_t)i + 1);
	}
	write_file("big", 60 << 20, 9);
	for (unsigned at_seg = 1; at_seg < 30; at_seg += 7) {
		walk(&t);
		t.fail_at = at_seg;
		assert_int_equal(
			take(&t, (struct take_options){ .threads = 8 }), -1);
		assert_int_equal(t.err.code, SC_EIO);
		assert_non_null(strstr(t.err.msg, "the sink"));
		assert_int_equal(t.nsegs, at_seg - 1);
		taken_free(&t);
	}
}

static atomic_bool stop;

static void ask_stop(void)
{
	atomic_store(&stop, true);
}

static void test_stop(void **state)
{
	struct taken t;

	(void)state;
	write_file("big", 200 << 20, 0);
	walk(&t);
	t.meddle = ask_stop;
	assert_int_equal(take(&t, (struct take_options){ .stop = &stop }), -1);
	assert_int_equal(t.err.code, SC_EINTR);
	assert_int_equal(t.reads, 0);
	taken_free(&t);
}

/* As a user who may not open them. */
static void make_secrets(void)
{
	write_file("open", 10, 1);
	write_file("secret", 100, 2);
	write_file("secret-big", 20 << 20, 3);
	shell("cd %s/src && chmod 0 secret secret-big && mkdir dir && "
	      "touch dir/x && ln secret link && ln -s nowhere sym",
	      base);
}

static void test_unreadable(void **state)
{
	struct walk_options wo = { .threads = 2, .allow_incomplete = true };
	struct walk_result r = { 0 };
	struct taken t = { 0 };
	int rc;

	(void)state;
	make_secrets();
	assert_int_equal(fchmod(src, 0755), 0);
	walk(&t);
	assert_int_equal(seteuid(65534), 0);
	rc = take(&t, (struct take_options){ 0 });
	assert_int_equal(seteuid(0), 0);
	assert_int_equal(rc, -1);
	assert_int_equal(t.err.code, SC_EIO);
	assert_int_equal(t.err.sys, EACCES);
	taken_free(&t);

	shell("chmod 0700 %s/src/dir", base);
	memset(&t, 0, sizeof(t));
	notes_init(&t.notes);
	assert_int_equal(seteuid(65534), 0);
	rc = walk_tree(src, &wo, NULL, &r, &t.err);
	if (rc == 0) {
		t.tree = r.tree;
		rc = take(&t,
			  (struct take_options){ .allow_incomplete = true });
	}
	assert_int_equal(seteuid(0), 0);
	if (rc)
		fail_msg("%s", t.err.msg);
	assert_int_equal(at(&t, "secret")->bits & ENTRY_UNREADABLE,
			 ENTRY_UNREADABLE);
	assert_int_equal(at(&t, "link")->bits & ENTRY_UNREADABLE,
			 ENTRY_UNREADABLE);
	assert_int_equal(at(&t, "secret-big")->bits, ENTRY_UNREADABLE);
	assert_int_equal(at(&t, "secret-big")->count, 0);
	assert_int_equal(at(&t, "dir")->bits, ENTRY_UNREADABLE);
	assert_int_equal(at(&t, "open")->count, 1);
	assert_int_equal(t.res.unreadable, 2);
	/* None of them is in the tar. */
	assert_tar_names(&t, "./ ./open ./sym");
	assert_index(&t);
	taken_free(&t);
}

static void test_bad_options(void **state)
{
	static const struct take_options bad[] = { { .chunk_avg = 1 << 15 },
						   { .chunk_avg = 1 << 21 },
						   { .chunk_avg = 100000 },
						   { .threads = 100000 },
						   { .chunk_avg =
							     UINT32_MAX } };
	struct taken t;

	(void)state;
	walk(&t);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		assert_int_equal(take(&t, bad[i]), -1);
		assert_int_equal(t.err.code, SC_EUSAGE);
	}
	taken_free(&t);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(test_changed_since_walk),
		T(test_vanished),
		T(test_changed_while_taken),
		T(test_live),
		T(test_grown_live),
		T(test_sink_fails),
		T(test_stop),
		T(test_unreadable),
		T(test_bad_options),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
