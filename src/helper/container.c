/* SPDX-License-Identifier: MIT */
/* The helper's container: no network, no capabilities but the few it needs,
 * a read-only root, nothing logged by the engine. */
#include <errno.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <snapctl/base/hash.h>
#include <snapctl/base/mem.h>
#include <snapctl/helper/image.h>

#include "internal.h"

#define PIDS_LIMIT 1024

void container_mount_path(char out[32], unsigned volume)
{
	snprintf(out, 32, "/v/%u", volume);
}

int container_name(const char *stack, char out[128], struct sc_err *err)
{
	static const char ok[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
		"0123456789_.-";
	size_t len = strlen(stack), keep = len > 64 ? 64 : len;
	bool changed = keep != len;

	snprintf(out, 128, "snapctl-%.*s", (int)keep, stack);
	for (char *p = out + 8; *p; p++) {
		if (!strchr(ok, *p)) {
			*p = '_';
			changed = true;
		}
	}
	if (changed) {
		auto_hash struct hash *h = NULL;
		char hex[DIGEST_HEX + 1];
		struct digest d;

		if (hash_new(&h, err) < 0 ||
		    hash_once(h, stack, len, &d, err) < 0)
			return -1;
		digest_hex(&d, hex);
		snprintf(out + strlen(out), 128 - strlen(out), "-%.12s", hex);
	}
	return 0;
}

static json_t *mount_of(const struct session_volume *v, unsigned i, bool write)
{
	char target[32];

	container_mount_path(target, i);
	if (v->volume)
		return json_pack("{s:s, s:s, s:s, s:b, s:{s:b}}", "Type",
				 "volume", "Source", v->volume, "Target",
				 target, "ReadOnly", !write || v->held,
				 "VolumeOptions", "NoCopy", 1);
	return json_pack("{s:s, s:s, s:s, s:b}", "Type", "bind", "Source",
			 v->bind, "Target", target, "ReadOnly",
			 !write || v->held);
}

static json_t *mounts_of(const struct session_options *o, const char *dir)
{
	json_t *list = json_array();

	/* The _new calls take the reference even when they fail. */
	for (size_t i = 0; i < o->nvolumes; i++)
		if (json_array_append_new(list,
					  mount_of(&o->volumes[i], (unsigned)i,
						   o->write)) < 0)
			goto fail;
	if (dir && json_array_append_new(
			   list, json_pack("{s:s, s:s, s:s, s:b}", "Type",
					   "bind", "Source", dir, "Target",
					   CONTAINER_RUN, "ReadOnly", 1)) < 0)
		goto fail;
	return list;
fail:
	json_decref(list);
	return NULL;
}

static json_t *caps_of(const struct session_options *o)
{
	json_t *caps = json_pack("[s]", "DAC_READ_SEARCH");
	static const char *const restore[] = { "CHOWN",		 "DAC_OVERRIDE",
					       "FOWNER",	 "FSETID",
					       "MKNOD",		 "SETFCAP",
					       "LINUX_IMMUTABLE" };

	for (size_t i = 0; o->write && i < ARRAY_LEN(restore); i++)
		json_array_append_new(caps, json_string(restore[i]));
	if (o->cap_sys_admin)
		json_array_append_new(caps, json_string("SYS_ADMIN"));
	return caps;
}

static json_t *env_of(const char *dir, const char *token)
{
	json_t *env = json_array();
	char line[128];

	snprintf(line, sizeof(line), "SNAPCTL_TOKEN=%s", token);
	json_array_append_new(env, json_string(line));
	json_array_append_new(
		env, json_string(dir ? "SNAPCTL_SOCKET=" CONTAINER_SOCKET
				     : "SNAPCTL_ATTACH=1"));
	return env;
}

static json_t *config_of(const struct session_options *o, const char *image,
			 const char *dir, const char *token)
{
	char host[256] = "", pid[24];
	json_t *mounts = mounts_of(o, dir);

	if (!mounts)
		return NULL;
	if (gethostname(host, sizeof(host) - 1) < 0)
		host[0] = 0;
	snprintf(pid, sizeof(pid), "%ld", (long)getpid());
	return json_pack(
		"{s:s, s:s, s:o, s:b, s:b, s:b, s:b, s:b, s:{s:s, s:s, s:s, "
		"s:s, s:s},"
		" s:{s:s, s:s, s:b, s:[s], s:o, s:[s, s], s:{s:s}, s:i, s:o}}",
		"Image", image, "User", "0:0", "Env", env_of(dir, token),
		"OpenStdin", !dir, "StdinOnce", !dir, "AttachStdin", !dir,
		"AttachStdout", !dir, "AttachStderr", !dir, "Labels",
		IMAGE_LABEL, "1", "io.snapctl.stack", o->stack,
		"io.snapctl.command", o->command, "io.snapctl.pid", pid,
		"io.snapctl.host", host, "HostConfig", "NetworkMode", "none",
		"UsernsMode", "host", "ReadonlyRootfs", 1, "CapDrop", "ALL",
		"CapAdd", caps_of(o), "SecurityOpt", "no-new-privileges",
		"label=disable", "LogConfig", "Type", "none", "PidsLimit",
		PIDS_LIMIT, "Mounts", mounts);
}

/* Did the run that made this helper die? Only then may it be removed. */
static bool is_left_over(const struct docker_container *c)
{
	const char *host =
		docker_label(c->labels, c->nlabels, "io.snapctl.host");
	const char *pid = docker_label(c->labels, c->nlabels, "io.snapctl.pid");
	char here[256] = "";
	long n = pid ? strtol(pid, NULL, 10) : 0;

	if (!docker_label(c->labels, c->nlabels, IMAGE_LABEL))
		return false;
	if (c->state == DOCKER_EXITED || c->state == DOCKER_DEAD)
		return true;
	if (gethostname(here, sizeof(here) - 1) < 0 || !host ||
	    strcmp(host, here) != 0 || n <= 0)
		return false;
	return n != getpid() && kill((pid_t)n, 0) < 0 && errno == ESRCH;
}

/* A helper that outlives its run undoes its stage or finishes its commit, and
 * exits. It must not be killed in the middle of that. */
static int let_end(struct docker *d, const struct docker_container *c,
		   struct sc_err *err)
{
	const char *command =
		docker_label(c->labels, c->nlabels, "io.snapctl.command");
	int code;

	if (c->state != DOCKER_RUNNING || !command ||
	    strcmp(command, "restore") != 0)
		return 0;
	return docker_container_wait(d, c->id, &code, err);
}

/* The name is taken: remove a left-over (1: try again) or say who holds it. */
static int look_at_holder(struct docker *d, const char *name, const char *stack,
			  struct sc_err *err)
{
	struct docker_container *c;
	const char *cmd, *pid, *host;
	int rc = docker_container_inspect(d, name, &c, err);

	if (rc <= 0)
		return rc < 0 ? -1 : 1; /* gone meanwhile */
	if (is_left_over(c)) {
		rc = let_end(d, c, err);
		if (rc == 0)
			rc = docker_container_remove(d, c->id, true, err);
		rc = rc < 0 && err->code != SC_ENOTFOUND ? -1 : 1;
	} else {
		cmd = docker_label(c->labels, c->nlabels, "io.snapctl.command");
		pid = docker_label(c->labels, c->nlabels, "io.snapctl.pid");
		host = docker_label(c->labels, c->nlabels, "io.snapctl.host");
		rc = sc_fail(err, SC_ELOCKED, 0,
			     "stack %s is held by snapctl %s (pid %s on %s), "
			     "container %s",
			     stack, cmd ? cmd : "?", pid ? pid : "?",
			     host ? host : "?", c->name);
	}
	docker_container_free(c);
	return rc;
}

int container_create(struct docker *d, const struct session_options *o,
		     const char *image, const char *socket_dir,
		     const char *token, char **id, struct sc_err *err)
{
	json_t *config = config_of(o, image, socket_dir, token);
	char name[128];
	int rc;

	if (!config)
		return sc_oom(err, "container configuration");
	rc = container_name(o->stack, name, err);
	/* Once more after removing a left-over; a third would mean somebody
	 * else is quicker, who then holds it. */
	for (int i = 0; rc == 0 && i < 2; i++) {
		/* Interrupted, the engine would make it all the same, and
		 * nobody would know of it. */
		docker_shield(d, true);
		rc = docker_container_create(d, name, config, id, err);
		docker_shield(d, false);
		if (rc == 0 || err->code != SC_ELOCKED)
			break;
		rc = look_at_holder(d, name, o->stack, err);
		if (rc < 0)
			break;
		rc = i == 0 ? 0
			    : sc_fail(err, SC_ELOCKED, 0,
				      "stack %s: container %s is in use",
				      o->stack, name);
	}
	json_decref(config);
	return rc;
}

void container_epitaph(struct docker *d, const char *id, char *out, size_t cap)
{
	struct docker_container *c;
	struct sc_err ignored;

	int rc = docker_container_inspect(d, id, &c, &ignored);

	if (rc < 0) {
		snprintf(out, cap, "the engine does not answer (%s)",
			 ignored.msg);
		return;
	}
	if (rc == 0) {
		snprintf(out, cap, "its container was removed");
		return;
	}
	if (c->state == DOCKER_RUNNING)
		snprintf(out, cap, "it closed the connection");
	else if (c->oom_killed)
		snprintf(out, cap, "it was killed: out of memory");
	else if (c->exit_code > 128)
		snprintf(out, cap, "it was killed by signal %d",
			 c->exit_code - 128);
	else
		snprintf(out, cap, "it exited with %d", c->exit_code);
	docker_container_free(c);
}
