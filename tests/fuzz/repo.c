/* SPDX-License-Identifier: MIT */
/* Any bytes as a snapshot's config, and as index.json of a repository. */
#include <fcntl.h>
#include <ftw.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <snapctl/base/io.h>
#include <snapctl/base/mem.h>

#include "../../src/repo/internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What was taken can be written, and is the same when read again. */
static void config(const struct buf *text)
{
	struct snapshot *s, *again;
	json_t *doc, *one, *two;
	struct digest none = { 0 };
	struct sc_err err;

	if (layout_parse(text, "fuzz", &doc, &err) < 0)
		return;
	if (snapshot_decode(doc, &s, &err) == 0) {
		if (snapshot_encode(s, &one, &err) < 0 ||
		    snapshot_decode(one, &again, &err) < 0 ||
		    snapshot_encode(again, &two, &err) < 0 ||
		    !json_equal(one, two))
			abort();
		json_decref(two);
		if (manifest_encode(s, &none, 1, &two, &err) == 0)
			json_decref(two);
		json_decref(one);
		snapshot_free(again);
		snapshot_free(s);
	}
	json_decref(doc);
}

static char dir[] = "/tmp/snapctl-fuzz-XXXXXX";

static int drop(const char *path, const struct stat *st, int type,
		struct FTW *at)
{
	(void)st;
	(void)type;
	(void)at;
	return remove(path);
}

static void drop_place(void)
{
	(void)nftw(dir, drop, 8, FTW_DEPTH | FTW_PHYS);
}

static const char *place(void)
{
	static char path[sizeof(dir) + 8];

	if (!*path) {
		if (!mkdtemp(dir) || atexit(drop_place))
			abort();
		snprintf(path, sizeof(path), "%s/repo", dir);
	}
	return path;
}

static void list(const struct buf *text)
{
	static struct repo *r;
	struct verify_options o = { .threads = 1 };
	struct verify_result result;
	struct snapshot_ref *v, ref;
	struct snapshot *s;
	struct sc_err err;
	size_t n;
	int fd;

	if (!r && repo_open(place(), REPO_WRITE, &r, &err) < 0)
		abort();
	fd = openat(r->dir, "index.json", O_WRONLY | O_TRUNC | O_CLOEXEC);
	if (fd < 0 || io_write_all(fd, text->p, text->len, "x", &err) < 0)
		abort();
	close(fd);
	if (repo_list(r, &v, &n, &err) == 0) {
		for (size_t i = 0; i < n; i++)
			if (repo_load(r, &v[i], &s, &err) == 0)
				abort(); /* there are no blobs */
		snapshot_refs_free(v, n);
	}
	if (repo_find(r, "latest", "web", &ref, &err) == 0)
		snapshot_ref_clear(&ref);
	if (repo_verify(r, NULL, 0, &o, &result, &err) == 0 &&
	    result.snapshots && !result.problems)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct buf b = { .p = (unsigned char *)data, .len = size };

	config(&b);
	list(&b);
	return 0;
}
