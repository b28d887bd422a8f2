/* SPDX-License-Identifier: MIT */
/* The config document, version 1:
 *
 *   {"version":1, "id":…, "stack":…, "created":"2026-01-31T12:00:00Z", …,
 *    "volumes":[{"name":…, "index":"sha256:…", "kind":"full",
 *                "packs":[{"digest":…, "length":…, "kind":"tar"}], …}],
 *    "containers":[…], "files":[{"path":…, "content":…}]}
 *
 * Keys are those of the tables below. Readers pass over keys they do not
 * know; a change that they must not pass over raises the version.
 *
 * Strings of a snapshot are bytes. One that is not UTF-8 stands as an object
 * {"escaped": "…"} in place of the string, in which \xNN is a byte and \\ a
 * backslash; all others stand as they are. */
#include <snapctl/repo/snapshot.h>

#include <stdlib.h>
#include <string.h>

#include <snapctl/base/mem.h>

#include "fields.h"

#define CONFIG_VERSION 1
#define VOLUMES_MAX    65536

#define F(type, member, kind)                                \
	{                                                    \
#member, kind, offsetof(type, member), false \
	}
#define F_REQ(type, member, kind)                           \
	{                                                   \
#member, kind, offsetof(type, member), true \
	}

#define S struct snapshot
static const struct field snapshot_fields[] = {
	F_REQ(S, id, FIELD_STR),       F_REQ(S, stack, FIELD_STR),
	F_REQ(S, created, FIELD_TIME), F(S, tool, FIELD_STR),
	F(S, engine_id, FIELD_STR),    F(S, engine_version, FIELD_STR),
	F(S, engine_host, FIELD_STR),  F(S, engine_name, FIELD_STR),
	F(S, mode, FIELD_STR),	       F(S, note, FIELD_STR),
	F(S, tags, FIELD_STRV),	       F(S, clean, FIELD_BOOL),
	F(S, torn, FIELD_BOOL),	       F(S, incomplete, FIELD_BOOL),
	F(S, downtime, FIELD_REAL),    F(S, duration, FIELD_REAL),
	F(S, config_hash, FIELD_STR),  F(S, uid_map, FIELD_STR),
	F(S, warnings, FIELD_STRV),
};
#undef S

#define V struct snapshot_volume
static const struct field volume_fields[] = {
	F_REQ(V, name, FIELD_STR),     F(V, type, FIELD_STR),
	F(V, driver, FIELD_STR),       F(V, source, FIELD_STR),
	F(V, service, FIELD_STR),      F(V, target, FIELD_STR),
	F(V, number, FIELD_UINT),      F(V, targets, FIELD_STRV),
	F_REQ(V, index, FIELD_DIGEST), F_REQ(V, index_length, FIELD_U64),
	F(V, entries, FIELD_U64),      F(V, bytes, FIELD_U64),
	F(V, chunks, FIELD_U64),       F(V, new_bytes, FIELD_U64),
	F(V, stored_bytes, FIELD_U64), F(V, unreadable, FIELD_U64),
	F(V, changed, FIELD_U64),      F(V, sockets, FIELD_U64),
	F(V, mounts, FIELD_U64),       F(V, trusted_seen, FIELD_BOOL),
};
#undef V

#define C struct snapshot_container
static const struct field container_fields[] = {
	F_REQ(C, name, FIELD_STR),    F(C, service, FIELD_STR),
	F(C, image, FIELD_STR),	      F(C, image_id, FIELD_STR),
	F(C, digests, FIELD_STRV),    F(C, number, FIELD_UINT),
	F(C, state, FIELD_STR),	      F(C, how, FIELD_STR),
	F(C, config_hash, FIELD_STR),
};
#undef C

static const struct field file_fields[] = {
	F_REQ(struct snapshot_file, path, FIELD_STR),
	F_REQ(struct snapshot_file, content, FIELD_STR),
};

static const struct field label_fields[] = {
	F_REQ(struct snapshot_label, key, FIELD_STR),
	F_REQ(struct snapshot_label, value, FIELD_STR),
};

static const struct field pack_fields[] = {
	F_REQ(struct pack_ref, digest, FIELD_DIGEST),
	F_REQ(struct pack_ref, length, FIELD_U64),
};

static const char *const kinds[] = {
	[SNAP_FULL] = "full",
	[SNAP_INCREMENTAL] = "incremental",
	[SNAP_UNCHANGED] = "unchanged",
};

/* An array of structs: its place in the owner and how its elements go. */
struct list {
	const char *key;
	size_t items, count; /* offsets in the owner */
	size_t size;
	const struct field *fields;
	size_t nfields;
	/* What the table does not cover; may be NULL. */
	int (*encode)(const void *item, json_t *obj, struct sc_err *err);
	int (*decode)(void *item, const json_t *obj, const char *where,
		      struct sc_err *err);
	void (*clear)(void *item);
};

static int volume_encode(const void *item, json_t *obj, struct sc_err *err);
static int volume_decode(void *item, const json_t *obj, const char *where,
			 struct sc_err *err);
static void volume_clear(void *item);
static int pack_encode(const void *item, json_t *obj, struct sc_err *err);
static int pack_decode(void *item, const json_t *obj, const char *where,
		       struct sc_err *err);

#define LIST(name, owner, array, n, table)                                 \
	.key = (name), .items = offsetof(owner, array),                    \
	.count = offsetof(owner, n), .size = sizeof(*((owner *)0)->array), \
	.fields = (table), .nfields = ARRAY_LEN(table)

static const struct list snapshot_lists[] = {
	{ LIST("volumes", struct snapshot, volumes, nvolumes, volume_fields),
	  .encode = volume_encode, .decode = volume_decode,
	  .clear = volume_clear },
	{ LIST("containers", struct snapshot, containers, ncontainers,
	       container_fields) },
	{ LIST("files", struct snapshot, files, nfiles, file_fields) },
};

static const struct list volume_lists[] = {
	{ LIST("options", struct snapshot_volume, options, noptions,
	       label_fields) },
	{ LIST("labels", struct snapshot_volume, labels, nlabels,
	       label_fields) },
	{ LIST("packs", struct snapshot_volume, packs, npacks, pack_fields),
	  .encode = pack_encode, .decode = pack_decode },
};

/* -- lists ------------------------------------------------------------------
 */

static void list_clear(const struct list *l, void *owner)
{
	char **items = (char **)((char *)owner + l->items);
	size_t *count = (size_t *)((char *)owner + l->count);

	for (size_t i = 0; i < *count; i++) {
		fields_free(l->fields, l->nfields, *items + i * l->size);
		if (l->clear)
			l->clear(*items + i * l->size);
	}
	free(*items);
	*items = NULL;
	*count = 0;
}

static int list_encode(const struct list *l, const void *owner, json_t *obj,
		       struct sc_err *err)
{
	const char *items = *(char *const *)((const char *)owner + l->items);
	size_t count = *(const size_t *)((const char *)owner + l->count);
	json_t *a = json_array();

	if (!a || json_object_set_new(obj, l->key, a) < 0)
		return sc_oom(err, l->key);
	for (size_t i = 0; i < count; i++) {
		const char *item = items + i * l->size;
		json_t *o = json_object();

		/* o is owned by a from here on, also when NULL. */
		if (json_array_append_new(a, o) < 0)
			return sc_oom(err, l->key);
		if (fields_encode(l->fields, l->nfields, item, o, err) < 0 ||
		    (l->encode && l->encode(item, o, err) < 0))
			return -1;
	}
	return 0;
}

static int list_decode(const struct list *l, void *owner, const json_t *obj,
		       const char *where, struct sc_err *err)
{
	const json_t *a = json_object_get(obj, l->key);
	char **items = (char **)((char *)owner + l->items);
	size_t *count = (size_t *)((char *)owner + l->count);
	size_t n = json_array_size(a);
	char at[80];

	if (a && !json_is_array(a))
		return sc_fail(err, SC_ECORRUPT, 0, "%s.%s is not a list",
			       where, l->key);
	*items = calloc(n ? n : 1, l->size);
	if (!*items)
		return sc_oom(err, l->key);
	for (size_t i = 0; i < n; i++) {
		const json_t *o = json_array_get(a, i);

		snprintf(at, sizeof(at), "%s[%zu]", l->key, i);
		*count = i + 1; /* what list_clear has to look at */
		if (fields_decode(l->fields, l->nfields, *items + i * l->size,
				  o, at, err) < 0 ||
		    (l->decode &&
		     l->decode(*items + i * l->size, o, at, err) < 0))
			return -1;
	}
	return 0;
}

/* -- elements ---------------------------------------------------------------
 */

static int volume_encode(const void *item, json_t *obj, struct sc_err *err)
{
	const struct snapshot_volume *v = item;

	if (json_object_set_new(obj, "kind", json_string(kinds[v->kind])))
		return sc_oom(err, "kind");
	for (size_t i = 0; i < ARRAY_LEN(volume_lists); i++)
		if (list_encode(&volume_lists[i], v, obj, err) < 0)
			return -1;
	return 0;
}

static int volume_decode(void *item, const json_t *obj, const char *where,
			 struct sc_err *err)
{
	struct snapshot_volume *v = item;
	const char *kind = json_string_value(json_object_get(obj, "kind"));
	size_t k = 0;

	while (kind && k < ARRAY_LEN(kinds) && strcmp(kind, kinds[k]) != 0)
		k++;
	if (!kind || k == ARRAY_LEN(kinds))
		return sc_fail(err, SC_ECORRUPT, 0, "%s.kind is unknown",
			       where);
	v->kind = (enum snapshot_kind)k;
	if (!*v->name)
		return sc_fail(err, SC_ECORRUPT, 0, "%s has no name", where);
	if (!json_is_array(json_object_get(obj, "packs")))
		return sc_fail(err, SC_ECORRUPT, 0, "%s.packs is missing",
			       where);
	for (size_t i = 0; i < ARRAY_LEN(volume_lists); i++)
		if (list_decode(&volume_lists[i], v, obj, where, err) < 0)
			return -1;
	return 0;
}

static void volume_clear(void *item)
{
	for (size_t i = 0; i < ARRAY_LEN(volume_lists); i++)
		list_clear(&volume_lists[i], item);
}

static int pack_encode(const void *item, json_t *obj, struct sc_err *err)
{
	const struct pack_ref *p = item;
	const char *kind = p->kind == PACK_TAR ? "tar" : "chunks";

	return json_object_set_new(obj, "kind", json_string(kind))
		       ? sc_oom(err, "kind")
		       : 0;
}

static int pack_decode(void *item, const json_t *obj, const char *where,
		       struct sc_err *err)
{
	struct pack_ref *p = item;
	const char *kind = json_string_value(json_object_get(obj, "kind"));

	if (kind && strcmp(kind, "tar") == 0)
		p->kind = PACK_TAR;
	else if (kind && strcmp(kind, "chunks") == 0)
		p->kind = PACK_CHUNKS;
	else
		return sc_fail(err, SC_ECORRUPT, 0, "%s.kind is unknown",
			       where);
	return 0;
}

/* -- the whole --------------------------------------------------------------
 */

struct snapshot *snapshot_new(void)
{
	return calloc(1, sizeof(struct snapshot));
}

void snapshot_free(struct snapshot *s)
{
	if (!s)
		return;
	for (size_t i = 0; i < ARRAY_LEN(snapshot_lists); i++)
		list_clear(&snapshot_lists[i], s);
	fields_free(snapshot_fields, ARRAY_LEN(snapshot_fields), s);
	free(s);
}

struct snapshot_volume *snapshot_volume(const struct snapshot *s,
					const char *name)
{
	for (size_t i = 0; i < s->nvolumes; i++)
		if (strcmp(s->volumes[i].name, name) == 0)
			return &s->volumes[i];
	return NULL;
}

int snapshot_encode(const struct snapshot *s, json_t **out, struct sc_err *err)
{
	json_t *doc = json_pack("{s:i}", "version", CONFIG_VERSION);
	int rc;

	if (!doc)
		return sc_oom(err, "snapshot");
	rc = fields_encode(snapshot_fields, ARRAY_LEN(snapshot_fields), s, doc,
			   err);
	for (size_t i = 0; rc == 0 && i < ARRAY_LEN(snapshot_lists); i++)
		rc = list_encode(&snapshot_lists[i], s, doc, err);
	if (rc < 0) {
		json_decref(doc);
		return -1;
	}
	*out = doc;
	return 0;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static int check_names(const struct snapshot *s, struct sc_err *err)
{
	auto_free const char **v = calloc(s->nvolumes + 1, sizeof(*v));

	if (!v)
		return sc_oom(err, "volumes");
	for (size_t i = 0; i < s->nvolumes; i++)
		v[i] = s->volumes[i].name;
	qsort(v, s->nvolumes, sizeof(*v), by_name);
	for (size_t i = 1; i < s->nvolumes; i++)
		if (strcmp(v[i - 1], v[i]) == 0)
			return sc_fail(err, SC_ECORRUPT, 0,
				       "two volumes have one name");
	return 0;
}

static int decode_into(struct snapshot *s, const json_t *doc,
		       struct sc_err *err)
{
	const json_t *version = json_object_get(doc, "version");

	if (!json_is_integer(version) || json_integer_value(version) < 1)
		return sc_fail(err, SC_ECORRUPT, 0, "version is missing");
	if (json_integer_value(version) > CONFIG_VERSION)
		return sc_fail(err, SC_EPROTO, 0,
			       "written by a newer snapctl (version %lld, this "
			       "one knows %d)",
			       (long long)json_integer_value(version),
			       CONFIG_VERSION);
	if (json_array_size(json_object_get(doc, "volumes")) > VOLUMES_MAX)
		return sc_fail(err, SC_ECORRUPT, 0, "too many volumes");
	if (!json_is_array(json_object_get(doc, "volumes")))
		return sc_fail(err, SC_ECORRUPT, 0, "volumes is missing");
	if (fields_decode(snapshot_fields, ARRAY_LEN(snapshot_fields), s, doc,
			  "snapshot", err) < 0)
		return -1;
	for (size_t i = 0; i < ARRAY_LEN(snapshot_lists); i++)
		if (list_decode(&snapshot_lists[i], s, doc, "snapshot", err) <
		    0)
			return -1;
	return check_names(s, err);
}

int snapshot_decode(const json_t *doc, struct snapshot **out,
		    struct sc_err *err)
{
	struct snapshot *s = snapshot_new();

	if (!s)
		return sc_oom(err, "snapshot");
	if (decode_into(s, doc, err) < 0) {
		snapshot_free(s);
		return sc_wrap(err, "snapshot's config");
	}
	*out = s;
	return 0;
}
