/* SPDX-License-Identifier: MIT */
/* An engine in memory: the docker_* calls that src/stack makes, on tables
 * that a test fills, with a log of what was asked. */
#ifndef TESTS_STACK_FAKE_DOCKER_H
#define TESTS_STACK_FAKE_DOCKER_H

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <snapctl/docker/docker.h>

#define FAKE_MAX 32

struct fake_container {
	const char *id, *name;
	enum docker_state state;
	enum docker_health health;
	int healthy_after; /* inspects after its start until it is healthy */
	int exit_code;	   /* when stopped */
	int restart_count;
	int starts; /* part of started_at */
	const char *policy, *network_mode, *volumes_from, *link;
	const char *labels[16][2];
	struct docker_mount mounts[8];
	bool auto_remove, removed, no_start, runs_on;
	int64_t interval, timeout;
	int retries;
};

struct docker {
	struct docker_info info;
	struct fake_container c[FAKE_MAX];
	size_t n;
	struct docker_volume v[FAKE_MAX];
	struct docker_label vlabels[FAKE_MAX][4];
	size_t nv;
	pthread_mutex_t lock;
	char log[8192];
	struct docker_event q[256];
	size_t nq;
	int fd;
	bool broken;
	int shield;
	void (*on_call)(struct docker *d, const char *what, const char *id);
};

static void fake_init(struct docker *d)
{
	memset(d, 0, sizeof(*d));
	d->info.local = true;
	pthread_mutex_init(&d->lock, NULL);
	d->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
}

static void fake_done(struct docker *d)
{
	close(d->fd);
	pthread_mutex_destroy(&d->lock);
}

static struct fake_container *fake_add(struct docker *d, const char *name,
				       const char *project, const char *service)
{
	struct fake_container *c = &d->c[d->n++];
	size_t l = 0;

	*c = (struct fake_container){ .id = name,
				      .name = name,
				      .state = DOCKER_RUNNING,
				      .policy = "no" };
	if (project) {
		c->labels[l][0] = "com.docker.compose.project";
		c->labels[l++][1] = project;
		c->labels[l][0] = "com.docker.compose.service";
		c->labels[l++][1] = service;
		c->labels[l][0] = "com.docker.compose.container-number";
		c->labels[l++][1] = "1";
		c->labels[l][0] = "com.docker.compose.oneoff";
		c->labels[l++][1] = "False";
	}
	return c;
}

static void fake_label(struct fake_container *c, const char *k, const char *v)
{
	size_t l = 0;

	while (c->labels[l][0] && strcmp(c->labels[l][0], k) != 0)
		l++;
	c->labels[l][0] = k;
	c->labels[l][1] = v;
}

static void fake_mount(struct fake_container *c, const char *type,
		       const char *what, const char *target, bool rw)
{
	size_t m = 0;

	while (c->mounts[m].type)
		m++;
	c->mounts[m] = (struct docker_mount){
		.type = (char *)type,
		.name = (char *)(strcmp(type, "bind") ? what : ""),
		.source = (char *)(strcmp(type, "bind") ? "" : what),
		.target = (char *)target,
		.driver = (char *)"local",
		.rw = rw,
		.anonymous = strlen(what) == 64 && strcmp(type, "bind"),
	};
}

static struct docker_volume *fake_volume(struct docker *d, const char *name,
					 const char *project,
					 const char *shortname)
{
	struct docker_volume *v = &d->v[d->nv];

	*v = (struct docker_volume){ .name = (char *)name,
				     .driver = (char *)"local",
				     .mountpoint = (char *)"",
				     .created_at = (char *)"",
				     .scope = (char *)"local" };
	v->labels = d->vlabels[d->nv++];
	if (project)
		v->labels[v->nlabels++] = (struct docker_label){
			(char *)"com.docker.compose.project", (char *)project
		};
	if (shortname)
		v->labels[v->nlabels++] = (struct docker_label){
			(char *)"com.docker.compose.volume", (char *)shortname
		};
	return v;
}

static void fake_event(struct docker *d, const char *action, const char *id,
		       int code)
{
	struct docker_event e = { .exit_code = code };
	uint64_t one = 1;

	snprintf(e.type, sizeof(e.type), "container");
	snprintf(e.action, sizeof(e.action), "%s", action);
	snprintf(e.id, sizeof(e.id), "%s", id);
	pthread_mutex_lock(&d->lock);
	d->q[d->nq++] = e;
	pthread_mutex_unlock(&d->lock);
	if (write(d->fd, &one, sizeof(one)) != sizeof(one))
		abort();
}

static void fake_log(struct docker *d, const char *what, const char *id)
{
	size_t n;

	if (d->on_call)
		d->on_call(d, what, id);
	pthread_mutex_lock(&d->lock);
	n = strlen(d->log);
	snprintf(d->log + n, sizeof(d->log) - n, "%s%s %s", n ? "; " : "", what,
		 id);
	pthread_mutex_unlock(&d->lock);
}

static struct fake_container *fake_find(struct docker *d, const char *id)
{
	for (size_t i = 0; i < d->n; i++)
		if (!d->c[i].removed && (strcmp(d->c[i].id, id) == 0 ||
					 strcmp(d->c[i].name, id) == 0))
			return &d->c[i];
	return NULL;
}

static char *fake_dup(const char *s)
{
	char *copy = strdup(s ? s : "");

	if (!copy)
		abort();
	return copy;
}

static char **fake_list(const char *s)
{
	char **v = calloc(2, sizeof(*v));

	if (!v)
		abort();
	if (s)
		v[0] = fake_dup(s);
	return v;
}

/* -- the calls ------------------------------------------------------------ */

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

void docker_strv_free(char **v)
{
	for (size_t i = 0; v && v[i]; i++)
		free(v[i]);
	free(v);
}

static bool fake_has(const struct fake_container *c, const char *label)
{
	size_t n = label ? strcspn(label, "=") : 0;

	if (!label)
		return true;
	for (size_t l = 0; l < 16 && c->labels[l][0]; l++)
		if (strlen(c->labels[l][0]) == n &&
		    strncmp(c->labels[l][0], label, n) == 0)
			return !label[n] ||
			       strcmp(c->labels[l][1], label + n + 1) == 0;
	return false;
}

static bool fake_up(const struct fake_container *c)
{
	return c->state == DOCKER_RUNNING || c->state == DOCKER_PAUSED ||
	       c->state == DOCKER_RESTARTING;
}

int docker_container_ids(struct docker *d, bool all, const char *label,
			 char ***ids, struct sc_err *err)
{
	char **v = calloc(FAKE_MAX + 1, sizeof(*v));
	size_t n = 0;

	(void)err;
	if (!v)
		abort();
	pthread_mutex_lock(&d->lock);
	for (size_t i = 0; i < d->n; i++)
		if (!d->c[i].removed && (all || fake_up(&d->c[i])) &&
		    fake_has(&d->c[i], label))
			v[n++] = fake_dup(d->c[i].id);
	pthread_mutex_unlock(&d->lock);
	*ids = v;
	return 0;
}

int docker_volume_users(struct docker *d, const char *volume, char ***ids,
			struct sc_err *err)
{
	char **v = calloc(FAKE_MAX + 1, sizeof(*v));
	size_t n = 0;

	(void)err;
	if (!v)
		abort();
	for (size_t i = 0; i < d->n; i++)
		for (size_t m = 0; m < 8 && d->c[i].mounts[m].type; m++)
			if (strcmp(d->c[i].mounts[m].name, volume) == 0)
				v[n++] = fake_dup(d->c[i].id);
	*ids = v;
	return 0;
}

static void fake_copy(struct docker_container *o, struct fake_container *c)
{
	char started[32];

	snprintf(started, sizeof(started), "start %d", c->starts);
	o->id = fake_dup(c->id);
	o->name = fake_dup(c->name);
	o->image_id = fake_dup("sha256:0");
	o->image_ref = fake_dup("image");
	o->state = c->state;
	o->health = c->health;
	o->exit_code = fake_up(c) ? 0 : c->exit_code;
	o->auto_remove = c->auto_remove;
	o->restart_count = c->restart_count;
	o->started_at = fake_dup(started);
	o->finished_at = fake_dup(fake_up(c) ? "before" : "after");
	o->restart_policy = fake_dup(c->policy);
	o->stop_signal = fake_dup("");
	o->stop_timeout = -1;
	o->health_interval = c->interval;
	o->health_timeout = c->timeout;
	o->health_retries = c->retries;
	o->network_mode = fake_dup(c->network_mode);
	o->pid_mode = fake_dup("");
	o->ipc_mode = fake_dup("");
	o->volumes_from = fake_list(c->volumes_from);
	o->links = fake_list(c->link);
	o->labels = calloc(16, sizeof(*o->labels));
	o->mounts = calloc(8, sizeof(*o->mounts));
	for (size_t l = 0; l < 16 && c->labels[l][0]; l++)
		o->labels[o->nlabels++] =
			(struct docker_label){ fake_dup(c->labels[l][0]),
					       fake_dup(c->labels[l][1]) };
	for (size_t m = 0; m < 8 && c->mounts[m].type; m++) {
		struct docker_mount *t = &o->mounts[o->nmounts++];

		*t = c->mounts[m];
		t->type = fake_dup(t->type);
		t->name = fake_dup(t->name);
		t->source = fake_dup(t->source);
		t->target = fake_dup(t->target);
		t->driver = fake_dup(t->driver);
	}
}

int docker_container_inspect(struct docker *d, const char *id,
			     struct docker_container **out, struct sc_err *err)
{
	struct fake_container *c;
	struct docker_container *o;

	(void)err;
	pthread_mutex_lock(&d->lock);
	c = fake_find(d, id);
	if (c) {
		if (fake_up(c) && c->health == DOCKER_STARTING &&
		    c->healthy_after > 0 && --c->healthy_after == 0)
			c->health = DOCKER_HEALTHY;
		o = calloc(1, sizeof(*o));
		if (!o)
			abort();
		fake_copy(o, c);
		*out = o;
	}
	pthread_mutex_unlock(&d->lock);
	return c != NULL;
}

void docker_container_free(struct docker_container *c)
{
	if (!c)
		return;
	free(c->id);
	free(c->name);
	free(c->image_id);
	free(c->image_ref);
	free(c->started_at);
	free(c->finished_at);
	free(c->restart_policy);
	free(c->stop_signal);
	free(c->network_mode);
	free(c->pid_mode);
	free(c->ipc_mode);
	docker_strv_free(c->volumes_from);
	docker_strv_free(c->links);
	for (size_t i = 0; i < c->nlabels; i++) {
		free(c->labels[i].key);
		free(c->labels[i].value);
	}
	for (size_t i = 0; i < c->nmounts; i++) {
		free(c->mounts[i].type);
		free(c->mounts[i].name);
		free(c->mounts[i].source);
		free(c->mounts[i].target);
		free(c->mounts[i].driver);
	}
	free(c->labels);
	free(c->mounts);
	free(c);
}

static int fake_gone(const char *id, struct sc_err *err)
{
	return sc_fail(err, SC_ENOTFOUND, 0, "no such container %s", id);
}

int docker_container_start(struct docker *d, const char *id, struct sc_err *err)
{
	struct fake_container *c;
	bool fails = false;

	pthread_mutex_lock(&d->lock);
	c = fake_find(d, id);
	if (c && !c->no_start && !fake_up(c)) {
		c->state = DOCKER_RUNNING;
		c->starts++;
		if (c->health != DOCKER_NO_HEALTH)
			c->health = DOCKER_STARTING;
	}
	fails = c && c->no_start;
	pthread_mutex_unlock(&d->lock);
	if (!c)
		return fake_gone(id, err);
	fake_log(d, fails ? "failed" : "start", id);
	if (fails)
		return sc_fail(err, SC_EENGINE, 0, "port is taken");
	fake_event(d, "start", id, -1);
	return 0;
}

int docker_container_stop(struct docker *d, const char *id, int timeout,
			  struct sc_err *err)
{
	struct fake_container *c;

	(void)timeout;
	pthread_mutex_lock(&d->lock);
	c = fake_find(d, id);
	if (c && !c->runs_on) {
		c->state = DOCKER_EXITED;
		c->removed = c->auto_remove;
	}
	pthread_mutex_unlock(&d->lock);
	if (!c)
		return fake_gone(id, err);
	fake_log(d, "stop", id);
	fake_event(d, "die", id, c->exit_code);
	return 0;
}

static int fake_pause(struct docker *d, const char *id, bool on,
		      struct sc_err *err)
{
	struct fake_container *c;

	pthread_mutex_lock(&d->lock);
	c = fake_find(d, id);
	if (c)
		c->state = on ? DOCKER_PAUSED : DOCKER_RUNNING;
	pthread_mutex_unlock(&d->lock);
	if (!c)
		return fake_gone(id, err);
	fake_log(d, on ? "pause" : "unpause", id);
	return 0;
}

int docker_container_pause(struct docker *d, const char *id, struct sc_err *err)
{
	return fake_pause(d, id, true, err);
}

int docker_container_unpause(struct docker *d, const char *id,
			     struct sc_err *err)
{
	return fake_pause(d, id, false, err);
}

/* -- volumes -------------------------------------------------------------- */

static struct docker_label *fake_labels(const struct docker_label *l, size_t n)
{
	struct docker_label *v = calloc(n + 1, sizeof(*v));

	if (!v)
		abort();
	for (size_t i = 0; i < n; i++) {
		v[i].key = fake_dup(l[i].key);
		v[i].value = fake_dup(l[i].value);
	}
	return v;
}

static struct docker_volume fake_vcopy(const struct docker_volume *v)
{
	struct docker_volume o = *v;

	o.name = fake_dup(v->name);
	o.driver = fake_dup(v->driver);
	o.mountpoint = fake_dup(v->mountpoint);
	o.created_at = fake_dup(v->created_at);
	o.scope = fake_dup(v->scope);
	o.labels = fake_labels(v->labels, v->nlabels);
	o.options = fake_labels(v->options, v->noptions);
	return o;
}

int docker_volume_list(struct docker *d, const char *label,
		       struct docker_volume **out, size_t *n,
		       struct sc_err *err)
{
	size_t key = label ? strcspn(label, "=") : 0;

	(void)err;
	*out = calloc(FAKE_MAX, sizeof(**out));
	*n = 0;
	if (!*out)
		abort();
	for (size_t i = 0; i < d->nv; i++) {
		bool has = !label;

		for (size_t l = 0; label && l < d->v[i].nlabels; l++)
			has |= strncmp(d->v[i].labels[l].key, label, key) ==
				       0 &&
			       (!label[key] || strcmp(d->v[i].labels[l].value,
						      label + key + 1) == 0);
		if (has)
			(*out)[(*n)++] = fake_vcopy(&d->v[i]);
	}
	return 0;
}

int docker_volume_inspect(struct docker *d, const char *name,
			  struct docker_volume **out, struct sc_err *err)
{
	(void)err;
	for (size_t i = 0; i < d->nv; i++) {
		if (strcmp(d->v[i].name, name) != 0)
			continue;
		*out = calloc(1, sizeof(**out));
		if (!*out)
			abort();
		**out = fake_vcopy(&d->v[i]);
		return 1;
	}
	return 0;
}

void docker_volumes_free(struct docker_volume *v, size_t n)
{
	for (size_t i = 0; v && i < n; i++) {
		free(v[i].name);
		free(v[i].driver);
		free(v[i].mountpoint);
		free(v[i].created_at);
		free(v[i].scope);
		for (size_t l = 0; l < v[i].nlabels; l++) {
			free(v[i].labels[l].key);
			free(v[i].labels[l].value);
		}
		for (size_t l = 0; l < v[i].noptions; l++) {
			free(v[i].options[l].key);
			free(v[i].options[l].value);
		}
		free(v[i].labels);
		free(v[i].options);
	}
	free(v);
}

/* -- events --------------------------------------------------------------- */

int docker_events_open(struct docker *d, struct docker_events **out,
		       struct sc_err *err)
{
	(void)err;
	*out = (struct docker_events *)d;
	return 0;
}

void docker_events_close(struct docker_events *e)
{
	(void)e;
}

int docker_events_next(struct docker_events *e, int timeout_ms,
		       struct docker_event *out, struct sc_err *err)
{
	struct docker *d = (struct docker *)e;
	uint64_t count;
	int rc = 0;

	(void)timeout_ms;
	pthread_mutex_lock(&d->lock);
	if (d->nq) {
		*out = d->q[0];
		memmove(d->q, d->q + 1, --d->nq * sizeof(d->q[0]));
		rc = 1;
	} else if (read(d->fd, &count, sizeof(count)) < 0) {
		rc = 0; /* nothing to clear */
	}
	if (!rc && d->broken)
		rc = sc_fail(err, SC_EENGINE, 0, "the stream broke");
	pthread_mutex_unlock(&d->lock);
	return rc;
}

int docker_events_fd(const struct docker_events *e)
{
	return ((const struct docker *)e)->fd;
}

#endif
