/* SPDX-License-Identifier: MIT */
/* A tree is made, taken, altered in many ways and put back; then it must be
 * equal in every field. Needs root and a file system with ACLs and flags. */
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "snap.h"

static char base[] = "/tmp/restore-test-XXXXXX";
static char vol[sizeof(base) + 8];
static unsigned threads = 2;
static struct notes notes;

/* -- making trees --------------------------------------------------------- */

static int at_vol(void)
{
	return open_root(vol);
}

static char *in_vol(const char *name)
{
	static char paths[4][4096];
	static unsigned next;
	char *p = paths[next++ % 4];

	snprintf(p, 4096, "%s/%s", vol, name);
	return p;
}

static void put(const char *name, const void *p, size_t n)
{
	int fd = open(in_vol(name), O_WRONLY | O_CREAT | O_TRUNC, 0644);

	SYS(fd);
	assert_int_equal(write(fd, p, n), n);
	close(fd);
}

static void put_text(const char *name, const char *text)
{
	put(name, text, strlen(text));
}

static void put_random(const char *name, size_t n, unsigned seed)
{
	unsigned char *p = malloc(n);
	uint64_t x = seed * 2654435761u + 1;

	for (size_t i = 0; i < n; i++) {
		x = x * UINT64_C(6364136223846793005) + 1442695040888963407u;
		p[i] = (unsigned char)(x >> 56);
	}
	put(name, p, n);
	free(p);
}

static void put_dir(const char *name)
{
	SYS(mkdir(in_vol(name), 0755));
}

static void set_time(const char *name, time_t s, long ns)
{
	struct timespec t[2] = { { .tv_nsec = UTIME_OMIT }, { s, ns } };

	SYS(utimensat(AT_FDCWD, in_vol(name), t, AT_SYMLINK_NOFOLLOW));
}

static void set_flags(const char *name, int flags)
{
	const int all =
		FS_IMMUTABLE_FL | FS_APPEND_FL | FS_NODUMP_FL | FS_NOATIME_FL;
	int fd = open(in_vol(name), O_RDONLY), have;

	SYS(fd);
	SYS(ioctl(fd, FS_IOC_GETFLAGS, &have));
	have = (have & ~all) | flags;
	SYS(ioctl(fd, FS_IOC_SETFLAGS, &have));
	close(fd);
}

static void wipe(void)
{
	char cmd[256];

	snprintf(cmd, sizeof(cmd), "chattr -R -f -ia %s 2>/dev/null; rm -rf %s",
		 vol, vol);
	(void)!system(cmd);
}

static int fresh_vol(void **state)
{
	(void)state;
	wipe();
	SYS(mkdir(vol, 0755));
	notes_init(&notes);
	return 0;
}

static int end_vol(void **state)
{
	(void)state;
	wipe();
	notes_free(&notes);
	return 0;
}

/* Bytes of an ACL: version 2, then tag, permissions, id. */
static void set_acl(const char *name, const char *which, uint32_t uid)
{
	struct {
		uint16_t tag, perm;
		uint32_t id;
	} __attribute__((packed)) a[] = {
		{ 1, 7, UINT32_MAX },  { 2, 6, uid },
		{ 4, 5, UINT32_MAX },  { 16, 7, UINT32_MAX },
		{ 32, 1, UINT32_MAX },
	};
	char blob[4 + sizeof(a)] = { 2 };

	memcpy(blob + 4, a, sizeof(a));
	SYS(setxattr(in_vol(name), which, blob, sizeof(blob), 0));
}

static void set_cap(const char *name)
{
	/* VFS_CAP_REVISION_2, cap_net_bind_service */
	unsigned char c[20] = { 1, 0, 0, 2, 0, 4 };

	SYS(setxattr(in_vol(name), "security.capability", c, sizeof(c), 0));
}

static void put_hole(const char *name, off_t size, off_t at, size_t n)
{
	int fd = open(in_vol(name), O_WRONLY | O_CREAT, 0600);
	char *p = malloc(n + 1);

	SYS(fd);
	memset(p, 'd', n);
	SYS(ftruncate(fd, size));
	assert_int_equal(pwrite(fd, p, n, at), n);
	free(p);
	close(fd);
}

static void rich_tree(void)
{
	put_text("plain", "hello\n");
	put("empty", "", 0);
	put_random("big", 9 << 20, 1);
	put_random("big2", 9 << 20, 1); /* the same chunks */
	put_random("half", 300000, 7);
	put_dir("d");
	put_dir("d/deep");
	put_dir("d/deep/er");
	put_random("d/deep/er/file", 70000, 2);
	put_dir("void");
	for (int i = 0; i < 600; i++) {
		char name[64];

		snprintf(name, sizeof(name), "d/n%d", i);
		put_random(name, 100 + 37 * (size_t)i, 100 + (unsigned)i);
	}
	SYS(symlink("nowhere", in_vol("dangling")));
	SYS(symlink("../../../../etc/passwd", in_vol("d/out")));
	SYS(mkfifo(in_vol("fifo"), 0640));
	SYS(mknod(in_vol("null"), S_IFCHR | 0600, makedev(1, 3)));
	SYS(mknod(in_vol("blk"), S_IFBLK | 0640, makedev(7, 9)));
	SYS(chown(in_vol("blk"), 5, 6));
	SYS(lchown(in_vol("dangling"), 77, 88));
	put_hole("holes", 8 << 20, 1 << 20, 100000);
	put_hole("tail", 1 << 20, 0, 5000);
	put_hole("allhole", 100 << 20, 0, 0);
	put_random("l1", 5000, 3);
	SYS(link(in_vol("l1"), in_vol("d/l2")));
	SYS(link(in_vol("l1"), in_vol("d/deep/l3")));
	put_text("suid", "x");
	SYS(chown(in_vol("suid"), 1234, 4321));
	SYS(chmod(in_vol("suid"), 06755));
	put_text("cap", "binary");
	SYS(chown(in_vol("cap"), 10, 10));
	set_cap("cap");
	SYS(setxattr(in_vol("plain"), "user.odd", "a\0b\nc", 5, 0));
	SYS(setxattr(in_vol("d"), "user.dir", "", 0, 0));
	set_acl("plain", "system.posix_acl_access", 42);
	set_acl("d", "system.posix_acl_default", 43);
	set_flags("half", FS_NODUMP_FL | FS_NOATIME_FL);
	SYS(chmod(in_vol("void"), 01777));
	put_text("name with\nnewline \xff\xfe [x]\\", "odd");
	put_text("-rf", "dash");
	set_time("plain", -315619200, 250000000);
	set_time("big", 4102444800, 1);
	set_time("dangling", 1000000000, 999999999);
	set_time("fifo", 1, 0);
	set_time("void", 1, 2);
	set_time("d/deep", 3, 4);
	set_time("d", 5, 6);
	SYS(chown(vol, 999, 999));
	SYS(chmod(vol, 0700));
	SYS(setxattr(vol, "user.root", "r", 1, 0));
	set_time(".", 123456789, 987654321);
}

/* -- restoring ------------------------------------------------------------ */

static struct restore_options options(void)
{
	return (struct restore_options){ .threads = threads };
}

static int try_plan(struct snap *s, int fd, struct restore **r,
		    struct restore_summary *sum)
{
	struct restore_options o = options();

	return restore_plan(fd, s->tree, &s->chunks, &o, &notes, r, sum, &e);
}

static int try_stage(struct snap *s, struct restore *r)
{
	struct restore_source src = { .next = give_segment, .arg = s };

	s->next = 0;
	s->needs = restore_needs(r, &s->nneeds);
	return restore_stage(r, &src, &e);
}

static void restore_all(struct snap *s, struct restore_summary *sum)
{
	struct restore *r;
	int fd = at_vol();

	OK(try_plan(s, fd, &r, sum));
	OK(try_stage(s, r));
	assert_int_equal(s->next, s->nneeds);
	OK(restore_recheck(r, &e));
	OK(restore_commit(r, &e));
	restore_free(r);
	close(fd);
}

/* Taken, altered by the function, restored: equal? */
static void round_trip(void (*alter)(void))
{
	struct restore_summary sum;
	struct snap s;
	char *want, *have;

	snap_take(&s, vol);
	want = show(vol);
	alter();
	restore_all(&s, &sum);
	have = show(vol);
	assert_same(want, have);
	for (size_t i = 0; i < notes.n; i++)
		print_message("note: %s\n", notes.v[i].text);
	assert_int_equal(notes.warnings, 0);
	free(want);
	free(have);
	snap_free(&s);
}

static void nothing(void)
{
}

static void remove_everything(void)
{
	char cmd[256];

	snprintf(cmd, sizeof(cmd), "find %s -mindepth 1 -delete", vol);
	assert_int_equal(system(cmd), 0);
	SYS(chown(vol, 0, 0));
	SYS(chmod(vol, 0755));
	SYS(removexattr(vol, "user.root"));
}

static void test_unchanged(void **state)
{
	(void)state;
	rich_tree();
	round_trip(nothing);
}

static void test_emptied(void **state)
{
	(void)state;
	rich_tree();
	round_trip(remove_everything);
}

static void alter_widely(void)
{
	put_text("extra", "e");
	put_text(".hidden", "h");
	put_text("..odd", "o");
	put_dir("emptydir");
	put_dir("full");
	put_dir("full/of");
	put_text("full/of/it", "x");
	put_text("plain", "changed!");
	put_random("half", 300000, 8);
	SYS(truncate(in_vol("big"), 1000));
	SYS(unlink(in_vol("big2")));
	SYS(unlink(in_vol("dangling")));
	put_text("dangling", "a file now");
	SYS(unlink(in_vol("fifo")));
	put_dir("fifo");
	put_text("fifo/below", "b");
	SYS(rmdir(in_vol("void")));
	put_text("void", "a file now");
	SYS(unlink(in_vol("null")));
	SYS(mknod(in_vol("null"), S_IFCHR | 0600, makedev(1, 5)));
	SYS(unlink(in_vol("d/out")));
	SYS(symlink("elsewhere", in_vol("d/out")));
	SYS(chmod(in_vol("d/deep"), 0777));
	SYS(chown(in_vol("d"), 1, 1));
	SYS(setxattr(in_vol("d"), "user.more", "m", 1, 0));
	SYS(removexattr(in_vol("d"), "system.posix_acl_default"));
	set_acl("d/deep", "system.posix_acl_access", 9);
	set_acl("d/deep", "system.posix_acl_default", 9);
	SYS(chown(vol, 1, 2));
	SYS(chmod(vol, 0777));
	SYS(setxattr(vol, "user.root", "other", 5, 0));
	set_acl(".", "system.posix_acl_default", 11);
	set_flags("d", FS_NODUMP_FL);
	set_time("blk", 5, 5);
}

static void test_altered(void **state)
{
	(void)state;
	rich_tree();
	round_trip(alter_widely);
}

/* Large enough for writes past the page cache, with odd ends. */
static void test_large(void **state)
{
	(void)state;
	put_text("before", "so that the data is not aligned");
	put_random("large", (20 << 20) + 12345, 1);
	put_random("larger", (33 << 20) + 1, 2);
	put_random("even", 16 << 20, 3);
	SYS(setxattr(vol, "user.root", "r", 1, 0));
	round_trip(remove_everything);
	round_trip(nothing);
}

static void test_threads(void **state)
{
	unsigned n[] = { 1, 8 };

	for (size_t i = 0; i < 2; i++) {
		threads = n[i];
		rich_tree();
		round_trip(i ? alter_widely : remove_everything);
		end_vol(state);
		fresh_vol(state);
	}
	threads = 2;
}

static void break_links(void)
{
	put_text("d/l2", "edited, all of them");
	SYS(unlink(in_vol("l1")));
	SYS(unlink(in_vol("d/deep/l3")));
	put_random("d/deep/l3", 5000, 3);
}

static void tie_links(void)
{
	/* What was alone is now another's name, and the group is one more. */
	SYS(unlink(in_vol("alone")));
	SYS(link(in_vol("l1"), in_vol("alone")));
	SYS(unlink(in_vol("s1")));
	SYS(symlink("t", in_vol("s1")));
}

static void test_links(void **state)
{
	struct stat a, b;

	(void)state;
	rich_tree();
	round_trip(break_links);
	SYS(stat(in_vol("l1"), &a));
	SYS(stat(in_vol("d/deep/l3"), &b));
	assert_int_equal(a.st_ino, b.st_ino);
	assert_int_equal(a.st_nlink, 3);
	put_text("alone", "alone");
	SYS(symlink("t", in_vol("s1")));
	SYS(link(in_vol("s1"), in_vol("d/s2")));
	round_trip(tie_links);
	SYS(lstat(in_vol("d/s2"), &a));
	assert_int_equal(a.st_nlink, 2);
}

static void loosen(void)
{
	put_text("ro/child", "other");
	put_text("ro/more", "m");
	SYS(chmod(in_vol("ro"), 0777));
}

static void test_readonly_dir(void **state)
{
	(void)state;
	put_dir("ro");
	put_text("ro/child", "c");
	SYS(chmod(in_vol("ro"), 0555));
	set_time("ro", 1000, 1);
	round_trip(loosen);
}

static void cut_sparse(void)
{
	SYS(unlink(in_vol("huge")));
	put_text("huge", "small");
	SYS(chown(in_vol("owned"), 0, 0));
}

static void test_extremes(void **state)
{
	(void)state;
	put_hole("huge", (off_t)9 << 30, (off_t)8 << 30, 8192);
	put_text("owned", "o");
	SYS(chown(in_vol("owned"), 4000000000u, 4000000001u));
	set_time("owned", -315619200, 250000000);
	put_text("late", "l");
	set_time("late", 4102444800, 123456789);
	round_trip(cut_sparse);
}

static void deep_remove(void)
{
	char cmd[256];

	snprintf(cmd, sizeof(cmd), "rm -rf %s/top", vol);
	assert_int_equal(system(cmd), 0);
	put_text("top", "t");
}

static void test_deep(void **state)
{
	char name[201];
	int fd = at_vol(), next;

	(void)state;
	memset(name, 'n', 200);
	name[200] = 0;
	put_dir("top");
	next = openat(fd, "top", O_RDONLY | O_DIRECTORY);
	close(fd);
	fd = next;
	for (int i = 0; i < 50; i++) {
		SYS(mkdirat(fd, name, 0700));
		next = openat(fd, name, O_RDONLY | O_DIRECTORY);
		SYS(next);
		close(fd);
		fd = next;
	}
	next = openat(fd, "file", O_WRONLY | O_CREAT, 0600);
	assert_int_equal(write(next, "deep", 4), 4);
	close(next);
	close(fd);
	round_trip(deep_remove);
	round_trip(nothing);
}

/* -- nothing changes before the commit ----------------------------------- */

static void test_abort(void **state)
{
	struct restore_summary sum;
	struct restore *r;
	struct snap s;
	char *want, *have;
	int fd;

	(void)state;
	rich_tree();
	snap_take(&s, vol);
	alter_widely();
	set_time(".", 777, 888);
	want = show(vol);
	fd = at_vol();
	OK(try_plan(&s, fd, &r, &sum));
	OK(restore_abort(r, &e)); /* nothing to undo yet */
	OK(try_stage(&s, r));
	assert_int_equal(access(in_vol(STAGE_NAME "/journal"), F_OK), 0);
	OK(restore_abort(r, &e));
	restore_free(r);
	have = show(vol);
	assert_same(want, have);
	/* A stage that a dead run left behind goes as well. */
	OK(try_plan(&s, fd, &r, &sum));
	OK(try_stage(&s, r));
	restore_free(r);
	free(have);
	OK(try_plan(&s, fd, &r, &sum));
	restore_free(r);
	have = show(vol);
	assert_same(want, have);
	free(have);
	free(want);
	close(fd);
	snap_free(&s);
}

static void expect_stage_fails(struct snap *s, enum sc_code code,
			       const char *text)
{
	struct restore_summary sum;
	struct restore *r;
	char *want = show(vol), *have;
	int fd = at_vol();

	OK(try_plan(s, fd, &r, &sum));
	if (try_stage(s, r) == 0)
		fail_msg("staged in spite of it (%s)", text);
	assert_int_equal(e.code, code);
	if (!strstr(e.msg, text))
		fail_msg("message: %s", e.msg);
	OK(restore_abort(r, &e));
	restore_free(r);
	close(fd);
	have = show(vol);
	assert_same(want, have);
	free(want);
	free(have);
}

static void test_corrupt(void **state)
{
	struct snap s;
	struct buf *b;
	size_t len;

	(void)state;
	rich_tree();
	snap_take(&s, vol);
	assert_true(s.nsegments > 2);
	alter_widely();
	b = &s.segments[s.chunks.chunks[s.chunks.nchunks / 3].segment];
	b->p[b->len / 2] ^= 1;
	expect_stage_fails(&s, SC_ECORRUPT, "");
	b->p[b->len / 2] ^= 1;
	len = b->len;
	b->len = len - 1;
	expect_stage_fails(&s, SC_ECORRUPT, "length");
	b->len = len;
	/* A sound segment, but a chunk that was recorded otherwise. */
	s.chunks.chunks[s.chunks.nchunks / 2].hash.b[7] ^= 1;
	expect_stage_fails(&s, SC_ECORRUPT, "not what was recorded");
	snap_free(&s);
}

static int stop_source(void *arg, struct buf *out, struct sc_err *err)
{
	(void)arg;
	(void)out;
	return sc_fail(err, SC_EIO, 0, "the connection was lost");
}

static void test_source_fails(void **state)
{
	struct restore_source src = { .next = stop_source };
	struct restore_summary sum;
	struct restore *r;
	struct snap s;
	char *want, *have;
	int fd = at_vol();

	(void)state;
	rich_tree();
	snap_take(&s, vol);
	want = show(vol);
	OK(try_plan(&s, fd, &r, &sum));
	assert_int_equal(restore_stage(r, &src, &e), -1);
	assert_non_null(strstr(e.msg, "connection was lost"));
	OK(restore_abort(r, &e));
	restore_free(r);
	have = show(vol);
	assert_same(want, have);
	free(want);
	free(have);
	close(fd);
	snap_free(&s);
}

static void expect_refused(struct snap *s, const char *text)
{
	struct restore_summary sum;
	struct restore *r;
	char *want = show(vol), *have;
	int fd = at_vol();

	if (try_plan(s, fd, &r, &sum) == 0)
		fail_msg("not refused (%s)", text);
	assert_int_equal(e.code, SC_EREFUSED);
	if (!strstr(e.msg, text))
		fail_msg("message: %s", e.msg);
	close(fd);
	have = show(vol);
	assert_same(want, have);
	free(want);
	free(have);
}

static void test_own_stage(void **state)
{
	struct snap s;

	(void)state;
	put_text("f", "x");
	snap_take(&s, vol);
	put_dir(STAGE_NAME);
	expect_refused(&s, STAGE_NAME);
	put_text(STAGE_NAME "/journal", "my diary");
	SYS(chmod(in_vol(STAGE_NAME), 0700));
	expect_refused(&s, STAGE_NAME);
	SYS(unlink(in_vol(STAGE_NAME "/journal")));
	SYS(mkfifo(in_vol(STAGE_NAME "/journal"), 0600));
	expect_refused(&s, STAGE_NAME);
	SYS(unlink(in_vol(STAGE_NAME "/journal")));
	SYS(rmdir(in_vol(STAGE_NAME)));
	SYS(symlink("/tmp", in_vol(STAGE_NAME)));
	expect_refused(&s, STAGE_NAME);
	snap_free(&s);
}

static void test_unfinished_commit(void **state)
{
	struct restore_summary sum;
	struct restore *r;
	struct snap s;
	int fd = at_vol(), jfd;
	char header[200];
	struct digest d;
	struct hash *h;
	char *want, *have;
	ssize_t n;

	(void)state;
	put_text("f", "x");
	want = show(vol);
	snap_take(&s, vol);
	OK(try_plan(&s, fd, &r, &sum));
	OK(try_stage(&s, r));
	restore_free(r);
	jfd = open(in_vol(STAGE_NAME "/journal"), O_RDWR);
	n = read(jfd, header, sizeof(header));
	assert_int_equal(n, 96);
	header[12] = 2; /* committing */
	OK(hash_new(&h, &e));
	OK(hash_once(h, header, 64, &d, &e));
	hash_free(h);
	memcpy(header + 64, &d, 32);
	assert_int_equal(pwrite(jfd, header, 96, 0), 96);
	close(jfd);
	assert_int_equal(restore_unfinished(fd, &e), 1);

	/* Given up half-way: the volume stays marked. */
	put_text("f", "half");
	OK(try_plan(&s, fd, &r, &sum));
	OK(try_stage(&s, r));
	OK(restore_abort(r, &e));
	restore_free(r);
	assert_int_equal(restore_unfinished(fd, &e), 1);

	/* The next restore mends it. */
	OK(try_plan(&s, fd, &r, &sum));
	OK(try_stage(&s, r));
	OK(restore_recheck(r, &e));
	OK(restore_mark(r, &e));
	assert_int_equal(restore_unfinished(fd, &e), 1);
	OK(restore_commit(r, &e));
	restore_free(r);
	assert_int_equal(restore_unfinished(fd, &e), 0);
	have = show(vol);
	assert_same(want, have);
	free(want);
	free(have);
	close(fd);
	snap_free(&s);
}

static void change_log(void)
{
	put_text("d/log", "2");
}

static void drop_locked(void)
{
	set_flags("still", 0);
	SYS(unlink(in_vol("still")));
	set_flags("d/app", 0);
	SYS(unlink(in_vol("d/app")));
	set_flags("fixed", 0);
	SYS(unlink(in_vol("fixed/in")));
	SYS(rmdir(in_vol("fixed")));
}

static void test_locked(void **state)
{
	struct snap s;

	(void)state;
	put_dir("d");
	put_text("d/log", "1");
	put_text("still", "1");
	snap_take(&s, vol);
	set_flags("d/log", FS_APPEND_FL);
	expect_refused(&s, "d/log");
	set_flags("d/log", 0);
	put_dir("x");
	put_text("x/extra", "1");
	set_flags("x/extra", FS_IMMUTABLE_FL);
	expect_refused(&s, "x ");
	set_flags("x/extra", 0);
	set_flags("d", FS_IMMUTABLE_FL);
	expect_refused(&s, "d ");
	set_flags("d", 0);
	snap_free(&s);
	set_flags("still", FS_IMMUTABLE_FL);
	round_trip(change_log);
	put_text("d/app", "1");
	put_dir("fixed");
	put_text("fixed/in", "1");
	set_flags("fixed", FS_IMMUTABLE_FL);
	set_flags("d/app", FS_APPEND_FL);
	round_trip(drop_locked);
}

/* -- what is never touched ------------------------------------------------ */

static void put_socket(const char *name)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	snprintf(a.sun_path, sizeof(a.sun_path), "%s/%s", vol, name);
	SYS(bind(fd, (struct sockaddr *)&a, sizeof(a)));
	close(fd);
}

static void test_sockets(void **state)
{
	struct restore_summary sum;
	struct snap s;
	char *want, *have;

	(void)state;
	put_text("f", "f");
	put_dir("d");
	put_text("d/in", "i");
	snap_take(&s, vol);
	want = show(vol);
	SYS(unlink(in_vol("f")));
	put_socket("f");
	SYS(unlink(in_vol("d/in")));
	SYS(rmdir(in_vol("d")));
	put_socket("d");
	put_dir("x");
	put_socket("x/s"); /* goes with its directory */
	restore_all(&s, &sum);
	have = show(vol);
	assert_same(want, have);
	free(want);
	free(have);
	put_socket("own"); /* stays: no snapshot holds sockets */
	restore_all(&s, &sum);
	assert_int_equal(access(in_vol("own"), F_OK), 0);
	snap_free(&s);
}

static void mount_on(const char *name)
{
	SYS(mount("none", in_vol(name), "tmpfs", 0, "size=1m"));
	put_text(strcmp(name, "m") ? "x/m/inside" : "m/inside", "mine");
}

static void test_mounts(void **state)
{
	struct restore_summary sum;
	struct snap s;

	(void)state;
	put_text("f", "f");
	put_dir("m");
	put_text("m/old", "o");
	snap_take(&s, vol);
	mount_on("m");
	expect_refused(&s, "mount point");
	SYS(umount(in_vol("m")));
	/* Beneath an extra directory: all else goes. */
	put_dir("x");
	put_dir("x/m");
	put_dir("x/also");
	put_text("x/also/f", "1");
	mount_on("x/m");
	restore_all(&s, &sum);
	assert_int_equal(access(in_vol("x/m/inside"), F_OK), 0);
	assert_int_equal(access(in_vol("x/also"), F_OK), -1);
	assert_int_equal(notes.warnings, 1);
	/* In the way of a file. */
	snap_free(&s);
	SYS(umount(in_vol("x/m")));
	SYS(rename(in_vol("x"), in_vol("y")));
	put_text("x", "a file");
	snap_take(&s, vol);
	SYS(unlink(in_vol("x")));
	SYS(rename(in_vol("y"), in_vol("x")));
	mount_on("x/m");
	expect_refused(&s, "mount point");
	SYS(umount(in_vol("x/m")));
	/* A file on a file. */
	SYS(mount(in_vol("f"), in_vol("m/old"), NULL, MS_BIND, NULL));
	expect_refused(&s, "mount point");
	SYS(umount(in_vol("m/old")));
	snap_free(&s);
}

static void test_left_out(void **state)
{
	struct restore_options o = { .threads = 2, .leave_out = "a/repo" };
	struct restore_source src = { .next = give_segment };
	struct restore_summary sum;
	struct restore *r;
	struct snap s;
	int fd;

	(void)state;
	put_text("f", "f");
	put_dir("unread");
	put_text("unreadable", "what it was");
	snap_take(&s, vol);
	for (uint32_t i = 0; i < tree_count(s.tree); i++)
		if (strncmp(tree_at(s.tree, i)->name, "unread", 6) == 0)
			tree_at(s.tree, i)->bits |= ENTRY_UNREADABLE;
	put_text("unreadable", "what it is");
	put_text("unread/kept", "k");
	put_dir("a");
	put_dir("a/repo");
	put_text("a/repo/blob", "b");
	put_text("a/other", "o");
	fd = at_vol();
	OK(restore_plan(fd, s.tree, &s.chunks, &o, &notes, &r, &sum, &e));
	src.arg = &s;
	s.next = 0;
	s.needs = restore_needs(r, &s.nneeds);
	OK(restore_stage(r, &src, &e));
	OK(restore_recheck(r, &e));
	OK(restore_commit(r, &e));
	restore_free(r);
	close(fd);
	assert_int_equal(access(in_vol("a/repo/blob"), F_OK), 0);
	assert_int_equal(access(in_vol("a/other"), F_OK), -1);
	assert_int_equal(access(in_vol("unread/kept"), F_OK), 0);
	fd = open(in_vol("unreadable"), O_RDONLY);
	char got[20] = "";
	assert_int_equal(read(fd, got, 10), 10);
	assert_string_equal(got, "what it is");
	close(fd);
	snap_free(&s);
}

/* -- hostile -------------------------------------------------------------- */

static void plant_links(void)
{
	char outside[sizeof(base) + 16];

	snprintf(outside, sizeof(outside), "%s/outside", base);
	SYS(mkdir(outside, 0755));
	SYS(unlink(in_vol("l/x")));
	SYS(rmdir(in_vol("l")));
	SYS(symlink(outside, in_vol("l")));
}

static void test_symlinked_parent(void **state)
{
	char outside[sizeof(base) + 16];

	(void)state;
	put_dir("l");
	put_text("l/x", "inside");
	round_trip(plant_links);
	snprintf(outside, sizeof(outside), "%s/outside", base);
	SYS(rmdir(outside)); /* still empty */
}

/* The parent becomes a symlink after the last look. */
static void test_swapped_parent(void **state)
{
	char outside[sizeof(base) + 16];
	struct restore_summary sum;
	struct restore *r;
	struct snap s;
	int fd = at_vol();

	(void)state;
	put_dir("l");
	put_text("l/x", "inside");
	snap_take(&s, vol);
	OK(try_plan(&s, fd, &r, &sum));
	OK(try_stage(&s, r));
	OK(restore_recheck(r, &e));
	plant_links();
	assert_int_equal(restore_commit(r, &e), -1);
	assert_int_equal(e.code, SC_EPARTIAL);
	restore_free(r);
	close(fd);
	snprintf(outside, sizeof(outside), "%s/outside", base);
	SYS(rmdir(outside));
	snap_free(&s);
}

static void test_lone_link(void **state)
{
	struct restore_summary sum;
	struct restore *r;
	struct snap s;
	int fd = at_vol();

	(void)state;
	put_text("f", "f");
	snap_take(&s, vol);
	tree_at(s.tree, 1)->bits |= ENTRY_LINK;
	assert_int_equal(try_plan(&s, fd, &r, &sum), -1);
	assert_int_equal(e.code, SC_ECORRUPT);
	close(fd);
	snap_free(&s);
}

/* -- the stack goes on while we stage ------------------------------------- */

static void test_recheck(void **state)
{
	struct restore_summary sum;
	struct restore *r;
	struct snap s;
	char *want, *have;
	int fd;

	(void)state;
	rich_tree();
	snap_take(&s, vol);
	want = show(vol);
	alter_widely();
	SYS(rmdir(in_vol("d/deep/er")) < 0 && errno == ENOTEMPTY ? 0 : -1);
	fd = at_vol();
	OK(try_plan(&s, fd, &r, &sum));
	OK(try_stage(&s, r));
	/* Gone, come, and of another type since the plan. */
	SYS(unlink(in_vol("d/deep/er/file")));
	SYS(rmdir(in_vol("d/deep/er")));
	SYS(unlink(in_vol("blk")));
	put_text("late", "l");
	SYS(unlink(in_vol("void")));
	put_dir("void");
	put_text("void/y", "y");
	SYS(unlink(in_vol("-rf")));
	put_dir("-rf");
	OK(restore_recheck(r, &e));
	OK(restore_commit(r, &e));
	restore_free(r);
	close(fd);
	have = show(vol);
	assert_same(want, have);
	free(want);
	free(have);
	snap_free(&s);
}

static void test_meddled_stage(void **state)
{
	struct restore_summary sum;
	struct restore *r;
	struct snap s;
	char *want, *have;
	int fd = at_vol(), staged;

	(void)state;
	put_text("f", "f");
	snap_take(&s, vol);
	put_text("f", "other");
	want = show(vol);
	OK(try_plan(&s, fd, &r, &sum));
	OK(try_stage(&s, r));
	staged = open(in_vol(STAGE_NAME "/b0/1"), O_WRONLY);
	SYS(staged);
	assert_int_equal(write(staged, "X", 1), 1);
	close(staged);
	assert_int_equal(restore_recheck(r, &e), -1);
	assert_int_equal(e.code, SC_EREFUSED);
	OK(restore_abort(r, &e));
	restore_free(r);
	close(fd);
	have = show(vol);
	assert_same(want, have);
	free(want);
	free(have);
	snap_free(&s);
}

/* -- room ----------------------------------------------------------------- */

static void test_no_room(void **state)
{
	struct restore_summary sum;
	struct restore *r;
	struct snap s;
	char *want, *have;
	int fd;

	(void)state;
	put_random("big", 6 << 20, 1);
	put_text("small", "s");
	snap_take(&s, vol);
	wipe();
	SYS(mkdir(vol, 0755));
	SYS(mount("none", vol, "tmpfs", 0, "size=4m"));
	put_text("old", "o");
	expect_refused(&s, "no room");
	SYS(mount("none", vol, "tmpfs", MS_REMOUNT, "size=8m"));
	want = show(vol);
	fd = at_vol();
	OK(try_plan(&s, fd, &r, &sum));
	put_random("late", 4 << 20, 9);
	assert_int_equal(try_stage(&s, r), -1);
	assert_int_equal(e.sys, ENOSPC);
	SYS(unlink(in_vol("late")));
	set_time(".", 5, 5);
	OK(restore_abort(r, &e));
	restore_free(r);
	free(want);
	set_time(".", 5, 5);
	have = show(vol);
	assert_non_null(strstr(have, "./old"));
	assert_null(strstr(have, "snapctl"));
	free(have);
	close(fd);
	SYS(umount(vol));
	snap_free(&s);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, fresh_vol, end_vol)
	const struct CMUnitTest tests[] = {
		T(test_unchanged),
		T(test_emptied),
		T(test_altered),
		T(test_large),
		T(test_threads),
		T(test_links),
		T(test_readonly_dir),
		T(test_extremes),
		T(test_deep),
		T(test_abort),
		T(test_corrupt),
		T(test_source_fails),
		T(test_own_stage),
		T(test_unfinished_commit),
		T(test_locked),
		T(test_sockets),
		T(test_mounts),
		T(test_left_out),
		T(test_symlinked_parent),
		T(test_swapped_parent),
		T(test_lone_link),
		T(test_recheck),
		T(test_meddled_stage),
		T(test_no_room),
	};
	int rc;

	SYS(mkdtemp(base) ? 0 : -1);
	snprintf(vol, sizeof(vol), "%s/vol", base);
	rc = cmocka_run_group_tests(tests, NULL, NULL);
	wipe();
	(void)rmdir(base);
	return rc;
}
