/* SPDX-License-Identifier: MIT */
#include "source.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <snapctl/base/io.h>
#include <snapctl/base/mem.h>

#define INDEX_STEP (1u << 20)

struct volume_source {
	struct snapshot_volume *v; /* borrowed */
	int index;
	uint64_t index_size;
	struct chunk_table places;
	int *packs; /* a descriptor for each of places.packs, -1 */
};

struct source {
	struct volume_source *v;
	size_t n;
};

static int open_blob(struct repo *r, const struct digest *d, int *fd,
		     uint64_t *size, struct sc_err *err)
{
	char name[DIGEST_STR];
	int rc = blob_open(r, d, fd, size, err);

	if (rc > 0)
		return 0;
	digest_str(d, name);
	return rc < 0 ? -1
		      : sc_fail(err, SC_ECORRUPT, 0,
				"blob %s is missing from the repository", name);
}

static int open_packs(struct repo *r, struct volume_source *s,
		      struct sc_err *err)
{
	const struct chunk_table *t = &s->places;

	s->packs = malloc((t->npacks + 1) * sizeof(*s->packs));
	if (!s->packs)
		return sc_oom(err, "packs");
	for (size_t i = 0; i < t->npacks; i++)
		s->packs[i] = -1;
	for (size_t i = 0; i < t->npacks; i++) {
		uint64_t size;

		if (open_blob(r, &t->packs[i].digest, &s->packs[i], &size,
			      err) < 0)
			return -1;
	}
	return 0;
}

static int open_volume(struct repo *r, struct volume_source *s,
		       struct sc_err *err)
{
	struct index_source src;
	struct index_reader *reader;
	char name[DIGEST_STR];
	int rc;

	if (open_blob(r, &s->v->index, &s->index, &s->index_size, err) < 0)
		return -1;
	digest_str(&s->v->index, name);
	src = index_source_fd(&s->index, s->index_size);
	if (index_open(&src, name, &reader, err) < 0)
		return -1;
	rc = index_load_places(reader, &s->places, err);
	index_close(reader);
	return rc < 0 ? -1 : open_packs(r, s, err);
}

int source_open(struct repo *r, struct snapshot_volume *const *volumes,
		size_t n, struct source **out, struct sc_err *err)
{
	struct source *s = calloc(1, sizeof(*s));

	if (!s || !(s->v = calloc(n + 1, sizeof(*s->v)))) {
		free(s);
		return sc_oom(err, "volumes");
	}
	for (size_t i = 0; i < n; i++) {
		s->v[i].v = volumes[i];
		s->v[i].index = -1;
		s->n++;
		if (open_volume(r, &s->v[i], err) < 0) {
			source_close(s);
			return -1;
		}
	}
	*out = s;
	return 0;
}

void source_close(struct source *s)
{
	if (!s)
		return;
	for (size_t i = 0; i < s->n; i++) {
		struct volume_source *v = &s->v[i];

		for (size_t k = 0; v->packs && k < v->places.npacks; k++)
			mem_closep(&v->packs[k]);
		free(v->packs);
		mem_closep(&v->index);
		chunk_table_free(&v->places);
	}
	free(s->v);
	free(s);
}

static int send_index(struct volume_source *v, unsigned number,
		      struct session *to, struct sc_err *err)
{
	auto_free unsigned char *step = malloc(INDEX_STEP);

	if (!step)
		return sc_oom(err, "index");
	for (uint64_t at = 0; at < v->index_size;) {
		uint64_t left = v->index_size - at;
		size_t n = left < INDEX_STEP ? (size_t)left : INDEX_STEP;

		if (io_pread_all(v->index, step, n, at, "index", err) < 0 ||
		    session_index(to, number, step, n, err) < 0)
			return -1;
		at += n;
	}
	return 0;
}

int source_send_indexes(struct source *s, struct session *to, uint64_t *lengths,
			struct sc_err *err)
{
	for (size_t i = 0; i < s->n; i++) {
		lengths[i] = s->v[i].index_size;
		if (send_index(&s->v[i], (unsigned)i, to, err) < 0)
			return -1;
	}
	return 0;
}

int source_segment(void *arg, unsigned volume, uint32_t segment,
		   struct buf *out, struct sc_err *err)
{
	struct source *s = arg;
	const struct chunk_table *t;
	const struct segment *g;
	char name[DIGEST_STR];
	unsigned char *to;

	if (volume >= s->n || segment >= s->v[volume].places.nsegments)
		return sc_fail(err, SC_EPROTO, 0,
			       "the helper asked for a segment there is not");
	t = &s->v[volume].places;
	g = &t->segments[segment];
	digest_str(&t->packs[g->pack].digest, name);
	to = buf_reserve(out, g->stored);
	if (!to)
		return sc_oom(err, "segment");
	if (io_pread_all(s->v[volume].packs[g->pack], to, g->stored, g->offset,
			 name, err) < 0)
		return -1;
	out->len = g->stored;
	return 0;
}
