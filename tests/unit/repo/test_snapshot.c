/* SPDX-License-Identifier: MIT */
/* The config document there and back, and hostile ones. With "--golden" it
 * prints the golden file. */
#include "fixture.h"

#include <jansson.h>
#include <math.h>

#define GOLDEN "tests/golden/snapshot-v1.json"

/* Text that no JSON string can hold, that looks escaped, that is empty. */
static const char *const strings[] = {
	"plain",
	"",
	"\xff\xfe",
	"a\\x41\\\\n",
	"\xc3\xa4\n\t\x01\x7f",
	"\xed\xa0\x80\\",
	"\xf4\x90\x80\x80",
	"\xc0\xaf",
	"\xe2\x82",
	"{\"escaped\":\"x\"}",
	"\xf0\x9f\x92\xbe",
	"\\",
	"\xff\\xff\\\\",
};

static char **list_of(size_t n)
{
	char **v = calloc(n + 1, sizeof(*v));

	assert_non_null(v);
	for (size_t i = 0; i < n; i++)
		v[i] = copy(strings[i % ARRAY_LEN(strings)]);
	return v;
}

static struct snapshot_label *labels_of(size_t n)
{
	struct snapshot_label *v = calloc(n + 1, sizeof(*v));

	assert_non_null(v);
	for (size_t i = 0; i < n; i++) {
		v[i].key = copy(strings[i % ARRAY_LEN(strings)]);
		v[i].value = copy(strings[(i + 3) % ARRAY_LEN(strings)]);
	}
	return v;
}

static void full_volume(struct snapshot_volume *v, const char *name,
			const char *s)
{
	*v = (struct snapshot_volume){
		.name = copy(name),
		.type = copy("anonymous"),
		.driver = copy(s),
		.source = copy(s),
		.service = copy(s),
		.target = copy(s),
		.number = UINT32_MAX,
		.options = labels_of(2),
		.noptions = 2,
		.labels = labels_of(ARRAY_LEN(strings)),
		.nlabels = ARRAY_LEN(strings),
		.targets = list_of(3),
		.index_length = INT64_MAX,
		.kind = SNAP_INCREMENTAL,
		.entries = 1,
		.bytes = (uint64_t)1 << 60,
		.chunks = 3,
		.new_bytes = 4,
		.stored_bytes = 5,
		.unreadable = 6,
		.changed = 7,
		.sockets = 8,
		.mounts = 9,
		.trusted_seen = true,
		.npacks = 2,
	};
	memset(&v->index, 0xab, sizeof(v->index));
	v->packs = calloc(2, sizeof(*v->packs));
	assert_non_null(v->packs);
	v->packs[0] = (struct pack_ref){ .length = 10, .kind = PACK_TAR };
	v->packs[1] = (struct pack_ref){ .length = 11, .kind = PACK_CHUNKS };
	v->packs[1].digest.b[31] = 1;
}

static struct snapshot *full_snapshot(const char *s)
{
	struct snapshot *f = new_snapshot(s, -315619200);

	f->id = copy(s);
	f->tool = copy(s);
	f->engine_id = copy(s);
	f->engine_version = copy(s);
	f->engine_host = copy(s);
	f->engine_name = copy(s);
	f->note = copy(s);
	f->tags = list_of(ARRAY_LEN(strings));
	f->torn = f->incomplete = true;
	f->clean = false;
	f->downtime = 1.25;
	f->duration = 1e-3;
	f->config_hash = copy(s);
	f->uid_map = copy(s);
	f->warnings = list_of(1);
	f->nvolumes = 2;
	f->volumes = calloc(2, sizeof(*f->volumes));
	f->ncontainers = 1;
	f->containers = calloc(1, sizeof(*f->containers));
	f->nfiles = 1;
	f->files = calloc(1, sizeof(*f->files));
	assert_true(f->volumes && f->containers && f->files);
	full_volume(&f->volumes[0], "one", s);
	full_volume(&f->volumes[1], "tw\xff", s);
	f->containers[0] = (struct snapshot_container){
		.name = copy(s),
		.service = copy(s),
		.image = copy(s),
		.image_id = copy(s),
		.digests = list_of(2),
		.number = 3,
		.state = copy(s),
		.how = copy(s),
		.config_hash = copy(s),
	};
	f->files[0] = (struct snapshot_file){ copy(s), copy(s) };
	return f;
}

/* Through text, as on disk. */
static json_t *encode(const struct snapshot *s)
{
	json_t *doc = NULL, *again;
	char *text;

	OK(snapshot_encode(s, &doc, &failure));
	text = json_dumps(doc, JSON_COMPACT);
	assert_non_null(text);
	again = json_loads(text, 0, NULL);
	assert_non_null(again);
	free(text);
	json_decref(doc);
	return again;
}

static void assert_list(char *const *got, char *const *want)
{
	for (; *want; want++, got++) {
		assert_non_null(*got);
		assert_string_equal(*got, *want);
	}
	assert_null(*got);
}

static void assert_volume(const struct snapshot_volume *g,
			  const struct snapshot_volume *w)
{
	assert_string_equal(g->name, w->name);
	assert_string_equal(g->type, w->type);
	assert_string_equal(g->driver, w->driver);
	assert_string_equal(g->source, w->source);
	assert_string_equal(g->service, w->service);
	assert_string_equal(g->target, w->target);
	assert_int_equal(g->number, w->number);
	assert_list(g->targets, w->targets);
	assert_int_equal(g->noptions, w->noptions);
	assert_int_equal(g->nlabels, w->nlabels);
	for (size_t i = 0; i < w->nlabels; i++) {
		assert_string_equal(g->labels[i].key, w->labels[i].key);
		assert_string_equal(g->labels[i].value, w->labels[i].value);
	}
	assert_memory_equal(&g->index, &w->index, sizeof(w->index));
	assert_int_equal(g->index_length, w->index_length);
	assert_int_equal(g->kind, w->kind);
	assert_int_equal(g->entries, w->entries);
	assert_int_equal(g->bytes, w->bytes);
	assert_int_equal(g->chunks, w->chunks);
	assert_int_equal(g->new_bytes, w->new_bytes);
	assert_int_equal(g->stored_bytes, w->stored_bytes);
	assert_int_equal(g->unreadable, w->unreadable);
	assert_int_equal(g->changed, w->changed);
	assert_int_equal(g->sockets, w->sockets);
	assert_int_equal(g->mounts, w->mounts);
	assert_int_equal(g->trusted_seen, w->trusted_seen);
	assert_int_equal(g->npacks, w->npacks);
	for (size_t i = 0; i < w->npacks; i++) {
		assert_memory_equal(&g->packs[i].digest, &w->packs[i].digest,
				    sizeof(struct digest));
		assert_int_equal(g->packs[i].length, w->packs[i].length);
		assert_int_equal(g->packs[i].kind, w->packs[i].kind);
	}
}

static void assert_snapshot(const struct snapshot *g, const struct snapshot *w)
{
	assert_string_equal(g->id, w->id);
	assert_string_equal(g->stack, w->stack);
	assert_int_equal(g->created, w->created);
	assert_string_equal(g->tool, w->tool);
	assert_string_equal(g->engine_id, w->engine_id);
	assert_string_equal(g->engine_version, w->engine_version);
	assert_string_equal(g->engine_host, w->engine_host);
	assert_string_equal(g->engine_name, w->engine_name);
	assert_string_equal(g->mode, w->mode);
	assert_string_equal(g->note, w->note);
	assert_list(g->tags, w->tags);
	assert_int_equal(g->clean, w->clean);
	assert_int_equal(g->torn, w->torn);
	assert_int_equal(g->incomplete, w->incomplete);
	assert_true(g->downtime == w->downtime);
	assert_true(g->duration == w->duration);
	assert_string_equal(g->config_hash, w->config_hash);
	assert_string_equal(g->uid_map, w->uid_map);
	assert_list(g->warnings, w->warnings);
	assert_int_equal(g->nvolumes, w->nvolumes);
	for (size_t i = 0; i < w->nvolumes; i++)
		assert_volume(&g->volumes[i], &w->volumes[i]);
	assert_int_equal(g->ncontainers, 1);
	assert_string_equal(g->containers[0].how, w->containers[0].how);
	assert_list(g->containers[0].digests, w->containers[0].digests);
	assert_int_equal(g->containers[0].number, 3);
	assert_string_equal(g->files[0].content, w->files[0].content);
}

static void test_round_trip(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(strings); i++) {
		struct snapshot *s = full_snapshot(strings[i]), *back = NULL;
		json_t *doc = encode(s);

		OK(snapshot_decode(doc, &back, &failure));
		assert_snapshot(back, s);
		assert_ptr_equal(snapshot_volume(back, "tw\xff"),
				 &back->volumes[1]);
		assert_null(snapshot_volume(back, "two"));
		snapshot_free(back);
		snapshot_free(s);
		json_decref(doc);
	}
}

/* What a reader sees: plain text wherever that is possible. */
static void test_readable(void **state)
{
	struct snapshot *s = new_snapshot("web", CREATED);
	json_t *doc;
	const char *created, *note;
	int version = 0;

	(void)state;
	s->id = copy("x");
	s->note = copy("a\\b");
	s->tool = copy("\xff\\");
	doc = encode(s);
	assert_int_equal(json_unpack(doc, "{s:i,s:s,s:s}", "version", &version,
				     "created", &created, "note", &note),
			 0);
	assert_int_equal(version, 1);
	assert_string_equal(created, "2026-09-21T14:13:20Z");
	assert_string_equal(note, "a\\b");
	assert_int_equal(
		json_unpack(doc, "{s:{s:s}}", "tool", "escaped", &note), 0);
	assert_string_equal(note, "\\xff\\\\");
	json_decref(doc);
	snapshot_free(s);
}

static void decode_fails(json_t *doc, enum sc_code code, const char *text)
{
	struct snapshot *s = (struct snapshot *)&failure;
	struct sc_err err = { 0 };

	assert_int_equal(snapshot_decode(doc, &s, &err), -1);
	if (err.code != code || (text && !strstr(err.msg, text)))
		fail_msg("code %d: %s", err.code, err.msg);
	assert_ptr_equal(s, &failure); /* not touched */
}

static char *golden_text(void)
{
	struct snapshot *s = full_snapshot("a\xff\\ä");
	json_t *doc = NULL;
	char *text;

	OK(snapshot_encode(s, &doc, &failure));
	text = json_dumps(doc, JSON_COMPACT);
	assert_non_null(text);
	json_decref(doc);
	snapshot_free(s);
	return text;
}

/* Version 1 stays what it is: written the same, read the same, and damaged
 * nowhere without a word (a cut, or a byte that breaks a value). */
static void test_golden(void **state)
{
	auto_buf struct buf was = { 0 };
	struct snapshot *s = full_snapshot("a\xff\\ä"), *back = NULL;
	auto_free char *text = golden_text();
	json_t *doc;

	(void)state;
	if (io_read_file(AT_FDCWD, GOLDEN, 1 << 20, &was, &failure) <= 0)
		fail_msg("run it where %s is", GOLDEN);
	assert_int_equal(was.len, strlen(text));
	assert_memory_equal(was.p, text, was.len);
	doc = json_loadb((char *)was.p, was.len, 0, NULL);
	OK(snapshot_decode(doc, &back, &failure));
	assert_snapshot(back, s);
	json_object_del(doc, "volumes");
	decode_fails(doc, SC_ECORRUPT, "volumes");
	json_decref(doc);
	assert_null(json_loadb((char *)was.p, was.len - 1, 0, NULL));
	snapshot_free(back);
	snapshot_free(s);
}

static int print_golden(void)
{
	auto_free char *text = golden_text();

	return fputs(text, stdout) < 0;
}

/* NULL, not finite, out of range: written as nothing. */
static void test_sparse(void **state)
{
	struct snapshot *s = snapshot_new(), *back = NULL;
	json_t *doc;

	(void)state;
	assert_non_null(s);
	s->downtime = NAN;
	s->duration = -1;
	s->nvolumes = 1;
	s->volumes = calloc(1, sizeof(*s->volumes));
	assert_non_null(s->volumes);
	s->volumes[0].name = copy("v");
	s->volumes[0].bytes = UINT64_MAX;
	doc = encode(s);
	OK(snapshot_decode(doc, &back, &failure));
	assert_string_equal(back->id, "");
	assert_string_equal(back->engine_id, "");
	assert_non_null(back->tags);
	assert_null(back->tags[0]);
	assert_true(back->downtime == 0 && back->duration == 0);
	assert_int_equal(back->volumes[0].bytes, INT64_MAX);
	assert_string_equal(back->volumes[0].driver, "");
	assert_null(back->volumes[0].targets[0]);
	snapshot_free(back);
	snapshot_free(s);
	json_decref(doc);
}

/* Every value of a good document replaced by every other kind of value, and
 * left out. */
static json_t *wrong(unsigned i)
{
	switch (i) {
	case 0:
		return json_null();
	case 1:
		return json_integer(-1);
	case 2:
		return json_string("wrong");
	case 3:
		return json_pack("[[]]");
	case 4:
		return json_pack("{s:s}", "escaped", "\\q");
	case 5:
		return json_real(1e300);
	case 6:
		return json_stringn("a\0b", 3);
	case 7:
		return json_pack("{s:s}", "escaped", "\\x0");
	case 8:
		return json_pack("{s:s}", "escaped", "\\x00");
	case 9:
		return json_pack("{s:{}}", "escaped");
	}
	return NULL;
}

static bool harmless(const char *key, unsigned i)
{
	static const char *const text[] = {
		"id",	    "stack",  "tool",	"engine_id",   "engine_version",
		"mode",	    "note",   "name",	"engine_host", "engine_name",
		"type",	    "driver", "source", "service",     "target",
		"key",	    "value",  "path",	"content",     "image",
		"image_id", "how",    "state",	"config_hash", "uid_map",
	};

	if (i == 5)
		return strcmp(key, "downtime") == 0 ||
		       strcmp(key, "duration") == 0;
	for (size_t k = 0; i == 2 && k < ARRAY_LEN(text); k++)
		if (strcmp(key, text[k]) == 0)
			return true;
	return false;
}

static void try_all(json_t *doc, json_t *obj)
{
	json_t *keys = json_copy(obj), *value;
	const char *key;

	json_object_foreach(keys, key, value)
	{
		json_t *bad;

		for (unsigned i = 0; (bad = wrong(i)); i++) {
			json_object_set_new(obj, key, bad);
			if (!harmless(key, i))
				decode_fails(doc, SC_ECORRUPT, key);
		}
		json_object_set(obj, key, value);
		if (json_is_object(json_array_get(value, 0)))
			try_all(doc, json_array_get(value, 0));
	}
	json_decref(keys);
}

static void test_wrong_types(void **state)
{
	struct snapshot *s = full_snapshot("plain"), *back = NULL;
	json_t *doc = encode(s);

	(void)state;
	try_all(doc, doc);
	OK(snapshot_decode(doc, &back, &failure)); /* as it was */
	snapshot_free(back);
	snapshot_free(s);
	json_decref(doc);
}

static void test_missing(void **state)
{
	static const char *const top[] = { "version", "id", "stack", "created",
					   "volumes" };
	static const char *const volume[] = { "name", "kind", "index",
					      "index_length", "packs" };
	struct snapshot *s = full_snapshot("x"), *back = NULL;
	json_t *doc, *v;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(top); i++) {
		doc = encode(s);
		json_object_del(doc, top[i]);
		decode_fails(doc, SC_ECORRUPT, top[i]);
		json_decref(doc);
	}
	for (size_t i = 0; i < ARRAY_LEN(volume); i++) {
		doc = encode(s);
		v = json_array_get(json_object_get(doc, "volumes"), 1);
		json_object_del(v, volume[i]);
		decode_fails(doc, SC_ECORRUPT, volume[i]);
		json_decref(doc);
	}
	/* unknown ones are passed over */
	doc = encode(s);
	json_object_set_new(doc, "later", json_integer(1));
	OK(snapshot_decode(doc, &back, &failure));
	snapshot_free(back);
	json_decref(doc);
	snapshot_free(s);
}

static void test_refused(void **state)
{
	struct snapshot *s = full_snapshot("x");
	json_t *doc = encode(s), *v, *big;

	(void)state;
	json_object_set_new(doc, "version", json_integer(2));
	decode_fails(doc, SC_EPROTO, "newer snapctl");
	json_object_set_new(doc, "version", json_integer(1));
	json_object_set_new(doc, "created",
			    json_string("2026-02-30T00:00:00Z"));
	decode_fails(doc, SC_ECORRUPT, "created");
	json_object_set_new(doc, "created",
			    json_string("2026-01-30T00:00:00+01:00"));
	decode_fails(doc, SC_ECORRUPT, "created");
	json_object_set_new(doc, "created",
			    json_string("2026-01-30T00:00:00Z"));
	v = json_array_get(json_object_get(doc, "volumes"), 1);
	json_object_set_new(v, "name", json_string("one"));
	decode_fails(doc, SC_ECORRUPT, "one name");
	json_object_set_new(v, "name", json_string(""));
	decode_fails(doc, SC_ECORRUPT, "no name");
	big = json_array();
	for (int i = 0; i < 65537; i++)
		json_array_append(big, v);
	json_object_set_new(doc, "volumes", big);
	decode_fails(doc, SC_ECORRUPT, "too many volumes");
	json_decref(doc);
	doc = json_array();
	decode_fails(doc, SC_ECORRUPT, NULL);
	json_decref(doc);
	snapshot_free(s);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_round_trip),
		cmocka_unit_test(test_readable),
		cmocka_unit_test(test_golden),
		cmocka_unit_test(test_sparse),
		cmocka_unit_test(test_wrong_types),
		cmocka_unit_test(test_missing),
		cmocka_unit_test(test_refused),
	};

	if (argc == 2 && strcmp(argv[1], "--golden") == 0)
		return print_golden();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
