/* SPDX-License-Identifier: MIT */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include <snapctl/scan/walk.h>

static char base[64];
static int root = -1; /* of base */

static int set_up(void **state)
{
	(void)state;
	snprintf(base, sizeof(base), "/tmp/snapctl-walk-XXXXXX");
	if (!mkdtemp(base))
		return -1;
	root = open(base, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return root < 0 ? -1 : chmod(base, 0755);
}

static int tear_down(void **state)
{
	char cmd[128];

	(void)state;
	close(root);
	snprintf(cmd, sizeof(cmd), "rm -rf --one-file-system %s", base);
	return system(cmd);
}

static void make_file(const char *path, const char *text)
{
	int fd = openat(root, path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	close(fd);
}

static void make_dir(const char *path)
{
	assert_int_equal(mkdirat(root, path, 0755), 0);
}

static void make_socket(const char *name)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	int s = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	snprintf(a.sun_path, sizeof(a.sun_path), "%.60s/%.40s", base, name);
	assert_int_equal(bind(s, (struct sockaddr *)&a, sizeof(a)), 0);
	close(s);
}

static uint32_t find(const struct tree *t, const char *path)
{
	auto_buf struct buf b = { 0 };

	for (uint32_t r = 0; r < tree_count(t); r++) {
		assert_int_equal(tree_path(t, tree_order(t, r), &b, NULL), 0);
		if (strcmp(buf_cstr(&b), path) == 0)
			return tree_order(t, r);
	}
	return TREE_NONE;
}

static const struct entry *get(const struct tree *t, const char *path)
{
	uint32_t s = find(t, path);

	assert_int_not_equal(s, TREE_NONE);
	return tree_at(t, s);
}

static bool noted(const struct notes *n, enum note_kind kind, const char *text)
{
	for (size_t i = 0; i < n->n; i++)
		if (n->v[i].kind == kind && strcmp(n->v[i].text, text) == 0)
			return true;
	return false;
}

/* Every rank once, siblings rising, children behind their parent. */
static void check_shape(const struct tree *t)
{
	for (uint32_t r = 1; r < tree_count(t); r++) {
		uint32_t s = tree_order(t, r);
		const struct entry *e = tree_at(t, s), *p, *q;
		uint32_t next = tree_next_sibling(t, s);

		assert_int_equal(strlen(e->name), e->name_len);
		p = tree_at(t, e->parent);
		assert_true(S_ISDIR(p->mode));
		assert_true(s >= p->first && s < p->first + p->count);
		if (next == TREE_NONE)
			continue;
		q = tree_at(t, next);
		assert_true(tree_name_cmp(e->name, e->name_len, q->name,
					  q->name_len) < 0);
	}
}

static void check_stat(const struct tree *t, uint32_t slot)
{
	const struct entry *e = tree_at(t, slot);
	auto_buf struct buf b = { 0 };
	struct stat st;

	assert_int_equal(tree_path(t, slot, &b, NULL), 0);
	assert_int_equal(fstatat(root, buf_cstr(&b), &st,
				 AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH),
			 0);
	assert_int_equal(e->mode, st.st_mode);
	assert_int_equal(e->uid, st.st_uid);
	assert_int_equal(e->gid, st.st_gid);
	assert_int_equal(e->ino, st.st_ino);
	assert_int_equal(e->nlink, st.st_nlink);
	assert_int_equal(e->mtime, st.st_mtim.tv_sec);
	assert_int_equal(e->mtime_ns, st.st_mtim.tv_nsec);
	assert_int_equal(e->ctime, st.st_ctim.tv_sec);
	assert_int_equal(e->ctime_ns, st.st_ctim.tv_nsec);
	if (S_ISREG(st.st_mode))
		assert_int_equal(e->size, st.st_size);
	else if (S_ISCHR(st.st_mode))
		assert_int_equal(e->size, st.st_rdev);
	else
		assert_int_equal(e->size, 0);
}

static struct walk_result walk(unsigned threads, struct notes *n)
{
	struct walk_options o = { .threads = threads };
	struct walk_result r;
	struct sc_err err = { 0 };

	if (walk_tree(root, &o, n, &r, &err) < 0)
		fail_msg("%s", err.msg);
	check_shape(r.tree);
	return r;
}

/* -- tests -------------------------------------------------------------- */

static void test_empty(void **state)
{
	struct walk_result r = walk(2, NULL);

	(void)state;
	assert_int_equal(tree_count(r.tree), 1);
	assert_int_equal(r.entries, 1);
	assert_int_equal(r.dirs, 1);
	assert_int_equal(r.files, 0);
	check_stat(r.tree, 0);
	tree_free(r.tree);
}

static void test_names_of_any_kind(void **state)
{
	char longest[256];
	static const char *const want[] = {
		"",	     "\001x",	 "\nnew\n",	 " ",
		"-rf",	     "..odd",	 ".hidden",	 "[x]*",
		"a",	     "a/b",	 "a/b/c",	 "a.b",
		"a\\b",	     "ab",	 "abcdefgh",	 "abcdefgh1",
		"abcdefghi", "\xff\xfe", "\xff\xfe\xfd",
	};
	struct walk_result r;
	auto_buf struct buf b = { 0 };

	(void)state;
	make_dir("a");
	make_dir("a/b");
	for (size_t i = 1; i < sizeof(want) / sizeof(want[0]); i++)
		if (strcmp(want[i], "a") != 0 && strcmp(want[i], "a/b") != 0)
			make_file(want[i], "x");
	memset(longest, 'z', 255);
	longest[255] = 0;
	make_file(longest, "1234");
	for (unsigned threads = 1; threads <= 3; threads++) {
		r = walk(threads, NULL);
		assert_int_equal(tree_count(r.tree), 20);
		for (uint32_t i = 0, at = 0; i < 20; i++) {
			uint32_t s = tree_order(r.tree, i);

			check_stat(r.tree, s);
			assert_int_equal(tree_path(r.tree, s, &b, NULL), 0);
			if (strcmp(buf_cstr(&b), longest) == 0)
				continue;
			assert_string_equal(buf_cstr(&b), want[at++]);
		}
		assert_int_equal(get(r.tree, longest)->size, 4);
		assert_int_equal(r.bytes, 16 + 4);
		tree_free(r.tree);
	}
}

static void test_types(void **state)
{
	struct timespec old[2] = { { 0, UTIME_OMIT },
				   { -315619200, 250000000 } };
	struct notes n;
	struct walk_result r;
	int fd;

	(void)state;
	notes_init(&n);
	make_file("one", "data");
	assert_int_equal(linkat(root, "one", root, "two", 0), 0);
	assert_int_equal(utimensat(root, "one", old, 0), 0);
	assert_int_equal(symlinkat("nowhere", root, "link"), 0);
	assert_int_equal(mkfifoat(root, "fifo", 0600), 0);
	assert_int_equal(mknodat(root, "null", S_IFCHR | 0666, makedev(1, 3)),
			 0);
	fd = openat(root, "holes", O_WRONLY | O_CREAT | O_CLOEXEC, 04755);
	assert_int_equal(ftruncate(fd, INT64_C(9) << 30), 0);
	assert_int_equal(fchown(fd, 4000000000u, 4000000001u), 0);
	close(fd);
	make_dir(STAGE_NAME);
	make_dir("sub");
	make_dir("sub/" STAGE_NAME);
	make_socket("sock\n");
	r = walk(2, &n);
	assert_int_equal(find(r.tree, "sock\n"), TREE_NONE);
	assert_int_equal(find(r.tree, STAGE_NAME), TREE_NONE);
	assert_int_not_equal(find(r.tree, "sub/" STAGE_NAME), TREE_NONE);
	assert_int_equal(r.sockets, 1);
	assert_true(noted(&n, NOTE_INFO, "socket skipped: sock\\n"));
	assert_int_equal(n.n, 1);
	assert_int_equal(tree_count(r.tree), 9);
	for (uint32_t s = 0; s < 9; s++)
		check_stat(r.tree, s);
	assert_int_equal(get(r.tree, "one")->ino, get(r.tree, "two")->ino);
	assert_int_equal(get(r.tree, "one")->nlink, 2);
	assert_int_equal(get(r.tree, "one")->mtime, -315619200);
	assert_int_equal(get(r.tree, "one")->mtime_ns, 250000000);
	assert_int_equal(get(r.tree, "holes")->size, UINT64_C(9) << 30);
	assert_int_equal(get(r.tree, "holes")->uid, 4000000000u);
	assert_int_equal(get(r.tree, "null")->size, makedev(1, 3));
	assert_int_equal(r.files, 3);
	assert_int_equal(r.dirs, 3);
	tree_free(r.tree);
	notes_free(&n);
}

static void test_leave_out(void **state)
{
	struct walk_options o = { .threads = 2, .leave_out = "b/repo" };
	struct notes n;
	struct walk_result r;

	(void)state;
	notes_init(&n);
	make_dir("a");
	make_dir("a/repo");
	make_dir("b");
	make_dir("b/repo");
	make_dir("b/repo2");
	make_dir("b/repo/b");
	make_dir("b/b");
	make_dir("b/b/repo");
	assert_int_equal(walk_tree(root, &o, &n, &r, NULL), 0);
	assert_int_equal(tree_count(r.tree), 7);
	assert_int_equal(find(r.tree, "b/repo"), TREE_NONE);
	assert_int_not_equal(find(r.tree, "a/repo"), TREE_NONE);
	assert_int_not_equal(find(r.tree, "b/repo2"), TREE_NONE);
	assert_int_not_equal(find(r.tree, "b/b/repo"), TREE_NONE);
	assert_true(noted(&n, NOTE_INFO, "left out: b/repo"));
	tree_free(r.tree);
	notes_free(&n);
}

/* As another user, who lacks root's way around modes. */
static int walk_as_nobody(const struct walk_options *o, struct notes *n,
			  struct walk_result *r, struct sc_err *err)
{
	int rc;

	assert_int_equal(seteuid(12345), 0);
	rc = walk_tree(root, o, n, r, err);
	assert_int_equal(seteuid(0), 0);
	return rc;
}

static void test_unreadable(void **state)
{
	struct walk_options o = { .threads = 2 };
	struct sc_err err = { 0 };
	struct walk_result r;
	struct notes n;

	(void)state;
	if (geteuid() != 0)
		skip();
	notes_init(&n);
	make_dir("closed\n");
	make_file("closed\n/in", "");
	make_dir("listed");
	make_file("listed/in", "");
	make_file("open", "");
	assert_int_equal(fchmodat(root, "closed\n", 0700, 0), 0);
	assert_int_equal(fchmodat(root, "listed", 0744, 0), 0);

	assert_int_equal(walk_as_nobody(&o, &n, &r, &err), -1);
	assert_int_equal(err.code, SC_EIO);
	assert_int_equal(err.sys, EACCES);
	assert_true(strstr(err.msg, "closed\\n") || strstr(err.msg, "listed"));

	o.allow_incomplete = true;
	assert_int_equal(walk_as_nobody(&o, &n, &r, &err), 0);
	assert_int_equal(r.unreadable, 2);
	assert_int_equal(n.warnings, 2);
	assert_true(noted(&n, NOTE_WARN,
			  "open directory closed\\n: Permission denied; "
			  "recorded as unreadable"));
	assert_int_equal(tree_count(r.tree), 5);
	assert_int_equal(get(r.tree, "closed\n")->bits, ENTRY_UNREADABLE);
	assert_int_equal(get(r.tree, "listed/in")->bits, ENTRY_UNREADABLE);
	assert_int_equal(get(r.tree, "listed/in")->mode, S_IFREG);
	assert_int_equal(get(r.tree, "open")->bits, 0);
	check_shape(r.tree);
	tree_free(r.tree);
	notes_free(&n);
}

static bool put(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	bool ok = fd >= 0 && write(fd, text, strlen(text)) > 0;

	close(fd);
	return ok;
}

/* In a user namespace that knows one id only. 0 if all is as it should be. */
static int walk_with_partial_map(void)
{
	struct walk_options o = { .threads = 1 };
	struct sc_err err = { 0 };
	struct walk_result r;

	if (unshare(CLONE_NEWUSER) < 0 ||
	    !put("/proc/self/setgroups", "deny") ||
	    !put("/proc/self/uid_map", "0 0 1") ||
	    !put("/proc/self/gid_map", "0 0 1"))
		return 1;
	if (walk_tree(root, &o, NULL, &r, &err) == 0)
		return 2;
	if (!strstr(err.msg, "owner outside this user namespace: theirs"))
		return 3;
	o.allow_incomplete = true;
	if (walk_tree(root, &o, NULL, &r, &err) < 0)
		return 4;
	if (get(r.tree, "ours")->bits != 0 ||
	    get(r.tree, "theirs")->bits != ENTRY_UNREADABLE)
		return 5;
	return r.unreadable == 1 ? 0 : 6;
}

static void test_overflow_owner(void **state)
{
	pid_t pid;
	int st;

	(void)state;
	if (geteuid() != 0)
		skip();
#ifdef __SANITIZE_THREAD__
	/* Its own thread would keep us out of a user namespace. */
	return;
#endif
	make_file("ours", "");
	make_file("theirs", "");
	assert_int_equal(fchownat(root, "theirs", 4242, 0, 0), 0);
	pid = fork();
	if (pid == 0)
		_exit(walk_with_partial_map());
	assert_int_equal(waitpid(pid, &st, 0), pid);
	assert_true(WIFEXITED(st));
	assert_int_equal(WEXITSTATUS(st), 0);
}

static void test_deeper_than_path_max(void **state)
{
	char name[201] = { 0 };
	auto_buf struct buf b = { 0 };
	int fd = dup(root), next;
	struct walk_result r;

	(void)state;
	memset(name, 'd', 200);
	for (int i = 0; i < 60; i++) {
		assert_int_equal(mkdirat(fd, name, 0755), 0);
		next = openat(fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		close(fd);
		fd = next;
	}
	close(fd);
	r = walk(2, NULL);
	assert_int_equal(tree_count(r.tree), 61);
	assert_int_equal(tree_path(r.tree, tree_order(r.tree, 60), &b, NULL),
			 0);
	assert_int_equal(b.len, 60 * 201 - 1);
	tree_free(r.tree);
}

static void test_wide(void **state)
{
	struct walk_result r;
	char name[32];

	(void)state;
	make_dir("w");
	for (unsigned i = 0; i < 70000; i++) {
		snprintf(name, sizeof(name), "w/%x-%u", i * 2654435761u, i);
		assert_int_equal(mknodat(root, name, S_IFREG | 0600, 0), 0);
	}
	make_dir("w/middle");
	make_file("w/middle/x", "");
	make_socket("w/s");
	r = walk(3, NULL);
	assert_int_equal(tree_count(r.tree), 70000 + 4);
	assert_int_equal(r.files, 70001);
	assert_int_not_equal(find(r.tree, "w/middle/x"), TREE_NONE);
	for (uint32_t s = 0; s < tree_count(r.tree); s += 7)
		check_stat(r.tree, s);
	tree_free(r.tree);
}

static void test_mount_points(void **state)
{
	char dir[128], file[128];
	struct walk_result r;
	struct notes n;

	(void)state;
	if (geteuid() != 0)
		skip();
	notes_init(&n);
	assert_int_equal(unshare(CLONE_NEWNS), 0);
	assert_int_equal(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL), 0);
	close(root); /* it lies in the namespace before */
	root = open(base, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	make_dir("m");
	make_file("f", "under");
	make_file("g", "over");
	snprintf(dir, sizeof(dir), "%s/m", base);
	snprintf(file, sizeof(file), "%s/f", base);
	assert_int_equal(mount("none", dir, "tmpfs", 0, NULL), 0);
	make_file("m/hidden", "");
	assert_int_equal(mount("/etc/hostname", file, NULL, MS_BIND, NULL), 0);
	r = walk(2, &n);
	umount(file);
	umount(dir);
	assert_int_equal(r.mounts, 2);
	assert_int_equal(n.warnings, 2);
	assert_true(noted(&n, NOTE_WARN, "mount point not entered: m"));
	assert_int_equal(tree_count(r.tree), 4);
	assert_int_equal(get(r.tree, "m")->bits, ENTRY_MOUNT);
	assert_int_equal(get(r.tree, "m")->count, 0);
	assert_int_equal(get(r.tree, "f")->bits, ENTRY_MOUNT);
	assert_int_equal(get(r.tree, "g")->bits, 0);
	tree_free(r.tree);
	notes_free(&n);
}

static uint32_t count_with_few_descriptors(void)
{
	struct walk_options o = { .threads = 3 };
	struct rlimit few = { 24, 24 };
	struct walk_result r;
	struct sc_err err;
	struct stat st;

	if (setrlimit(RLIMIT_NOFILE, &few) < 0)
		return 0;
	if (walk_tree(root, &o, NULL, &r, &err) < 0) {
		fprintf(stderr, "%s\n", err.msg);
		return 0;
	}
	/* None may be left open. */
	for (int i = 3; i < 24; i++)
		if (i != root && fstat(i, &st) == 0 && S_ISDIR(st.st_mode))
			return 0;
	return tree_count(r.tree);
}

/* Three directories at each of many levels: more to hold open than may be. */
static void test_few_descriptors(void **state)
{
	int fd = dup(root), next, st;
	pid_t pid;

	(void)state;
	for (int i = 0; i < 150; i++) {
		assert_int_equal(mkdirat(fd, "a", 0755), 0);
		assert_int_equal(mkdirat(fd, "b", 0755), 0);
		assert_int_equal(mkdirat(fd, "b/leaf", 0755), 0);
		assert_int_equal(mkdirat(fd, "z", 0755), 0);
		assert_int_equal(mkdirat(fd, "z/leaf", 0755), 0);
		next = openat(fd, i % 2 ? "a" : "z",
			      O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		close(fd);
		fd = next;
	}
	close(fd);
	/* A child: the hard limit does not go up again. */
	pid = fork();
	if (pid == 0)
		_exit(count_with_few_descriptors() == 1 + 150 * 5 ? 0 : 1);
	assert_int_equal(waitpid(pid, &st, 0), pid);
	assert_int_equal(st, 0);
}

static void test_single_file(void **state)
{
	struct walk_options o = { .threads = 1 };
	struct walk_result r;
	int fd;

	(void)state;
	make_file("only", "12345");
	fd = openat(root, "only", O_RDONLY | O_CLOEXEC);
	assert_int_equal(walk_tree(fd, &o, NULL, &r, NULL), 0);
	close(fd);
	assert_int_equal(tree_count(r.tree), 1);
	assert_int_equal(tree_at(r.tree, 0)->size, 5);
	assert_int_equal(r.files, 1);
	assert_int_equal(r.bytes, 5);
	assert_string_equal(tree_at(r.tree, 0)->name, "");
	tree_free(r.tree);
}

static void test_stopped(void **state)
{
	atomic_bool stop = true;
	struct walk_options o = { .threads = 2, .stop = &stop };
	struct sc_err err = { 0 };
	struct walk_result r;

	(void)state;
	make_dir("a");
	assert_int_equal(walk_tree(root, &o, NULL, &r, &err), -1);
	assert_int_equal(err.code, SC_EINTR);
	assert_null(r.tree);
}

static atomic_bool enough;

static void *stir(void *arg)
{
	unsigned seed = 1;
	char name[32];

	(void)arg;
	while (!atomic_load(&enough)) {
		snprintf(name, sizeof(name), "d%u/x%u", rand_r(&seed) % 20,
			 rand_r(&seed) % 8);
		if (mkdirat(root, name, 0755) == 0)
			continue;
		if (unlinkat(root, name, AT_REMOVEDIR) < 0)
			(void)unlinkat(root, name, 0);
		if (rand_r(&seed) % 2)
			(void)mknodat(root, name, S_IFREG | 0600, 0);
	}
	return NULL;
}

static void test_beside_a_writer(void **state)
{
	struct walk_options o = { .threads = 3, .live = true };
	struct walk_result r;
	pthread_t th;
	char name[32];

	(void)state;
	for (int i = 0; i < 20; i++) {
		snprintf(name, sizeof(name), "d%d", i);
		make_dir(name);
	}
	atomic_store(&enough, false);
	assert_int_equal(pthread_create(&th, NULL, stir, NULL), 0);
	for (int i = 0; i < 300; i++) {
		assert_int_equal(walk_tree(root, &o, NULL, &r, NULL), 0);
		check_shape(r.tree);
		assert_int_equal(r.entries, tree_count(r.tree));
		assert_int_equal(r.vanished, 0);
		assert_true(tree_count(r.tree) >= 21);
		tree_free(r.tree);
	}
	atomic_store(&enough, true);
	pthread_join(th, NULL);
}

#define T(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
	static const struct CMUnitTest tests[] = {
		T(test_empty),
		T(test_names_of_any_kind),
		T(test_types),
		T(test_leave_out),
		T(test_unreadable),
		T(test_overflow_owner),
		T(test_deeper_than_path_max),
		T(test_wide),
		T(test_mount_points),
		T(test_few_descriptors),
		T(test_single_file),
		T(test_stopped),
		T(test_beside_a_writer),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
