/* SPDX-License-Identifier: MIT */
/* Which snapshots there are. A descriptor of ours in index.json says the same
 * twice, in its tag and in its annotations, so that a flipped byte in either
 * shows without opening anything else. Copying tools keep of a descriptor
 * nothing but tag, digest and size: then the manifest is asked what it is. */
#include "internal.h"

#include <stdlib.h>
#include <string.h>

#include <snapctl/base/mem.h>
#include <snapctl/base/text.h>

void snapshot_ref_clear(struct snapshot_ref *ref)
{
	free(ref->id);
	free(ref->stack);
	*ref = (struct snapshot_ref){ 0 };
}

void snapshot_refs_free(struct snapshot_ref *v, size_t n)
{
	for (size_t i = 0; i < n; i++)
		snapshot_ref_clear(&v[i]);
	free(v);
}

bool find_ours(const json_t *desc)
{
	const char *type = layout_str(desc, "artifactType");

	return (type && strcmp(type, MEDIA_SNAPSHOT) == 0) ||
	       layout_note(desc, NOTE_STACK);
}

/* id is what repo_publish makes of stack and created, with or without -N. */
static bool fits(const char *id, const char *stack, int64_t created)
{
	auto_buf struct buf base = { 0 };
	const char *rest;

	manifest_id_of_note(&base, stack, created);
	if (!buf_cstr(&base) ||
	    strncmp(id, (const char *)base.p, base.len) != 0)
		return false;
	rest = id + base.len;
	return !*rest || (*rest == '-' && rest[1] >= '1' && rest[1] <= '9' &&
			  strspn(rest + 1, "0123456789") == strlen(rest + 1));
}

/* 1: *out is filled; 0: no memory. */
static int fill(struct snapshot_ref *out, const char *id, const char *stack,
		int64_t created, bool copied, const char *damage)
{
	out->id = strdup(id);
	out->stack = strdup(stack ? stack : "");
	out->created = created;
	out->copied = copied;
	out->damage = damage;
	return out->id && out->stack;
}

static int from_descriptor(const json_t *d, struct snapshot_ref *out)
{
	const char *id = layout_note(d, NOTE_REF);
	const char *stack = layout_note(d, NOTE_STACK);
	const char *when = layout_note(d, NOTE_CREATED);
	const char *digest = layout_str(d, "digest");
	const char *media = layout_str(d, "mediaType");
	bool whole = layout_target(d, &out->manifest, &out->manifest_size);
	int64_t created = 0;

	if (!when || !manifest_time(when, &created) || !id || !stack ||
	    !fits(id, stack, created) || !whole || !media ||
	    strcmp(media, MEDIA_MANIFEST) != 0)
		return fill(out,
			    id	     ? id
			    : digest ? digest
				     : "?",
			    stack, created, false,
			    "its entry in index.json is damaged");
	return fill(out, id, stack, created, false, NULL);
}

/* "…-20260131T120000Z" or with -N: a tag that repo_publish made. */
static bool looks_like_id(const char *tag, int64_t *created)
{
	const char *z = strrchr(tag, 'Z');
	char iso[32];

	if (!z || z - tag < 17 || z[-16] != '-' || z[-7] != 'T')
		return false;
	snprintf(iso, sizeof(iso), "%.4s-%.2s-%.2sT%.2s:%.2s:%.2sZ", z - 15,
		 z - 11, z - 9, z - 6, z - 4, z - 2);
	return manifest_time(iso, created);
}

/* 1 a snapshot (*out filled), 0 none, -1. */
static int from_manifest(struct repo *r, const json_t *d,
			 struct snapshot_ref *out, struct sc_err *err)
{
	const char *tag = layout_note(d, NOTE_REF);
	const char *stack, *when, *media;
	auto_buf struct buf text = { 0 };
	json_t *doc = NULL;
	int64_t created = 0;
	struct sc_err why;
	int rc = 0;

	if (!tag || !layout_target(d, &out->manifest, &out->manifest_size))
		return 0;
	if (blob_read(r, &out->manifest, MANIFEST_MAX, &text, &why) < 0 ||
	    layout_parse(&text, "manifest", &doc, &why) < 0) {
		if (!looks_like_id(tag, &created))
			return 0;
		return fill(out, tag, "", created, true,
			    "its manifest cannot be read")
			       ? 1
			       : sc_oom(err, "snapshots");
	}
	media = layout_str(json_object_get(doc, "config"), "mediaType");
	stack = layout_note(doc, NOTE_STACK);
	when = layout_note(doc, NOTE_CREATED);
	if (media && strcmp(media, MEDIA_CONFIG) == 0) {
		bool good = when && stack && manifest_time(when, &created);

		rc = fill(out, tag, stack, created, true,
			  good ? NULL : "its manifest is damaged")
			     ? 1
			     : sc_oom(err, "snapshots");
	}
	json_decref(doc);
	return rc;
}

int find_one(struct repo *r, const json_t *d, struct snapshot_ref *out,
	     struct sc_err *err)
{
	if (find_ours(d))
		return from_descriptor(d, out) ? 1 : sc_oom(err, "snapshots");
	/* Somebody else's artifact says so itself. */
	if (json_object_get(d, "artifactType"))
		return 0;
	return from_manifest(r, d, out, err);
}

static int by_age(const void *a, const void *b)
{
	const struct snapshot_ref *x = a, *y = b;

	if (x->created != y->created)
		return x->created < y->created ? -1 : 1;
	/* -2 … -10: longer is later. */
	if (strcmp(x->stack, y->stack) == 0 && strlen(x->id) != strlen(y->id))
		return strlen(x->id) < strlen(y->id) ? -1 : 1;
	return strcmp(x->id, y->id);
}

static int collect(struct repo *r, const json_t *index,
		   struct snapshot_ref **out, size_t *n, struct sc_err *err)
{
	const json_t *all = json_object_get(index, "manifests");
	struct snapshot_ref *v = calloc(json_array_size(all) + 1, sizeof(*v));
	size_t i, k = 0;
	json_t *d;

	if (!v)
		return sc_oom(err, "snapshots");
	json_array_foreach(all, i, d)
	{
		int rc = find_one(r, d, &v[k], err);

		if (rc < 0) {
			snapshot_refs_free(v, k + 1);
			return -1;
		}
		k += (size_t)rc;
	}
	qsort(v, k, sizeof(*v), by_age);
	*out = v;
	*n = k;
	return 0;
}

int repo_list(struct repo *r, struct snapshot_ref **out, size_t *n,
	      struct sc_err *err)
{
	json_t *index;
	int rc;

	if (layout_read(r, &index, NULL, err) < 0)
		return -1;
	rc = collect(r, index, out, n, err);
	json_decref(index);
	return rc;
}

/* -- by name ----------------------------------------------------------------
 */

struct query {
	const char *name;
	const char *stack; /* escaped, as annotations hold it; or NULL */
	const struct snapshot_ref *v;
	size_t n;
};

static bool of_stack(const struct query *q, size_t i)
{
	return !q->stack || strcmp(q->v[i].stack, q->stack) == 0;
}

/* A damaged entry may be the newest one, or the one that is meant. */
static int check_damage(const struct query *q, struct sc_err *err)
{
	for (size_t i = 0; i < q->n; i++)
		if (q->v[i].damage)
			return sc_fail(err, SC_ECORRUPT, 0,
				       "snapshot %s: %s; name the snapshot in "
				       "full, or see what verify says",
				       q->v[i].id, q->v[i].damage);
	return 0;
}

static int fail_absent(const struct query *q, struct sc_err *err)
{
	auto_free const char **ids = calloc(q->n + 1, sizeof(*ids));
	auto_buf struct buf near = { 0 };
	char name[256];
	size_t n = 0;

	if (!ids)
		return sc_oom(err, "snapshots");
	for (size_t i = 0; i < q->n; i++)
		if (of_stack(q, i))
			ids[n++] = q->v[i].id;
	text_escaped(name, sizeof(name), q->name, strlen(q->name));
	text_near(&near, q->name, ids, n);
	if (!buf_cstr(&near))
		return sc_oom(err, "snapshots");
	return sc_fail(err, SC_ENOTFOUND, 0, "no snapshot %s%s%s%s%s%s", name,
		       q->stack ? " of stack " : "", q->stack ? q->stack : "",
		       near.len ? "; near names: " : "", (const char *)near.p,
		       near.len || n ? "" : "; there are none at all");
}

static int find_latest(const struct query *q, size_t *at, struct sc_err *err)
{
	size_t newest = q->n;
	const char *last = NULL;
	bool several = false;

	if (check_damage(q, err) < 0)
		return -1;
	for (size_t i = 0; i < q->n; i++) {
		if (!of_stack(q, i))
			continue;
		if (last && strcmp(last, q->v[i].stack) != 0)
			several = true;
		last = q->v[i].stack;
		newest = i; /* oldest first */
	}
	if (newest == q->n)
		return fail_absent(q, err);
	if (several)
		return sc_fail(
			err, SC_EUSAGE, 0,
			"\"latest\" of which stack? The newest snapshot is %s",
			q->v[newest].id);
	*at = newest;
	return 0;
}

static int find_prefix(const struct query *q, size_t *at, struct sc_err *err)
{
	auto_buf struct buf list = { 0 };
	size_t len = strlen(q->name), hits = 0;

	for (size_t i = 0; i < q->n; i++) {
		if (!of_stack(q, i) || strncmp(q->v[i].id, q->name, len) != 0)
			continue;
		*at = i;
		if (hits++ < 10)
			buf_printf(&list, "%s%s", hits > 1 ? ", " : "",
				   q->v[i].id);
	}
	if (len == 0 || hits == 0)
		return fail_absent(q, err);
	if (hits == 1)
		return check_damage(q, err);
	if (!buf_cstr(&list))
		return sc_oom(err, "snapshots");
	return sc_fail(err, SC_EUSAGE, 0, "%zu snapshots begin with that: %s%s",
		       hits, (const char *)list.p, hits > 10 ? ", …" : "");
}

static int find(const struct query *q, size_t *at, struct sc_err *err)
{
	size_t hits = 0;

	for (size_t i = 0; i < q->n; i++)
		if (of_stack(q, i) && strcmp(q->v[i].id, q->name) == 0) {
			*at = i;
			hits++;
		}
	if (hits > 1)
		return sc_fail(err, SC_ECORRUPT, 0,
			       "index.json names %s %zu times", q->name, hits);
	if (hits)
		return 0;
	if (strcmp(q->name, "latest") == 0)
		return find_latest(q, at, err);
	return find_prefix(q, at, err);
}

int repo_find(struct repo *r, const char *name, const char *stack,
	      struct snapshot_ref *out, struct sc_err *err)
{
	auto_buf struct buf escaped = { 0 };
	struct query q = { .name = name };
	struct snapshot_ref *v;
	size_t at = 0;
	int rc;

	if (stack) {
		text_escape(&escaped, stack, strlen(stack));
		q.stack = buf_cstr(&escaped);
		if (!q.stack)
			return sc_oom(err, "snapshots");
	}
	if (repo_list(r, &v, &q.n, err) < 0)
		return -1;
	q.v = v;
	rc = find(&q, &at, err);
	if (rc == 0) {
		*out = v[at];
		v[at] = (struct snapshot_ref){ 0 };
	}
	snapshot_refs_free(v, q.n);
	return rc;
}

static int check_ref(struct snapshot *s, const struct snapshot_ref *ref,
		     struct sc_err *err)
{
	auto_buf struct buf stack = { 0 };
	bool same;

	text_escape(&stack, s->stack, strlen(s->stack));
	if (!buf_cstr(&stack))
		return sc_oom(err, "snapshot");
	same = s->created == ref->created &&
	       strcmp((const char *)stack.p, ref->stack) == 0;
	if (!same || (!ref->copied && strcmp(s->id, ref->id) != 0))
		return sc_fail(err, SC_ECORRUPT, 0,
			       "snapshot %s: its entry and its config disagree "
			       "on what it is",
			       ref->id);
	if (strcmp(s->id, ref->id) != 0) {
		free(s->id); /* copied under another tag: that is its name */
		s->id = strdup(ref->id);
	}
	return s->id ? 0 : sc_oom(err, "snapshot");
}

int repo_load(struct repo *r, const struct snapshot_ref *ref,
	      struct snapshot **out, struct sc_err *err)
{
	struct snapshot *s;
	struct digest config;
	uint64_t size;

	if (ref->damage)
		return sc_fail(err, SC_ECORRUPT, 0, "snapshot %s: %s", ref->id,
			       ref->damage);
	if (manifest_load(r, &ref->manifest, ref->manifest_size, &s, NULL, NULL,
			  &config, &size, err) < 0)
		return sc_wrap(err, "snapshot %s", ref->id);
	if (check_ref(s, ref, err) < 0) {
		snapshot_free(s);
		return -1;
	}
	*out = s;
	return 0;
}
