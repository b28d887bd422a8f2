/* SPDX-License-Identifier: MIT */
/* What a snapshot is: the config document of its manifest. */
#ifndef SNAPCTL_REPO_SNAPSHOT_H
#define SNAPCTL_REPO_SNAPSHOT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <snapctl/base/err.h>
#include <snapctl/base/hash.h>
#include <snapctl/scan/index.h>

struct snapshot_label {
	char *key, *value;
};

enum snapshot_kind { SNAP_FULL, SNAP_INCREMENTAL, SNAP_UNCHANGED };

struct snapshot_volume {
	char *name;		/* key within the snapshot, unique */
	char *type;		/* "volume", "anonymous", "bind" */
	char *driver;		/* "" for a bind */
	char *source;		/* host path of a bind, else "" */
	char *service, *target; /* of an anonymous volume, else "" */
	unsigned number;
	struct snapshot_label *options, *labels;
	size_t noptions, nlabels;
	char **targets; /* "service:/path", NULL-terminated */
	struct digest index;
	uint64_t index_length;
	enum snapshot_kind kind;
	uint64_t entries, bytes, chunks;
	uint64_t new_bytes;    /* plain bytes read and stored by this run */
	uint64_t stored_bytes; /* compressed bytes this run added for it */
	uint64_t unreadable, changed, sockets, mounts;
	bool trusted_seen; /* trusted.* xattrs were looked at */
	/* Every pack the index refers to, in the index's order. */
	struct pack_ref *packs;
	size_t npacks;
};

struct snapshot_container {
	char *name, *service, *image, *image_id;
	char **digests;
	unsigned number;
	char *state; /* before: "running", "paused", "exited" … */
	char *how;   /* how it stopped, "" if it was not */
	char *config_hash;
};

struct snapshot_file {
	char *path, *content; /* a compose file, when readable */
};

struct snapshot {
	char *id; /* set by repo_publish */
	char *stack;
	int64_t created; /* seconds, UTC: when the stop was complete */
	char *tool;	 /* "snapctl 0.1.0" */
	char *engine_id, *engine_version, *engine_host, *engine_name;
	char *mode; /* "stop", "no-stop", "precopy", "pre-restore" */
	char *note;
	char **tags;
	bool clean, torn, incomplete;
	double downtime, duration; /* seconds */
	char *config_hash;
	char *uid_map;	 /* /proc/self/uid_map of the helper, "" for identity */
	char **warnings; /* texts of the run's notes */
	struct snapshot_volume *volumes;
	size_t nvolumes;
	struct snapshot_container *containers;
	size_t ncontainers;
	struct snapshot_file *files;
	size_t nfiles;
};

struct snapshot *snapshot_new(void); /* NULL on ENOMEM; zeroed, owned */
void snapshot_free(struct snapshot *s);
/* The volume of this name, or NULL. Borrowed. */
struct snapshot_volume *snapshot_volume(const struct snapshot *s,
					const char *name);
/* New JSON document (owned) / checked decoding of a hostile one. The
 * document's "version" is 1; a higher one is SC_EPROTO. NULL strings are
 * written as "". Strings that are not UTF-8 (a compose file, a label) are
 * kept by escaping; see the implementation's header. */
int snapshot_encode(const struct snapshot *s, json_t **out, struct sc_err *err);
int snapshot_decode(const json_t *doc, struct snapshot **out,
		    struct sc_err *err);

#endif
