/* SPDX-License-Identifier: MIT */
/* What the files of the repository share; contracts in repo.h. */
#ifndef SNAPCTL_REPO_INTERNAL_H
#define SNAPCTL_REPO_INTERNAL_H

#include <jansson.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include <snapctl/base/buf.h>
#include <snapctl/base/hash.h>
#include <snapctl/repo/repo.h>

#define MANIFEST_MAX	(4u << 20) /* registries take no more */
#define CONFIG_MAX	(64u << 20)
#define INDEX_JSON_MAX	(256u << 20)
#define JSON_VALUES_MAX (8u << 20) /* in one document */

#define NOTE_REF     "org.opencontainers.image.ref.name"
#define NOTE_CREATED "org.opencontainers.image.created"
#define NOTE_TITLE   "org.opencontainers.image.title"
#define NOTE_STACK   "io.snapctl.stack"
#define NOTE_ID	     "io.snapctl.id"

#define RUN_NAME 32

/* A blob that is complete and fsynced, but not published. */
struct sealed {
	struct digest digest;
	char name[RUN_NAME]; /* in the run's directory */
	bool renamed;	     /* into blobs/sha256 by the publish under way */
	bool existed;	     /* and was there before */
};

struct repo {
	char *path;
	int dir, blobs;
	bool writable;
	/* state/partial/RUN, made by the first blob; -1 until then. run_lock
	 * is held as long as the run lives. */
	pthread_mutex_t mutex; /* over what follows */
	int run, run_lock;
	char run_name[RUN_NAME];
	struct sealed *sealed;
	size_t nsealed, sealed_cap;
};

/* -- repo.c */
/* oci-layout, as repo_verify and repo_open want it. Strict: also fields that
 * do not belong there are SC_ECORRUPT. */
int repo_check_layout(struct repo *r, bool strict, struct sc_err *err);

/* -- run.c: temporaries of this run under state/partial */
/* Makes the run's directory unless it is there. */
int run_start(struct repo *r, struct sc_err *err);
/* Removes it and all in it. */
void run_end(struct repo *r);
/* Removes those of dead runs. */
int run_sweep(struct repo *r, struct sc_err *err);

/* -- blob.c */
/* Writes a whole sealed blob. */
int blob_document(struct repo *r, const void *p, size_t n, struct digest *d,
		  struct sc_err *err);
/* Reads it all: its length and digest, else SC_ECORRUPT. bytes is counted up,
 * cancel and stop end it (SC_EINTR); each may be NULL. */
struct blob_watch {
	atomic_uint_fast64_t *bytes;
	const struct cancel *cancel;
	const atomic_bool *stop;
};
int blob_check(struct repo *r, const struct digest *d, uint64_t length,
	       const struct blob_watch *watch, struct sc_err *err);
/* Regular file of that digest in blobs/sha256: 1 and its size, 0, -1. */
int blob_stat(struct repo *r, const struct digest *d, uint64_t *size,
	      struct sc_err *err);

/* -- layout.c: index.json */
/* Parses p; bounded. what: for the message. */
int layout_parse(const struct buf *text, const char *what, json_t **out,
		 struct sc_err *err);
/* index.json, checked to be an OCI image index. text may be NULL: not kept. */
int layout_read(struct repo *r, json_t **doc, struct buf *text,
		struct sc_err *err);
/* Puts doc in place of index.json: the commit. previous: what it was, put
 * back if the rename cannot be made durable. */
int layout_write(struct repo *r, const json_t *doc, const struct buf *previous,
		 struct sc_err *err);
/* Value of a string field or annotation, NULL if it is none. */
const char *layout_str(const json_t *obj, const char *key);
const char *layout_note(const json_t *desc, const char *key);
/* Digest and size of a descriptor; false if they are not there. */
bool layout_target(const json_t *desc, struct digest *d, uint64_t *size);

/* -- manifest.c */
/* STACK-YYYYMMDDTHHMMSSZ. The stack's name is made fit for a tag. */
void manifest_id(struct buf *out, const char *stack, int64_t created);
/* The same from the annotation, where the name is escaped already. */
void manifest_id_of_note(struct buf *out, const char *note, int64_t created);
/* The manifest of s, whose config blob is known. */
int manifest_encode(const struct snapshot *s, const struct digest *config,
		    uint64_t config_size, json_t **out, struct sc_err *err);
/* The descriptor that index.json holds for it. */
json_t *manifest_descriptor(const struct snapshot *s,
			    const struct digest *manifest, uint64_t size);
/* Manifest and config of a descriptor, checked against each other. layers,
 * may be NULL: an array of digest and length of every layer, owned. */
struct layer {
	struct digest digest;
	uint64_t length;
	bool index;
};
int manifest_load(struct repo *r, const struct digest *d, uint64_t size,
		  struct snapshot **out, struct layer **layers, size_t *n,
		  struct digest *config, uint64_t *config_size,
		  struct sc_err *err);
/* RFC 3339, UTC, whole seconds; false if it is something else. */
bool manifest_time(const char *s, int64_t *out);

/* -- present.c */
/* Packs and indexes of the named volumes (NULL: all) are there with their
 * lengths, else SC_ECORRUPT naming the first that is not. */
int present_lengths(struct repo *r, const struct snapshot *s,
		    const char *const *volumes, struct sc_err *err);

/* -- find.c */
/* The descriptor speaks for itself as a snapshot of ours. */
bool find_ours(const json_t *desc);
/* 1: a snapshot, *out to be cleared; 0: something else; -1. */
int find_one(struct repo *r, const json_t *desc, struct snapshot_ref *out,
	     struct sc_err *err);

/* -- verify.c */
/* What the threads of a verification share. */
struct verify {
	struct repo *repo;
	const struct verify_options *o;
	struct verify_result *out;
	pthread_mutex_t mutex; /* over out and o->problem */
	atomic_bool stop;
	atomic_size_t next; /* of the list being worked off */
};
/* Ids of snapshots; borrowed. */
struct touched {
	const char *const *ids;
	size_t n;
};
/* Counts and tells; snapshots: those it touches, may be none. */
void verify_problem(struct verify *v, const char *blob,
		    struct touched snapshots, const char *text);
/* A failure that is a finding: told, 0. Else, of ours or the user's: -1. */
int verify_found(struct verify *v, const char *blob, struct touched snapshots,
		 const struct sc_err *found, struct sc_err *err);
/* Runs fn(arg) in as many threads as are wanted and there are jobs for. */
int verify_threads(struct verify *v, size_t jobs,
		   int (*fn)(void *arg, struct sc_err *err), void *arg,
		   struct sc_err *err);

/* -- deep.c */
/* Segments whose chunks were checked before, by another index. */
struct deep_seen {
	struct digest *v;
	size_t n, cap;
};
void deep_seen_free(struct deep_seen *s);
/* Decompresses the segments of t and hashes every chunk. */
int deep_check(struct verify *v, struct deep_seen *seen,
	       const struct chunk_table *t, struct touched snapshots,
	       struct sc_err *err);

#endif
