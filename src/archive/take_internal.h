/* SPDX-License-Identifier: MIT */
/* What the files of take share.
 *
 * Jobs live in a ring of k->window slots and are known by a sequence number.
 * The planner fills slots, workers take them in order and mark them first
 * read, then done; done jobs are emitted in order. A job waits only for jobs
 * before it (the baton of a block, the first name of a hard link), so the
 * oldest one can always go on. */
#ifndef SNAPCTL_ARCHIVE_TAKE_INTERNAL_H
#define SNAPCTL_ARCHIVE_TAKE_INTERNAL_H

#include <pthread.h>
#include <sys/stat.h>

#include <snapctl/archive/chunker.h>
#include <snapctl/archive/take.h>
#include <snapctl/archive/tarhdr.h>
#include <snapctl/base/buf.h>
#include <snapctl/base/group.h>
#include <snapctl/base/hash.h>
#include <snapctl/base/zst.h>

#define WHOLE_MAX   (256u << 10)   /* data up to this is one chunk */
#define BLOCK_LEN   SEGMENT_TARGET /* of a file taken in blocks */
#define BIG_ABOVE   BLOCK_LEN	   /* larger ones are */
#define EXTENTS_MAX 65536u

/* -- directories -------------------------------------------------------- */

/* The open directories from the root down to the last one asked for; in deep
 * trees only the lowest DIRS_OPEN of them. */
struct dirs {
	const struct tree *tree;
	int rootfd;
	struct dir_level {
		uint32_t slot;
		int fd; /* -1: closed to spare descriptors */
	} * v;
	size_t n, cap;
	uint32_t *path; /* scratch */
	size_t path_cap;
};
void dirs_free(struct dirs *d);
/* The descriptor of directory slot, borrowed until the next call. -1: err's
 * sys is what open said. */
int dirs_get(struct dirs *d, uint32_t slot, int *fd, struct sc_err *err);

/* -- what is known of one entry besides its data ------------------------- */

struct meta {
	struct stat st;
	uint32_t flags;
	bool sparse;
	uint64_t data; /* bytes of data: size, or sum of the extents */
	struct buf xattrs, target;
	struct extent *x;
	uint32_t nx;
	size_t xcap;
	char *list; /* scratch: names, a value */
	unsigned char *value;
};
int meta_init(struct meta *m, struct sc_err *err);
void meta_free(struct meta *m);
/* All of an open entry but its data. path_fd: opened with O_PATH. trusted:
 * keep trusted.*. err's sys says what the system refused. */
int meta_read(struct meta *m, int fd, bool path_fd, bool trusted,
	      struct sc_err *err);
bool stat_same(const struct stat *a, const struct stat *b);
/* st is what the walk saw. */
bool stat_is_entry(const struct stat *st, const struct entry *e);
void stat_to_entry(const struct stat *st, struct entry *e);
/* n bytes from position off of the data (extents end to end) into p. Missing
 * ones are zeros; *missing tells. -1 with errno. */
int data_read(int fd, const struct extent *x, uint32_t nx, uint64_t off,
	      unsigned char *p, size_t n, bool *missing);

/* -- jobs --------------------------------------------------------------- */

struct segment_out {
	unsigned char *p; /* owned, k->out_cap bytes or more */
	size_t cap, n;
	uint32_t plain;
};

struct job_file {
	uint32_t slot, first, count; /* chunks, counted in the job */
};

struct job_blob {
	uint32_t slot;
	bool target;	/* a link target, else xattrs */
	size_t at, len; /* in job.blobs */
};

/* A file taken in blocks. Freed after its last block was emitted. */
struct bigfile {
	struct bigfile *next; /* in k->bigs */
	uint32_t slot;
	int fd;
	struct stat before;
	struct buf header;
	unsigned pad;
	struct extent *x; /* owned; NULL: not sparse */
	uint32_t nx;
	uint64_t len, blocks;
	/* Below: under k->lock. */
	uint64_t unread;
	bool unreadable;
	uint64_t turn;	      /* the block that has the baton */
	unsigned char *carry; /* bytes after the last cut */
	size_t ncarry;
	/* Only by who emits. */
	size_t first_chunk;
};

struct job {
	uint64_t seq;
	bool read, done;      /* under k->lock */
	bool last;	      /* the end of the archive */
	uint32_t rank, count; /* a batch: entries in canonical order */
	struct bigfile *f;    /* a block of it, or NULL */
	uint64_t block;
	/* What came out. */
	struct segment_out *segs;
	size_t nsegs, segs_cap;
	struct chunk *chunks; /* segment counted in the job */
	size_t nchunks, chunks_cap;
	struct job_file *files;
	size_t nfiles, files_cap;
	struct job_blob *blob;
	size_t nblobs, blobs_cap;
	struct buf blobs;
	struct take_result sum;
};

struct take {
	int rootfd;
	struct tree *t;
	const struct take_options *o;
	const struct take_sink *sink;
	struct notes *notes;
	struct chunk_table *chunks;
	struct chunker chunker;
	struct group *group;
	struct job *ring;
	unsigned window;
	size_t out_cap;
	atomic_bool cold; /* data is not in memory: read ahead */

	pthread_mutex_t lock;
	pthread_cond_t work; /* a job was planned */
	pthread_cond_t step; /* a job was read or emitted, a baton passed */
	uint64_t planned, taken, emitted, unread;
	bool plan_done, emitting, told;
	struct segment_out *spare;
	size_t nspare, spare_cap;
	struct bigfile *bigs; /* not yet emitted to their end */

	struct take_result res; /* by who emits */
};

/* One thread's tools; the planner has some too. */
struct worker {
	struct take *k;
	struct dirs dirs;
	struct meta meta;
	struct tarhdr *hdr;
	struct hash *hash;
	struct zst_enc *enc;
	struct buf plain; /* the segment in the making */
	struct buf path, path2;
	uint32_t *cand;
	uint32_t *lens;
};
int worker_init(struct worker *w, struct take *k, struct sc_err *err);
void worker_free(struct worker *w);

/* take_batch.c, take_block.c: one job. */
int batch_run(struct worker *w, struct job *j, struct sc_err *err);
int block_run(struct worker *w, struct job *j, struct sc_err *err);
/* Opens entry slot for taking in blocks. 1: *out; 0: it has so little data
 * that it belongs in a batch, *data of it; 2: it cannot be taken (recorded in
 * j's sums). */
int block_open(struct worker *w, struct job *j, uint32_t slot,
	       struct bigfile **out, uint64_t *data, struct sc_err *err);
void bigfile_free(struct bigfile *f); /* out of k->bigs, by who holds it */

/* take_entry.c: steps that both kinds take. */
/* An entry cannot be read (sys). 0: recorded and said, go on without it. */
int entry_lost(struct worker *w, struct job *j, uint32_t slot, int sys,
	       struct sc_err *err);
/* An unreadable symlink has an empty target, so that each has one. */
int entry_no_target(struct job *j, uint32_t slot, const struct entry *e,
		    struct sc_err *err);
/* It is not what it was. 0: recorded and said (a pass beside writers). */
int entry_changed(struct worker *w, struct job *j, uint32_t slot,
		  const char *how, struct sc_err *err);
/* Puts what w->meta holds into the entry and the job. */
int entry_keep(struct worker *w, struct job *j, uint32_t slot,
	       struct sc_err *err);
/* The headers of slot, from w->meta, appended to out. */
int entry_header(struct worker *w, uint32_t slot, const char *hardlink,
		 struct buf *out, unsigned *pad, struct sc_err *err);
/* entry.bits of an entry that other threads may look at. What they were. */
unsigned entry_mark(struct take *k, struct entry *e, unsigned bits);
unsigned entry_marks(struct take *k, const struct entry *e);
const char *entry_shown(struct worker *w, uint32_t slot, char *out, size_t cap);
/* Hashes len bytes of the segment at p + off and adds the chunk to j. */
int job_chunk(struct worker *w, struct job *j, const unsigned char *p,
	      size_t off, uint32_t len, struct sc_err *err);
/* Compresses n bytes at p as j's next segment. */
int job_segment(struct worker *w, struct job *j, const unsigned char *p,
		size_t n, struct sc_err *err);

/* take_order.c: the ring. */
int order_init(struct take *k, struct sc_err *err);
void order_free(struct take *k);
/* The next free slot, cleared, not yet visible; NULL: the group stops. */
struct job *order_plan(struct take *k);
void order_add(struct take *k, struct job *j);
void order_end(struct take *k);
/* f was planned: freed when its last block was emitted, or at the end. */
void order_big(struct take *k, struct bigfile *f);
/* The next job; NULL: there are no more, or the group stops. */
struct job *order_take(struct take *k);
void order_read(struct take *k, struct job *j);
int order_done(struct take *k, struct job *j, struct sc_err *err);
/* Waits until job seq was read. False: the group stops. */
bool order_wait_read(struct take *k, uint64_t seq);
int order_stopped(const struct take *k, struct sc_err *err);
/* An output buffer that holds n bytes. */
int order_spare(struct take *k, size_t n, struct segment_out *out,
		struct sc_err *err);

/* take_ahead.c: starts reading what j will need. */
void ahead_batch(struct worker *w, const struct job *j);
void ahead_block(struct take *k, const struct bigfile *f, uint64_t block);

/* take_links.c: hard-link groups. */
struct links;
int links_new(struct links **out, struct sc_err *err);
void links_free(struct links *l);
/* slot: not a directory, nlink > 1. If it is a later name of a known group it
 * becomes ENTRY_LINK, with the first name's slot in first and the job of it in
 * count until links_finish. 1: so it is; 0: no; -1. */
int links_later(struct links *l, struct tree *t, uint32_t slot,
		struct sc_err *err);
/* It is the first name of its group, and job seq takes it. */
int links_first(struct links *l, struct tree *t, uint32_t slot, uint64_t seq,
		struct sc_err *err);
/* Gives later names what the first name got, and warns of names outside. */
int links_finish(struct links *l, struct take *k, struct sc_err *err);

#endif
