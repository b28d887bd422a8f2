/* SPDX-License-Identifier: MIT */
/* The container engine over its HTTP API.
 *
 * client.c   endpoint, TLS, /_ping negotiation, one request at a time per
 *            easy handle, the engine's own message in our errors
 * api.c      typed calls; container.c, volume.c, image.c hold them
 * attach.c   the hijacked connection of a container's stdin and stdout
 * events.c   the engine's event stream, as something to poll
 *
 * A struct docker may be used from several threads at once: every call takes
 * its own connection from a locked cache. Strings in results are owned by the
 * result and freed with its _free function. Every JSON document from the
 * engine is treated as hostile: bounded in size (64 MiB), types checked.
 *
 * Source: Docker Engine API v1.41 (docs.docker.com/engine/api/v1.41). */
#ifndef SNAPCTL_DOCKER_DOCKER_H
#define SNAPCTL_DOCKER_DOCKER_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <snapctl/base/cancel.h>
#include <snapctl/base/err.h>

/* -- client.c ----------------------------------------------------------- */

struct docker;

struct docker_info {
	char *host;	 /* as used, "unix:///var/run/docker.sock" */
	char *id;	 /* engine id from /info; "podman:NAME:ROOT" there,
			  * whose own id changes; "" if /info is refused */
	char *name;	 /* host name of the engine, "" likewise */
	char *version;	 /* "20.10.24" */
	char *api;	 /* negotiated, "1.41" */
	char *os, *arch; /* "linux", "amd64" (Go names) */
	char *root_dir;	 /* data root, "" likewise */
	bool podman;
	bool local; /* reached through a unix socket */
};

/* host: NULL for DOCKER_HOST, then the default socket, then the rootless one
 * ($XDG_RUNTIME_DIR/docker.sock, /run/user/UID/docker.sock). unix:// and
 * tcp:// (TLS when DOCKER_TLS_VERIFY or DOCKER_CERT_PATH is set). Pings and
 * negotiates. An error says what was tried and how to fix it; permission
 * denied names the socket and the docker group.
 * cancel (borrowed, may be NULL) interrupts every wait: SC_EINTR. */
int docker_open(const char *host, struct cancel *cancel, struct docker **out,
		struct sc_err *err);
void docker_close(struct docker *d);
const struct docker_info *docker_info(const struct docker *d);
/* From now on calls of this client are not interrupted by cancel (for the
 * way back up) or are again. Counted per client, not per thread. */
void docker_shield(struct docker *d, bool on);

/* One request. path without the version prefix, e.g. "/containers/json".
 * body (borrowed, may be NULL) is sent as JSON. *status is the HTTP status;
 * statuses of 400 and above are not errors here but fill *out with the
 * document, if any. out may be NULL. timeout_ms bounds the silence of the
 * engine, 0 for the default (60 s), -1 for none. */
int docker_request(struct docker *d, const char *method, const char *path,
		   json_t *body, long timeout_ms, long *status, json_t **out,
		   struct sc_err *err);
/* Percent-encodes s for a path or query; malloc, owned. NULL on ENOMEM. */
char *docker_quote(const char *s);

/* -- api.c -------------------------------------------------------------- */

enum docker_state {
	DOCKER_CREATED,
	DOCKER_RUNNING,
	DOCKER_PAUSED,
	DOCKER_RESTARTING,
	DOCKER_EXITED,
	DOCKER_DEAD,
	DOCKER_OTHER,
};

enum docker_health {
	DOCKER_NO_HEALTH,
	DOCKER_STARTING,
	DOCKER_HEALTHY,
	DOCKER_UNHEALTHY
};

struct docker_label {
	char *key, *value;
};

struct docker_mount {
	char *type;   /* "volume", "bind", "tmpfs", … */
	char *name;   /* volume name, or "" */
	char *source; /* host path */
	char *target; /* path in the container */
	char *driver;
	bool rw;
	bool anonymous; /* a volume no name was given for (64 hex digits) */
};

/* What /containers/ID/json says, as far as snapctl needs it. */
struct docker_container {
	char *id;
	char *name;	 /* without the leading slash */
	char *image_id;	 /* sha256:… */
	char *image_ref; /* Config.Image */
	enum docker_state state;
	enum docker_health health;
	int exit_code;
	bool oom_killed;
	bool auto_remove;
	int restart_count;
	char *started_at; /* as the engine spells it */
	char *finished_at;
	char *restart_policy; /* "no", "always", … */
	char *stop_signal;    /* "" when default */
	int stop_timeout;     /* seconds, -1 when default */
	/* Health check bounds in ns, 0 when not set (engine defaults apply:
	 * interval 30 s, timeout 30 s, start period 0, retries 3). */
	int64_t health_interval, health_timeout, health_start_period;
	int health_retries;
	char *network_mode, *pid_mode, *ipc_mode; /* "container:ID" … */
	char **volumes_from;			  /* NULL-terminated */
	char **links;				  /* NULL-terminated */
	struct docker_label *labels;
	size_t nlabels;
	struct docker_mount *mounts;
	size_t nmounts;
};

/* NULL if there is no such label. Borrowed. */
const char *docker_label(const struct docker_label *l, size_t n,
			 const char *key);

/* Ids of containers, running or not. label: "key=value" or "key" or NULL.
 * *ids: NULL-terminated, owned, free with docker_strv_free. */
int docker_container_ids(struct docker *d, bool all, const char *label,
			 char ***ids, struct sc_err *err);
/* Ids of containers (all states) that mount the named volume. */
int docker_volume_users(struct docker *d, const char *volume, char ***ids,
			struct sc_err *err);
void docker_strv_free(char **v);
/* 1 found, 0 absent, -1. */
int docker_container_inspect(struct docker *d, const char *id,
			     struct docker_container **out, struct sc_err *err);
void docker_container_free(struct docker_container *c);
/* config is the body of /containers/create (borrowed). A name that is taken
 * is SC_ELOCKED. *id malloc, owned. warnings are ignored. */
int docker_container_create(struct docker *d, const char *name, json_t *config,
			    char **id, struct sc_err *err);
/* Each: 0 done (also when it was so already), -1. A container that does not
 * exist is SC_ENOTFOUND. */
int docker_container_start(struct docker *d, const char *id,
			   struct sc_err *err);
/* timeout in seconds, or -1 for the container's own. Waits until stopped. */
int docker_container_stop(struct docker *d, const char *id, int timeout,
			  struct sc_err *err);
int docker_container_pause(struct docker *d, const char *id,
			   struct sc_err *err);
int docker_container_unpause(struct docker *d, const char *id,
			     struct sc_err *err);
int docker_container_remove(struct docker *d, const char *id, bool force,
			    struct sc_err *err);
/* Waits until the container is not running. */
int docker_container_wait(struct docker *d, const char *id, int *exit_code,
			  struct sc_err *err);

struct docker_volume {
	char *name, *driver, *mountpoint, *created_at, *scope;
	struct docker_label *labels;
	size_t nlabels;
	struct docker_label *options;
	size_t noptions;
};

/* label as above; all volumes when NULL. *out: array of *n, owned, free with
 * docker_volumes_free. */
int docker_volume_list(struct docker *d, const char *label,
		       struct docker_volume **out, size_t *n,
		       struct sc_err *err);
void docker_volumes_free(struct docker_volume *v, size_t n);
/* 1 found (*out owned: docker_volumes_free(*out, 1)), 0 absent, -1. */
int docker_volume_inspect(struct docker *d, const char *name,
			  struct docker_volume **out, struct sc_err *err);
/* Creates exactly this volume (driver, options, labels; the rest ignored).
 * One that exists already is SC_EREFUSED. */
int docker_volume_create(struct docker *d, const struct docker_volume *v,
			 struct sc_err *err);
int docker_volume_remove(struct docker *d, const char *name,
			 struct sc_err *err);

struct docker_image {
	char *id;
	char *arch;
	char **digests; /* RepoDigests, NULL-terminated */
	char **tags;	/* RepoTags */
	char **layers;	/* RootFS.Layers */
	char **entrypoint;
};

/* ids of images that carry the label "key=value". */
int docker_image_ids(struct docker *d, const char *label, char ***ids,
		     struct sc_err *err);
/* 1 found, 0 absent, -1. */
int docker_image_inspect(struct docker *d, const char *ref,
			 struct docker_image **out, struct sc_err *err);
void docker_image_free(struct docker_image *i);
/* POST /images/load of an archive in memory (borrowed). The engine reports
 * failures inside a 200 stream: they are found there. */
int docker_image_load(struct docker *d, const void *tar, size_t n,
		      struct sc_err *err);

/* -- attach.c ----------------------------------------------------------- */

/* A container's stdin (raw) and stdout (demultiplexed); its stderr is kept
 * (last 4 KiB) for messages. Attach before the container is started. One
 * reader and one writer thread may work at the same time. */
struct docker_attach;

int docker_attach_open(struct docker *d, const char *id,
		       struct docker_attach **out, struct sc_err *err);
/* Nobody may be reading or writing any more. */
void docker_attach_close(struct docker_attach *a);
/* From any thread: reads and writes that wait, now or later, fail. */
void docker_attach_abort(struct docker_attach *a);
/* Up to n bytes of stdout; 0 at its end; -1. Interrupted by cancel. */
ssize_t docker_attach_read(struct docker_attach *a, void *p, size_t n,
			   struct sc_err *err);
int docker_attach_write(struct docker_attach *a, const void *p, size_t n,
			struct sc_err *err);
/* What the reader saw of the container's stderr so far, without NULs;
 * borrowed until the next call, "" if nothing. */
const char *docker_attach_stderr(struct docker_attach *a);

/* -- events.c ----------------------------------------------------------- */

struct docker_event {
	char type[32];	 /* "container" … */
	char action[64]; /* "die", "start", "health_status: healthy" … */
	char id[80];
	int64_t time_ns;
	int exit_code; /* of "die", else -1 */
};

struct docker_events;

/* Container events from now on (the subscription stands when this returns).
 * cancel interrupts docker_events_next, it does not end the stream. */
int docker_events_open(struct docker *d, struct docker_events **out,
		       struct sc_err *err);
void docker_events_close(struct docker_events *e);
/* Waits up to timeout_ms (-1: for ever). 1 an event, 0 timeout, -1 (also when
 * the stream broke: SC_EENGINE). */
int docker_events_next(struct docker_events *e, int timeout_ms,
		       struct docker_event *out, struct sc_err *err);
/* A descriptor that is readable when docker_events_next may have something. */
int docker_events_fd(const struct docker_events *e);

#endif
