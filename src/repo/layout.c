/* SPDX-License-Identifier: MIT */
/* index.json: the list of what the layout holds, ours and others'. It is
 * rewritten whole, so every descriptor and field that is not ours has to come
 * through: duplicate keys, which a JSON object in memory would lose, are
 * refused, NUL in strings is not. */
#include "internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <snapctl/base/io.h>
#include <snapctl/base/mem.h>

/* Every value but the first of a document follows one of these: bounds what
 * parsing allocates. Those within strings count too; there is room. */
static bool too_many_values(const struct buf *text)
{
	size_t n = 0;

	for (size_t i = 0; i < text->len; i++) {
		unsigned char c = text->p[i];

		n += c == ',' || c == ':' || c == '[' || c == '{';
	}
	return n > JSON_VALUES_MAX;
}

int layout_parse(const struct buf *text, const char *what, json_t **out,
		 struct sc_err *err)
{
	json_error_t e;

	if (too_many_values(text))
		return sc_fail(err, SC_ECORRUPT, 0, "%s holds too many values",
			       what);
	*out = json_loadb((const char *)text->p, text->len,
			  JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &e);
	if (!*out && json_error_code(&e) == json_error_out_of_memory)
		return sc_oom(err, what);
	if (!*out)
		return sc_fail(err, SC_ECORRUPT, 0,
			       "%s is damaged: no valid JSON at byte %d", what,
			       e.position);
	if (!json_is_object(*out)) {
		json_decref(*out);
		*out = NULL;
		return sc_fail(err, SC_ECORRUPT, 0,
			       "%s is damaged: not a JSON object", what);
	}
	return 0;
}

const char *layout_str(const json_t *obj, const char *key)
{
	const json_t *v = json_object_get(obj, key);
	const char *s = json_string_value(v);

	return s && strlen(s) == json_string_length(v) ? s : NULL;
}

const char *layout_note(const json_t *desc, const char *key)
{
	return layout_str(json_object_get(desc, "annotations"), key);
}

bool layout_target(const json_t *desc, struct digest *d, uint64_t *size)
{
	const char *digest = layout_str(desc, "digest");
	const json_t *n = json_object_get(desc, "size");

	if (!digest || !digest_parse(digest, d) || !json_is_integer(n) ||
	    json_integer_value(n) < 0)
		return false;
	*size = (uint64_t)json_integer_value(n);
	return true;
}

static int check(const json_t *doc, struct sc_err *err)
{
	const json_t *all = json_object_get(doc, "manifests");
	size_t i;
	json_t *d;

	if (json_integer_value(json_object_get(doc, "schemaVersion")) != 2)
		return sc_fail(err, SC_ECORRUPT, 0,
			       "index.json is damaged: schemaVersion is not 2");
	if (!json_is_array(all))
		return sc_fail(err, SC_ECORRUPT, 0,
			       "index.json is damaged: no list \"manifests\"");
	json_array_foreach(all, i, d) if (!json_is_object(d)) return sc_fail(
		err, SC_ECORRUPT, 0,
		"index.json is damaged: manifests[%zu] is no object", i);
	return 0;
}

int layout_read(struct repo *r, json_t **doc, struct buf *text,
		struct sc_err *err)
{
	auto_buf struct buf own = { 0 };
	struct buf *b = text ? text : &own;
	int rc = io_read_file(r->dir, "index.json", INDEX_JSON_MAX, b, err);

	*doc = NULL;
	if (rc == 0)
		rc = sc_fail(err, SC_ECORRUPT, 0, "index.json is missing");
	if (rc > 0)
		rc = layout_parse(b, "index.json", doc, err);
	if (rc == 0 && check(*doc, err) < 0) {
		json_decref(*doc);
		*doc = NULL;
		rc = -1;
	}
	if (rc < 0 && err && err->code == SC_ECORRUPT) {
		size_t n = strlen(err->msg);

		/* No layer above knows the way out. */
		snprintf(err->msg + n, sizeof(err->msg) - n,
			 " (the blobs are not affected; "
			 "state/index.json.previous is the list before the "
			 "last change)");
	}
	return rc;
}

/* Writes p to a temporary in the run's directory and renames it over
 * index.json. *renamed: it got that far. */
static int replace(struct repo *r, const void *p, size_t n, bool *renamed,
		   struct sc_err *err)
{
	static const char tmp[] = "index.json";
	auto_close int fd = openat(
		r->run, tmp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	if (fd < 0)
		return sc_fail(err, SC_EIO, errno, "create a new index.json");
	if (io_write_all(fd, p, n, "new index.json", err) < 0 ||
	    io_fsync(fd, "new index.json", err) < 0)
		return -1;
	if (renameat(r->run, tmp, r->dir, "index.json") < 0)
		return sc_fail(err, SC_EIO, errno, "replace index.json");
	*renamed = true;
	return io_fsync(r->dir, r->path, err);
}

/* For people, if index.json should ever be damaged; not every file system
 * has links, and nothing depends on it. */
static void keep_previous(struct repo *r)
{
	static const char to[] = "state/index.json.previous";

	(void)unlinkat(r->dir, to, 0);
	(void)!linkat(r->dir, "index.json", r->dir, to, 0);
}

int layout_write(struct repo *r, const json_t *doc, const struct buf *previous,
		 struct sc_err *err)
{
	auto_free char *text = json_dumps(doc, JSON_COMPACT);
	bool renamed = false;
	struct sc_err undo;

	if (!text)
		return sc_oom(err, "index.json");
	if (strlen(text) > INDEX_JSON_MAX)
		return sc_fail(err, SC_EREFUSED, 0,
			       "index.json would be longer than %u bytes",
			       INDEX_JSON_MAX);
	if (run_start(r, err) < 0)
		return -1;
	keep_previous(r);
	if (replace(r, text, strlen(text), &renamed, err) == 0)
		return 0;
	if (renamed &&
	    replace(r, previous->p, previous->len, &renamed, &undo) < 0) {
		sc_wrap(err, "the list may or may not show the change (%s)",
			undo.msg);
		if (err)
			err->code = SC_EPARTIAL;
	}
	return -1;
}
