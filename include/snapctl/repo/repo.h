/* SPDX-License-Identifier: MIT */
/* The repository: an OCI image layout (image-spec v1.0/v1.1) of snapshots.
 *
 *   oci-layout  index.json  blobs/sha256/…  locks/  state/partial/
 *
 * repo.c      opening, creating, permissions
 * run.c       temporaries of this run, and those of dead ones
 * blob.c      blobs: written under state/partial, published by rename
 * lock.c      flock in locks/
 * packs.c     packs of one run: segments appended, split at a size
 * snapshot.c  the config document (what a snapshot is), JSON both ways
 * fields.c    structs to JSON objects and back, by tables
 * manifest.c  the OCI manifest
 * layout.c    index.json
 * publish.c   from sealed blobs to a listed snapshot
 * find.c      which snapshots there are
 * present.c   what a restore needs is there
 * verify.c    blobs against digests, indexes against packs
 * deep.c      chunks against their hashes
 *
 * A snapshot is one image manifest: artifactType
 * application/vnd.snapctl.snapshot.v1, config
 * application/vnd.snapctl.snapshot.v1+json, layers = every pack and every
 * index it needs, each with an org.opencontainers.image.title
 * ("VOLUME.tar.zst", "VOLUME.002.tar.zst" …, "VOLUME.index"), tag (ref.name in
 * index.json) = snapshot id. Everything read back is hostile: sizes are bounded
 * (manifest 4 MiB, config 64 MiB, index.json 256 MiB), digests checked.
 *
 * Nothing of a run is visible before repo_publish: blobs are temporaries in
 * state/partial, which die with the run (leftovers of dead runs are removed
 * by the next one that opens the repository for writing; a live run holds a
 * flock on its temporary directory). repo_publish renames them into
 * blobs/sha256, then writes index.json: that rename is the commit. */
#ifndef SNAPCTL_REPO_REPO_H
#define SNAPCTL_REPO_REPO_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include <snapctl/base/cancel.h>
#include <snapctl/base/err.h>
#include <snapctl/base/hash.h>
#include <snapctl/repo/snapshot.h>
#include <snapctl/scan/index.h>

#define MEDIA_MANIFEST	  "application/vnd.oci.image.manifest.v1+json"
#define MEDIA_SNAPSHOT	  "application/vnd.snapctl.snapshot.v1"
#define MEDIA_CONFIG	  "application/vnd.snapctl.snapshot.v1+json"
#define MEDIA_PACK_TAR	  "application/vnd.snapctl.pack.v1.tar+zstd"
#define MEDIA_PACK_CHUNKS "application/vnd.snapctl.chunks.v1+zstd"
#define MEDIA_INDEX	  "application/vnd.snapctl.index.v1"

struct repo; /* used by one thread at a time, unless said otherwise */

/* -- repo.c ------------------------------------------------------------- */

enum { REPO_READ = 0, REPO_WRITE = 1 };
/* REPO_WRITE creates what is missing (mode 0700, files 0600) and removes
 * partial blobs of dead runs. REPO_READ of a place that is no repository:
 * SC_ENOTFOUND; of one with no oci-layout or another layout version:
 * SC_ECORRUPT. An existing non-empty directory that is no repository is never
 * turned into one, and another user's is not written to: SC_EREFUSED. */
int repo_open(const char *path, int mode, struct repo **out,
	      struct sc_err *err);
void repo_close(struct repo *r); /* removes what this run left in partial */
const char *repo_path(const struct repo *r); /* absolute */
/* Free bytes where the repository lies. */
int repo_free_space(const struct repo *r, uint64_t *bytes, struct sc_err *err);

/* -- lock.c ------------------------------------------------------------- */

struct repo_lock;
enum repo_lock_mode { LOCK_SHARED, LOCK_EXCLUSIVE };
/* name: "repository", "index" or "stack-NAME" (NAME is made safe for a file
 * name). Waits up to wait seconds (0: not at all, -1: for ever; cancel, may
 * be NULL, ends it), then SC_ELOCKED naming the holder's pid, host and what
 * it does. what: written into the lock by an exclusive holder, "create" …
 * The lock dies with the process. */
int repo_lock(struct repo *r, const char *name, enum repo_lock_mode mode,
	      const char *what, int wait, const struct cancel *cancel,
	      struct repo_lock **out, struct sc_err *err);
void repo_unlock(struct repo_lock *l); /* NULL allowed */

/* -- blob.c ------------------------------------------------------------- */

struct blob_writer;
/* Several may be open at once, each used by one thread. */
int blob_new(struct repo *r, struct blob_writer **out, struct sc_err *err);
/* Appends, hashing; starts writeback as it goes. */
int blob_write(struct blob_writer *w, const void *p, size_t n,
	       struct sc_err *err);
uint64_t blob_length(const struct blob_writer *w);
/* For writers that fill the file themselves (index_writer): its descriptor;
 * then blob_seal_as gives the digest they computed. */
int blob_fd(const struct blob_writer *w);
/* fsyncs and keeps the blob in partial, ready for repo_publish. Consumes w
 * in any case. digest may be NULL. */
int blob_seal(struct blob_writer *w, struct digest *digest, uint64_t *length,
	      struct sc_err *err);
int blob_seal_as(struct blob_writer *w, const struct digest *digest,
		 struct sc_err *err);
void blob_discard(struct blob_writer *w); /* NULL allowed */
/* Opens a published blob for reading. 1 found, 0 absent, -1. */
int blob_open(struct repo *r, const struct digest *d, int *fd, uint64_t *size,
	      struct sc_err *err);
/* Reads a whole blob (at most max bytes) and checks its digest: SC_ECORRUPT
 * naming the blob if it differs or is absent. */
int blob_read(struct repo *r, const struct digest *d, size_t max,
	      struct buf *out, struct sc_err *err);

/* -- packs.c ------------------------------------------------------------ */

/* Packs of one volume's full snapshot (PACK_TAR), or of all volumes
 * (PACK_CHUNKS). */
struct packs;
int packs_new(struct repo *r, enum pack_kind kind, uint64_t max_size,
	      struct packs **out, struct sc_err *err);
void packs_free(struct packs *p); /* what is not finished is discarded */
/* Appends a segment; fills t->segments (pack numbers count from 0 in t).
 * Several tables may share the packs; each stays in place (t: borrowed) until
 * packs_finish, which completes the packs of all of them. */
int packs_append(struct packs *p, const void *stored, size_t n, uint32_t plain,
		 struct chunk_table *t, struct sc_err *err);
/* Seals the last pack; fills t->packs (sealed ones are filled already). */
int packs_finish(struct packs *p, struct chunk_table *t, struct sc_err *err);

/* -- publish.c ---------------------------------------------------------- */

/* Fills s->id (made from s->stack and s->created, -2, -3 … on a clash),
 * publishes all sealed blobs, writes config and manifest blobs, then
 * index.json, under the lock "index". On -1 nothing of it is listed, and
 * blobs that this call had renamed and nobody else refers to are removed. */
int repo_publish(struct repo *r, struct snapshot *s, struct sc_err *err);

/* -- find.c -------------------------------------------------------------- */

struct snapshot_ref {
	char *id;    /* tag */
	char *stack; /* from annotations of index.json, "" if none */
	int64_t created;
	struct digest manifest;
	uint64_t manifest_size;
	/* What is wrong with it (static), or NULL. Such a one is listed, so
	 * that it can be shown; repo_load refuses it. */
	const char *damage;
	bool copied; /* by another tool, which kept only tag and digest */
};
/* All snapshots that index.json names, oldest first. Descriptors that are
 * not snapshots are passed over. *out owned, snapshot_refs_free. */
int repo_list(struct repo *r, struct snapshot_ref **out, size_t *n,
	      struct sc_err *err);
void snapshot_refs_free(struct snapshot_ref *v, size_t n);
/* Resolves an id, a unique prefix, or "latest" (of stack, or of the only
 * stack there is). stack may be NULL. SC_ENOTFOUND names near ones; an
 * ambiguous prefix is SC_EUSAGE listing them. */
int repo_find(struct repo *r, const char *name, const char *stack,
	      struct snapshot_ref *out, struct sc_err *err);
void snapshot_ref_clear(struct snapshot_ref *ref);
/* Reads manifest and config, checks digests and that they agree. */
int repo_load(struct repo *r, const struct snapshot_ref *ref,
	      struct snapshot **out, struct sc_err *err);

/* -- verify.c ----------------------------------------------------------- */

struct verify_options {
	bool deep;	  /* every chunk against its hash */
	unsigned threads; /* 0: one for each core */
	/* Progress, may be NULL: bytes checked, and how many it will be
	 * (grows with deep, which reads packs again). */
	atomic_uint_fast64_t *bytes, *total;
	const struct cancel *cancel;
	/* Told of each problem, once for each snapshot that it touches (or
	 * with NULL); then in a row, with the same blob ("sha256:…" or the
	 * name of a file) and text. text says what is wrong and names the
	 * blob. One call at a time, from any thread. */
	void (*problem)(void *arg, const char *blob, const char *snapshot,
			const char *text);
	void *arg;
};
struct verify_result {
	uint64_t blobs, bytes, snapshots, problems;
};
/* Checks oci-layout, index.json and the given snapshots (all when n is 0):
 * manifests, configs, every blob's length and digest, every index loads and
 * its packs are those of the manifest. Each blob is read once, several at a
 * time. Returns 0 even when problems were found (see out), -1 if it could not
 * go on. Takes the shared repository lock itself. */
int repo_verify(struct repo *r, const char *const *ids, size_t n,
		const struct verify_options *o, struct verify_result *out,
		struct sc_err *err);
/* Before a restore: everything the snapshot needs is present with its
 * length, and manifest, config and indexes have their digests. SC_ECORRUPT
 * naming the blob. volumes: NULL-terminated names, or NULL for all. */
int repo_check_present(struct repo *r, const struct snapshot *s,
		       const char *const *volumes, struct sc_err *err);

#endif
