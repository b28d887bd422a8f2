/* SPDX-License-Identifier: MIT */
/* An engine in memory: the docker_* calls that src/helper makes. A container
 * that is started runs the test's function on a thread, connected as a helper
 * would be: to the socket that its configuration mounts, or by attach. */
#ifndef TESTS_HELPER_FAKE_DOCKER_H
#define TESTS_HELPER_FAKE_DOCKER_H

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include <snapctl/docker/docker.h>
#include <snapctl/helper/frames.h>
#include <snapctl/helper/image.h>

/* For threads that are not the test's: cmocka's asserts belong to one. */
#define MUST(x)                                                            \
	do {                                                               \
		if (!(x)) {                                                \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, \
				#x);                                       \
			abort();                                           \
		}                                                          \
	} while (0)

/* The helper's end of a conversation. */
struct peer {
	struct docker *d;
	int fd;
	char token[64];
	struct channel_fds fds;
	struct channel ch;
	struct frames f;
	struct frame in;
	struct sc_err err;
};

struct fake_image {
	const char *id, *layers[3], *entrypoint[3];
};

struct docker {
	struct docker_info info;
	struct fake_image images[4];
	size_t nimages;
	unsigned loads;
	bool load_hides; /* an image that is loaded is not shown */
	char *loaded_layer;

	void (*run)(struct peer *p); /* the helper; NULL: exits at once */
	void *arg;		     /* for run */
	int exit_code;
	bool no_start;	   /* starting fails */
	bool no_socket;	   /* the socket cannot be reached: exits with 3 */
	const char *taken; /* the name is held: state, pid, host … */
	struct docker_label held[5];
	enum docker_state held_state;
	bool no_remove;
	struct peer peer;
	pthread_t thread;
	bool running, started, exists, exited;
	int attach[2];
	json_t *config;
	char name[160];
	unsigned creates, removes, waits, killed;
	int shield, die; /* die: eventfd of the end of a container */
};

struct docker_attach {
	int fd;
	struct cancel *cancel;
};

struct docker_events {
	struct docker *d;
};

static inline void fake_init(struct docker *d)
{
	memset(d, 0, sizeof(*d));
	d->info.local = true;
	d->info.arch = (char *)"";
	d->attach[0] = d->attach[1] = -1;
	d->die = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
}

static inline void fake_join(struct docker *d)
{
	if (d->started)
		pthread_join(d->thread, NULL);
	d->started = false;
}

static inline void fake_done(struct docker *d)
{
	fake_join(d);
	json_decref(d->config);
	free(d->loaded_layer);
	close(d->die);
}

/* -- the helper's side ---------------------------------------------------- */

static inline const char *fake_env(struct docker *d, const char *key)
{
	size_t i, n = strlen(key);
	json_t *v;

	json_array_foreach(json_object_get(d->config, "Env"), i, v)
	{
		const char *s = json_string_value(v);

		if (strncmp(s, key, n) == 0 && s[n] == '=')
			return s + n + 1;
	}
	return NULL;
}

static inline int fake_connect(struct docker *d)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);
	json_t *v, *mounts = json_object_get(
			   json_object_get(d->config, "HostConfig"), "Mounts");
	const char *dir = NULL;
	size_t i;

	json_array_foreach(
		mounts, i,
		v) if (strcmp(json_string_value(json_object_get(v, "Target")),
			      "/run/snapctl") == 0) dir =
		json_string_value(json_object_get(v, "Source"));
	MUST(dir && fd >= 0);
	MUST(strcmp(fake_env(d, "SNAPCTL_SOCKET"), "/run/snapctl/s") == 0);
	snprintf(sa.sun_path, sizeof(sa.sun_path), "%s/s", dir);
	MUST(connect(fd, (struct sockaddr *)&sa, sizeof(sa)) == 0);
	return fd;
}

static inline void peer_hello_with(struct peer *p, uint32_t magic,
				   uint64_t version, const char *token)
{
	struct buf b = { 0 };

	buf_u32(&b, magic);
	buf_varint(&b, version);
	buf_varint(&b, 0);
	buf_str(&b, token);
	buf_str(&b, "0 0 4294967295\n");
	MUST(frame_send(&p->f, FRAME_HELLO, FRAME_NO_VOLUME, NULL, 0, b.p,
			b.len, &p->err) == 0);
	buf_free(&b);
}

/* The next frame is of this type. */
static inline void peer_expect(struct peer *p, enum frame_type type)
{
	int rc = frame_recv(&p->f, &p->in, &p->err);

	if (rc != 1 || p->in.type != type) {
		fprintf(stderr, "%s expected, rc %d, got %s: %s\n",
			frame_name(type), rc, frame_name(p->in.type),
			p->err.msg);
		abort();
	}
}

/* HELLO both ways and n VOLUMEs. */
static inline void peer_greet(struct peer *p, unsigned n)
{
	peer_hello_with(p, FRAME_MAGIC, FRAME_VERSION, p->token);
	peer_expect(p, FRAME_HELLO);
	for (unsigned i = 0; i < n; i++) {
		peer_expect(p, FRAME_VOLUME);
		MUST(p->in.volume == i);
	}
}

static inline void peer_send(struct peer *p, enum frame_type t, unsigned vol,
			     const void *body, size_t n)
{
	MUST(frame_send(&p->f, t, vol, NULL, 0, body, n, &p->err) == 0);
}

static inline void peer_numbers(struct peer *p, enum frame_type t, unsigned vol,
				const uint64_t *v, size_t n)
{
	MUST(frame_send_varints(&p->f, t, vol, v, n, &p->err) == 0);
}

/* With right counts, given what is to be added to them. */
static inline void peer_ok(struct peer *p, uint64_t frames, uint64_t bytes)
{
	uint64_t v[2] = { p->f.sent + frames, p->f.sent_bytes + bytes };

	peer_numbers(p, FRAME_OK, FRAME_NO_VOLUME, v, 2);
}

/* A command begins. */
static inline void peer_command(struct peer *p, enum frame_type type)
{
	peer_expect(p, type);
	frames_count_reset(&p->f);
}

/* Reads until snapctl ends the stream or says BYE; true for BYE. */
static inline bool peer_until_end(struct peer *p)
{
	while (frame_recv(&p->f, &p->in, &p->err) > 0)
		if (p->in.type == FRAME_BYE)
			return true;
	return false;
}

static void *fake_main(void *arg)
{
	struct docker *d = arg;
	struct peer *p = &d->peer;
	uint64_t one = 1;

	*p = (struct peer){ .d = d };
	snprintf(p->token, sizeof(p->token), "%s",
		 fake_env(d, "SNAPCTL_TOKEN"));
	if (!d->run || (d->no_socket && fake_env(d, "SNAPCTL_SOCKET"))) {
		d->exit_code = d->run ? 3 : d->exit_code;
	} else {
		p->fd = d->attach[1] >= 0 ? d->attach[1] : fake_connect(d);
		p->fds = (struct channel_fds){ p->fd, p->fd, NULL };
		MUST(channel_fds_init(&p->fds, &p->ch, &p->err) == 0);
		frames_init(&p->f, &p->ch);
		d->run(p);
		frame_free(&p->in);
		frames_destroy(&p->f);
		__atomic_store_n(&d->exited, true, __ATOMIC_SEQ_CST);
		close(p->fd);
		d->attach[1] = -1;
	}
	__atomic_store_n(&d->exited, true, __ATOMIC_SEQ_CST);
	MUST(write(d->die, &one, sizeof(one)) == sizeof(one));
	return NULL;
}

/* -- containers ----------------------------------------------------------- */

const struct docker_info *docker_info(const struct docker *d)
{
	return &d->info;
}

void docker_shield(struct docker *d, bool on)
{
	d->shield += on ? 1 : -1;
}

const char *docker_label(const struct docker_label *l, size_t n,
			 const char *key)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(l[i].key, key) == 0)
			return l[i].value;
	return NULL;
}

int docker_container_create(struct docker *d, const char *name, json_t *config,
			    char **id, struct sc_err *err)
{
	d->creates++;
	snprintf(d->name, sizeof(d->name), "%s", name);
	if (d->taken)
		return sc_fail(err, SC_ELOCKED, 0, "name taken");
	MUST(!d->exists); /* the one before was removed */
	json_decref(d->config);
	d->config = json_incref(config);
	d->exists = true;
	*id = strdup("c0ffee");
	return 0;
}

int docker_container_inspect(struct docker *d, const char *id,
			     struct docker_container **out, struct sc_err *err)
{
	struct docker_container *c;

	(void)err;
	if (d->taken ? strcmp(id, d->taken) != 0 : !d->exists)
		return 0;
	c = calloc(1, sizeof(*c));
	MUST(c);
	c->id = (char *)id;
	c->name = (char *)id;
	c->state = d->taken ? d->held_state
		   : __atomic_load_n(&d->exited, __ATOMIC_SEQ_CST)
			   ? DOCKER_EXITED
			   : DOCKER_RUNNING;
	c->exit_code = d->exit_code;
	c->labels = d->held;
	while (c->nlabels < 5 && d->held[c->nlabels].key)
		c->nlabels++;
	*out = c;
	return 1;
}

void docker_container_free(struct docker_container *c)
{
	free(c);
}

int docker_container_start(struct docker *d, const char *id, struct sc_err *err)
{
	(void)id;
	if (d->no_start)
		return sc_fail(err, SC_EENGINE, 0, "start: no");
	fake_join(d);
	d->exited = false;
	d->started = true;
	MUST(pthread_create(&d->thread, NULL, fake_main, d) == 0);
	return 0;
}

int docker_container_remove(struct docker *d, const char *id, bool force,
			    struct sc_err *err)
{
	(void)id;
	MUST(force);
	if (d->no_remove)
		return sc_fail(err, SC_EENGINE, 0, "remove: no");
	d->removes++;
	if (d->taken) {
		d->taken = NULL;
		return 0;
	}
	if (d->started && !__atomic_load_n(&d->exited, __ATOMIC_SEQ_CST))
		d->killed++;
	d->exists = false;
	return 0;
}

int docker_container_wait(struct docker *d, const char *id, int *exit_code,
			  struct sc_err *err)
{
	(void)id;
	(void)err;
	d->waits++;
	if (!d->taken)
		fake_join(d);
	*exit_code = d->exit_code;
	return 0;
}

/* -- events and attach ---------------------------------------------------- */

int docker_events_open(struct docker *d, struct docker_events **out,
		       struct sc_err *err)
{
	(void)err;
	*out = malloc(sizeof(**out));
	MUST(*out);
	(*out)->d = d;
	return 0;
}

void docker_events_close(struct docker_events *e)
{
	free(e);
}

int docker_events_fd(const struct docker_events *e)
{
	return e->d->die;
}

int docker_events_next(struct docker_events *e, int timeout_ms,
		       struct docker_event *out, struct sc_err *err)
{
	uint64_t n;

	(void)err;
	MUST(timeout_ms == 0);
	if (read(e->d->die, &n, sizeof(n)) < 0)
		return 0;
	*out = (struct docker_event){ .action = "die", .id = "c0ffee" };
	return 1;
}

int docker_attach_open(struct docker *d, const char *id,
		       struct docker_attach **out, struct sc_err *err)
{
	(void)id;
	(void)err;
	MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, d->attach) == 0);
	*out = calloc(1, sizeof(**out));
	MUST(*out);
	(*out)->fd = d->attach[0];
	return 0;
}

void docker_attach_close(struct docker_attach *a)
{
	close(a->fd);
	free(a);
}

void docker_attach_abort(struct docker_attach *a)
{
	shutdown(a->fd, SHUT_RDWR);
}

ssize_t docker_attach_read(struct docker_attach *a, void *p, size_t n,
			   struct sc_err *err)
{
	ssize_t k = read(a->fd, p, n);

	return k < 0 ? sc_fail(err, SC_EIO, 0, "read") : k;
}

int docker_attach_write(struct docker_attach *a, const void *p, size_t n,
			struct sc_err *err)
{
	while (n) {
		ssize_t k = write(a->fd, p, n);

		if (k < 0)
			return sc_fail(err, SC_EIO, 0, "write");
		p = (const char *)p + k;
		n -= (size_t)k;
	}
	return 0;
}

const char *docker_attach_stderr(struct docker_attach *a)
{
	(void)a;
	return "";
}

/* -- images --------------------------------------------------------------- */

void docker_strv_free(char **v)
{
	for (size_t i = 0; v && v[i]; i++)
		free(v[i]);
	free(v);
}

int docker_image_ids(struct docker *d, const char *label, char ***ids,
		     struct sc_err *err)
{
	size_t n = 0;

	(void)err;
	MUST(strcmp(label, "io.snapctl.helper=1") == 0);
	*ids = calloc(d->nimages + 2, sizeof(char *));
	MUST(*ids);
	for (; n < d->nimages; n++)
		(*ids)[n] = strdup(d->images[n].id);
	if (d->loaded_layer && !d->load_hides)
		(*ids)[n] = strdup("sha256:loaded");
	return 0;
}

int docker_image_inspect(struct docker *d, const char *ref,
			 struct docker_image **out, struct sc_err *err)
{
	struct docker_image *i = calloc(1, sizeof(*i));
	const struct fake_image *f = NULL;

	(void)err;
	MUST(i);
	for (size_t k = 0; k < d->nimages; k++)
		if (strcmp(d->images[k].id, ref) == 0)
			f = &d->images[k];
	i->id = strdup(ref);
	i->layers = calloc(3, sizeof(char *));
	i->entrypoint = calloc(3, sizeof(char *));
	MUST(i->layers && i->entrypoint);
	for (size_t k = 0; f && k < 2; k++) {
		i->layers[k] = f->layers[k] ? strdup(f->layers[k]) : NULL;
		i->entrypoint[k] =
			f->entrypoint[k] ? strdup(f->entrypoint[k]) : NULL;
	}
	if (!f) {
		i->layers[0] = strdup(d->loaded_layer);
		i->entrypoint[0] = strdup("/snapctl-helper");
	}
	*out = i;
	return 1;
}

void docker_image_free(struct docker_image *i)
{
	free(i->id);
	docker_strv_free(i->layers);
	docker_strv_free(i->entrypoint);
	free(i);
}

/* What an engine would find the layer to be. */
static inline char *fake_layer_of(const void *tar, size_t n)
{
	const char *name = "layer.tar";
	const unsigned char *p = tar;

	for (size_t at = 0; at + 512 <= n; at += 512) {
		struct hash *h;
		struct digest d;
		struct sc_err err;
		char text[DIGEST_STR];
		size_t len;

		if (strcmp((const char *)p + at, name) != 0)
			continue;
		len = strtoul((const char *)p + at + 124, NULL, 8);
		MUST(len <= n - at - 512);
		MUST(hash_new(&h, &err) == 0);
		MUST(hash_once(h, p + at + 512, len, &d, &err) == 0);
		hash_free(h);
		digest_str(&d, text);
		return strdup(text);
	}
	return NULL;
}

int docker_image_load(struct docker *d, const void *tar, size_t n,
		      struct sc_err *err)
{
	(void)err;
	d->loads++;
	free(d->loaded_layer);
	d->loaded_layer = fake_layer_of(tar, n);
	MUST(d->loaded_layer);
	return 0;
}

#endif
