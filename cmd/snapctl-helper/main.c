/* SPDX-License-Identifier: MIT */
#include "helper.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <snapctl/archive/chunker.h>
#include <snapctl/base/group.h>
#include <snapctl/base/io.h>
#include <snapctl/base/mem.h>

#define EXIT_UNREACHABLE 3
#define VOLUMES_MAX	 60000
#define THREADS_MAX	 256

/* -- the stream ----------------------------------------------------------- */

static int connect_socket(const char *path)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || strlen(path) >= sizeof(sa.sun_path))
		return -1;
	memcpy(sa.sun_path, path, strlen(path) + 1);
	if (connect(fd, (struct sockaddr *)&sa, sizeof(sa)) == 0)
		return fd;
	(void)close(fd);
	return -1;
}

static int open_stream(struct channel_fds *f, struct sc_err *err)
{
	const char *path = getenv("SNAPCTL_SOCKET");

	if (path) {
		f->in = f->out = connect_socket(path);
		if (f->in < 0)
			return sc_fail(err, SC_EIO, errno, "connect to %s",
				       path);
		return 0;
	}
	f->in = STDIN_FILENO;
	f->out = STDOUT_FILENO;
	return 0;
}

/* -- greeting ------------------------------------------------------------- */

static int send_hello(struct helper *h, struct sc_err *err)
{
	auto_buf struct buf b = { 0 };
	auto_close int fd = open("/proc/self/uid_map", O_RDONLY | O_CLOEXEC);
	const char *token = getenv("SNAPCTL_TOKEN");
	char text[FRAME_UID_MAP_MAX];
	ssize_t n;

	if (fd < 0)
		return sc_fail(err, SC_EIO, errno, "open /proc/self/uid_map");
	n = io_read_some(fd, text, sizeof(text), "/proc/self/uid_map", err);
	if (n < 0)
		return -1;
	buf_u32(&b, FRAME_MAGIC);
	buf_varint(&b, FRAME_VERSION);
	buf_varint(&b, 0);
	buf_str(&b, token ? token : "");
	buf_bytes(&b, text, (size_t)n);
	if (b.failed)
		return sc_oom(err, "frame");
	return frame_send(&h->frames, FRAME_HELLO, FRAME_NO_VOLUME, NULL, 0,
			  b.p, b.len, err);
}

static int receive(struct helper *h, struct sc_err *err)
{
	int rc = frame_recv(&h->frames, &h->in, err);

	if (rc <= 0)
		h->ended = true;
	return rc;
}

static int take_hello(struct helper *h, struct sc_err *err)
{
	struct cur c;
	uint32_t magic;
	uint64_t version, threads, avg, flags;
	int64_t level;

	if (receive(h, err) <= 0 || h->in.type != FRAME_HELLO)
		return sc_fail(err, SC_EPROTO, 0, "no HELLO came");
	c = cur_of(h->in.payload.p, h->in.payload.len);
	magic = cur_u32(&c);
	version = cur_varint(&c);
	(void)cur_varint(&c);
	threads = cur_varint(&c);
	level = cur_svarint(&c);
	avg = cur_varint(&c);
	flags = cur_varint(&c);
	if (c.bad || magic != FRAME_MAGIC || version != FRAME_VERSION)
		return sc_fail(err, SC_EPROTO, 0,
			       "snapctl speaks another protocol");
	if (threads > THREADS_MAX || level < -7 || level > 22 ||
	    avg < CHUNK_AVG_DEFAULT || avg > CHUNK_AVG_MAX || avg & (avg - 1))
		return sc_fail(err, SC_EPROTO, 0, "HELLO is out of bounds");
	h->threads = threads ? (unsigned)threads : group_cores();
	h->level = (int)level;
	h->chunk_avg = (uint32_t)avg;
	h->flags = (unsigned)flags;
	return 0;
}

static int take_volume(struct helper *h, struct sc_err *err)
{
	struct cur c = cur_of(h->in.payload.p, h->in.payload.len);
	struct volume *more, *v;

	if (h->phase != PHASE_OPEN || h->in.volume != h->nvolumes ||
	    h->nvolumes >= VOLUMES_MAX)
		return sc_fail(err, SC_EPROTO, 0, "VOLUME out of turn");
	more = reallocarray(h->volumes, h->nvolumes + 1, sizeof(*more));
	if (!more)
		return sc_oom(err, "volumes");
	h->volumes = more;
	v = &more[h->nvolumes];
	*v = (struct volume){ .fd = -1 };
	h->nvolumes++;
	v->path = cur_str(&c, 4096);
	v->leave_out = cur_str(&c, 4096);
	if (c.bad)
		return sc_fail(err, SC_EPROTO, 0, "a broken VOLUME came");
	if (!*v->leave_out) {
		free(v->leave_out);
		v->leave_out = NULL;
	}
	v->fd = open(v->path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (v->fd < 0)
		return sc_fail(err, SC_EIO, errno, "open %s", v->path);
	return 0;
}

/* -- commands ------------------------------------------------------------- */

static int do_take(struct helper *h, struct sc_err *err)
{
	uint64_t flags;

	if (frame_varints(&h->in, &flags, 1, err) < 0)
		return -1;
	return read_take(h, (unsigned)flags, err);
}

static const struct command {
	enum frame_type type;
	int (*run)(struct helper *h, struct sc_err *err);
	bool listen;	/* ABORT may come while it runs */
	bool says_fail; /* sends its FAIL itself */
	unsigned from;	/* PHASE_… in which it may come, 0: any */
	enum phase to;	/* after it succeeded; after a failure PHASE_OVER */
} commands[] = {
	{ FRAME_SCAN, read_scan, true, false, 0, 0 },
	{ FRAME_TAKE, do_take, true, false, 0, 0 },
	{ FRAME_PLAN, write_plan, true, false, PHASE_OPEN, PHASE_PLANNED },
	{ FRAME_STAGE, write_stage, false, true, PHASE_PLANNED, PHASE_STAGED },
	{ FRAME_RECHECK, write_recheck, true, false,
	  PHASE_STAGED | PHASE_CHECKED, PHASE_CHECKED },
	{ FRAME_COMMIT, write_commit, false, false, PHASE_CHECKED, PHASE_OVER },
	{ FRAME_UNDO, write_undo, false, false, 0, PHASE_OVER },
};

static int send_ok(struct helper *h, struct sc_err *err)
{
	uint64_t v[2];

	pthread_mutex_lock(&h->frames.send_lock);
	v[0] = h->frames.sent;
	v[1] = h->frames.sent_bytes;
	pthread_mutex_unlock(&h->frames.send_lock);
	return frame_send_varints(&h->frames, FRAME_OK, FRAME_NO_VOLUME, v, 2,
				  err);
}

static int run_command(struct helper *h, const struct command *c,
		       struct sc_err *err)
{
	struct sc_err cause = { 0 };
	struct watch w;
	int rc;

	if (c->from && !(c->from & h->phase))
		return sc_fail(err, SC_EPROTO, 0, "%s came out of turn",
			       frame_name(c->type));
	frames_count_reset(&h->frames);
	atomic_store(&h->stop, false);
	if (watch_start(&w, h, c->listen, err) < 0)
		return -1;
	h->watch = &w;
	rc = c->run(h, &cause);
	watch_stop(&w);
	if (c->to)
		h->phase = rc == 0 ? c->to : PHASE_OVER;
	/* What a command needed is not kept for the next one. */
	malloc_trim(0);
	if (rc == 0)
		return send_ok(h, err);
	return c->says_fail
		       ? 0
		       : frame_send_fail(&h->frames, atomic_load(&h->current),
					 &cause, err);
}

/* 1 go on, 0 the end, -1. */
static int serve_one(struct helper *h, struct sc_err *err)
{
	int rc = h->ended ? 0 : receive(h, err);

	if (rc <= 0 || h->in.type == FRAME_BYE)
		return rc < 0 ? -1 : 0;
	if (h->in.type == FRAME_ABORT)
		return 1; /* came too late for its command */
	if (h->in.type == FRAME_VOLUME)
		return take_volume(h, err) < 0 ? -1 : 1;
	if (h->in.type == FRAME_INDEX)
		return write_index(h, err) < 0 ? -1 : 1;
	for (size_t i = 0; i < ARRAY_LEN(commands); i++)
		if (commands[i].type == h->in.type)
			return run_command(h, &commands[i], err) < 0 ? -1 : 1;
	return sc_fail(err, SC_EPROTO, 0, "%s came out of turn",
		       frame_name(h->in.type));
}

static void send_note(void *arg, enum note_kind kind, const char *text)
{
	struct helper *h = arg;
	auto_buf struct buf b = { 0 };
	struct sc_err ignored;

	buf_varint(&b, kind);
	buf_str(&b, text);
	if (!b.failed)
		(void)frame_send(&h->frames, FRAME_NOTE, FRAME_NO_VOLUME, NULL,
				 0, b.p, b.len, &ignored);
}

static int converse(struct helper *h, struct sc_err *err)
{
	struct sc_err undo;
	int rc;

	h->phase = PHASE_OPEN;
	rc = send_hello(h, err) < 0 || take_hello(h, err) < 0 ? -1 : 1;
	while (rc > 0)
		rc = serve_one(h, err);
	if (rc < 0 && !h->ended) {
		/* The last thing to be heard from here, if at all. */
		(void)frame_send_fail(&h->frames, FRAME_NO_VOLUME, err, &undo);
	}
	if (write_clear(h, &undo) == 0)
		return rc;
	dprintf(STDERR_FILENO, "%s\n", undo.msg);
	h->left = true;
	return rc;
}

int main(void)
{
	struct helper h = { 0 };
	struct channel_fds fds = { .in = -1, .out = -1 };
	struct sc_err err = { 0 };
	struct channel ch;
	int rc;

	/* A container's engine may start us with anything blocked. */
	signal(SIGPIPE, SIG_IGN);
	if (open_stream(&fds, &err) < 0 ||
	    channel_fds_init(&fds, &ch, &err) < 0) {
		dprintf(STDERR_FILENO, "%s\n", err.msg);
		return EXIT_UNREACHABLE;
	}
	h.infd = fds.in;
	frames_init(&h.frames, &ch);
	notes_init(&h.notes);
	h.notes.sink = send_note;
	h.notes.sink_arg = &h;
	rc = converse(&h, &err);
	if (rc < 0)
		dprintf(STDERR_FILENO, "%s\n", err.msg);
	for (unsigned i = 0; i < h.nvolumes; i++) {
		struct volume *v = &h.volumes[i];

		write_free(v);
		if (v->fd >= 0)
			(void)close(v->fd);
		free(v->path);
		free(v->leave_out);
	}
	free(h.volumes);
	notes_free(&h.notes);
	frame_free(&h.in);
	frames_destroy(&h.frames);
	return h.left ? FRAME_EXIT_LEFT : rc < 0 ? 1 : 0;
}
