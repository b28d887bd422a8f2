/* SPDX-License-Identifier: MIT */
/* The helper program itself, driven by frames: a whole restore, and every way
 * to stop in the middle of one. Volumes are temporary directories. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include <snapctl/base/mem.h>
#include <snapctl/helper/frames.h>
#include <snapctl/scan/index.h>
#include <snapctl/scan/walk.h>

#define TOKEN "0123456789abcdef0123456789abcdef"
#define BIG   (9u << 20)

static struct sc_err e;
static char program[4096];

#define OK(call)                                          \
	do {                                              \
		if ((call) < 0)                           \
			fail_msg("%s: %s", #call, e.msg); \
	} while (0)
#define SYS(call)                                                   \
	do {                                                        \
		if ((call) < 0)                                     \
			fail_msg("%s: %s", #call, strerror(errno)); \
	} while (0)

struct serve {
	pid_t pid;
	int fd, said; /* said: its stderr */
	char dir[64];
	struct channel_fds fds;
	struct channel ch;
	struct frames f;
	struct frame in;
	uint64_t got, bytes; /* frames of the running command */
	/* A snapshot of volume 0. */
	struct index_writer *writer;
	int index;
	uint64_t index_len;
	struct chunk_table table;
	struct buf *segments;
	size_t nsegments, cap;
	uint32_t *needs;
	size_t nneeds;
};

/* -- a volume ------------------------------------------------------------- */

static void put(struct serve *s, const char *name, size_t n, unsigned seed)
{
	char path[256];
	unsigned char *p = malloc(n + 1);
	int fd;

	assert_non_null(p);
	for (size_t i = 0; i < n; i++) {
		seed = seed * 1664525 + 1013904223;
		p[i] = (unsigned char)(seed >> 24);
	}
	snprintf(path, sizeof(path), "%s/%s", s->dir, name);
	SYS(fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0640));
	assert_int_equal(write(fd, p, n), (ssize_t)n);
	close(fd);
	free(p);
}

static bool holds(struct serve *s, const char *name, size_t n, unsigned seed)
{
	char path[256];
	unsigned char c;
	FILE *f;
	bool same = true;

	snprintf(path, sizeof(path), "%s/%s", s->dir, name);
	f = fopen(path, "re");
	if (!f)
		return false;
	for (size_t i = 0; i < n && same; i++) {
		seed = seed * 1664525 + 1013904223;
		same = fread(&c, 1, 1, f) == 1 &&
		       c == (unsigned char)(seed >> 24);
	}
	same = same && fread(&c, 1, 1, f) == 0;
	fclose(f);
	return same;
}

static bool is_there(struct serve *s, const char *name)
{
	char path[256];
	struct stat st;

	snprintf(path, sizeof(path), "%s/%s", s->dir, name);
	return lstat(path, &st) == 0;
}

static void fill(struct serve *s)
{
	char path[256];

	snprintf(path, sizeof(path), "%s/d", s->dir);
	SYS(mkdir(path, 0755));
	put(s, "a", 1000, 1);
	put(s, "d/big", BIG, 2);
	put(s, "d/empty", 0, 0);
	snprintf(path, sizeof(path), "%s/link", s->dir);
	SYS(symlink("a", path));
}

static void wreck(struct serve *s)
{
	char path[256];

	put(s, "a", 999, 7);
	put(s, "d/big", BIG, 8);
	put(s, "extra", 10, 9);
	snprintf(path, sizeof(path), "%s/link", s->dir);
	SYS(unlink(path));
}

static void assert_restored(struct serve *s)
{
	assert_true(holds(s, "a", 1000, 1));
	assert_true(holds(s, "d/big", BIG, 2));
	assert_true(holds(s, "d/empty", 0, 0));
	assert_true(is_there(s, "link"));
	assert_false(is_there(s, "extra"));
	assert_false(is_there(s, STAGE_NAME));
}

/* As wreck left it, and nothing of ours. */
static void assert_wrecked(struct serve *s)
{
	assert_true(holds(s, "a", 999, 7));
	assert_true(holds(s, "d/big", BIG, 8));
	assert_true(holds(s, "extra", 10, 9));
	assert_false(is_there(s, "link"));
	assert_false(is_there(s, STAGE_NAME));
}

/* -- the program ---------------------------------------------------------- */

static void run_program(int stream, int said)
{
	if (dup2(stream, 0) < 0 || dup2(stream, 1) < 0 || dup2(said, 2) < 0)
		_exit(126);
	setenv("SNAPCTL_TOKEN", TOKEN, 1);
	unsetenv("SNAPCTL_SOCKET");
	execl(program, program, (char *)NULL);
	_exit(127);
}

/* Started, its HELLO taken. */
static void serve_start(struct serve *s)
{
	int pair[2];
	struct cur c;
	size_t n;
	const unsigned char *token;

	memset(s, 0, sizeof(*s));
	signal(SIGPIPE, SIG_IGN);
	snprintf(s->dir, sizeof(s->dir), "/tmp/snapctl-serve-XXXXXX");
	assert_non_null(mkdtemp(s->dir));
	SYS(s->index = memfd_create("index", MFD_CLOEXEC));
	SYS(s->said = memfd_create("stderr", MFD_CLOEXEC));
	SYS(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair));
	SYS(s->pid = fork());
	if (s->pid == 0)
		run_program(pair[1], s->said);
	close(pair[1]);
	s->fd = pair[0];
	s->fds = (struct channel_fds){ s->fd, s->fd, NULL };
	OK(channel_fds_init(&s->fds, &s->ch, &e));
	frames_init(&s->f, &s->ch);
	assert_int_equal(frame_recv(&s->f, &s->in, &e), 1);
	assert_int_equal(s->in.type, FRAME_HELLO);
	c = cur_of(s->in.payload.p, s->in.payload.len);
	assert_int_equal(cur_u32(&c), FRAME_MAGIC);
	assert_int_equal(cur_varint(&c), FRAME_VERSION);
	assert_int_equal(cur_varint(&c), 0);
	token = cur_bytes(&c, 100, &n);
	assert_int_equal(n, FRAME_TOKEN_LEN);
	assert_memory_equal(token, TOKEN, n);
}

static void say(struct serve *s, enum frame_type type, unsigned volume,
		const void *p, size_t n)
{
	OK(frame_send(&s->f, type, volume, NULL, 0, p, n, &e));
}

static void send_hello(struct serve *s, uint32_t magic, uint64_t version,
		       uint64_t threads, int64_t level, uint64_t avg)
{
	struct buf b = { 0 };

	buf_u32(&b, magic);
	buf_varint(&b, version);
	buf_varint(&b, 0);
	buf_varint(&b, threads);
	buf_svarint(&b, level);
	buf_varint(&b, avg);
	buf_varint(&b, 0);
	say(s, FRAME_HELLO, FRAME_NO_VOLUME, b.p, b.len);
	buf_free(&b);
}

static void send_volume(struct serve *s, unsigned number, const char *path)
{
	struct buf b = { 0 };

	buf_str(&b, path);
	buf_str(&b, "");
	say(s, FRAME_VOLUME, number, b.p, b.len);
	buf_free(&b);
}

static void serve_open(struct serve *s)
{
	serve_start(s);
	send_hello(s, FRAME_MAGIC, FRAME_VERSION, 2, 1, 65536);
	send_volume(s, 0, s->dir);
}

/* The stream ends; its exit status. */
static int serve_end(struct serve *s)
{
	int status;

	if (s->fd >= 0)
		close(s->fd);
	s->fd = -1;
	SYS(waitpid(s->pid, &status, 0));
	if (!WIFEXITED(status))
		fail_msg("killed by %d", WTERMSIG(status));
	return WEXITSTATUS(status);
}

static void serve_clear(struct serve *s)
{
	char line[128], said[2000];
	ssize_t n = pread(s->said, said, sizeof(said) - 1, 0);

	said[n > 0 ? n : 0] = 0;
	if (strstr(said, "Sanitizer") || strstr(said, "runtime error"))
		fail_msg("%s", said);
	snprintf(line, sizeof(line), "rm -rf %s", s->dir);
	assert_int_equal(system(line), 0);
	frames_destroy(&s->f);
	frame_free(&s->in);
	index_writer_free(s->writer);
	chunk_table_free(&s->table);
	for (size_t i = 0; i < s->nsegments; i++)
		buf_free(&s->segments[i]);
	free(s->segments);
	free(s->needs);
	close(s->index);
	close(s->said);
}

static void command(struct serve *s, enum frame_type type, const void *p,
		    size_t n)
{
	s->got = s->bytes = 0;
	say(s, type, FRAME_NO_VOLUME, p, n);
}

/* The next frame but NOTE and PROGRESS; OK's counts are right. */
static unsigned answer(struct serve *s)
{
	uint64_t v[2];

	for (;;) {
		int rc = frame_recv(&s->f, &s->in, &e);

		if (rc < 0)
			fail_msg("%s", e.msg);
		if (rc == 0)
			return 0;
		if (s->in.type == FRAME_OK) {
			OK(frame_varints(&s->in, v, 2, &e));
			assert_int_equal(v[0], s->got);
			assert_int_equal(v[1], s->bytes);
			return FRAME_OK;
		}
		s->got++;
		s->bytes += s->in.payload.len;
		if (s->in.type == FRAME_FAIL)
			assert_int_equal(frame_take_fail(&s->in, &e), -1);
		if (s->in.type != FRAME_NOTE && s->in.type != FRAME_PROGRESS)
			return s->in.type;
	}
}

static void expect(struct serve *s, unsigned type)
{
	unsigned got = answer(s);

	if (got != type)
		fail_msg("%s, not %s: %s", frame_name(got), frame_name(type),
			 got == FRAME_FAIL ? e.msg : "");
}

static void expect_fail(struct serve *s, enum sc_code code)
{
	expect(s, FRAME_FAIL);
	if (e.code != code)
		fail_msg("code %d, not %d: %s", e.code, code, e.msg);
}

/* -- a snapshot ----------------------------------------------------------- */

static void keep_segment(struct serve *s)
{
	struct cur c = cur_of(s->in.payload.p, s->in.payload.len);
	struct chunk_table *t = &s->table;
	struct segment g = { .plain = cur_u32(&c) };

	g.stored = (uint32_t)cur_left(&c);
	for (size_t i = 0; i < s->nsegments; i++)
		g.offset += s->segments[i].len;
	assert_int_equal(mem_grow(&s->segments, &s->cap, s->nsegments + 1,
				  sizeof(*s->segments)),
			 0);
	s->segments[s->nsegments] = (struct buf){ 0 };
	buf_put(&s->segments[s->nsegments++], c.p, g.stored);
	assert_int_equal(mem_grow(&t->segments, &t->segments_cap,
				  t->nsegments + 1, sizeof(g)),
			 0);
	t->segments[t->nsegments++] = g;
}

static void end_index(struct serve *s, const struct index_sink *sink)
{
	struct digest d;
	uint64_t len = 0;

	for (size_t i = 0; i < s->nsegments; i++)
		len += s->segments[i].len;
	s->table.packs = calloc(1, sizeof(*s->table.packs));
	assert_non_null(s->table.packs);
	s->table.packs[0] =
		(struct pack_ref){ .length = len, .kind = PACK_TAR };
	s->table.npacks = s->table.packs_cap = 1;
	OK(index_encode_places(&s->table, sink, &e));
	OK(index_writer_finish(s->writer, &d, &s->index_len, &e));
}

static void take(struct serve *s)
{
	struct index_sink sink;
	uint64_t v[11];
	bool all_read = false;
	unsigned type;
	struct cur c;

	OK(index_writer_new(s->index, INDEX_FULL, &s->writer, &e));
	sink = index_writer_sink(s->writer);
	command(s, FRAME_TAKE, "\0", 1);
	while ((type = answer(s)) != FRAME_OK) {
		if (type == FRAME_SEGMENT) {
			keep_segment(s);
		} else if (type == FRAME_ALLREAD) {
			assert_false(all_read);
			all_read = true;
		} else if (type == FRAME_COLUMN) {
			c = cur_of(s->in.payload.p, s->in.payload.len);
			v[0] = cur_u16(&c);
			OK(sink.piece(sink.arg, (unsigned)v[0], c.p,
				      cur_left(&c), &e));
		} else if (type == FRAME_COLEND) {
			OK(frame_varints(&s->in, v, 4, &e));
			OK(sink.end(sink.arg, (unsigned)v[0], (unsigned)v[1],
				    v[2], v[3], &e));
		} else if (type == FRAME_TAKEN) {
			OK(frame_varints(&s->in, v, 11, &e));
			assert_int_equal(v[0],
					 6); /* the root, d, 3 files, link */
			assert_int_equal(v[2], BIG + 1000);
			assert_int_equal(v[3], s->nsegments);
			assert_true(all_read);
		} else {
			fail_msg("%s came: %s", frame_name(type), e.msg);
		}
	}
	end_index(s, &sink);
}

static void send_index(struct serve *s)
{
	unsigned char *p = malloc(s->index_len);

	assert_non_null(p);
	assert_int_equal(pread(s->index, p, s->index_len, 0), s->index_len);
	for (size_t at = 0; at < s->index_len;) {
		size_t n = s->index_len - at;

		n = n < FRAME_PIECE ? n : FRAME_PIECE;
		say(s, FRAME_INDEX, 0, p + at, n);
		at += n;
	}
	free(p);
}

static void send_plan(struct serve *s, uint64_t length)
{
	struct buf b = { 0 };

	buf_varint(&b, length);
	command(s, FRAME_PLAN, b.p, b.len);
	buf_free(&b);
}

static void collect_needs(struct serve *s)
{
	for (;;) {
		struct cur c;

		expect(s, FRAME_NEED);
		if (s->in.volume == FRAME_NO_VOLUME)
			return;
		assert_int_equal(s->in.volume, 0);
		c = cur_of(s->in.payload.p, s->in.payload.len);
		s->needs = realloc(s->needs, (s->nneeds + cur_left(&c)) * 4);
		assert_non_null(s->needs);
		while (cur_left(&c)) {
			s->needs[s->nneeds] = cur_u32(&c);
			assert_true(s->needs[s->nneeds] < s->nsegments);
			s->nneeds++;
		}
	}
}

static void give(struct serve *s, size_t i)
{
	const struct buf *b = &s->segments[s->needs[i]];

	say(s, FRAME_SEGMENT, 0, b->p, b->len);
}

/* A volume taken, then wrecked; its restore planned and begun. */
static void begin_stage(struct serve *s)
{
	serve_open(s);
	fill(s);
	take(s);
	wreck(s);
	send_index(s);
	send_plan(s, s->index_len);
	expect(s, FRAME_PLANNED);
	expect(s, FRAME_OK);
	command(s, FRAME_STAGE, NULL, 0);
	collect_needs(s);
	assert_true(s->nneeds >= 3);
}

static void stage(struct serve *s)
{
	begin_stage(s);
	for (size_t i = 0; i < s->nneeds; i++)
		give(s, i);
	expect(s, FRAME_OK);
}

static void say_bye(struct serve *s)
{
	say(s, FRAME_BYE, FRAME_NO_VOLUME, NULL, 0);
	assert_int_equal(answer(s), 0);
	assert_int_equal(serve_end(s), 0);
}

/* -- what it should do ---------------------------------------------------- */

static void scans(void **state)
{
	struct serve s;
	uint64_t v[4];

	(void)state;
	serve_open(&s);
	fill(&s);
	command(&s, FRAME_SCAN, NULL, 0);
	expect(&s, FRAME_SCANNED);
	OK(frame_varints(&s.in, v, 4, &e));
	assert_int_equal(v[0], 6);
	assert_int_equal(v[2], BIG + 1000);
	assert_int_equal(v[3], 0);
	expect(&s, FRAME_OK);
	say_bye(&s);
	serve_clear(&s);
}

static void restores(void **state)
{
	struct serve s;

	(void)state;
	stage(&s);
	command(&s, FRAME_RECHECK, NULL, 0);
	expect(&s, FRAME_OK);
	/* The safety snapshot comes in between in a real run. */
	command(&s, FRAME_SCAN, NULL, 0);
	expect(&s, FRAME_SCANNED);
	expect(&s, FRAME_OK);
	command(&s, FRAME_RECHECK, NULL, 0);
	expect(&s, FRAME_OK);
	command(&s, FRAME_COMMIT, NULL, 0);
	expect(&s, FRAME_OK);
	command(&s, FRAME_UNDO, NULL, 0);
	expect_fail(&s, SC_EPARTIAL);
	say_bye(&s);
	assert_restored(&s);
	serve_clear(&s);
}

static void undoes(void **state)
{
	struct serve s;

	(void)state;
	stage(&s);
	assert_true(is_there(&s, STAGE_NAME));
	command(&s, FRAME_UNDO, NULL, 0);
	expect(&s, FRAME_OK);
	assert_wrecked(&s);
	say_bye(&s);
	serve_clear(&s);
}

static void bye_undoes(void **state)
{
	struct serve s;

	(void)state;
	stage(&s);
	say_bye(&s);
	assert_wrecked(&s);
	serve_clear(&s);
}

static void the_end_undoes(void **state)
{
	struct serve s;

	(void)state;
	stage(&s);
	assert_int_equal(serve_end(&s), 0);
	assert_wrecked(&s);
	serve_clear(&s);
}

/* After none, one, all but one of the segments; within a frame. */
static void the_end_in_the_middle_of_stage_undoes(void **state)
{
	(void)state;
	for (int how = 0; how < 4; how++) {
		struct serve s;

		begin_stage(&s);
		for (size_t i = 0; i < (how == 2 ? s.nneeds - 1 : how > 0); i++)
			give(&s, i);
		if (how == 3)
			assert_int_equal(
				write(s.fd, "\0\1\0\0\45\0\0\0half", 12), 12);
		assert_in_range(serve_end(&s), 0, 1);
		assert_wrecked(&s);
		serve_clear(&s);
	}
}

/* FAIL is the last frame of its command: UNDO's counts are right. */
static void undo_and_bye(struct serve *s)
{
	command(s, FRAME_UNDO, NULL, 0);
	expect(s, FRAME_OK);
	assert_wrecked(s);
	say_bye(s);
	serve_clear(s);
}

/* Often, since it depends on which worker of the stage hears it. */
static void abort_in_the_middle_of_stage(void **state)
{
	(void)state;
	for (int i = 0; i < 20; i++) {
		struct serve s;

		begin_stage(&s);
		if (i & 1)
			give(&s, 0);
		say(&s, FRAME_ABORT, FRAME_NO_VOLUME, "\3why", 4);
		expect_fail(&s, SC_EINTR);
		undo_and_bye(&s);
	}
}

static void a_damaged_segment_fails(void **state)
{
	struct serve s;
	struct buf *b;

	(void)state;
	begin_stage(&s);
	b = &s.segments[s.needs[1]];
	b->p[b->len / 2] ^= 1;
	for (size_t i = 0; i < s.nneeds; i++)
		give(&s, i);
	expect_fail(&s, SC_ECORRUPT);
	say(&s, FRAME_ABORT, FRAME_NO_VOLUME, NULL, 0);
	undo_and_bye(&s);
}

static void segments_out_of_order_fail(void **state)
{
	struct serve s;

	(void)state;
	begin_stage(&s);
	give(&s, 1);
	give(&s, 0);
	expect_fail(&s, SC_ECORRUPT);
	say(&s, FRAME_ABORT, FRAME_NO_VOLUME, NULL, 0);
	undo_and_bye(&s);
}

static void segments_of_nothing_fail(void **state)
{
	(void)state;
	for (int how = 0; how < 3; how++) {
		struct serve s;

		begin_stage(&s);
		if (how == 0)
			say(&s, FRAME_SEGMENT, 0, NULL, 0);
		else if (how == 1)
			say(&s, FRAME_SEGMENT, 1, "x", 1);
		else
			say(&s, FRAME_SCAN, FRAME_NO_VOLUME, NULL, 0);
		expect_fail(&s, how ? SC_EPROTO : SC_ECORRUPT);
		say(&s, FRAME_ABORT, FRAME_NO_VOLUME, NULL, 0);
		undo_and_bye(&s);
	}
}

/* Nothing was replaced yet: refused, and undone. */
static void a_stage_that_was_changed_is_not_committed(void **state)
{
	struct serve s;
	char line[200];

	(void)state;
	stage(&s);
	snprintf(line, sizeof(line),
		 "find %s/%s -type f -size +1000k -exec sh -c "
		 "'echo >>\"$1\"' - {} \\;",
		 s.dir, STAGE_NAME);
	assert_int_equal(system(line), 0);
	command(&s, FRAME_RECHECK, NULL, 0);
	expect(&s, FRAME_FAIL);
	undo_and_bye(&s);
}

static void abort_of_a_take_ends_only_the_take(void **state)
{
	struct serve s;
	unsigned type;

	(void)state;
	serve_open(&s);
	fill(&s);
	command(&s, FRAME_TAKE, "\0", 1);
	say(&s, FRAME_ABORT, FRAME_NO_VOLUME, NULL, 0);
	while ((type = answer(&s)) != FRAME_OK && type != FRAME_FAIL)
		assert_int_not_equal(type, 0);
	if (type == FRAME_FAIL)
		assert_int_equal(e.code, SC_EINTR);
	command(&s, FRAME_SCAN, NULL, 0);
	expect(&s, FRAME_SCANNED);
	expect(&s, FRAME_OK);
	say_bye(&s);
	serve_clear(&s);
}

static void the_end_of_the_stream_ends_a_take(void **state)
{
	struct serve s;

	(void)state;
	serve_open(&s);
	fill(&s);
	command(&s, FRAME_TAKE, "\0", 1);
	expect(&s, FRAME_SEGMENT);
	assert_in_range(serve_end(&s), 0, 1);
	serve_clear(&s);
}

/* -- hostile --------------------------------------------------------------- */

/* A FAIL of this kind, then the end; exit status 1. */
static void ends_with(struct serve *s, enum sc_code code)
{
	expect_fail(s, code);
	assert_int_equal(answer(s), 0);
	assert_int_equal(serve_end(s), 1);
	serve_clear(s);
}

static void wrong_hellos_end_it(void **state)
{
	static const struct {
		uint32_t magic;
		uint64_t version, threads;
		int64_t level;
		uint64_t avg;
	} bad[] = {
		{ 1, FRAME_VERSION, 1, 1, 65536 },
		{ FRAME_MAGIC, FRAME_VERSION + 1, 1, 1, 65536 },
		{ FRAME_MAGIC, FRAME_VERSION, 257, 1, 65536 },
		{ FRAME_MAGIC, FRAME_VERSION, UINT64_MAX, 1, 65536 },
		{ FRAME_MAGIC, FRAME_VERSION, 1, 23, 65536 },
		{ FRAME_MAGIC, FRAME_VERSION, 1, INT64_MIN, 65536 },
		{ FRAME_MAGIC, FRAME_VERSION, 1, 1, 0 },
		{ FRAME_MAGIC, FRAME_VERSION, 1, 1, 65537 },
		{ FRAME_MAGIC, FRAME_VERSION, 1, 1, 1ull << 32 },
	};
	struct serve s;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		serve_start(&s);
		send_hello(&s, bad[i].magic, bad[i].version, bad[i].threads,
			   bad[i].level, bad[i].avg);
		ends_with(&s, SC_EPROTO);
	}
	serve_start(&s);
	say(&s, FRAME_HELLO, 0, "SNPF", 4);
	ends_with(&s, SC_EPROTO);
	serve_start(&s);
	say(&s, FRAME_SCAN, 0, NULL, 0);
	ends_with(&s, SC_EPROTO);
}

static void wrong_volumes_end_it(void **state)
{
	struct serve s;

	(void)state;
	serve_open(&s);
	send_volume(&s, 0, s.dir); /* again */
	ends_with(&s, SC_EPROTO);
	serve_open(&s);
	send_volume(&s, 2, s.dir);
	ends_with(&s, SC_EPROTO);
	serve_open(&s);
	send_volume(&s, 1, "/nonexistent/volume");
	ends_with(&s, SC_EIO);
	serve_open(&s);
	say(&s, FRAME_VOLUME, 1, "\1a", 2);
	ends_with(&s, SC_EPROTO);
	serve_open(&s);
	say(&s, FRAME_VOLUME, 1, "\2a\0\0", 4);
	ends_with(&s, SC_EPROTO);
}

static void commands_out_of_turn_end_it(void **state)
{
	static const enum frame_type first[] = {
		FRAME_STAGE,   FRAME_RECHECK, FRAME_COMMIT, FRAME_HELLO,
		FRAME_SEGMENT, FRAME_OK,      FRAME_NEED,
	};
	struct serve s;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(first); i++) {
		serve_open(&s);
		command(&s, first[i], NULL, 0);
		ends_with(&s, SC_EPROTO);
	}
	serve_open(&s);
	say(&s, FRAME_INDEX, 1, "x", 1);
	ends_with(&s, SC_EPROTO);
}

/* A commit without the second look, a plan after the plan. */
static void a_restore_out_of_order_is_undone(void **state)
{
	static const enum frame_type bad[] = { FRAME_COMMIT, FRAME_STAGE,
					       FRAME_PLAN, FRAME_INDEX };
	struct serve s;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		stage(&s);
		command(&s, bad[i], "\0", 1);
		expect_fail(&s, SC_EPROTO);
		assert_int_equal(answer(&s), 0);
		assert_int_equal(serve_end(&s), 1);
		assert_wrecked(&s);
		serve_clear(&s);
	}
}

static void undo_of_nothing_is_fine(void **state)
{
	struct serve s;

	(void)state;
	serve_open(&s);
	command(&s, FRAME_UNDO, NULL, 0);
	expect(&s, FRAME_OK);
	say_bye(&s);
	serve_clear(&s);
}

static void broken_indexes_fail_the_plan(void **state)
{
	static unsigned char garbage[5000];
	struct serve s;

	(void)state;
	for (size_t i = 0; i < sizeof(garbage); i++)
		garbage[i] = (unsigned char)(i * 197 + i / 7);
	for (int how = 0; how < 4; how++) {
		serve_open(&s);
		if (how == 1)
			say(&s, FRAME_INDEX, 0, garbage, sizeof(garbage));
		/* how 3: none at all was announced or sent */
		if (how == 2)
			command(&s, FRAME_PLAN, NULL, 0);
		else
			send_plan(&s, how == 1	 ? sizeof(garbage)
				      : how == 3 ? 0
						 : UINT64_MAX);
		expect_fail(&s, how & 1 ? SC_ECORRUPT : SC_EPROTO);
		command(&s, FRAME_UNDO, NULL, 0);
		expect(&s, FRAME_OK);
		say_bye(&s);
		serve_clear(&s);
	}
}

static void noise_ends_it(void **state)
{
	(void)state;
	for (unsigned seed = 1; seed < 30; seed++) {
		unsigned char p[600];
		struct serve s;
		unsigned r = seed;

		for (size_t i = 0; i < sizeof(p); i++) {
			r = r * 1664525 + 1013904223;
			p[i] = (unsigned char)(r >> 24);
		}
		/* Every other time a likely header. */
		if (seed & 1) {
			memset(p, 0, 8);
			p[0] = (unsigned char)seed;
			p[4] = (unsigned char)(seed / 2);
		}
		serve_open(&s);
		assert_int_equal(write(s.fd, p, sizeof(p)), sizeof(p));
		shutdown(s.fd, SHUT_WR);
		while (answer(&s))
			continue;
		assert_in_range(serve_end(&s), 0, 1);
		serve_clear(&s);
	}
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(scans),
		cmocka_unit_test(restores),
		cmocka_unit_test(undoes),
		cmocka_unit_test(bye_undoes),
		cmocka_unit_test(the_end_undoes),
		cmocka_unit_test(the_end_in_the_middle_of_stage_undoes),
		cmocka_unit_test(abort_in_the_middle_of_stage),
		cmocka_unit_test(a_damaged_segment_fails),
		cmocka_unit_test(segments_out_of_order_fail),
		cmocka_unit_test(segments_of_nothing_fail),
		cmocka_unit_test(a_stage_that_was_changed_is_not_committed),
		cmocka_unit_test(abort_of_a_take_ends_only_the_take),
		cmocka_unit_test(the_end_of_the_stream_ends_a_take),
		cmocka_unit_test(wrong_hellos_end_it),
		cmocka_unit_test(wrong_volumes_end_it),
		cmocka_unit_test(commands_out_of_turn_end_it),
		cmocka_unit_test(a_restore_out_of_order_is_undone),
		cmocka_unit_test(undo_of_nothing_is_fine),
		cmocka_unit_test(broken_indexes_fail_the_plan),
		cmocka_unit_test(noise_ends_it),
	};
	ssize_t n = readlink("/proc/self/exe", program, sizeof(program) - 64);
	char *unit;

	/* BUILD/tests/unit/helper/test_serve → BUILD/tests/tools/… */
	program[n > 0 ? n : 0] = 0;
	unit = strstr(program, "/unit/helper/");
	if (!unit)
		return 1;
	snprintf(unit, sizeof(program) - (size_t)(unit - program), "%s",
		 "/tools/snapctl-helper");
	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
