/* SPDX-License-Identifier: MIT */
/* The conversation, against helpers that do it right, wrong, or stop in the
 * middle; over both transports. */
#include "fake_docker.h"

#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/stat.h>

#include <snapctl/helper/session.h>

static struct sc_err e;

#define OK(call)                                          \
	do {                                              \
		if ((call) < 0)                           \
			fail_msg("%s: %s", #call, e.msg); \
	} while (0)

#define FAILS(call, code_)                                                 \
	do {                                                               \
		assert_int_equal((call), -1);                              \
		if (e.code != (code_))                                     \
			fail_msg("%s: code %d, not %s: %s", #call, e.code, \
				 #code_, e.msg);                           \
	} while (0)

static void says(const char *what)
{
	if (!strstr(e.msg, what))
		fail_msg("\"%s\" does not say \"%s\"", e.msg, what);
}

/* A test's engine, session and what it collected. */
struct talk {
	struct docker d;
	struct session *s;
	struct session_volume v[4];
	struct session_options o;
	struct notes notes;
	struct cancel cancel;
	unsigned progress;
	uint64_t last_bytes;
};

static void on_progress(void *arg, unsigned volume, uint64_t bytes,
			uint64_t files)
{
	struct talk *t = arg;

	(void)files;
	assert_int_equal(volume, 1);
	t->progress++;
	t->last_bytes = bytes;
}

static void talk_init(struct talk *t, void (*run)(struct peer *p))
{
	static const char binary[] = "helper";

	memset(t, 0, sizeof(*t));
	fake_init(&t->d);
	t->d.run = run;
	t->d.arg = t;
	notes_init(&t->notes);
	OK(cancel_init(&t->cancel, &e));
	t->v[0] = (struct session_volume){ .volume = "db" };
	t->v[1] = (struct session_volume){ .bind = "/srv/data",
					   .leave_out = "repo" };
	t->v[2] = (struct session_volume){ .volume = "shm", .held = true };
	t->o = (struct session_options){
		.stack = "shop",
		.command = "create",
		.volumes = t->v,
		.nvolumes = 3,
		.threads = 2,
		.level = 3,
		.chunk_avg = 65536,
		.binary = binary,
		.binary_len = sizeof(binary),
		.notes = &t->notes,
		.cancel = &t->cancel,
		.progress = on_progress,
		.progress_arg = t,
	};
	signal(SIGPIPE, SIG_IGN);
}

static int talk_open(struct talk *t)
{
	return session_open(&t->d, &t->o, &t->s, &e);
}

/* Closed, nothing remains of it. */
static void talk_done(struct talk *t)
{
	session_close(t->s);
	assert_int_equal(t->d.shield, 0);
	assert_false(t->d.exists);
	fake_done(&t->d);
	notes_free(&t->notes);
	cancel_close(&t->cancel);
}

static void start(struct talk *t, void (*run)(struct peer *p))
{
	talk_init(t, run);
	OK(talk_open(t));
}

/* -- opening -------------------------------------------------------------- */

static void only_greets(struct peer *p)
{
	peer_greet(p, 2);
	MUST(peer_until_end(p));
}

static json_t *mount_at(struct talk *t, size_t i)
{
	return json_array_get(
		json_object_get(json_object_get(t->d.config, "HostConfig"),
				"Mounts"),
		i);
}

static const char *of(json_t *o, const char *key)
{
	return json_string_value(json_object_get(o, key));
}

static void opens_by_socket(void **state)
{
	json_t *host;
	struct talk t;

	(void)state;
	start(&t, only_greets);
	assert_string_equal(session_transport_name(t.s), "socket");
	assert_string_equal(session_container(t.s), "c0ffee");
	assert_string_equal(session_uid_map(t.s), "0 0 4294967295\n");
	assert_string_equal(t.d.name, "snapctl-shop");
	host = json_object_get(t.d.config, "HostConfig");
	assert_string_equal(of(host, "NetworkMode"), "none");
	assert_string_equal(of(host, "UsernsMode"), "host");
	assert_true(json_is_true(json_object_get(host, "ReadonlyRootfs")));
	assert_int_equal(json_array_size(json_object_get(host, "CapAdd")), 1);
	assert_string_equal(of(json_object_get(host, "LogConfig"), "Type"),
			    "none");
	assert_string_equal(of(mount_at(&t, 0), "Source"), "db");
	assert_string_equal(of(mount_at(&t, 0), "Target"), "/v/0");
	assert_true(json_is_true(json_object_get(
		json_object_get(mount_at(&t, 0), "VolumeOptions"), "NoCopy")));
	assert_string_equal(of(mount_at(&t, 1), "Type"), "bind");
	assert_string_equal(of(mount_at(&t, 1), "Source"), "/srv/data");
	for (size_t i = 0; i < 4; i++)
		assert_true(json_is_true(
			json_object_get(mount_at(&t, i), "ReadOnly")));
	assert_false(json_is_true(json_object_get(t.d.config, "OpenStdin")));
	talk_done(&t);
	assert_int_equal(t.notes.warnings, 0);
}

static void restore_mounts_what_it_takes_writable(void **state)
{
	struct talk t;

	(void)state;
	talk_init(&t, only_greets);
	t.o.write = true;
	OK(talk_open(&t));
	assert_true(
		json_is_false(json_object_get(mount_at(&t, 0), "ReadOnly")));
	assert_true(
		json_is_false(json_object_get(mount_at(&t, 1), "ReadOnly")));
	/* Only held. */
	assert_true(json_is_true(json_object_get(mount_at(&t, 2), "ReadOnly")));
	assert_int_equal(
		json_array_size(json_object_get(
			json_object_get(t.d.config, "HostConfig"), "CapAdd")),
		8);
	talk_done(&t);
	/* It was waited for, not killed. */
	assert_int_equal(t.d.waits, 1);
	assert_int_equal(t.d.killed, 0);
}

static void opens_by_attach(void **state)
{
	struct talk t;

	(void)state;
	talk_init(&t, only_greets);
	t.o.transport = TRANSPORT_ATTACH;
	OK(talk_open(&t));
	assert_string_equal(session_transport_name(t.s), "attach");
	assert_true(json_is_true(json_object_get(t.d.config, "OpenStdin")));
	assert_true(json_is_true(json_object_get(t.d.config, "StdinOnce")));
	assert_int_equal(
		json_array_size(json_object_get(
			json_object_get(t.d.config, "HostConfig"), "Mounts")),
		3);
	talk_done(&t);
}

/* E6: a new helper by attach, the first one removed. */
static void falls_back_to_attach(void **state)
{
	struct talk t;

	(void)state;
	talk_init(&t, only_greets);
	t.d.no_socket = true;
	OK(talk_open(&t));
	assert_string_equal(session_transport_name(t.s), "attach");
	assert_int_equal(t.d.creates, 2);
	assert_int_equal(t.d.removes, 1);
	talk_done(&t);
	talk_init(&t, only_greets);
	t.d.info.local = false;
	OK(talk_open(&t));
	assert_string_equal(session_transport_name(t.s), "attach");
	assert_int_equal(t.d.creates, 1);
	talk_done(&t);
}

/* The run-time directory of a user who may not write there. */
static void no_private_directory_falls_back(void **state)
{
	char run[] = "/tmp/snapctl-run-XXXXXX", sub[64];
	struct talk t;

	(void)state;
	if (geteuid() != 0)
		skip();
	assert_non_null(mkdtemp(run));
	snprintf(sub, sizeof(sub), "%s/snapctl", run);
	assert_int_equal(mkdir(sub, 0500), 0);
	assert_int_equal(chown(sub, 65534, 65534), 0);
	assert_int_equal(chmod(run, 0755), 0);
	setenv("XDG_RUNTIME_DIR", run, 1);
	talk_init(&t, only_greets);
	assert_int_equal(seteuid(65534), 0);
	OK(talk_open(&t));
	assert_string_equal(session_transport_name(t.s), "attach");
	assert_int_equal(t.d.creates, 1);
	talk_done(&t);
	/* Nor is a directory of somebody else used. */
	assert_int_equal(seteuid(0), 0);
	assert_int_equal(chown(sub, 0, 0), 0);
	assert_int_equal(seteuid(65534), 0);
	talk_init(&t, only_greets);
	t.o.transport = TRANSPORT_SOCKET;
	FAILS(talk_open(&t), SC_EREFUSED);
	says("not a directory of ours");
	talk_done(&t);
	assert_int_equal(seteuid(0), 0);
	unsetenv("XDG_RUNTIME_DIR");
	assert_int_equal(rmdir(sub), 0);
	assert_int_equal(rmdir(run), 0);
}

static void a_forced_socket_does_not_fall_back(void **state)
{
	struct talk t;

	(void)state;
	talk_init(&t, only_greets);
	t.d.no_socket = true;
	t.o.transport = TRANSPORT_SOCKET;
	FAILS(talk_open(&t), SC_EENGINE);
	says("exited with 3");
	talk_done(&t);
	assert_int_equal(t.d.creates, 1);
}

static void a_start_that_fails_leaves_nothing(void **state)
{
	struct talk t;

	(void)state;
	talk_init(&t, only_greets);
	t.d.no_start = true;
	FAILS(talk_open(&t), SC_EENGINE);
	talk_done(&t);
	assert_int_equal(t.d.creates, 2);
	assert_int_equal(t.d.removes, 2);
}

static void wrong_token(struct peer *p)
{
	peer_hello_with(p, FRAME_MAGIC, FRAME_VERSION,
			"00000000000000000000000000000000");
	peer_until_end(p);
}

static void short_token(struct peer *p)
{
	p->token[31] = 0;
	peer_hello_with(p, FRAME_MAGIC, FRAME_VERSION, p->token);
	peer_until_end(p);
}

static void wrong_version(struct peer *p)
{
	peer_hello_with(p, FRAME_MAGIC, FRAME_VERSION + 1, p->token);
	peer_until_end(p);
}

static void wrong_magic(struct peer *p)
{
	peer_hello_with(p, 0x20202020, FRAME_VERSION, p->token);
	peer_until_end(p);
}

static void no_hello(struct peer *p)
{
	peer_send(p, FRAME_ALLREAD, FRAME_NO_VOLUME, NULL, 0);
	peer_until_end(p);
}

static void empty_hello(struct peer *p)
{
	peer_send(p, FRAME_HELLO, FRAME_NO_VOLUME, NULL, 0);
	peer_until_end(p);
}

static void noise(struct peer *p)
{
	MUST(write(p->fd, "HTTP/1.1 400 Bad Request\r\n", 26) == 26);
	peer_until_end(p);
}

static void wrong_greetings_are_refused(void **state)
{
	static const struct {
		void (*run)(struct peer *p);
		const char *says;
	} bad[] = {
		{ wrong_token, "wrong token" },
		{ short_token, "wrong token" },
		{ wrong_version, "another protocol version" },
		{ wrong_magic, "no HELLO" },
		{ no_hello, "ALLREAD" },
		{ empty_hello, "no HELLO" },
		{ noise, "unknown frame" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		struct talk t;

		talk_init(&t, bad[i].run);
		FAILS(talk_open(&t), SC_EPROTO);
		says(bad[i].says);
		talk_done(&t);
	}
}

static void hangs_up(struct peer *p)
{
	p->d->exit_code = 137;
}

static void a_helper_that_hangs_up_is_told_by_its_end(void **state)
{
	struct talk t;

	(void)state;
	talk_init(&t, hangs_up);
	t.o.transport = TRANSPORT_SOCKET;
	FAILS(talk_open(&t), SC_EENGINE);
	says("went away");
	talk_done(&t);
}

/* -- the name as a lock --------------------------------------------------- */

static void hold(struct talk *t, enum docker_state state, const char *command,
		 const char *host, long pid)
{
	static char text[24];

	snprintf(text, sizeof(text), "%ld", pid);
	t->d.taken = "snapctl-shop";
	t->d.held_state = state;
	t->d.held[0] =
		(struct docker_label){ (char *)IMAGE_LABEL, (char *)"1" };
	t->d.held[1] = (struct docker_label){ (char *)"io.snapctl.host",
					      (char *)host };
	t->d.held[2] = (struct docker_label){ (char *)"io.snapctl.pid", text };
	t->d.held[3] = (struct docker_label){ (char *)"io.snapctl.command",
					      (char *)command };
}

static void a_live_holder_is_named(void **state)
{
	char here[256] = "";
	struct talk t;

	(void)state;
	gethostname(here, sizeof(here) - 1);
	talk_init(&t, only_greets);
	hold(&t, DOCKER_RUNNING, "restore", here, (long)getppid());
	FAILS(talk_open(&t), SC_ELOCKED);
	says("stack shop is held by snapctl restore (pid ");
	assert_int_equal(t.d.removes, 0);
	/* One on another machine is not known to be dead. */
	hold(&t, DOCKER_RUNNING, "create", "elsewhere.invalid", 999999999);
	FAILS(talk_open(&t), SC_ELOCKED);
	says("elsewhere.invalid");
	assert_int_equal(t.d.removes, 0);
	/* Nor is a container without our label ever removed. */
	hold(&t, DOCKER_EXITED, "create", here, 999999999);
	t.d.held[0].key = (char *)"other";
	FAILS(talk_open(&t), SC_ELOCKED);
	assert_int_equal(t.d.removes, 0);
	talk_done(&t);
}

static void a_left_over_is_removed(void **state)
{
	char here[256] = "";
	struct talk t;

	(void)state;
	gethostname(here, sizeof(here) - 1);
	talk_init(&t, only_greets);
	hold(&t, DOCKER_RUNNING, "create", here, 999999999);
	OK(talk_open(&t));
	assert_int_equal(t.d.removes, 1);
	assert_int_equal(t.d.waits, 0);
	talk_done(&t);
}

/* It may be in the middle of its commit. */
static void a_left_over_that_writes_is_waited_for(void **state)
{
	char here[256] = "";
	struct talk t;

	(void)state;
	gethostname(here, sizeof(here) - 1);
	talk_init(&t, only_greets);
	hold(&t, DOCKER_RUNNING, "restore", here, 999999999);
	OK(talk_open(&t));
	assert_int_equal(t.d.waits, 1);
	assert_int_equal(t.d.removes, 1);
	talk_done(&t);
}

/* -- scan ----------------------------------------------------------------- */

static void note(struct peer *p, uint64_t kind, const char *text, size_t n)
{
	struct buf b = { 0 };

	buf_varint(&b, kind);
	buf_bytes(&b, text, n);
	peer_send(p, FRAME_NOTE, FRAME_NO_VOLUME, b.p, b.len);
	buf_free(&b);
}

static void scans(struct peer *p)
{
	static const uint64_t a[] = { 10, 8, 4096, 0 }, b[] = { 3, 2, 7, 1 };
	static const uint64_t at[] = { 100, 2 };

	peer_greet(p, 2);
	peer_command(p, FRAME_SCAN);
	peer_numbers(p, FRAME_SCANNED, 0, a, 4);
	note(p, NOTE_WARN, "a\\x1b[0m", 8);
	peer_numbers(p, FRAME_PROGRESS, 1, at, 2);
	peer_numbers(p, FRAME_PROGRESS, 9, at, 2); /* no such: passed over */
	peer_numbers(p, FRAME_SCANNED, 1, b, 4);
	peer_ok(p, 0, 0);
	MUST(peer_until_end(p));
}

static void a_scan_gives_totals(void **state)
{
	struct frame_scanned out[2];
	struct talk t;

	(void)state;
	start(&t, scans);
	OK(session_scan(t.s, out, &e));
	assert_int_equal(out[0].entries, 10);
	assert_int_equal(out[0].bytes, 4096);
	assert_int_equal(out[1].files, 2);
	assert_int_equal(out[1].vanished, 1);
	assert_int_equal(t.notes.n, 1);
	assert_int_equal(t.notes.warnings, 1);
	assert_string_equal(t.notes.v[0].text, "a\\x1b[0m");
	assert_int_equal(t.progress, 1);
	assert_int_equal(t.last_bytes, 100);
	talk_done(&t);
}

static const uint64_t four[] = { 1, 1, 1, 1 };

static void scan_frames_lost(struct peer *p)
{
	peer_numbers(p, FRAME_SCANNED, 0, four, 4);
	peer_numbers(p, FRAME_SCANNED, 1, four, 4);
	peer_ok(p, 1, 0);
}

static void scan_bytes_lost(struct peer *p)
{
	peer_numbers(p, FRAME_SCANNED, 0, four, 4);
	peer_numbers(p, FRAME_SCANNED, 1, four, 4);
	peer_ok(p, 0, 1);
}

static void scan_wrong_order(struct peer *p)
{
	peer_numbers(p, FRAME_SCANNED, 1, four, 4);
}

static void scan_no_volume(struct peer *p)
{
	peer_numbers(p, FRAME_SCANNED, 0, four, 4);
	peer_numbers(p, FRAME_SCANNED, 1, four, 4);
	peer_numbers(p, FRAME_SCANNED, 2, four, 4); /* only held */
}

static void scan_too_few(struct peer *p)
{
	peer_numbers(p, FRAME_SCANNED, 0, four, 4);
	peer_ok(p, 0, 0);
}

static void scan_out_of_turn(struct peer *p)
{
	peer_numbers(p, FRAME_SCANNED, 0, four, 4);
	peer_send(p, FRAME_SEGMENT, 0, "\1\0\0\0x", 5);
}

static void scan_of_our_own(struct peer *p)
{
	peer_send(p, FRAME_COMMIT, FRAME_NO_VOLUME, NULL, 0);
}

static void scan_short(struct peer *p)
{
	peer_numbers(p, FRAME_SCANNED, 0, four, 3);
}

static void note_control(struct peer *p)
{
	note(p, NOTE_INFO, "a\033[2J", 5);
}

static void note_nul(struct peer *p)
{
	note(p, NOTE_INFO, "a\0b", 3);
}

static void note_kind(struct peer *p)
{
	note(p, NOTE_WARN + 1, "a", 1);
}

static void note_empty(struct peer *p)
{
	peer_send(p, FRAME_NOTE, 0, NULL, 0);
}

static void progress_short(struct peer *p)
{
	peer_numbers(p, FRAME_PROGRESS, 0, four, 1);
}

static void ok_short(struct peer *p)
{
	peer_numbers(p, FRAME_OK, 0, four, 1);
}

static void fail_broken(struct peer *p)
{
	peer_send(p, FRAME_FAIL, 0, "\0", 1);
}

static void (*scan_part)(struct peer *p);

static void scans_badly(struct peer *p)
{
	peer_greet(p, 2);
	peer_command(p, FRAME_SCAN);
	scan_part(p);
	/* Nothing more is said to one that broke the protocol. */
	MUST(!peer_until_end(p));
}

static void broken_scans_are_refused(void **state)
{
	static void (*const bad[])(struct peer *) = {
		scan_frames_lost, scan_bytes_lost, scan_wrong_order,
		scan_no_volume,	  scan_too_few,	   scan_out_of_turn,
		scan_of_our_own,  scan_short,	   note_control,
		note_nul,	  note_kind,	   note_empty,
		progress_short,	  ok_short,	   fail_broken,
	};
	struct frame_scanned out[2];

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		struct talk t;

		scan_part = bad[i];
		start(&t, scans_badly);
		FAILS(session_scan(t.s, out, &e), SC_EPROTO);
		/* Over is over. */
		FAILS(session_scan(t.s, out, &e), SC_EPROTO);
		says("over");
		assert_int_equal(t.notes.n, 0);
		talk_done(&t);
	}
}

static void fails_then_scans(struct peer *p)
{
	struct sc_err cause = { .code = SC_ETORN,
				.sys = 5,
				.msg = "something writes" };

	peer_greet(p, 2);
	peer_command(p, FRAME_SCAN);
	MUST(frame_send_fail(&p->f, FRAME_NO_VOLUME, &cause, &p->err) == 0);
	peer_command(p, FRAME_SCAN);
	peer_numbers(p, FRAME_SCANNED, 0, four, 4);
	peer_numbers(p, FRAME_SCANNED, 1, four, 4);
	peer_ok(p, 0, 0);
	MUST(peer_until_end(p));
}

static void a_fail_is_passed_on_and_ends_only_the_command(void **state)
{
	struct frame_scanned out[2];
	struct talk t;

	(void)state;
	start(&t, fails_then_scans);
	FAILS(session_scan(t.s, out, &e), SC_ETORN);
	assert_int_equal(e.sys, 5);
	assert_string_equal(e.msg, "something writes");
	OK(session_scan(t.s, out, &e));
	talk_done(&t);
}

/* What a helper said before it went is heard, though we could not send. */
static void dies_with_a_word(struct peer *p)
{
	struct sc_err cause = { .code = SC_EIO,
				.sys = 2,
				.msg = "open /v/0: no" };

	peer_greet(p, 2);
	MUST(frame_send_fail(&p->f, FRAME_NO_VOLUME, &cause, &p->err) == 0);
	p->d->exit_code = 1;
}

static void last_words_are_heard(void **state)
{
	struct frame_scanned out[2];
	struct talk t;

	(void)state;
	start(&t, dies_with_a_word);
	fake_join(&t.d);
	FAILS(session_scan(t.s, out, &e), SC_EIO);
	assert_string_equal(e.msg, "open /v/0: no");
	talk_done(&t);
}

static void dies_silently(struct peer *p)
{
	peer_greet(p, 2);
	p->d->exit_code = 137;
}

static void a_death_is_told(void **state)
{
	struct frame_scanned out[2];
	struct talk t;

	(void)state;
	start(&t, dies_silently);
	fake_join(&t.d);
	FAILS(session_scan(t.s, out, &e), SC_EENGINE);
	says("killed by signal 9");
	talk_done(&t);
}

static void waits_for_ever(struct peer *p)
{
	struct talk *t = p->d->arg;

	peer_greet(p, 2);
	peer_command(p, FRAME_SCAN);
	cancel_set(&t->cancel, SIGINT);
	MUST(!peer_until_end(p));
}

static void cancel_ends_the_wait(void **state)
{
	struct frame_scanned out[2];
	struct talk t;

	(void)state;
	start(&t, waits_for_ever);
	FAILS(session_scan(t.s, out, &e), SC_EINTR);
	talk_done(&t);
	assert_int_equal(t.d.removes, 1);
}

/* -- take ----------------------------------------------------------------- */

struct sunk {
	char log[512];
	const char *fail_at;
};

static int sink_log(struct sunk *k, const char *what, unsigned volume,
		    uint64_t n, struct sc_err *err)
{
	size_t at = strlen(k->log);

	snprintf(k->log + at, sizeof(k->log) - at, "%s%s%u:%llu", at ? " " : "",
		 what, volume, (unsigned long long)n);
	if (k->fail_at && strcmp(k->fail_at, what) == 0)
		return sc_fail(err, SC_EIO, 28, "disk");
	return 0;
}

static int on_segment(void *arg, unsigned volume, const void *p, size_t n,
		      uint32_t plain, struct sc_err *err)
{
	assert_int_equal(plain, 100 + n);
	assert_memory_equal(p, "stored", n);
	return sink_log(arg, "seg", volume, n, err);
}

static int on_all_read(void *arg, struct sc_err *err)
{
	return sink_log(arg, "all", 0, 0, err);
}

static int on_column(void *arg, unsigned volume, unsigned id, const void *p,
		     size_t n, struct sc_err *err)
{
	(void)p;
	assert_int_equal(id, 513);
	return sink_log(arg, "col", volume, n, err);
}

static int on_end(void *arg, unsigned volume, unsigned id, unsigned codec,
		  uint64_t rows, uint64_t plain, struct sc_err *err)
{
	assert_int_equal(id, 513);
	assert_int_equal(codec, 1);
	assert_int_equal(plain, 4);
	return sink_log(arg, "end", volume, rows, err);
}

static int on_taken(void *arg, unsigned volume, const struct frame_taken *t,
		    struct sc_err *err)
{
	assert_int_equal(t->segments + t->stored, volume ? 0 : 2 + 11);
	assert_int_equal(t->files, 11);
	assert_int_equal(t->unreadable, 7);
	return sink_log(arg, "taken", volume, t->entries, err);
}

static int take(struct talk *t, struct sunk *k)
{
	struct session_sink sink = { on_segment, on_all_read, on_column,
				     on_end,	 on_taken,    k };

	return session_take(t->s, TAKE_LIVE, &sink, &e);
}

/* plain is always 100 more, so that it can be checked */
static void send_segment(struct peer *p, unsigned volume, unsigned n)
{
	struct buf b = { 0 };

	buf_u32(&b, 100 + n);
	buf_put(&b, "stored", n);
	peer_send(p, FRAME_SEGMENT, volume, b.p, b.len);
	buf_free(&b);
}

static void send_column(struct peer *p, unsigned volume)
{
	static const uint64_t end[] = { 513, 1, 9, 4 };

	peer_send(p, FRAME_COLUMN, volume, "\1\2abcd", 6);
	peer_numbers(p, FRAME_COLEND, volume, end, 4);
}

static void send_taken(struct peer *p, unsigned volume, uint64_t segments,
		       uint64_t stored, uint64_t pieces)
{
	uint64_t v[] = { 40, 5, 6, segments, stored, pieces, 7, 8, 9, 10, 11 };

	peer_numbers(p, FRAME_TAKEN, volume, v, 11);
}

static void send_allread(struct peer *p)
{
	peer_send(p, FRAME_ALLREAD, FRAME_NO_VOLUME, NULL, 0);
}

static void takes(struct peer *p)
{
	uint64_t flags;

	peer_greet(p, 2);
	peer_command(p, FRAME_TAKE);
	MUST(frame_varints(&p->in, &flags, 1, &p->err) == 0);
	MUST(flags == TAKE_LIVE);
	send_segment(p, 0, 6);
	send_allread(p);
	send_segment(p, 0, 5);
	send_column(p, 0);
	send_taken(p, 0, 2, 11, 1);
	send_column(p, 1);
	send_taken(p, 1, 0, 0, 1);
	peer_ok(p, 0, 0);
	MUST(peer_until_end(p));
}

static void a_take_fills_the_sink_in_order(void **state)
{
	struct sunk k = { 0 };
	struct talk t;

	(void)state;
	start(&t, takes);
	OK(take(&t, &k));
	assert_string_equal(k.log, "seg0:6 all0:0 seg0:5 col0:4 end0:9 "
				   "taken0:40 col1:4 end1:9 taken1:40");
	talk_done(&t);
}

static void take_lost_segment(struct peer *p)
{
	send_segment(p, 0, 6);
	send_allread(p);
	send_taken(p, 0, 2, 11, 0);
}

static void take_lost_bytes(struct peer *p)
{
	send_segment(p, 0, 6);
	send_segment(p, 0, 4);
	send_allread(p);
	send_taken(p, 0, 2, 11, 0);
}

static void take_lost_piece(struct peer *p)
{
	send_allread(p);
	send_column(p, 0);
	send_taken(p, 0, 0, 0, 2);
}

static void take_early_taken(struct peer *p)
{
	send_taken(p, 0, 0, 0, 0);
}

static void take_wrong_turn(struct peer *p)
{
	send_allread(p);
	send_taken(p, 1, 0, 0, 0);
}

static void take_after_taken(struct peer *p)
{
	send_segment(p, 0, 6);
	send_segment(p, 0, 5);
	send_allread(p);
	send_taken(p, 0, 2, 11, 0);
	send_segment(p, 0, 6);
}

static void take_all_twice(struct peer *p)
{
	send_allread(p);
	send_allread(p);
}

static void take_no_volume(struct peer *p)
{
	send_segment(p, 2, 6);
}

static void take_short_segment(struct peer *p)
{
	peer_send(p, FRAME_SEGMENT, 0, "\1\0\0", 3);
}

static void take_empty_segment(struct peer *p)
{
	peer_send(p, FRAME_SEGMENT, 0, "\1\0\0\0", 4);
}

static void take_plain_zero(struct peer *p)
{
	peer_send(p, FRAME_SEGMENT, 0, "\0\0\0\0x", 5);
}

static void take_plain_huge(struct peer *p)
{
	peer_send(p, FRAME_SEGMENT, 0, "\xff\xff\xff\xffx", 5);
}

static void take_short_column(struct peer *p)
{
	peer_send(p, FRAME_COLUMN, 0, "\1", 1);
}

static void take_colend_id(struct peer *p)
{
	static const uint64_t v[] = { 65536, 1, 1, 1 };

	peer_numbers(p, FRAME_COLEND, 0, v, 4);
}

static void take_colend_codec(struct peer *p)
{
	static const uint64_t v[] = { 1, 256, 1, 1 };

	peer_numbers(p, FRAME_COLEND, 0, v, 4);
}

static void take_taken_short(struct peer *p)
{
	send_allread(p);
	peer_numbers(p, FRAME_TAKEN, 0, four, 4);
}

static void take_ok_early(struct peer *p)
{
	send_allread(p);
	peer_ok(p, 0, 0);
}

static void take_need(struct peer *p)
{
	peer_send(p, FRAME_NEED, 0, "\0\0\0\0", 4);
}

static void (*take_part)(struct peer *p);

static void takes_badly(struct peer *p)
{
	peer_greet(p, 2);
	peer_command(p, FRAME_TAKE);
	take_part(p);
	MUST(!peer_until_end(p));
}

static void broken_takes_are_refused(void **state)
{
	static void (*const bad[])(struct peer *) = {
		take_lost_segment,  take_lost_bytes, take_lost_piece,
		take_early_taken,   take_wrong_turn, take_after_taken,
		take_all_twice,	    take_no_volume,  take_short_segment,
		take_empty_segment, take_plain_zero, take_plain_huge,
		take_short_column,  take_colend_id,  take_colend_codec,
		take_taken_short,   take_ok_early,   take_need,
	};

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		struct sunk k = { 0 };
		struct talk t;

		take_part = bad[i];
		start(&t, takes_badly);
		FAILS(take(&t, &k), SC_EPROTO);
		talk_done(&t);
	}
}

static void take_cut(struct peer *p)
{
	unsigned char half[12] = { 100, 0, 0, 0, FRAME_SEGMENT, 0, 0, 0, 9 };

	peer_greet(p, 2);
	peer_command(p, FRAME_TAKE);
	send_segment(p, 0, 6);
	MUST(write(p->fd, half, sizeof(half)) == sizeof(half));
	p->d->exit_code = 137;
}

static void an_end_in_the_middle_is_no_success(void **state)
{
	struct sunk k = { 0 };
	struct talk t;

	(void)state;
	start(&t, take_cut);
	FAILS(take(&t, &k), SC_EPROTO);
	says("within a frame");
	assert_string_equal(k.log, "seg0:6");
	talk_done(&t);
}

static void take_for_ever(struct peer *p)
{
	struct sc_err err;

	peer_greet(p, 2);
	peer_command(p, FRAME_TAKE);
	while (frame_send(&p->f, FRAME_SEGMENT, 0, "\152\0\0\0", 4, "stored", 6,
			  &err) == 0)
		continue;
}

static void a_sink_that_fails_ends_it(void **state)
{
	struct sunk k = { .fail_at = "seg" };
	struct talk t;

	(void)state;
	start(&t, take_for_ever);
	FAILS(take(&t, &k), SC_EIO);
	assert_int_equal(e.sys, 28);
	/* The stream was cut: the helper ends by itself. */
	fake_join(&t.d);
	talk_done(&t);
}

/* -- restore -------------------------------------------------------------- */

#define PIECES (3 * FRAME_PIECE + 17)

static void plans(struct peer *p)
{
	static const uint64_t planned[] = { 1, 2, 3, 4, 5, 6, 7, 8 };
	uint64_t len[2], got = 0;

	peer_greet(p, 2);
	while (got < PIECES) {
		peer_expect(p, FRAME_INDEX);
		MUST(p->in.volume == 1 && p->in.payload.p[0] == 0xab);
		got += p->in.payload.len;
	}
	MUST(got == PIECES);
	peer_command(p, FRAME_PLAN);
	MUST(frame_varints(&p->in, len, 2, &p->err) == 0);
	MUST(len[0] == 0 && len[1] == PIECES);
	peer_numbers(p, FRAME_PLANNED, 0, planned, 8);
	peer_numbers(p, FRAME_PLANNED, 1, planned, 8);
	peer_ok(p, 0, 0);
}

static void plans_only(struct peer *p)
{
	plans(p);
	MUST(peer_until_end(p));
}

static void start_plan_by(struct talk *t, void (*run)(struct peer *p),
			  enum session_transport way)
{
	uint64_t lengths[2] = { 0, PIECES };
	struct frame_planned out[2];
	unsigned char *index = malloc(PIECES);

	talk_init(t, run);
	t->o.write = true;
	t->o.transport = way;
	t->o.command = "restore";
	OK(talk_open(t));
	assert_non_null(index);
	memset(index, 0xab, PIECES);
	OK(session_index(t->s, 1, index, PIECES, &e));
	free(index);
	OK(session_plan(t->s, lengths, out, &e));
	assert_int_equal(out[1].stage_files, 1);
	assert_int_equal(out[1].kept, 8);
}

static void start_plan(struct talk *t, void (*run)(struct peer *p))
{
	start_plan_by(t, run, TRANSPORT_AUTO);
}

static void an_index_goes_over_in_pieces(void **state)
{
	struct talk t;

	(void)state;
	start_plan(&t, plans_only);
	talk_done(&t);
}

static void need(struct peer *p, unsigned volume, const uint32_t *v, size_t n)
{
	struct buf b = { 0 };

	for (size_t i = 0; i < n; i++)
		buf_u32(&b, v[i]);
	peer_send(p, FRAME_NEED, volume, b.p, b.len);
	buf_free(&b);
}

static void need_end(struct peer *p)
{
	peer_send(p, FRAME_NEED, FRAME_NO_VOLUME, NULL, 0);
}

/* What get puts: volume, segment, then filling. */
struct giving {
	unsigned given;
	size_t fill;
	int fail_at; /* -1: never */
	enum sc_code code;
	struct talk *t;
};

static int give(void *arg, unsigned volume, uint32_t segment, struct buf *out,
		struct sc_err *err)
{
	struct giving *g = arg;

	assert_int_equal(out->len, 0);
	if (g->fail_at >= 0 && (int)g->given == g->fail_at)
		return sc_fail(err, g->code, 0, "pack is gone");
	g->given++;
	buf_u32(out, volume);
	buf_u32(out, segment);
	buf_zero(out, g->fill);
	return 0;
}

static void expect_segment(struct peer *p, unsigned volume, uint32_t segment)
{
	struct cur c;

	peer_expect(p, FRAME_SEGMENT);
	c = cur_of(p->in.payload.p, p->in.payload.len);
	MUST(p->in.volume == volume);
	MUST(cur_u32(&c) == volume);
	MUST(cur_u32(&c) == segment);
}

static void stages(struct peer *p)
{
	static const uint32_t a[] = { 0, 3 }, b[] = { 9 }, c[] = { 2, 70000 };

	plans(p);
	peer_command(p, FRAME_STAGE);
	need(p, 0, a, 2);
	note(p, NOTE_INFO, "x", 1);
	need(p, 0, b, 1);
	need(p, 1, c, 2);
	need_end(p);
	expect_segment(p, 0, 0);
	expect_segment(p, 0, 3);
	note(p, NOTE_INFO, "y", 1);
	expect_segment(p, 0, 9);
	expect_segment(p, 1, 2);
	expect_segment(p, 1, 70000);
	peer_ok(p, 0, 0);
	peer_command(p, FRAME_RECHECK);
	peer_ok(p, 0, 0);
	peer_command(p, FRAME_COMMIT);
	peer_ok(p, 0, 0);
	MUST(peer_until_end(p));
}

static void segments_go_over_in_order(void **state)
{
	struct giving g = { .fail_at = -1 };
	struct talk t;

	(void)state;
	start_plan(&t, stages);
	OK(session_stage(t.s, give, &g, &e));
	assert_int_equal(g.given, 5);
	assert_int_equal(t.notes.n, 2);
	OK(session_recheck(t.s, &e));
	/* A ^C does not leave a commit. */
	cancel_set(&t.cancel, SIGINT);
	OK(session_commit(t.s, &e));
	talk_done(&t);
	assert_int_equal(t.d.killed, 0);
}

static void needs_no_volume(struct peer *p)
{
	static const uint32_t v[] = { 1 };

	need(p, 2, v, 1);
}

static void needs_three_bytes(struct peer *p)
{
	peer_send(p, FRAME_NEED, 0, "abc", 3);
}

static void needs_never_end(struct peer *p)
{
	peer_ok(p, 0, 0);
}

static void needs_and_planned(struct peer *p)
{
	peer_numbers(p, FRAME_PLANNED, 0, four, 4);
}

static void (*need_part)(struct peer *p);

static void needs_badly(struct peer *p)
{
	plans(p);
	peer_command(p, FRAME_STAGE);
	need_part(p);
	MUST(!peer_until_end(p));
}

static void broken_needs_are_refused(void **state)
{
	static void (*const bad[])(struct peer *) = {
		needs_no_volume,
		needs_three_bytes,
		needs_never_end,
		needs_and_planned,
	};

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		struct giving g = { .fail_at = -1 };
		struct talk t;

		need_part = bad[i];
		start_plan(&t, needs_badly);
		FAILS(session_stage(t.s, give, &g, &e), SC_EPROTO);
		assert_int_equal(g.given, 0);
		/* It undoes by itself and is waited for. */
		OK(session_undo(t.s, &e));
		talk_done(&t);
		assert_int_equal(t.d.killed, 0);
	}
}

#define MANY 1000

static void need_many(struct peer *p)
{
	uint32_t v[MANY];

	for (uint32_t i = 0; i < MANY; i++)
		v[i] = i;
	plans(p);
	peer_command(p, FRAME_STAGE);
	need(p, 0, v, MANY);
	need_end(p);
}

static void undoes(struct peer *p)
{
	peer_command(p, FRAME_UNDO);
	peer_ok(p, 0, 0);
	MUST(peer_until_end(p));
}

/* As the helper does: FAIL, then throw away until ABORT. */
static void fails_in_the_middle(struct peer *p)
{
	struct sc_err cause = { .code = SC_ECORRUPT, .msg = "chunk 7" };

	need_many(p);
	for (uint32_t i = 0; i < 100; i++)
		expect_segment(p, 0, i);
	MUST(frame_send_fail(&p->f, FRAME_NO_VOLUME, &cause, &p->err) == 0);
	do
		MUST(frame_recv(&p->f, &p->in, &p->err) == 1);
	while (p->in.type == FRAME_SEGMENT);
	MUST(p->in.type == FRAME_ABORT);
	undoes(p);
}

static void a_fail_while_sending_does_not_deadlock(void **state)
{
	static const enum session_transport ways[] = { TRANSPORT_SOCKET,
						       TRANSPORT_ATTACH };

	(void)state;
	for (int i = 0; i < 2; i++) {
		struct giving g = { .fail_at = -1, .fill = 100000 };
		struct talk t;

		start_plan_by(&t, fails_in_the_middle, ways[i]);
		FAILS(session_stage(t.s, give, &g, &e), SC_ECORRUPT);
		assert_string_equal(e.msg, "chunk 7");
		assert_in_range(g.given, 100, MANY);
		OK(session_undo(t.s, &e));
		talk_done(&t);
		assert_int_equal(t.d.killed, 0);
	}
}

static void takes_an_abort(struct peer *p)
{
	struct sc_err cause = { .code = SC_EINTR, .msg = "asked to stop" };

	need_many(p);
	for (uint32_t i = 0; i < 100; i++)
		expect_segment(p, 0, i);
	peer_expect(p, FRAME_ABORT);
	MUST(p->in.payload.len == 13);
	MUST(memcmp(p->in.payload.p, "\14pack is gone", 13) == 0);
	MUST(frame_send_fail(&p->f, FRAME_NO_VOLUME, &cause, &p->err) == 0);
	undoes(p);
}

/* Whatever kind of failure it was, it is what is reported. */
static void our_failure_aborts_and_is_reported(void **state)
{
	static const enum sc_code codes[] = { SC_ECORRUPT, SC_EIO, SC_ENOMEM };

	(void)state;
	for (size_t i = 0; i < sizeof(codes) / sizeof(*codes); i++) {
		struct giving g = { .fail_at = 100, .code = codes[i] };
		struct talk t;

		start_plan(&t, takes_an_abort);
		FAILS(session_stage(t.s, give, &g, &e), codes[i]);
		assert_string_equal(e.msg, "pack is gone");
		OK(session_undo(t.s, &e));
		talk_done(&t);
	}
}

static void reads_no_more(struct peer *p)
{
	struct talk *t = p->d->arg;

	need_many(p);
	for (uint32_t i = 0; i < 10; i++)
		expect_segment(p, 0, i);
	cancel_set(&t->cancel, SIGTERM);
	MUST(!peer_until_end(p));
	p->d->exit_code = 1; /* its stage is undone */
}

/* A ^C cuts a frame in two: the helper undoes at the end of the stream, and
 * the container is not removed before. */
static void cancel_while_sending_undoes(void **state)
{
	struct giving g = { .fail_at = -1, .fill = 1 << 20 };
	struct talk t;

	(void)state;
	start_plan(&t, reads_no_more);
	FAILS(session_stage(t.s, give, &g, &e), SC_EINTR);
	OK(session_undo(t.s, &e));
	assert_int_equal(t.d.waits, 1);
	talk_done(&t);
	assert_int_equal(t.d.waits, 1);
	assert_int_equal(t.d.killed, 0);
}

static void leaves_its_stage(struct peer *p)
{
	reads_no_more(p);
	p->d->exit_code = FRAME_EXIT_LEFT;
}

static void a_stage_that_stays_is_told(void **state)
{
	struct giving g = { .fail_at = -1, .fill = 1 << 20 };
	struct talk t;

	(void)state;
	start_plan(&t, leaves_its_stage);
	FAILS(session_stage(t.s, give, &g, &e), SC_EINTR);
	FAILS(session_undo(t.s, &e), SC_EENGINE);
	says("stage");
	talk_done(&t);
}

static void dies_in_the_middle(struct peer *p)
{
	need_many(p);
	expect_segment(p, 0, 0);
	p->d->exit_code = 137;
}

static void a_death_while_sending_is_told(void **state)
{
	struct giving g = { .fail_at = -1, .fill = 1 << 20 };
	struct talk t;

	(void)state;
	start_plan(&t, dies_in_the_middle);
	FAILS(session_stage(t.s, give, &g, &e), SC_EENGINE);
	says("went away");
	FAILS(session_undo(t.s, &e), SC_EENGINE);
	talk_done(&t);
}

static void commits_slowly(struct peer *p)
{
	static const uint32_t v[] = { 0 };

	plans(p);
	peer_command(p, FRAME_STAGE);
	need(p, 0, v, 1);
	need_end(p);
	expect_segment(p, 0, 0);
	peer_ok(p, 0, 0);
	peer_command(p, FRAME_COMMIT);
	/* The connection breaks; the commit goes on until it is done. */
	shutdown(p->fd, SHUT_WR);
	MUST(!peer_until_end(p));
}

static void a_commit_that_lost_its_connection_is_not_killed(void **state)
{
	struct giving g = { .fail_at = -1 };
	struct talk t;

	(void)state;
	start_plan(&t, commits_slowly);
	OK(session_stage(t.s, give, &g, &e));
	FAILS(session_commit(t.s, &e), SC_EENGINE);
	talk_done(&t);
	assert_int_equal(t.d.waits, 1);
	assert_int_equal(t.d.killed, 0);
}

static void a_container_that_stays_is_a_warning(void **state)
{
	struct talk t;

	(void)state;
	start(&t, only_greets);
	t.d.no_remove = true;
	session_close(t.s);
	t.s = NULL;
	assert_int_equal(t.notes.warnings, 1);
	assert_non_null(strstr(t.notes.v[0].text, "remains"));
	t.d.exists = false;
	talk_done(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(opens_by_socket),
		cmocka_unit_test(restore_mounts_what_it_takes_writable),
		cmocka_unit_test(opens_by_attach),
		cmocka_unit_test(falls_back_to_attach),
		cmocka_unit_test(no_private_directory_falls_back),
		cmocka_unit_test(a_forced_socket_does_not_fall_back),
		cmocka_unit_test(a_start_that_fails_leaves_nothing),
		cmocka_unit_test(wrong_greetings_are_refused),
		cmocka_unit_test(a_helper_that_hangs_up_is_told_by_its_end),
		cmocka_unit_test(a_live_holder_is_named),
		cmocka_unit_test(a_left_over_is_removed),
		cmocka_unit_test(a_left_over_that_writes_is_waited_for),
		cmocka_unit_test(a_scan_gives_totals),
		cmocka_unit_test(broken_scans_are_refused),
		cmocka_unit_test(a_fail_is_passed_on_and_ends_only_the_command),
		cmocka_unit_test(last_words_are_heard),
		cmocka_unit_test(a_death_is_told),
		cmocka_unit_test(cancel_ends_the_wait),
		cmocka_unit_test(a_take_fills_the_sink_in_order),
		cmocka_unit_test(broken_takes_are_refused),
		cmocka_unit_test(an_end_in_the_middle_is_no_success),
		cmocka_unit_test(a_sink_that_fails_ends_it),
		cmocka_unit_test(an_index_goes_over_in_pieces),
		cmocka_unit_test(segments_go_over_in_order),
		cmocka_unit_test(broken_needs_are_refused),
		cmocka_unit_test(a_fail_while_sending_does_not_deadlock),
		cmocka_unit_test(our_failure_aborts_and_is_reported),
		cmocka_unit_test(cancel_while_sending_undoes),
		cmocka_unit_test(a_stage_that_stays_is_told),
		cmocka_unit_test(a_death_while_sending_is_told),
		cmocka_unit_test(
			a_commit_that_lost_its_connection_is_not_killed),
		cmocka_unit_test(a_container_that_stays_is_a_warning),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
