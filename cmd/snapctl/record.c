/* SPDX-License-Identifier: MIT */
#include "record.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <snapctl/base/io.h>
#include <snapctl/base/mem.h>

#include "app.h"
#include "cli.h"

#define COMPOSE_FILE_MAX (1u << 20)

/* Copies latch: one check at the end of a run of them. */
struct copier {
	bool failed;
};

static char *copy(struct copier *c, const char *s)
{
	char *p = strdup(s ? s : "");

	c->failed |= !p;
	return p;
}

static size_t list_len(char *const *v)
{
	size_t n = 0;

	while (v && v[n])
		n++;
	return n;
}

static char **copy_list(struct copier *c, char *const *v, size_t n)
{
	char **out = calloc(n + 1, sizeof(*out));

	if (!out) {
		c->failed = true;
		return NULL;
	}
	for (size_t i = 0; i < n; i++)
		out[i] = copy(c, v[i]);
	return out;
}

static struct snapshot_label *copy_labels(struct copier *c,
					  const struct docker_label *l,
					  size_t n)
{
	struct snapshot_label *out = calloc(n + 1, sizeof(*out));

	if (!out) {
		c->failed = true;
		return NULL;
	}
	for (size_t i = 0; i < n; i++) {
		out[i].key = copy(c, l[i].key);
		out[i].value = copy(c, l[i].value);
	}
	return out;
}

static const char *type_name(enum stack_kind k)
{
	return k == STACK_NAMED	 ? "volume"
	       : k == STACK_ANON ? "anonymous"
				 : "bind";
}

static void fill_volume(struct copier *c, struct snapshot_volume *o,
			const struct stack_volume *v, bool trusted)
{
	o->name = copy(c, v->name);
	o->type = copy(c, type_name(v->kind));
	o->driver = copy(c, v->info.driver);
	o->source = copy(c, v->source);
	o->service = copy(c, v->service);
	o->target = copy(c, v->target);
	o->number = v->number;
	o->options = copy_labels(c, v->info.options, v->info.noptions);
	o->noptions = o->options ? v->info.noptions : 0;
	o->labels = copy_labels(c, v->info.labels, v->info.nlabels);
	o->nlabels = o->labels ? v->info.nlabels : 0;
	o->targets = copy_list(c, v->targets, list_len(v->targets));
	o->kind = SNAP_FULL;
	o->trusted_seen = trusted;
}

static const char *state_name(enum docker_state s)
{
	static const char *const names[] = {
		[DOCKER_CREATED] = "created",
		[DOCKER_RUNNING] = "running",
		[DOCKER_PAUSED] = "paused",
		[DOCKER_RESTARTING] = "restarting",
		[DOCKER_EXITED] = "exited",
		[DOCKER_DEAD] = "dead",
		[DOCKER_OTHER] = "other",
	};

	return s < ARRAY_LEN(names) ? names[s] : "other";
}

/* Digests of the image; one that is gone has none. */
static int fill_digests(struct copier *c, struct docker *d,
			struct snapshot_container *o, const char *image,
			struct sc_err *err)
{
	struct docker_image *i = NULL;
	int rc = docker_image_inspect(d, image, &i, err);

	if (rc < 0)
		return -1;
	o->digests = rc ? copy_list(c, i->digests, list_len(i->digests))
			: copy_list(c, NULL, 0);
	docker_image_free(i);
	return 0;
}

static int fill_containers(struct copier *c, struct task *t, struct snapshot *s,
			   struct sc_err *err)
{
	const struct stack *st = t->stack;

	s->containers = calloc(st->ncontainers + 1, sizeof(*s->containers));
	if (!s->containers)
		return sc_oom(err, "snapshot");
	for (size_t i = 0; i < st->ncontainers; i++) {
		const struct stack_container *from = &st->containers[i];
		struct snapshot_container *o = &s->containers[i];
		const char *hash =
			docker_label(from->c->labels, from->c->nlabels,
				     "com.docker.compose.config-hash");

		s->ncontainers++;
		o->name = copy(c, from->c->name);
		o->service = copy(c, from->service);
		o->image = copy(c, from->c->image_ref);
		o->image_id = copy(c, from->c->image_id);
		o->number = from->number;
		o->state = copy(c, state_name(from->c->state));
		o->how = copy(c, "");
		o->config_hash = copy(c, hash);
		if (fill_digests(c, t->docker, o, from->c->image_id, err) < 0)
			return -1;
	}
	return 0;
}

/* Compose files are kept when they can be read; they need not be here. */
static int fill_files(struct copier *c, struct task *t, struct snapshot *s,
		      struct sc_err *err)
{
	char *const *files = t->stack->config_files;
	size_t n = 0;

	while (files && files[n])
		n++;
	s->files = calloc(n + 1, sizeof(*s->files));
	if (!s->files)
		return sc_oom(err, "snapshot");
	if (!docker_info(t->docker)->local)
		return 0;
	for (size_t i = 0; i < n; i++) {
		auto_buf struct buf b = { 0 };
		struct sc_err unread;

		if (io_read_file(AT_FDCWD, files[i], COMPOSE_FILE_MAX, &b,
				 &unread) <= 0)
			continue;
		if (!buf_cstr(&b) || memchr(b.p, 0, b.len))
			continue;
		s->files[s->nfiles].path = copy(c, files[i]);
		s->files[s->nfiles++].content = copy(c, buf_cstr(&b));
	}
	return 0;
}

/* "" for a map of everything onto itself. */
static bool is_identity(const char *map)
{
	unsigned long a, b, n;
	int end = 0;

	return sscanf(map, "%lu %lu %lu %n", &a, &b, &n, &end) == 3 && a == 0 &&
	       b == 0 && n == 4294967295ul && !map[end];
}

const char *record_uid_map(const struct task *t)
{
	const char *map = session_uid_map(t->session);

	return is_identity(map) ? "" : map;
}

static void fill_engine(struct copier *c, struct task *t, struct snapshot *s)
{
	const struct docker_info *e = docker_info(t->docker);

	s->engine_id = copy(c, e->id);
	s->engine_version = copy(c, e->version);
	s->engine_host = copy(c, e->host);
	s->engine_name = copy(c, e->name);
	s->uid_map = copy(c, record_uid_map(t));
}

static int fill(struct copier *c, struct task *t, struct snapshot *s,
		struct sc_err *err)
{
	bool trusted = args_flag(t->args, OPT_CAP_SYS_ADMIN);

	s->stack = copy(c, t->stack->name);
	s->created = time(NULL);
	s->tool = copy(c, "snapctl " SNAPCTL_VERSION);
	s->config_hash = copy(c, t->stack->config_hash);
	fill_engine(c, t, s);
	s->volumes = calloc(t->nvolumes + 1, sizeof(*s->volumes));
	if (!s->volumes)
		return sc_oom(err, "snapshot");
	for (size_t i = 0; i < t->nvolumes; i++)
		fill_volume(c, &s->volumes[s->nvolumes++], t->volumes[i],
			    trusted);
	if (fill_containers(c, t, s, err) < 0 || fill_files(c, t, s, err) < 0)
		return -1;
	return 0;
}

int record_new(struct task *t, const char *mode, const char *note,
	       const char *const *tags, size_t ntags, struct snapshot **out,
	       struct sc_err *err)
{
	struct snapshot *s = snapshot_new();
	struct copier c = { 0 };
	int rc;

	if (!s)
		return sc_oom(err, "snapshot");
	s->mode = copy(&c, mode);
	s->note = copy(&c, note);
	s->tags = copy_list(&c, (char *const *)tags, ntags);
	rc = fill(&c, t, s, err);
	if (rc == 0 && c.failed)
		rc = sc_oom(err, "snapshot");
	if (rc < 0)
		snapshot_free(s);
	else
		*out = s;
	return rc;
}

int record_taken(struct snapshot_volume *v, const struct frame_taken *t,
		 const struct chunk_table *table, const struct digest *index,
		 uint64_t index_length, struct sc_err *err)
{
	v->index = *index;
	v->index_length = index_length;
	v->entries = t->entries;
	v->bytes = t->bytes;
	v->chunks = t->chunks;
	v->new_bytes = t->bytes;
	v->stored_bytes = index_length;
	v->unreadable = t->unreadable;
	v->changed = t->changed;
	v->sockets = t->sockets;
	v->mounts = t->mounts;
	v->packs = calloc(table->npacks + 1, sizeof(*v->packs));
	if (!v->packs)
		return sc_oom(err, "list of packs");
	v->npacks = table->npacks;
	for (size_t i = 0; i < table->npacks; i++) {
		v->packs[i] = table->packs[i];
		v->stored_bytes += table->packs[i].length;
	}
	return 0;
}

/* The helper may still be going, and say so. */
static int copy_warnings(struct copier *c, struct notes *from,
			 struct snapshot *s)
{
	size_t n = 0;

	pthread_mutex_lock(&from->lock);
	s->warnings = calloc(from->n + 1, sizeof(*s->warnings));
	for (size_t i = 0; s->warnings && i < from->n; i++)
		if (from->v[i].kind == NOTE_WARN)
			s->warnings[n++] = copy(c, from->v[i].text);
	pthread_mutex_unlock(&from->lock);
	return s->warnings ? 0 : -1;
}

int record_finish(struct task *t, struct snapshot *s, bool live,
		  struct sc_err *err)
{
	struct copier c = { 0 };
	uint64_t unreadable = 0, changed = 0;

	for (size_t i = 0; i < s->nvolumes; i++) {
		unreadable += s->volumes[i].unreadable;
		changed += s->volumes[i].changed;
	}
	s->incomplete = unreadable > 0;
	s->torn = changed > 0;
	s->clean =
		!live && !s->torn && (!t->quiesce || quiesce_clean(t->quiesce));
	s->downtime = t->quiesce ? quiesce_downtime(t->quiesce) : 0;
	s->duration = task_now() - t->began;
	for (size_t i = 0; t->quiesce && i < s->ncontainers; i++) {
		free(s->containers[i].how);
		s->containers[i].how = copy(&c, quiesce_how(t->quiesce, i));
	}
	if (!s->clean && !t->notes.warnings)
		notes_add(&t->notes, NOTE_WARN,
			  "containers could write while the volumes were "
			  "read: the snapshot is not clean");
	if (copy_warnings(&c, &t->notes, s) < 0)
		return sc_oom(err, "snapshot");
	return c.failed ? sc_oom(err, "snapshot") : 0;
}
