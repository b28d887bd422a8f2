/* SPDX-License-Identifier: MIT */
/* What the files of src/restore share.
 *
 * The plan is one octet for each entry of the index: an operation and where
 * the entry lies in the stage, in canonical order; beside it the list of live
 * names to be removed. The live volume is never held in memory: a directory
 * is read, merged with its entries of the index and forgotten.
 *
 * The stage holds two kinds of things. What replaces an entry of a directory
 * that is there already lies flat, named by its slot, and takes one rename.
 * A directory that is not there yet is built whole beneath its number, with
 * everything in it and its final metadata, and takes one rename as well. */
#ifndef SNAPCTL_RESTORE_INTERNAL_H
#define SNAPCTL_RESTORE_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/stat.h>

#include <snapctl/base/group.h>
#include <snapctl/restore/restore.h>

enum rop {
	ROP_NONE,    /* not decided */
	ROP_SKIP,    /* not in the snapshot: whatever is there stays */
	ROP_KEEP,    /* provably right */
	ROP_META,    /* there; owner, mode, xattrs, times are mended */
	ROP_REPLACE, /* renamed out of the stage */
	ROP_MKDIR,   /* went away since it was planned: made in place */
	ROP_INSIDE,  /* comes with its directory */
};
#define ROP_MASK  7
#define ROP_CLEAR 8  /* what has its name is removed first */
#define ROP_FLAT  16 /* staged by number */
#define ROP_IN	  32 /* staged in its directory */

#define BLOCK_SLOTS 4096 /* entries staged flat in one directory */

/* A live name that the index does not have. */
struct removal {
	uint32_t parent; /* slot in the index */
	uint32_t len;
	size_t name; /* in rm_names, NUL-terminated */
};

struct link_group {
	uint64_t ino;
	uint32_t leader; /* slot, TREE_NONE until it is found */
};

/* One chunk of one file; off counts data bytes, holes not (extents map it). */
struct wref {
	uint32_t chunk, slot;
	uint64_t off;
};

/* A file whose chunks lie in several segments. */
struct partial {
	uint32_t slot;
	atomic_uint_least32_t left; /* chunks not written yet */
	atomic_bool begun;	    /* somebody has given it its blocks */
};

struct identity {
	uint64_t mnt, dev, ino;
	bool has_mnt;
};

struct restore {
	int rootfd, stagefd;
	bool unfinished; /* an earlier commit did not end */
	bool marked;	 /* the journal says committing */
	struct tree *tree;
	const struct chunk_table *chunks;
	struct restore_options o;
	struct notes *notes;
	struct identity root, leave_out; /* leave_out.ino 0: none */
	uint32_t n;

	uint8_t *op;
	uint64_t *stamp; /* of a staged regular file, as it was left */
	struct removal *rm;
	size_t nrm, rm_cap;
	struct buf rm_names;
	struct link_group *links;
	size_t nlinks;
	struct restore_summary sum;

	uint32_t *needs;
	size_t nneeds, needs_cap;
	size_t *ref_end; /* for each need, where its refs end */
	struct wref *refs;
	struct partial *partial;
	size_t npartial, partial_cap;

	struct timespec root_before, root_staged; /* mtimes of the root */
	bool committing, rechecking;
	bool direct;	      /* large files are written past the page cache */
	pthread_mutex_t lock; /* plan: stack and removals; stage: the source */
};

/* -- dirs.c: directories, each opened relative to its parent ------------- */

struct level {
	uint32_t slot;
	int fd;
};

struct rdirs {
	struct restore *r;
	bool stage; /* directories of the stage, else live ones */
	struct level *v;
	uint32_t *path;
	size_t n, cap, path_cap;
	int block_fd;
	uint32_t block;
};

void rdirs_init(struct rdirs *d, struct restore *r, bool stage);
void rdirs_free(struct rdirs *d);
/* *fd: borrowed until the next call on d. */
int rdirs_get(struct rdirs *d, uint32_t slot, int *fd, struct sc_err *err);
/* The directory and the name by which slot is found: live by its parent, in
 * the stage by its place. name lives as long as tmp and the tree. */
int rdirs_place(struct rdirs *d, uint32_t slot, int *fd, const char **name,
		char tmp[16], struct sc_err *err);
/* A directory beneath, never through a symlink or into another mount.
 * The descriptor, or -1 and errno (EXDEV: a mount point). */
int rdirs_open(const struct restore *r, int dir, const char *name);
int rdirs_identity(int fd, struct identity *id, struct sc_err *err);
bool rdirs_foreign(const struct restore *r, const struct statx *st);
/* The escaped path of an entry for messages, in a static-size buffer. */
#define RPATH 512
const char *rpath(const struct restore *r, uint32_t slot, char out[RPATH]);
const char *rpath_in(const struct restore *r, uint32_t dir, const char *name,
		     char out[RPATH]);
int rstopped(const struct restore *r, struct sc_err *err);

/* -- names.c: one live directory, sorted --------------------------------- */

struct live_name {
	size_t at; /* in bytes */
	uint16_t len;
	uint8_t type; /* DT_… */
};

struct live_names {
	struct buf bytes;
	struct live_name *v;
	size_t n, cap;
};

int rnames_read(struct live_names *l, int fd, struct sc_err *err);
void rnames_free(struct live_names *l);
static inline const char *rname(const struct live_names *l, size_t i)
{
	return (const char *)l->bytes.p + l->v[i].at;
}

/* -- links.c -------------------------------------------------------------- */

int rlinks_build(struct restore *r, struct sc_err *err);
/* The group's first name, or TREE_NONE when slot has one name only. */
uint32_t rlinks_leader(const struct restore *r, uint32_t slot);

/* -- remove.c ------------------------------------------------------------- */

struct rremove {
	struct restore *r;
	bool dry;    /* only look: refuse what would not go */
	bool refuse; /* dry: a mount point within is a refusal */
	bool force;  /* the stage: take immutable flags away */
	bool kept;   /* something within was left */
	uint64_t n;  /* entries removed, or that would be */
	unsigned depth;
};
/* The tree called name in dir; what is not there is fine. what: escaped, for
 * messages. */
int rremove(struct rremove *x, int dir, const char *name, const char *what,
	    struct sc_err *err);

/* -- meta.c --------------------------------------------------------------- */

struct rmeta {
	struct restore *r;
	char *list, *value; /* of an inode's xattrs */
};

void rmeta_free(struct rmeta *m);
/* Flags that must be set while a file is empty. */
int rmeta_early(struct rmeta *m, int fd, uint32_t slot, struct sc_err *err);
/* A file or directory made in the stage, its data being there: all but
 * immutable and append-only. *st: as it is now. */
int rmeta_fresh(struct rmeta *m, int fd, uint32_t slot, struct stat *st,
		struct sc_err *err);
/* The same for what cannot be opened: symlinks, fifos, devices. */
int rmeta_fresh_at(struct rmeta *m, int dir, const char *name, uint32_t slot,
		   struct sc_err *err);
/* What is live already: only where it differs; with all flags. */
int rmeta_mend(struct rmeta *m, int fd, uint32_t slot, struct sc_err *err);
int rmeta_mend_at(struct rmeta *m, int dir, const char *name, uint32_t slot,
		  struct sc_err *err);
/* All flags, for a file with immutable or append-only. */
int rmeta_last_flags(struct rmeta *m, int fd, uint32_t slot,
		     struct sc_err *err);
#define RMETA_LOCKS 0x30 /* FS_IMMUTABLE_FL | FS_APPEND_FL */

/* -- journal.c ------------------------------------------------------------ */

enum rjournal_state { RJ_STAGING = 1, RJ_COMMITTING = 2, RJ_DONE = 3 };

/* Deals with a stage that is there already. */
int rjournal_look(struct restore *r, struct sc_err *err);
int rjournal_begin(struct restore *r, struct sc_err *err);
int rjournal_state(struct restore *r, enum rjournal_state s,
		   struct sc_err *err);
/* Removes the stage; the root's mtime is not put back. */
int rjournal_remove(struct restore *r, struct sc_err *err);

/* -- plan.c, work.c, make.c ---------------------------------------------- */

int rplan_merge(struct restore *r, struct sc_err *err);
int rplan_check(const struct restore *r, struct sc_err *err);
int rwork_build(struct restore *r, struct sc_err *err);
struct partial *rwork_partial(struct restore *r, uint32_t slot);

static inline enum rop rop_of(const struct restore *r, uint32_t slot)
{
	return r->op[slot] & ROP_MASK;
}

static inline bool is_staged(const struct restore *r, uint32_t slot)
{
	return (r->op[slot] & (ROP_FLAT | ROP_IN)) != 0;
}

static inline bool is_link(const struct entry *e)
{
	return (e->bits & ENTRY_LINK) != 0;
}

/* A thread that fills the stage. */
struct stager {
	struct restore *r;
	struct rdirs dirs;
	struct rmeta meta;
};

void rmake_init(struct stager *s, struct restore *r);
void rmake_free(struct stager *s);
/* Creates or opens for writing. *fresh: only this call writes it. */
int rmake_open(struct stager *s, uint32_t slot, bool fresh, int *fd,
	       struct sc_err *err);
/* After the data: size, metadata, stamp. */
int rmake_finish(struct stager *s, int fd, uint32_t slot, struct sc_err *err);
int rmake_dir(struct stager *s, uint32_t slot, struct sc_err *err);
int rmake_dir_meta(struct stager *s, uint32_t slot, struct sc_err *err);
/* A symlink, fifo, device, or a file without data. */
int rmake_plain(struct stager *s, uint32_t slot, struct sc_err *err);
int rmake_link(struct stager *s, uint32_t slot, struct sc_err *err);
/* The regular file is still as it was left: 1, else 0; or -1. */
int rmake_same(struct stager *s, uint32_t slot, struct sc_err *err);

/* -- direct.c ------------------------------------------------------------- */

#define DIRECT_ALIGN 4096

/* Whether the volume's file system takes direct writes well. */
bool rdirect_volume(const struct restore *r);
/* Whether the file is one for them. */
bool rdirect_file(const struct restore *r, uint32_t slot);
/* Gives a large file its blocks, once. */
int rdirect_begin(struct restore *r, struct partial *p, int fd,
		  struct sc_err *err);
/* Writes what is aligned in memory and file alike, from *p and *off on, which
 * it moves; what is left is to be written as usual. */
int rdirect_write(int fd, const unsigned char **p, size_t *n, uint64_t *off,
		  struct sc_err *err);

/* -- flush.c -------------------------------------------------------------- */

struct rflush;
/* *out may be set on failure, for rflush_end. */
int rflush_start(struct rflush **out, struct sc_err *err);
void rflush_end(struct rflush *f); /* NULL allowed */
/* Whole pages of n bytes at off: one that is under way would hold up the next
 * write to it. fd: borrowed. */
void rflush_add(struct rflush *f, int fd, uint64_t off, uint64_t len);

#endif
