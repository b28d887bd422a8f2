/* SPDX-License-Identifier: MIT */
/* The index: the authoritative list of a volume's entries and where their
 * chunks are.
 *
 * File format, version 1, little-endian:
 *
 *   magic "SNAPIDX\n", u32 version, u32 kind (INDEX_FULL, INDEX_DELTA)
 *   columns, each one zstd frame (or stored as it is: codec 0)
 *   directory: varint number of columns, then for each
 *       varint id, varint codec, varint rows, varint offset,
 *       varint stored length, varint plain length
 *   u64 offset of the directory, u32 its length, u32 0, magic "XDIPANS\n"
 *
 * Columns of entries have a row for each entry, in canonical order, row 0
 * being the root. A reader takes only the columns it needs. Unknown columns
 * are skipped; a higher version is refused. "delta" below means: the
 * difference to the row before, starting from 0, modulo 2^64 (zigzag).
 *
 *   PATH     varint bytes shared with the path before (as many as there
 *            are), varint length of the rest, the rest. The root's is empty.
 *   MODE     varint st_mode (type and 07777)
 *   UID GID  svarint delta
 *   SIZE     varint (regular files; device numbers in RDEV; else 0)
 *   MTIME CTIME   svarint delta of seconds, varint nanoseconds
 *   INODE    svarint delta
 *   RDEV     varint (devices; else 0)
 *   NLINK FLAGS   varint
 *   BITS     varint, ENTRY_STORED_BITS of entry.bits
 *   TARGET   symlinks only, in order: varint length, bytes
 *   XATTR    varint number of a set, 0 none
 *   XSETS    a row for each set 1 …: varint length, blob (tree.h)
 *   DATA     regular files only: varint runs, each svarint (first minus the
 *            end of the run before), varint count. Names of one hard-link
 *            group repeat the same runs.
 *   EXTENT   sparse files only: varint number, each varint gap to the end of
 *            the one before, varint length
 *   CHASH    32 bytes for each chunk: SHA-256 of its plain bytes
 *   CLEN     varint length, 1 … CHUNK_LEN_MAX
 *   CPLACE   svarint delta of the segment, varint offset in its plain bytes
 *   SEGMENT  svarint delta of the pack, varint offset in the pack (delta to
 *            the end of the segment before when the pack is the same, modulo
 *            2^64; before the first one: end 0 of pack 0), varint stored
 *            length, varint plain length
 *   PACK     32 bytes digest, u64 length, u8 kind (PACK_TAR, PACK_CHUNKS)
 *   META     one row: see struct index_meta
 *
 * A DELTA has further columns (removed rows, changed rows); their numbers
 * are reserved below and a version 1 reader that does not know them refuses
 * the kind, not the file. */
#ifndef SNAPCTL_SCAN_INDEX_H
#define SNAPCTL_SCAN_INDEX_H

#include <stdbool.h>
#include <stdint.h>

#include <snapctl/base/buf.h>
#include <snapctl/base/err.h>
#include <snapctl/base/hash.h>
#include <snapctl/scan/tree.h>

#define INDEX_VERSION 1
enum index_kind { INDEX_FULL = 1, INDEX_DELTA = 2 };
enum pack_kind { PACK_TAR = 1, PACK_CHUNKS = 2 };

enum index_column {
	COL_PATH = 1,
	COL_MODE,
	COL_UID,
	COL_GID,
	COL_SIZE,
	COL_MTIME,
	COL_CTIME,
	COL_INODE,
	COL_RDEV,
	COL_NLINK,
	COL_FLAGS,
	COL_BITS,
	COL_TARGET,
	COL_XATTR,
	COL_XSETS,
	COL_DATA,
	COL_EXTENT,
	COL_CHASH = 32,
	COL_CLEN,
	COL_CPLACE,
	COL_SEGMENT,
	COL_PACK,
	COL_META = 48,
	COL_REMOVED = 49,
	COL_REPLACED = 50, /* reserved for INDEX_DELTA */
};

#define CHUNK_LEN_MAX	   (1u << 22) /* no reader accepts a longer chunk */
#define SEGMENT_PLAIN_MAX  (32u << 20)
#define SEGMENT_STORED_MAX (33u << 20)
#define INDEX_ENTRIES_MAX  (1u << 30)

struct chunk {
	struct digest hash;
	uint32_t len;
	uint32_t segment; /* in this index's table of segments */
	uint32_t offset;  /* in the segment's plain bytes */
};

struct segment {
	uint32_t pack;		/* in this index's table of packs */
	uint32_t stored, plain; /* lengths */
	uint64_t offset;	/* in the pack */
};

struct pack_ref {
	struct digest digest;
	uint64_t length;
	enum pack_kind kind;
};

/* The three tables. Owned arrays; zero-initialised is empty. */
struct chunk_table {
	struct chunk *chunks;
	size_t nchunks, chunks_cap;
	struct segment *segments;
	size_t nsegments, segments_cap;
	struct pack_ref *packs;
	size_t npacks, packs_cap;
};
void chunk_table_free(struct chunk_table *t);

/* META, as varints and bytes in this order; later versions append. */
struct index_meta {
	uint64_t entries, chunks, bytes; /* bytes: sum of regular sizes */
	/* T0: when the pass that saw these stamps began (CLOCK_REALTIME of
	 * the machine that holds the volume), and the clock's grain in ns:
	 * stamps not older than T0 - grain are racy. */
	int64_t t0;
	uint32_t t0_ns, grain_ns;
	bool beside_writers;	      /* the pass ran while the stack did */
	bool parent_ok;		      /* this index may serve as a parent */
	uint64_t fs_type, fs_id, dev; /* identity of the file system */
	uint32_t chunk_avg;	      /* average chunk size in bytes, 65536 */
	/* INDEX_DELTA: */
	uint32_t links;	      /* deltas beneath this one, 0 for full */
	struct digest parent; /* all zero for full */
};

/* -- writing ------------------------------------------------------------ */

/* Gets the columns one after the other: pieces, then the end. 0 or -1. */
struct index_sink {
	int (*piece)(void *arg, unsigned id, const void *p, size_t n,
		     struct sc_err *err);
	int (*end)(void *arg, unsigned id, unsigned codec, uint64_t rows,
		   uint64_t plain, struct sc_err *err);
	void *arg;
};

/* Every column that the tree and the chunks give, and META; not SEGMENT and
 * PACK (index_encode_places). Memory beyond the arguments: under 4 MB. The
 * tree is sealed; META's entries, chunks and bytes come from the arguments,
 * the rest from m. A path above 16 MiB is SC_EREFUSED. */
int index_encode(const struct tree *t, const struct chunk_table *c,
		 const struct index_meta *m, const struct index_sink *sink,
		 struct sc_err *err);
int index_encode_places(const struct chunk_table *c,
			const struct index_sink *sink, struct sc_err *err);

/* Puts columns into a file. fd: borrowed, written from its current position
 * 0 on. */
struct index_writer;
int index_writer_new(int fd, enum index_kind kind, struct index_writer **out,
		     struct sc_err *err);
void index_writer_free(struct index_writer *w);
/* A sink that writes to w. */
struct index_sink index_writer_sink(struct index_writer *w);
/* Directory and trailer; the file's digest and length. Does not fsync. */
int index_writer_finish(struct index_writer *w, struct digest *digest,
			uint64_t *length, struct sc_err *err);

/* -- reading ------------------------------------------------------------ */

struct index_source {
	/* Exactly n bytes at off, or -1. */
	int (*pread)(void *arg, void *p, size_t n, uint64_t off,
		     struct sc_err *err);
	void *arg;
	uint64_t size;
};
struct index_source index_source_fd(const int *fd, uint64_t size);
struct index_source index_source_mem(const struct buf *b);

struct index_reader;
/* Checks magic, version, directory (bounds, no overlaps, no id twice) and
 * reads META. name: for messages, copied. A bad file is SC_ECORRUPT, a newer
 * version SC_EPROTO saying so. The source is copied; what it points to is
 * borrowed. */
int index_open(const struct index_source *src, const char *name,
	       struct index_reader **out, struct sc_err *err);
void index_close(struct index_reader *r);
const struct index_meta *index_meta(const struct index_reader *r);
enum index_kind index_kind(const struct index_reader *r);

/* A column as a stream. 1: opened, 0: the file has no such column, -1. */
struct index_col;
int index_col_open(struct index_reader *r, enum index_column id,
		   struct index_col **out, struct sc_err *err);
void index_col_close(struct index_col *c);
uint64_t index_col_rows(const struct index_col *c);
/* Each: 0, or -1 (damaged, or past the end). */
int index_col_varint(struct index_col *c, uint64_t *v, struct sc_err *err);
int index_col_svarint(struct index_col *c, int64_t *v, struct sc_err *err);
int index_col_bytes(struct index_col *c, void *p, size_t n, struct sc_err *err);
/* 0 when the column ended exactly here. */
int index_col_done(struct index_col *c, struct sc_err *err);

/* The whole index into memory: entries, runs, extents, xattrs, targets and
 * the three tables (c may be NULL: only entries). Everything is checked:
 * pre-order with sorted siblings, names without "/" and NUL and not "." or
 * "..", parents that are directories, sizes equal to the sum of their chunks
 * (or extents), runs within the table, chunks within their segments, segments
 * within their packs. Without c sizes are not held against chunks. Entries
 * with ENTRY_UNREADABLE or ENTRY_MOUNT have no runs, whatever their size.
 * tree: slot == rank; set only on success, owned by the caller, like *c. A
 * delta is SC_EPROTO. */
int index_load(struct index_reader *r, struct tree **tree,
	       struct chunk_table *c, struct sc_err *err);
/* Only where segments are: the tables of segments and packs. */
int index_load_places(struct index_reader *r, struct chunk_table *c,
		      struct sc_err *err);

#endif
