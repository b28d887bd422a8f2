/* SPDX-License-Identifier: MIT */
#include <snapctl/helper/session.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <snapctl/base/mem.h>
#include <snapctl/base/text.h>
#include <snapctl/helper/image.h>
#include <snapctl/scan/index.h>

#include "internal.h"

/* -- conversation --------------------------------------------------------- */

int session_protocol(struct session *s, const char *what, struct sc_err *err)
{
	s->broken = true;
	return sc_fail(err, SC_EPROTO, 0, "the helper broke the protocol: %s",
		       what);
}

int session_lost(struct session *s, struct sc_err *err)
{
	char how[256];
	const char *said =
		s->link.attach ? docker_attach_stderr(s->link.attach) : "";

	s->broken = true;
	container_epitaph(s->d, s->link.container, how, sizeof(how));
	return sc_fail(err, SC_EENGINE, 0, "the helper went away: %s%s%s", how,
		       *said ? "; it said: " : "", said);
}

/* So many frames may be on their way when a helper ends. */
#define LAST_WORDS 1000

int session_unsent(struct session *s, struct sc_err *err)
{
	struct sc_err unread;

	s->broken = true;
	if (err->code != SC_EIO && err->code != SC_EENGINE)
		return -1;
	for (int i = 0; i < LAST_WORDS; i++) {
		if (frame_recv(&s->frames, &s->in, &unread) <= 0)
			break;
		if (s->in.type == FRAME_FAIL)
			return frame_take_fail(&s->in, err);
	}
	return session_lost(s, err);
}

int session_settle(struct session *s, struct sc_err *err)
{
	int rc = 0;

	s->broken = true;
	link_cut(&s->link);
	if (s->ended)
		return 0;
	docker_shield(s->d, true);
	rc = docker_container_wait(s->d, s->link.container, &s->exit_code, err);
	docker_shield(s->d, false);
	s->ended = rc == 0;
	return rc;
}

/* Any failure of the stream itself ends the conversation. A peer that closed
 * is told by how its container ended. */
static int stream_failed(struct session *s, struct sc_err *err)
{
	s->broken = true;
	if (err->code == SC_EIO)
		return session_lost(s, err);
	return -1;
}

static int receive(struct session *s, struct sc_err *err)
{
	int rc;

	if (s->broken)
		return sc_fail(err, SC_EPROTO, 0,
			       "the conversation with the helper is over");
	rc = frame_recv(&s->frames, &s->in, err);
	if (rc == 0)
		return session_lost(s, err);
	return rc < 0 ? stream_failed(s, err) : 0;
}

static int take_note(struct session *s, struct sc_err *err)
{
	struct cur c = cur_of(s->in.payload.p, s->in.payload.len);
	uint64_t kind = cur_varint(&c);
	size_t n;
	const unsigned char *text = cur_bytes(&c, 65535, &n);
	auto_buf struct buf shown = { 0 };

	if (c.bad || kind > NOTE_WARN)
		return session_protocol(s, "a broken NOTE", err);
	/* Names in it were escaped by the helper. */
	for (size_t i = 0; i < n; i++)
		if (text[i] < 0x20 || text[i] == 0x7f)
			return session_protocol(s, "an unescaped NOTE", err);
	buf_put(&shown, text, n);
	if (!buf_cstr(&shown))
		return sc_oom(err, "note");
	notes_add(s->o.notes, (enum note_kind)kind, "%s", buf_cstr(&shown));
	return 0;
}

static int take_progress(struct session *s, struct sc_err *err)
{
	uint64_t v[2];

	if (frame_varints(&s->in, v, 2, err) < 0)
		return session_protocol(s, "a broken PROGRESS", err);
	if (s->o.progress && s->in.volume < s->ntaken)
		s->o.progress(s->o.progress_arg, s->in.volume, v[0], v[1]);
	return 0;
}

/* The frames counted by the helper are those it sent since the command
 * began, but PROGRESS, which a thread of its own sends, is counted as well:
 * whatever was sent before OK came before OK. */
static int take_ok(struct session *s, struct sc_err *err)
{
	uint64_t v[2];

	if (frame_varints(&s->in, v, 2, err) < 0)
		return session_protocol(s, "a broken OK", err);
	if (v[0] != s->got || v[1] != s->got_bytes)
		return session_protocol(s, "frames were lost on the way", err);
	return 0;
}

/* The helper knows volumes by number, people by name. */
static int about_volume(const struct session *s, struct sc_err *err)
{
	const struct session_volume *v;
	char name[300];

	if (s->in.volume >= s->ntaken)
		return -1;
	v = &s->o.volumes[s->in.volume];
	if (v->volume)
		text_escaped(name, sizeof(name), v->volume, strlen(v->volume));
	else
		text_escaped(name, sizeof(name), v->bind, strlen(v->bind));
	return sc_wrap(err, "volume %s", name);
}

int session_next(struct session *s, struct sc_err *err)
{
	for (;;) {
		if (receive(s, err) < 0)
			return -1;
		if (s->in.type == FRAME_OK)
			return take_ok(s, err);
		s->got++;
		s->got_bytes += s->in.payload.len;
		switch (s->in.type) {
		case FRAME_NOTE:
			if (take_note(s, err) < 0)
				return -1;
			break;
		case FRAME_PROGRESS:
			if (take_progress(s, err) < 0)
				return -1;
			break;
		case FRAME_FAIL:
			(void)frame_take_fail(&s->in, err);
			/* A broken one, or a helper that found us to break
			 * the protocol and has left. */
			if (err->code == SC_EPROTO)
				s->broken = true;
			return about_volume(s, err);
		default:
			return 1;
		}
	}
}

int session_finish(struct session *s, struct sc_err *err)
{
	int rc = session_next(s, err);

	return rc > 0 ? session_protocol(s, frame_name(s->in.type), err) : rc;
}

int session_command(struct session *s, enum frame_type type, const void *p,
		    size_t n, struct sc_err *err)
{
	if (s->broken)
		return sc_fail(err, SC_EPROTO, 0,
			       "the conversation with the helper is over");
	s->got = s->got_bytes = 0;
	if (frame_send(&s->frames, type, FRAME_NO_VOLUME, NULL, 0, p, n, err) <
	    0)
		return session_unsent(s, err);
	return 0;
}

/* -- opening and closing -------------------------------------------------- */

static int check_hello(struct session *s, struct sc_err *err)
{
	struct cur c = cur_of(s->in.payload.p, s->in.payload.len);
	uint32_t magic = cur_u32(&c);
	uint64_t version = cur_varint(&c);
	size_t ntoken;
	const unsigned char *token;

	(void)cur_varint(&c); /* features: none yet */
	token = cur_bytes(&c, 256, &ntoken);
	if (c.bad || magic != FRAME_MAGIC)
		return session_protocol(s, "no HELLO", err);
	if (version != FRAME_VERSION)
		return session_protocol(s, "another protocol version", err);
	if (ntoken != FRAME_TOKEN_LEN ||
	    memcmp(token, s->link.token, ntoken) != 0)
		return session_protocol(s, "a wrong token", err);
	s->uid_map = cur_str(&c, FRAME_UID_MAP_MAX);
	if (!s->uid_map)
		return session_protocol(s, "no uid map", err);
	return 0;
}

static int send_hello(struct session *s, struct sc_err *err)
{
	auto_buf struct buf b = { 0 };

	buf_u32(&b, FRAME_MAGIC);
	buf_varint(&b, FRAME_VERSION);
	buf_varint(&b, 0);
	buf_varint(&b, s->o.threads);
	buf_svarint(&b, s->o.level);
	buf_varint(&b, s->o.chunk_avg);
	buf_varint(&b, (s->o.cap_sys_admin ? SESSION_TRUSTED_XATTRS : 0) |
			       (s->o.allow_incomplete ? SESSION_ALLOW_INCOMPLETE
						      : 0));
	if (b.failed)
		return sc_oom(err, "frame");
	return frame_send(&s->frames, FRAME_HELLO, FRAME_NO_VOLUME, NULL, 0,
			  b.p, b.len, err);
}

static int send_volume(struct session *s, unsigned i, struct sc_err *err)
{
	auto_buf struct buf b = { 0 };
	char path[32];

	container_mount_path(path, i);
	buf_str(&b, path);
	buf_str(&b, s->o.volumes[i].leave_out ? s->o.volumes[i].leave_out : "");
	if (b.failed)
		return sc_oom(err, "frame");
	return frame_send(&s->frames, FRAME_VOLUME, i, NULL, 0, b.p, b.len,
			  err);
}

static int greet(struct session *s, struct sc_err *err)
{
	if (receive(s, err) < 0)
		return -1;
	if (s->in.type != FRAME_HELLO)
		return session_protocol(s, frame_name(s->in.type), err);
	if (check_hello(s, err) < 0 || send_hello(s, err) < 0)
		return -1;
	for (unsigned i = 0; i < s->ntaken; i++)
		if (send_volume(s, i, err) < 0)
			return -1;
	return 0;
}

static int connect_helper(struct session *s, const char *image,
			  struct sc_err *err)
{
	enum session_transport first = s->o.transport == TRANSPORT_ATTACH
					       ? TRANSPORT_ATTACH
					       : TRANSPORT_SOCKET;
	bool retry;

	if (link_open(s->d, &s->o, image, first, &s->link, &retry, err) == 0)
		return 0;
	if (!retry || s->o.transport != TRANSPORT_AUTO)
		return -1;
	return link_open(s->d, &s->o, image, TRANSPORT_ATTACH, &s->link, &retry,
			 err);
}

int session_open(struct docker *d, const struct session_options *o,
		 struct session **out, struct sc_err *err)
{
	auto_free char *image = NULL;
	struct session *s;

	if (o->nvolumes >= FRAME_NO_VOLUME)
		return sc_fail(err, SC_EUSAGE, 0, "too many volumes (%zu)",
			       o->nvolumes);
	if (image_ensure(d, o->binary, o->binary_len, &image, NULL, err) < 0)
		return -1;
	s = calloc(1, sizeof(*s));
	if (!s)
		return sc_oom(err, "session");
	s->d = d;
	s->o = *o;
	s->link.sock = -1;
	while (s->ntaken < o->nvolumes && !o->volumes[s->ntaken].held)
		s->ntaken++;
	if (connect_helper(s, image, err) < 0) {
		free(s);
		return sc_wrap(err, "start the helper");
	}
	frames_init(&s->frames, &s->link.ch);
	if (greet(s, err) < 0) {
		session_close(s);
		return sc_wrap(err, "start the helper");
	}
	*out = s;
	return 0;
}

void session_close(struct session *s)
{
	struct sc_err e = { 0 };

	if (!s)
		return;
	docker_shield(s->d, true);
	s->link.fds.cancel = NULL;
	/* A helper that no longer listens is removed all the same, but one
	 * that writes is not killed in the middle of it: at the end of the
	 * stream it undoes a stage, or finishes a commit, and exits. */
	if (!s->broken)
		(void)frame_send(&s->frames, FRAME_BYE, FRAME_NO_VOLUME, NULL,
				 0, NULL, 0, &e);
	if (s->o.write && session_settle(s, &e) < 0 && e.code != SC_ENOTFOUND)
		notes_add(s->o.notes, NOTE_WARN,
			  "the helper may have been interrupted: %s", e.msg);
	if (link_close(s->d, &s->link, &e) < 0)
		notes_add(s->o.notes, NOTE_WARN,
			  "the helper container remains: %s", e.msg);
	docker_shield(s->d, false);
	frames_destroy(&s->frames);
	frame_free(&s->in);
	free(s->uid_map);
	free(s);
}

const char *session_transport_name(const struct session *s)
{
	return s->link.kind == TRANSPORT_SOCKET ? "socket" : "attach";
}

const char *session_container(const struct session *s)
{
	return s->link.container;
}

const char *session_uid_map(const struct session *s)
{
	return s->uid_map;
}

/* -- scan and take -------------------------------------------------------- */

/* The volume of the frame in s->in, checked. */
static int volume_of(struct session *s, struct sc_err *err)
{
	if (s->in.volume >= s->ntaken)
		return session_protocol(s, "a volume there is not", err);
	return 0;
}

int session_scan(struct session *s, struct frame_scanned *out,
		 struct sc_err *err)
{
	unsigned seen = 0;
	uint64_t v[4];
	int rc;

	if (session_command(s, FRAME_SCAN, NULL, 0, err) < 0)
		return -1;
	while ((rc = session_next(s, err)) > 0) {
		if (s->in.type != FRAME_SCANNED || s->in.volume != seen ||
		    volume_of(s, err) < 0)
			return session_protocol(s, frame_name(s->in.type), err);
		if (frame_varints(&s->in, v, 4, err) < 0)
			return session_protocol(s, "a broken SCANNED", err);
		out[seen++] = (struct frame_scanned){ v[0], v[1], v[2], v[3] };
	}
	if (rc == 0 && seen != s->ntaken)
		return session_protocol(s, "a volume was not walked", err);
	return rc;
}

/* What came for the volumes, to be held against TAKEN. */
struct taking {
	struct session *s;
	const struct session_sink *sink;
	struct frame_taken *got; /* segments, stored, index_pieces */
	unsigned done;		 /* volumes taken */
	bool all_read;
};

static int take_segment(struct taking *t, struct sc_err *err)
{
	struct buf *b = &t->s->in.payload;
	struct cur c = cur_of(b->p, b->len);
	uint32_t plain = cur_u32(&c);

	if (c.bad || !plain || plain > SEGMENT_PLAIN_MAX || !cur_left(&c))
		return session_protocol(t->s, "a broken SEGMENT", err);
	t->got[t->s->in.volume].segments++;
	t->got[t->s->in.volume].stored += b->len - 4;
	return t->sink->segment(t->sink->arg, t->s->in.volume, b->p + 4,
				b->len - 4, plain, err);
}

static int take_column(struct taking *t, struct sc_err *err)
{
	struct buf *b = &t->s->in.payload;
	struct cur c = cur_of(b->p, b->len);
	unsigned id = cur_u16(&c);

	if (c.bad)
		return session_protocol(t->s, "a broken COLUMN", err);
	t->got[t->s->in.volume].index_pieces++;
	return t->sink->column(t->sink->arg, t->s->in.volume, id, b->p + 2,
			       b->len - 2, err);
}

static int take_colend(struct taking *t, struct sc_err *err)
{
	uint64_t v[4];

	if (frame_varints(&t->s->in, v, 4, err) < 0 || v[0] > 0xffff ||
	    v[1] > 0xff)
		return session_protocol(t->s, "a broken COLEND", err);
	return t->sink->column_end(t->sink->arg, t->s->in.volume,
				   (unsigned)v[0], (unsigned)v[1], v[2], v[3],
				   err);
}

static int take_taken(struct taking *t, struct sc_err *err)
{
	const struct frame_taken *g = &t->got[t->s->in.volume];
	struct frame_taken r;
	uint64_t v[11];

	if (t->s->in.volume != t->done || !t->all_read)
		return session_protocol(t->s, "TAKEN out of turn", err);
	if (frame_varints(&t->s->in, v, 11, err) < 0)
		return session_protocol(t->s, "a broken TAKEN", err);
	r = (struct frame_taken){ v[0], v[1], v[2], v[3], v[4], v[5],
				  v[6], v[7], v[8], v[9], v[10] };
	if (r.segments != g->segments || r.stored != g->stored ||
	    r.index_pieces != g->index_pieces)
		return session_protocol(t->s, "data was lost on the way", err);
	t->done++;
	return t->sink->taken(t->sink->arg, t->s->in.volume, &r, err);
}

static int take_frame(struct taking *t, struct sc_err *err)
{
	if (t->s->in.type == FRAME_ALLREAD) {
		if (t->all_read)
			return session_protocol(t->s, "ALLREAD twice", err);
		t->all_read = true;
		return t->sink->all_read(t->sink->arg, err);
	}
	if (volume_of(t->s, err) < 0)
		return -1;
	if (t->s->in.volume < t->done)
		return session_protocol(t->s, "a volume goes on after TAKEN",
					err);
	switch (t->s->in.type) {
	case FRAME_SEGMENT:
		return take_segment(t, err);
	case FRAME_COLUMN:
		return take_column(t, err);
	case FRAME_COLEND:
		return take_colend(t, err);
	case FRAME_TAKEN:
		return take_taken(t, err);
	default:
		return session_protocol(t->s, frame_name(t->s->in.type), err);
	}
}

static int take_frames(struct taking *t, struct sc_err *err)
{
	struct session *s = t->s;
	int rc;

	while ((rc = session_next(s, err)) > 0) {
		if (take_frame(t, err) < 0) {
			/* Ours or theirs: the helper is to stop reading at
			 * once; it is not listened to any more. */
			s->broken = true;
			link_cut(&s->link);
			return -1;
		}
	}
	if (rc == 0 && (t->done != s->ntaken || !t->all_read))
		return session_protocol(s, "a volume was not taken", err);
	return rc;
}

int session_take(struct session *s, unsigned flags,
		 const struct session_sink *sink, struct sc_err *err)
{
	auto_buf struct buf b = { 0 };
	struct taking t = {
		.s = s,
		.sink = sink,
		.got = calloc(s->ntaken + 1, sizeof(*t.got)),
	};
	int rc = 0;

	buf_varint(&b, flags);
	if (!t.got || b.failed)
		rc = sc_oom(err, "session");
	if (rc == 0)
		rc = session_command(s, FRAME_TAKE, b.p, b.len, err);
	if (rc == 0)
		rc = take_frames(&t, err);
	free(t.got);
	return rc;
}
