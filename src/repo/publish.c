/* SPDX-License-Identifier: MIT */
/* Publication: all blobs of the run are complete and on the disk already.
 * They are renamed into blobs/sha256, that directory is fsynced, and then
 * index.json is replaced: the commit. All of it happens under the lock
 * "index", so that a blob which two runs bring at once is not taken away from
 * one by the failure of the other. */
#include "internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <snapctl/base/io.h>
#include <snapctl/base/mem.h>

#define LOCK_PATIENCE 300 /* seconds; prune may hold it while it deletes */
#define CLASHES_MAX   100000

static bool id_taken(const json_t *index, const char *id)
{
	const json_t *all = json_object_get(index, "manifests");
	size_t i;
	json_t *d;

	json_array_foreach(all, i, d)
	{
		const char *ref = layout_note(d, NOTE_REF);

		if (ref && strcmp(ref, id) == 0)
			return true;
	}
	return false;
}

static int choose_id(struct snapshot *s, const json_t *index,
		     struct sc_err *err)
{
	auto_buf struct buf id = { 0 };
	size_t base;

	manifest_id(&id, s->stack, s->created);
	base = id.len;
	for (unsigned n = 2; buf_cstr(&id); n++) {
		if (!id_taken(index, (const char *)id.p)) {
			free(s->id);
			s->id = strdup((const char *)id.p);
			return s->id ? 0 : sc_oom(err, "id");
		}
		if (n > CLASHES_MAX)
			return sc_fail(err, SC_EREFUSED, 0,
				       "too many snapshots of one second");
		id.len = base;
		buf_printf(&id, "-%u", n);
	}
	return sc_oom(err, "id");
}

/* Writes doc (consumed) as a sealed blob of at most max bytes. */
static int put_json(struct repo *r, json_t *doc, size_t max, const char *what,
		    struct digest *d, uint64_t *size, struct sc_err *err)
{
	auto_free char *text = json_dumps(doc, JSON_COMPACT);

	json_decref(doc);
	if (!text)
		return sc_oom(err, what);
	*size = strlen(text);
	if (*size > max)
		return sc_fail(err, SC_EREFUSED, 0,
			       "the %s would be %llu bytes, more than %zu",
			       what, (unsigned long long)*size, max);
	return blob_document(r, text, *size, d, err);
}

static int put_documents(struct repo *r, const struct snapshot *s,
			 json_t **descriptor, struct sc_err *err)
{
	struct digest config, manifest;
	uint64_t config_size, size;
	json_t *doc;

	if (snapshot_encode(s, &doc, err) < 0 ||
	    put_json(r, doc, CONFIG_MAX, "config", &config, &config_size, err) <
		    0 ||
	    manifest_encode(s, &config, config_size, &doc, err) < 0 ||
	    put_json(r, doc, MANIFEST_MAX, "manifest", &manifest, &size, err) <
		    0)
		return -1;
	*descriptor = manifest_descriptor(s, &manifest, size);
	return *descriptor ? 0 : sc_oom(err, "manifest");
}

static int reveal(struct repo *r, struct sealed *b, struct sc_err *err)
{
	char hex[DIGEST_HEX + 1];

	digest_hex(&b->digest, hex);
	b->existed = faccessat(r->blobs, hex, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
	if (renameat(r->run, b->name, r->blobs, hex) < 0)
		return sc_fail(err, SC_EIO, errno, "publish blob sha256:%s",
			       hex);
	b->renamed = true;
	return 0;
}

static void withdraw(struct repo *r)
{
	for (size_t i = 0; i < r->nsealed; i++) {
		const struct sealed *b = &r->sealed[i];
		char hex[DIGEST_HEX + 1];

		digest_hex(&b->digest, hex);
		/* What stays is garbage that nothing refers to. */
		if (!b->renamed)
			(void)unlinkat(r->run, b->name, 0);
		else if (!b->existed)
			(void)unlinkat(r->blobs, hex, 0);
	}
}

static int commit(struct repo *r, const struct snapshot *s, json_t *index,
		  const struct buf *previous, struct sc_err *err)
{
	json_t *descriptor;

	if (put_documents(r, s, &descriptor, err) < 0)
		return -1;
	if (json_array_append_new(json_object_get(index, "manifests"),
				  descriptor) < 0)
		return sc_oom(err, "index.json");
	for (size_t i = 0; i < r->nsealed; i++)
		if (reveal(r, &r->sealed[i], err) < 0)
			return -1;
	/* What a snapshot names without having it would be lost silently. */
	if (present_lengths(r, s, NULL, err) < 0 ||
	    io_fsync(r->blobs, "blobs/sha256", err) < 0)
		return -1;
	return layout_write(r, index, previous, err);
}

int repo_publish(struct repo *r, struct snapshot *s, struct sc_err *err)
{
	auto_buf struct buf previous = { 0 };
	struct repo_lock *lock;
	json_t *index = NULL;
	struct sc_err why = { 0 };
	int rc;

	if (repo_lock(r, "index", LOCK_EXCLUSIVE, "publish", LOCK_PATIENCE,
		      NULL, &lock, err) < 0)
		return -1;
	rc = layout_read(r, &index, &previous, &why);
	if (rc == 0)
		rc = choose_id(s, index, &why);
	if (rc == 0)
		rc = commit(r, s, index, &previous, &why);
	/* SC_EPARTIAL: the list may name them. */
	if (rc < 0 && why.code != SC_EPARTIAL)
		withdraw(r);
	r->nsealed = 0;
	json_decref(index);
	repo_unlock(lock);
	if (rc < 0) {
		free(take_ptr(s->id));
		if (err)
			*err = why;
		return sc_wrap(err, "publish the snapshot");
	}
	return 0;
}
