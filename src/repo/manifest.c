/* SPDX-License-Identifier: MIT */
/* The OCI image manifest of a snapshot. What it says about layers follows
 * from the config, so what is read is compared with what would be written. */
#include "internal.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <snapctl/base/mem.h>
#include <snapctl/base/text.h>

#define STACK_IN_ID 100 /* a registry's tag has at most 128 characters */
#define LAYERS_MAX  (1u << 20)

void manifest_id_of_note(struct buf *out, const char *note, int64_t created)
{
	char when[32];
	size_t n = 0;

	for (; note[n] && n < STACK_IN_ID; n++) {
		char c = note[n];
		bool word = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
			    (c >= 'A' && c <= 'Z') || c == '_';

		if (word || (n > 0 && (c == '-' || c == '.')))
			buf_u8(out, (unsigned char)c);
		else
			buf_u8(out, '_');
	}
	buf_printf(out, "%s-%s", n ? "" : "_",
		   text_utc(when, (time_t)created, 1));
}

void manifest_id(struct buf *out, const char *stack, int64_t created)
{
	auto_buf struct buf safe = { 0 };
	const char *note;

	/* As annotations hold it, so that either gives the same id. */
	text_escape(&safe, stack, strlen(stack));
	note = buf_cstr(&safe);
	if (note)
		manifest_id_of_note(out, note, created);
	else
		out->failed = true;
}

bool manifest_time(const char *s, int64_t *out)
{
	struct tm tm = { 0 };
	const char *end = strptime(s, "%Y-%m-%dT%H:%M:%SZ", &tm);
	char again[32];

	if (!end || *end)
		return false;
	*out = timegm(&tm);
	/* strptime takes the 31st of February and more. */
	return strcmp(text_utc(again, (time_t)*out, 0), s) == 0;
}

/* -- writing ----------------------------------------------------------------
 */

/* Layers being collected. */
struct layers {
	json_t *array;
	json_t *digests, *titles; /* sets: what is there already */
};

/* Tools that fetch layers into files use titles as their names: no
 * separators, no control characters, not hidden, each once. */
static void title_of(struct buf *out, const char *volume)
{
	auto_buf struct buf safe = { 0 };

	text_escape(&safe, volume, strlen(volume));
	for (size_t i = 0; i < safe.len; i++) {
		unsigned char c = safe.p[i];

		if (c == '/' || c == '\\' || (i == 0 && c == '.'))
			c = '_';
		buf_u8(out, c);
	}
	out->failed |= safe.failed;
}

static int add_layer(struct layers *l, const char *media,
		     const struct digest *d, uint64_t size, struct buf *title,
		     struct sc_err *err)
{
	char digest[DIGEST_STR];
	json_t *layer;

	digest_str(d, digest);
	if (json_object_get(l->digests, digest))
		return 0;
	if (buf_cstr(title) &&
	    json_object_get(l->titles, (const char *)title->p))
		buf_printf(title, ".%.12s", digest + strlen("sha256:"));
	if (!buf_cstr(title))
		return sc_oom(err, "manifest");
	layer = json_pack("{s:s, s:s, s:I, s:{s:s}}", "mediaType", media,
			  "digest", digest, "size", (json_int_t)size,
			  "annotations", NOTE_TITLE, (const char *)title->p);
	if (json_array_append_new(l->array, layer) < 0 ||
	    json_object_set_new(l->digests, digest, json_true()) < 0 ||
	    json_object_set_new(l->titles, (const char *)title->p,
				json_true()) < 0)
		return sc_oom(err, "manifest");
	return 0;
}

static int add_packs(struct layers *l, const struct snapshot_volume *v,
		     struct sc_err *err)
{
	for (size_t i = 0; i < v->npacks; i++) {
		const struct pack_ref *p = &v->packs[i];
		bool tar = p->kind == PACK_TAR;
		auto_buf struct buf title = { 0 };

		title_of(&title, v->name);
		if (i)
			buf_printf(&title, ".%03zu", i + 1);
		buf_printf(&title, tar ? ".tar.zst" : ".chunks.zst");
		if (add_layer(l, tar ? MEDIA_PACK_TAR : MEDIA_PACK_CHUNKS,
			      &p->digest, p->length, &title, err) < 0)
			return -1;
	}
	return 0;
}

static int add_index(struct layers *l, const struct snapshot_volume *v,
		     struct sc_err *err)
{
	auto_buf struct buf title = { 0 };

	title_of(&title, v->name);
	buf_printf(&title, ".index");
	return add_layer(l, MEDIA_INDEX, &v->index, v->index_length, &title,
			 err);
}

/* Packs of all volumes, then indexes: who reads the layers in order has the
 * data before what refers to it. */
static int make_layers(const struct snapshot *s, json_t *array,
		       struct sc_err *err)
{
	struct layers l = { array, json_object(), json_object() };
	int rc = l.array && l.digests && l.titles ? 0 : sc_oom(err, "manifest");

	for (size_t i = 0; rc == 0 && i < s->nvolumes; i++)
		rc = add_packs(&l, &s->volumes[i], err);
	for (size_t i = 0; rc == 0 && i < s->nvolumes; i++)
		rc = add_index(&l, &s->volumes[i], err);
	json_decref(l.digests);
	json_decref(l.titles);
	return rc;
}

static const char *stack_note(const struct snapshot *s, struct buf *out)
{
	text_escape(out, s->stack, strlen(s->stack));
	return buf_cstr(out);
}

int manifest_encode(const struct snapshot *s, const struct digest *config,
		    uint64_t config_size, json_t **out, struct sc_err *err)
{
	auto_buf struct buf stack = { 0 };
	char digest[DIGEST_STR], when[32];
	json_t *doc, *layers = json_array();

	if (!layers || make_layers(s, layers, err) < 0) {
		json_decref(layers);
		return layers ? -1 : sc_oom(err, "manifest");
	}
	digest_str(config, digest);
	doc = json_pack("{s:i, s:s, s:s, s:{s:s, s:s, s:I}, s:o, "
			"s:{s:s, s:s, s:s}}",
			"schemaVersion", 2, "mediaType", MEDIA_MANIFEST,
			"artifactType", MEDIA_SNAPSHOT, "config", "mediaType",
			MEDIA_CONFIG, "digest", digest, "size",
			(json_int_t)config_size, "layers", layers,
			"annotations", NOTE_CREATED,
			text_utc(when, (time_t)s->created, 0), NOTE_ID, s->id,
			NOTE_STACK, stack_note(s, &stack));
	if (!doc)
		return sc_oom(err, "manifest"); /* layers went with it */
	*out = doc;
	return 0;
}

json_t *manifest_descriptor(const struct snapshot *s,
			    const struct digest *manifest, uint64_t size)
{
	auto_buf struct buf stack = { 0 };
	char digest[DIGEST_STR], when[32];

	digest_str(manifest, digest);
	return json_pack("{s:s, s:s, s:I, s:s, s:{s:s, s:s, s:s}}", "mediaType",
			 MEDIA_MANIFEST, "digest", digest, "size",
			 (json_int_t)size, "artifactType", MEDIA_SNAPSHOT,
			 "annotations", NOTE_REF, s->id, NOTE_CREATED,
			 text_utc(when, (time_t)s->created, 0), NOTE_STACK,
			 stack_note(s, &stack));
}

/* -- reading ----------------------------------------------------------------
 */

static int read_json(struct repo *r, const struct digest *d, size_t max,
		     const char *what, uint64_t *size, json_t **out,
		     struct sc_err *err)
{
	auto_buf struct buf text = { 0 };
	char name[DIGEST_STR + 32], digest[DIGEST_STR];

	digest_str(d, digest);
	snprintf(name, sizeof(name), "%s %s", what, digest);
	if (blob_read(r, d, max, &text, err) < 0)
		return sc_wrap(err, "%s", what);
	*size = text.len;
	return layout_parse(&text, name, out, err);
}

static bool has_media(const json_t *desc, const char *media)
{
	const char *m = layout_str(desc, "mediaType");

	return m && strcmp(m, media) == 0;
}

/* Equal in what counts; a manifest may carry more annotations. */
static bool same_layers(const json_t *a, const json_t *b)
{
	if (json_array_size(a) != json_array_size(b))
		return false;
	for (size_t i = 0; i < json_array_size(a); i++) {
		static const char *const keys[] = { "mediaType", "digest",
						    "size" };
		for (size_t k = 0; k < ARRAY_LEN(keys); k++) {
			const json_t *x = json_array_get(a, i);
			const json_t *y = json_array_get(b, i);

			if (!json_equal(json_object_get(x, keys[k]),
					json_object_get(y, keys[k])))
				return false;
		}
	}
	return true;
}

static int check_layers(const struct snapshot *s, const json_t *manifest,
			struct sc_err *err)
{
	const json_t *found = json_object_get(manifest, "layers");
	json_t *wanted = json_array();
	int rc = wanted ? make_layers(s, wanted, err) : sc_oom(err, "manifest");

	if (rc == 0 && !same_layers(wanted, found))
		rc = sc_fail(
			err, SC_ECORRUPT, 0,
			"the manifest's layers are not those of its config");
	json_decref(wanted);
	return rc;
}

static int list_layers(const json_t *manifest, struct layer **out, size_t *n,
		       struct sc_err *err)
{
	const json_t *all = json_object_get(manifest, "layers");
	size_t i;
	json_t *l;

	*n = json_array_size(all);
	*out = calloc(*n + 1, sizeof(**out));
	if (!*out)
		return sc_oom(err, "layers");
	json_array_foreach(all, i, l)
	{
		struct layer *to = &(*out)[i];

		if (!layout_target(l, &to->digest, &to->length)) {
			free(take_ptr(*out));
			return sc_fail(
				err, SC_ECORRUPT, 0,
				"layer %zu of the manifest is no descriptor",
				i);
		}
		to->index = has_media(l, MEDIA_INDEX);
	}
	return 0;
}

static int load_config(struct repo *r, const json_t *manifest, struct digest *d,
		       uint64_t *size, struct snapshot **out,
		       struct sc_err *err)
{
	const json_t *desc = json_object_get(manifest, "config");
	json_t *doc = NULL;
	uint64_t got = 0;
	int rc;

	if (!has_media(desc, MEDIA_CONFIG) || !layout_target(desc, d, size))
		return sc_fail(err, SC_ECORRUPT, 0,
			       "the manifest's config is not a snapshot's");
	rc = read_json(r, d, CONFIG_MAX, "config", &got, &doc, err);
	if (rc == 0 && got != *size)
		rc = sc_fail(err, SC_ECORRUPT, 0,
			     "the manifest says %llu bytes of its config, it "
			     "has %llu",
			     (unsigned long long)*size,
			     (unsigned long long)got);
	if (rc == 0)
		rc = snapshot_decode(doc, out, err);
	json_decref(doc);
	return rc;
}

int manifest_load(struct repo *r, const struct digest *d, uint64_t size,
		  struct snapshot **out, struct layer **layers, size_t *n,
		  struct digest *config, uint64_t *config_size,
		  struct sc_err *err)
{
	struct snapshot *s = NULL;
	json_t *doc = NULL;
	uint64_t got = 0;
	int rc = read_json(r, d, MANIFEST_MAX, "manifest", &got, &doc, err);

	if (rc == 0 && got != size)
		rc = sc_fail(err, SC_ECORRUPT, 0,
			     "index.json says %llu bytes of the manifest, it "
			     "has %llu",
			     (unsigned long long)size, (unsigned long long)got);
	if (rc == 0 &&
	    json_array_size(json_object_get(doc, "layers")) > LAYERS_MAX)
		rc = sc_fail(err, SC_ECORRUPT, 0, "too many layers");
	if (rc == 0)
		rc = load_config(r, doc, config, config_size, &s, err);
	if (rc == 0 && s)
		rc = check_layers(s, doc, err);
	if (rc == 0 && layers)
		rc = list_layers(doc, layers, n, err);
	json_decref(doc);
	if (rc < 0) {
		snapshot_free(s);
		return -1;
	}
	*out = s;
	return 0;
}
