/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <snapctl/base/mem.h>

#include "internal.h"

#define DEFAULT_STOP_SECONDS 10
#define STOP_GRACE_SECONDS   120 /* for the kill that follows a stop */

/* -- lists -------------------------------------------------------------- */

static int list_ids(struct docker *d, bool all, const char *key,
		    const char *value, char ***ids, struct sc_err *err)
{
	json_t auto_json *doc = NULL;
	struct js s = { 0 };
	char **v;

	if (api_list(d, all ? "/containers/json?all=1&" : "/containers/json?",
		     key, value, "list containers", &doc, err) < 0)
		return -1;
	if (!json_is_array(doc))
		s.bad = "list";
	v = js_pluck(&s, doc, "Id");
	if (js_check(&s, "list containers", err) < 0) {
		docker_strv_free(v);
		return -1;
	}
	*ids = v;
	return 0;
}

int docker_container_ids(struct docker *d, bool all, const char *label,
			 char ***ids, struct sc_err *err)
{
	return list_ids(d, all, "label", label, ids, err);
}

int docker_volume_users(struct docker *d, const char *volume, char ***ids,
			struct sc_err *err)
{
	return list_ids(d, true, "volume", volume, ids, err);
}

/* -- inspect ------------------------------------------------------------ */

static const struct {
	const char *name;
	enum docker_state state;
} states[] = {
	{ "created", DOCKER_CREATED },
	{ "configured", DOCKER_CREATED },  /* Podman */
	{ "initialized", DOCKER_CREATED }, /* Podman */
	{ "running", DOCKER_RUNNING },
	{ "paused", DOCKER_PAUSED },
	{ "restarting", DOCKER_RESTARTING },
	{ "exited", DOCKER_EXITED },
	{ "stopped", DOCKER_EXITED }, /* Podman */
	{ "dead", DOCKER_DEAD },
};

static enum docker_state state_of(const char *s)
{
	for (size_t i = 0; i < ARRAY_LEN(states); i++)
		if (strcmp(states[i].name, s) == 0)
			return states[i].state;
	return DOCKER_OTHER;
}

static enum docker_health health_of(const char *s)
{
	if (strcmp(s, "starting") == 0)
		return DOCKER_STARTING;
	if (strcmp(s, "healthy") == 0)
		return DOCKER_HEALTHY;
	if (strcmp(s, "unhealthy") == 0)
		return DOCKER_UNHEALTHY;
	return DOCKER_NO_HEALTH;
}

static void read_state(struct js *s, json_t *o, struct docker_container *c)
{
	json_t *st = js_obj(s, o, "State");
	auto_free char *status = js_str(s, st, "Status");
	auto_free char *health = js_str(s, js_obj(s, st, "Health"), "Status");

	c->state = state_of(status ? status : "");
	c->health = health_of(health ? health : "");
	c->exit_code = (int)js_int(s, st, "ExitCode", 0);
	c->oom_killed = js_bool(s, st, "OOMKilled");
	c->started_at = js_str(s, st, "StartedAt");
	c->finished_at = js_str(s, st, "FinishedAt");
}

static void read_config(struct js *s, json_t *o, struct docker_container *c)
{
	json_t *cf = js_obj(s, o, "Config");
	json_t *hc = js_obj(s, cf, "Healthcheck");
	int64_t stop = js_int(s, cf, "StopTimeout", -1);

	c->image_ref = js_str(s, cf, "Image");
	c->stop_signal = js_str(s, cf, "StopSignal");
	c->stop_timeout = stop < -1 || stop > INT32_MAX ? -1 : (int)stop;
	c->labels = js_labels(s, cf, "Labels", &c->nlabels);
	c->health_interval = js_int(s, hc, "Interval", 0);
	c->health_timeout = js_int(s, hc, "Timeout", 0);
	c->health_start_period = js_int(s, hc, "StartPeriod", 0);
	c->health_retries = (int)js_int(s, hc, "Retries", 0);
}

static void read_host(struct js *s, json_t *o, struct docker_container *c)
{
	json_t *h = js_obj(s, o, "HostConfig");

	c->auto_remove = js_bool(s, h, "AutoRemove");
	c->restart_policy = js_str(s, js_obj(s, h, "RestartPolicy"), "Name");
	if (c->restart_policy && !*c->restart_policy) {
		free(c->restart_policy);
		c->restart_policy = strdup("no");
		s->oom |= !c->restart_policy;
	}
	c->network_mode = js_str(s, h, "NetworkMode");
	c->pid_mode = js_str(s, h, "PidMode");
	c->ipc_mode = js_str(s, h, "IpcMode");
	c->volumes_from = js_strv(s, h, "VolumesFrom");
	c->links = js_strv(s, h, "Links");
}

/* A volume that nobody named gets a random name. */
static bool looks_anonymous(const struct docker_mount *m)
{
	return m->type && m->name && strcmp(m->type, "volume") == 0 &&
	       strlen(m->name) == 64 &&
	       strspn(m->name, "0123456789abcdef") == 64;
}

static void read_mounts(struct js *s, json_t *o, struct docker_container *c)
{
	json_t *arr = js_arr(s, o, "Mounts");
	size_t n = json_array_size(arr);

	c->mounts = calloc(n + 1, sizeof(*c->mounts));
	if (!c->mounts) {
		s->oom = true;
		return;
	}
	for (; c->nmounts < n; c->nmounts++) {
		struct docker_mount *m = &c->mounts[c->nmounts];
		json_t *j = json_array_get(arr, c->nmounts);

		if (!json_is_object(j))
			s->bad = "Mounts";
		m->type = js_str(s, j, "Type");
		m->name = js_str(s, j, "Name");
		m->source = js_str(s, j, "Source");
		m->target = js_str(s, j, "Destination");
		m->driver = js_str(s, j, "Driver");
		m->rw = js_bool(s, j, "RW");
		m->anonymous = looks_anonymous(m);
	}
}

static void read_container(struct js *s, json_t *o, struct docker_container *c)
{
	c->id = js_str(s, o, "Id");
	c->name = js_str(s, o, "Name");
	if (c->name && *c->name == '/')
		memmove(c->name, c->name + 1, strlen(c->name));
	c->image_id = js_str(s, o, "Image");
	c->restart_count = (int)js_int(s, o, "RestartCount", 0);
	read_state(s, o, c);
	read_config(s, o, c);
	read_host(s, o, c);
	read_mounts(s, o, c);
	if (c->id && !*c->id)
		s->bad = "Id";
}

int docker_container_inspect(struct docker *d, const char *id,
			     struct docker_container **out, struct sc_err *err)
{
	auto_free char *path = docker_path("/containers/", id, "/json", err);
	json_t auto_json *doc = NULL;
	struct docker_container *c;
	struct js s = { 0 };
	int rc;

	*out = NULL;
	if (!path)
		return -1;
	rc = api_get(d, path, "inspect container", id, &doc, err);
	if (rc <= 0)
		return rc;
	c = calloc(1, sizeof(*c));
	if (!c)
		return sc_oom(err, "container");
	read_container(&s, doc, c);
	if (js_check(&s, "inspect container", err) < 0) {
		docker_container_free(c);
		return -1;
	}
	*out = c;
	return 1;
}

static void mount_free(struct docker_mount *m)
{
	free(m->type);
	free(m->name);
	free(m->source);
	free(m->target);
	free(m->driver);
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
	js_labels_free(c->labels, c->nlabels);
	for (size_t i = 0; i < c->nmounts; i++)
		mount_free(&c->mounts[i]);
	free(c->mounts);
	free(c);
}

/* -- create and remove -------------------------------------------------- */

int docker_container_create(struct docker *d, const char *name, json_t *config,
			    char **id, struct sc_err *err)
{
	auto_free char *path =
		docker_path("/containers/create?name=", name, "", err);
	json_t auto_json *doc = NULL;
	struct js s = { 0 };
	long status = 0;
	char *made;

	if (!path)
		return -1;
	if (api_do(d, "POST", path, config, DOCKER_SLOW_MS, "create container",
		   name, &status, &doc, err) < 0) {
		/* Podman's status for a name that is taken is 500. */
		if (err && (status == 409 ||
			    (status == 500 && strstr(err->msg, "name") &&
			     strstr(err->msg, "already in use"))))
			err->code = SC_ELOCKED;
		return -1;
	}
	made = js_str(&s, doc, "Id");
	if (made && !*made)
		s.bad = "Id";
	if (js_check(&s, "create container", err) < 0) {
		free(made);
		return -1;
	}
	*id = made;
	return 0;
}

/* POST /containers/ID/VERB; what: for the message. */
static int post(struct docker *d, const char *id, const char *verb,
		long timeout_ms, const char *what, json_t **doc, long *status,
		struct sc_err *err)
{
	auto_free char *path = docker_path("/containers/", id, verb, err);

	if (!path)
		return -1;
	return api_do(d, "POST", path, NULL, timeout_ms, what, id, status, doc,
		      err);
}

int docker_container_remove(struct docker *d, const char *id, bool force,
			    struct sc_err *err)
{
	/* Never v=1: volumes are not ours to delete. */
	auto_free char *path =
		docker_path("/containers/", id, force ? "?force=1" : "", err);
	struct sc_err own = { 0 };
	long status = 0;

	if (!err)
		err = &own;
	if (!path)
		return -1;
	if (api_do(d, "DELETE", path, NULL, DOCKER_SLOW_MS, "remove container",
		   id, &status, NULL, err) == 0)
		return 0;
	if (status != 409 || !strstr(err->msg, "in progress"))
		return -1;
	/* Somebody else is at it (AutoRemove): wait for them. */
	if (post(d, id, "/wait?condition=removed", DOCKER_SLOW_MS,
		 "remove container", NULL, &status, err) < 0)
		return status == 404 ? 0 : -1;
	return 0;
}

/* -- start, stop, pause ------------------------------------------------- */

int docker_container_start(struct docker *d, const char *id, struct sc_err *err)
{
	return post(d, id, "/start", DOCKER_SLOW_MS, "start container", NULL,
		    NULL, err);
}

/* How long a stop may be silent. */
static int stop_silence(struct docker *d, const char *id, int timeout, long *ms,
			struct sc_err *err)
{
	struct docker_container *c = NULL;
	int rc;

	if (timeout < 0) {
		rc = docker_container_inspect(d, id, &c, err);
		if (rc < 0)
			return -1;
		if (rc == 0)
			return sc_fail(err, SC_ENOTFOUND, 0,
				       "stop container %s: no such container",
				       id);
		timeout = c->stop_timeout < 0 ? DEFAULT_STOP_SECONDS
					      : c->stop_timeout;
		docker_container_free(c);
	}
	*ms = ((long)timeout + STOP_GRACE_SECONDS) * 1000;
	return 0;
}

int docker_container_stop(struct docker *d, const char *id, int timeout,
			  struct sc_err *err)
{
	char verb[32] = "/stop";
	long ms = -1;

	if (stop_silence(d, id, timeout, &ms, err) < 0)
		return -1;
	if (timeout >= 0)
		snprintf(verb, sizeof(verb), "/stop?t=%d", timeout);
	return post(d, id, verb, ms, "stop container", NULL, NULL, err);
}

/* Engines answer 409 or 500 when there was nothing to do. */
static int post_until(struct docker *d, const char *id, const char *verb,
		      const char *what, enum docker_state want,
		      struct sc_err *err)
{
	struct docker_container *c = NULL;
	struct sc_err other;
	long status = 0;
	bool so;

	if (post(d, id, verb, DOCKER_SLOW_MS, what, NULL, &status, err) == 0)
		return 0;
	if ((status != 409 && status != 500) ||
	    docker_container_inspect(d, id, &c, &other) != 1)
		return -1;
	so = c->state == want;
	docker_container_free(c);
	return so ? 0 : -1;
}

int docker_container_pause(struct docker *d, const char *id, struct sc_err *err)
{
	return post_until(d, id, "/pause", "pause container", DOCKER_PAUSED,
			  err);
}

int docker_container_unpause(struct docker *d, const char *id,
			     struct sc_err *err)
{
	return post_until(d, id, "/unpause", "unpause container",
			  DOCKER_RUNNING, err);
}

int docker_container_wait(struct docker *d, const char *id, int *exit_code,
			  struct sc_err *err)
{
	json_t auto_json *doc = NULL;
	struct js s = { 0 };
	int64_t code;

	if (post(d, id, "/wait", -1, "wait for container", &doc, NULL, err) < 0)
		return -1;
	code = js_int(&s, doc, "StatusCode", INT64_MIN);
	if (code < INT32_MIN || code > INT32_MAX)
		s.bad = "StatusCode";
	if (js_check(&s, "wait for container", err) < 0)
		return -1;
	*exit_code = (int)code;
	return 0;
}
