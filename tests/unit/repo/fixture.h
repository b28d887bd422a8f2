/* SPDX-License-Identifier: MIT */
/* A repository in a temporary directory and snapshots to put into it. The
 * volumes are small but real: index, segments and chunks hold together. */
#ifndef TEST_REPO_FIXTURE_H
#define TEST_REPO_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <snapctl/base/io.h>
#include <snapctl/base/mem.h>
#include <snapctl/base/zst.h>
#include <snapctl/repo/repo.h>

#define FIXTURE __attribute__((unused)) static

/* What a call within OK fails with. */
static struct sc_err failure;

#define OK(call)                                                \
	do {                                                    \
		if ((call) < 0)                                 \
			fail_msg("%s: %s", #call, failure.msg); \
	} while (0)

#define CREATED	   1790000000 /* 2026-09-21T14:13:20Z */
#define CREATED_ID "20260921T141320Z"

struct place {
	char dir[64];  /* temporary, holds the repository and what else */
	char repo[96]; /* DIR/repo, not there yet */
};

FIXTURE int place_setup(void **state)
{
	struct place *p = calloc(1, sizeof(*p));

	assert_non_null(p);
	strcpy(p->dir, "/tmp/snapctl-repo-XXXXXX");
	assert_non_null(mkdtemp(p->dir));
	snprintf(p->repo, sizeof(p->repo), "%s/repo", p->dir);
	*state = p;
	return 0;
}

FIXTURE int place_remove_one(const char *path, const struct stat *st, int flag,
			     struct FTW *ftw)
{
	(void)st, (void)flag, (void)ftw;
	return remove(path);
}

FIXTURE int place_teardown(void **state)
{
	struct place *p = *state;

	assert_int_equal(
		nftw(p->dir, place_remove_one, 16, FTW_DEPTH | FTW_PHYS), 0);
	free(p);
	return 0;
}

FIXTURE struct repo *open_repo(struct place *p, int mode)
{
	struct repo *r = NULL;

	OK(repo_open(p->repo, mode, &r, &failure));
	return r;
}

/* Files of a directory of the repository, "." and ".." not counted. */
FIXTURE unsigned count_files(const struct place *p, const char *dir)
{
	char path[512];
	DIR *d;
	struct dirent *e;
	unsigned n = 0;

	snprintf(path, sizeof(path), "%s/%s", p->repo, dir);
	d = opendir(path);
	assert_non_null(d);
	while ((e = readdir(d)))
		n += strcmp(e->d_name, ".") != 0 &&
		     strcmp(e->d_name, "..") != 0;
	closedir(d);
	return n;
}

FIXTURE void read_text(const struct place *p, const char *name, struct buf *out)
{
	char path[512];

	snprintf(path, sizeof(path), "%s/%s", p->repo, name);
	OK(io_read_file(AT_FDCWD, path, 1 << 24, out, &failure));
	assert_non_null(buf_cstr(out));
}

/* Overwrites in place, so that nothing but the bytes changes. */
FIXTURE void write_text(const struct place *p, const char *name,
			const void *text, size_t n)
{
	char path[512];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", p->repo, name);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	OK(io_write_all(fd, text, n, path, &failure));
	close(fd);
}

FIXTURE char *copy(const char *s)
{
	char *c = strdup(s);

	assert_non_null(c);
	return c;
}

FIXTURE struct snapshot *new_snapshot(const char *stack, int64_t created)
{
	struct snapshot *s = snapshot_new();

	assert_non_null(s);
	s->stack = copy(stack);
	s->created = created;
	s->mode = copy("stop");
	s->clean = true;
	return s;
}

/* Bytes that differ by seed; compressible to about a half. */
FIXTURE void fill_bytes(unsigned char *p, size_t n, unsigned seed)
{
	uint32_t x = seed * 2654435761u + 12345;

	for (size_t i = 0; i < n; i++) {
		x = x * 1664525u + 1013904223u;
		p[i] = i & 1 ? (unsigned char)(x >> 24) : 'a';
	}
}

/* The tree of a volume with one file of the table's chunks. */
FIXTURE struct tree *volume_tree(const struct chunk_table *t, uint64_t bytes)
{
	struct tree_arena arena = { 0 };
	struct run run = { 0, (uint32_t)t->nchunks };
	struct tree *tree = NULL;
	struct entry *e;
	uint32_t at;

	OK(tree_new(&tree, &failure));
	OK(tree_alloc(tree, 1, &at, &failure));
	OK(tree_alloc(tree, 1, &at, &failure));
	e = tree_at(tree, 0);
	e->name = tree_name(tree, &arena, "", 0);
	e->mode = S_IFDIR | 0700;
	e->nlink = 2;
	e->first = 1;
	e->count = 1;
	e = tree_at(tree, 1);
	e->name = tree_name(tree, &arena, "file", 4);
	e->name_len = 4;
	e->mode = S_IFREG | 0644;
	e->nlink = 1;
	e->size = bytes;
	OK(tree_set_runs(tree, e, &run, 1, &failure));
	OK(tree_seal(tree, &failure));
	return tree;
}

FIXTURE void write_index(struct repo *r, const struct chunk_table *t,
			 uint64_t bytes, struct snapshot_volume *v)
{
	struct index_meta m = { .entries = 2,
				.chunks = t->nchunks,
				.bytes = bytes,
				.chunk_avg = 65536 };
	struct tree *tree = volume_tree(t, bytes);
	struct blob_writer *w = NULL;
	struct index_writer *iw = NULL;
	struct index_sink sink;

	OK(blob_new(r, &w, &failure));
	OK(index_writer_new(blob_fd(w), INDEX_FULL, &iw, &failure));
	sink = index_writer_sink(iw);
	OK(index_encode(tree, t, &m, &sink, &failure));
	OK(index_encode_places(t, &sink, &failure));
	OK(index_writer_finish(iw, &v->index, &v->index_length, &failure));
	index_writer_free(iw);
	OK(blob_seal_as(w, &v->index, &failure));
	tree_free(tree);
}

#define SEGMENT_BYTES	  20000u
#define CHUNKS_IN_SEGMENT 3u

/* The chunk whose hash add_volume gets wrong, if it gets that far. */
__attribute__((unused)) static uint32_t wrong_chunk = UINT32_MAX;

/* Adds volume name with nsegments segments, in packs of at most max bytes. */
FIXTURE void add_volume(struct repo *r, struct snapshot *s, const char *name,
			unsigned nsegments, uint64_t max, unsigned seed)
{
	static unsigned char plain[SEGMENT_BYTES], stored[SEGMENT_BYTES * 2];
	struct chunk_table t = { 0 };
	struct snapshot_volume *v;
	struct packs *packs = NULL;
	struct zst_enc *enc = NULL;
	struct hash *h = NULL;
	uint64_t bytes = 0;
	size_t n, cap = s->nvolumes;

	OK(packs_new(r, PACK_TAR, max, &packs, &failure));
	OK(zst_enc_new(3, &enc, &failure));
	OK(hash_new(&h, &failure));
	for (uint32_t i = 0; i < nsegments; i++) {
		fill_bytes(plain, sizeof(plain), seed + i);
		OK(zst_encode(enc, plain, sizeof(plain), stored, sizeof(stored),
			      &n, &failure));
		OK(packs_append(packs, stored, n, sizeof(plain), &t, &failure));
		for (uint32_t k = 0; k < CHUNKS_IN_SEGMENT; k++) {
			struct chunk *c;

			OK(mem_grow(&t.chunks, &t.chunks_cap, t.nchunks + 1,
				    sizeof(*c)));
			c = &t.chunks[t.nchunks++];
			c->segment = i;
			c->offset = 512 + k * 5000;
			c->len = 4000 + k;
			OK(hash_once(h, plain + c->offset, c->len, &c->hash,
				     &failure));
			c->hash.b[0] ^= t.nchunks - 1 == wrong_chunk;
			bytes += c->len;
		}
	}
	OK(packs_finish(packs, &t, &failure));
	packs_free(packs);
	OK(mem_grow(&s->volumes, &cap, s->nvolumes + 1, sizeof(*s->volumes)));
	v = &s->volumes[s->nvolumes++];
	*v = (struct snapshot_volume){ .name = copy(name),
				       .type = copy("volume"),
				       .driver = copy("local"),
				       .kind = SNAP_FULL,
				       .entries = 2,
				       .bytes = bytes,
				       .chunks = t.nchunks };
	write_index(r, &t, bytes, v);
	v->npacks = t.npacks;
	v->packs = take_ptr(t.packs);
	chunk_table_free(&t);
	hash_free(h);
	zst_enc_free(enc);
}

/* Publishes a snapshot of one volume and gives it back. */
FIXTURE struct snapshot *publish_one(struct repo *r, const char *stack,
				     int64_t created, unsigned seed)
{
	struct snapshot *s = new_snapshot(stack, created);

	add_volume(r, s, "data", 3, 1 << 30, seed);
	OK(repo_publish(r, s, &failure));
	return s;
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, place_setup, place_teardown)

#endif
