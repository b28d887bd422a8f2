/* SPDX-License-Identifier: MIT */
/* First the list and the documents, one after the other; they say which
 * blobs there have to be. Then each blob once, several at a time. Then the
 * indexes, one at a time for their memory. */
#include "internal.h"

#include <stdlib.h>
#include <string.h>

#include <snapctl/base/group.h>
#include <snapctl/base/mem.h>

#define LOCK_PATIENCE 60 /* seconds; held exclusively only while deleting */

/* A layer that some snapshot needs. */
struct item {
	struct digest digest;
	uint64_t length;
	size_t snapshot;	/* number in ids */
	struct pack_ref *packs; /* of an index: what it must refer to */
	size_t npacks;
	size_t first, count; /* in touched: all snapshots that need it */
	bool index, bad;
};

struct plan {
	struct verify v;
	struct item *items;
	size_t n, cap;
	char **ids; /* of the snapshots that are checked */
	size_t nids, ids_cap;
	const char **touched; /* ids of the items, in their order */
	struct deep_seen seen;
};

static const struct touched no_snapshot;

void verify_problem(struct verify *v, const char *blob,
		    struct touched snapshots, const char *text)
{
	pthread_mutex_lock(&v->mutex);
	v->out->problems++;
	for (size_t i = 0; v->o->problem && i < snapshots.n; i++)
		v->o->problem(v->o->arg, blob, snapshots.ids[i], text);
	if (v->o->problem && !snapshots.n)
		v->o->problem(v->o->arg, blob, NULL, text);
	pthread_mutex_unlock(&v->mutex);
}

int verify_found(struct verify *v, const char *blob, struct touched snapshots,
		 const struct sc_err *found, struct sc_err *err)
{
	/* SC_EIO: a disk that cannot give a blob back has lost it. */
	if (found->code == SC_ECORRUPT || found->code == SC_EPROTO ||
	    found->code == SC_EIO) {
		verify_problem(v, blob, snapshots, found->msg);
		return 0;
	}
	if (err)
		*err = *found;
	return -1;
}

static struct touched one(const char *const *id)
{
	return (struct touched){ id, 1 };
}

static struct touched all_of(const struct plan *p, const struct item *it)
{
	return (struct touched){ p->touched + it->first, it->count };
}

static void stop_threads(void *arg)
{
	struct verify *v = arg;

	atomic_store(&v->stop, true);
}

int verify_threads(struct verify *v, size_t jobs,
		   int (*fn)(void *arg, struct sc_err *err), void *arg,
		   struct sc_err *err)
{
	size_t threads = v->o->threads ? v->o->threads : group_cores();
	struct group *g;
	int rc = 0;

	if (!jobs)
		return 0;
	if (group_new(&g, err) < 0)
		return -1;
	group_on_stop(g, stop_threads, v);
	atomic_store(&v->next, 0);
	for (size_t i = 0; rc == 0 && i < threads && i < jobs; i++)
		rc = group_start(g, fn, arg, err);
	/* If that failed, the others were told to stop, and err says why. */
	if (group_join(g, rc < 0 ? NULL : err) < 0)
		rc = -1;
	return rc;
}

/* -- the documents ----------------------------------------------------------
 */

static void check_layout(struct plan *p)
{
	struct sc_err why = { 0 };

	if (repo_check_layout(p->v.repo, true, &why) < 0)
		verify_problem(&p->v, "oci-layout", no_snapshot, why.msg);
}

/* A flipped byte in a key makes another key. */
static void check_keys(struct plan *p, const json_t *index)
{
	static const char *const known[] = { "schemaVersion", "mediaType",
					     "artifactType",  "manifests",
					     "subject",	      "annotations" };
	const char *media = layout_str(index, "mediaType");
	const char *key;
	json_t *value;

	json_object_foreach((json_t *)index, key, value)
	{
		bool ok = false;

		for (size_t i = 0; i < ARRAY_LEN(known); i++)
			ok |= strcmp(key, known[i]) == 0;
		if (!ok)
			verify_problem(&p->v, "index.json", no_snapshot,
				       "index.json has an unknown field");
	}
	if (json_object_get(index, "mediaType") &&
	    (!media ||
	     strcmp(media, "application/vnd.oci.image.index.v1+json") != 0))
		verify_problem(&p->v, "index.json", no_snapshot,
			       "index.json has a wrong mediaType");
}

/* An entry of ours follows from the snapshot, to the last field. A tool that
 * does not know artifactType may have dropped that. */
static int check_entry(struct plan *p, const json_t *desc,
		       const struct snapshot_ref *ref, const struct snapshot *s,
		       struct sc_err *err)
{
	json_t *want;

	if (ref->copied)
		return 0;
	want = manifest_descriptor(s, &ref->manifest, ref->manifest_size);
	if (!want)
		return sc_oom(err, "descriptor");
	if (!json_object_get(desc, "artifactType"))
		(void)json_object_del(want, "artifactType");
	if (!json_equal(want, desc))
		verify_problem(&p->v, "index.json",
			       one((const char *const *)&ref->id),
			       "its entry in index.json is not what the "
			       "snapshot says");
	json_decref(want);
	return 0;
}

static int add_item(struct plan *p, const struct layer *l,
		    const struct snapshot *s, struct sc_err *err)
{
	struct item *to;

	if (mem_grow(&p->items, &p->cap, p->n + 1, sizeof(*p->items)) < 0)
		return sc_oom(err, "blobs");
	to = &p->items[p->n++];
	*to = (struct item){ .digest = l->digest,
			     .length = l->length,
			     .index = l->index,
			     .snapshot = p->nids - 1 };
	for (size_t i = 0; l->index && i < s->nvolumes; i++) {
		const struct snapshot_volume *v = &s->volumes[i];

		if (digest_cmp(&v->index, &l->digest) != 0)
			continue;
		to->npacks = v->npacks;
		to->packs = malloc((v->npacks + 1) * sizeof(*to->packs));
		if (!to->packs)
			return sc_oom(err, "packs");
		if (v->npacks)
			memcpy(to->packs, v->packs,
			       v->npacks * sizeof(*to->packs));
		break;
	}
	return 0;
}

static int note_id(struct plan *p, const char *id, struct sc_err *err)
{
	for (size_t i = 0; i < p->nids; i++)
		if (strcmp(p->ids[i], id) == 0) {
			verify_problem(
				&p->v, "index.json", one(&id),
				"two entries of index.json have its name");
			break;
		}
	if (mem_grow(&p->ids, &p->ids_cap, p->nids + 1, sizeof(*p->ids)) < 0 ||
	    !(p->ids[p->nids] = strdup(id)))
		return sc_oom(err, "snapshots");
	p->nids++;
	return 0;
}

static int check_documents(struct plan *p, const json_t *desc,
			   const struct snapshot_ref *ref, struct sc_err *err)
{
	struct digest config = { 0 };
	struct snapshot *s = NULL;
	struct layer *layers = NULL;
	struct sc_err why = { 0 };
	char manifest[DIGEST_STR], blob[DIGEST_STR];
	uint64_t config_size = 0;
	size_t n = 0;
	int rc;

	digest_str(&ref->manifest, manifest);
	if (manifest_load(p->v.repo, &ref->manifest, ref->manifest_size, &s,
			  &layers, &n, &config, &config_size, &why) < 0) {
		digest_str(&config, blob);
		return verify_found(
			&p->v, strstr(why.msg, blob) ? blob : manifest,
			one((const char *const *)&ref->id), &why, err);
	}
	p->v.out->blobs += 2;
	p->v.out->bytes += ref->manifest_size + config_size;
	rc = check_entry(p, desc, ref, s, err);
	for (size_t i = 0; rc == 0 && i < n; i++)
		rc = add_item(p, &layers[i], s, err);
	free(layers);
	snapshot_free(s);
	return rc;
}

static bool wanted(const char *id, const char *const *ids, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(ids[i], id) == 0)
			return true;
	return n == 0;
}

static int check_snapshot(struct plan *p, const json_t *desc,
			  const struct snapshot_ref *ref, struct sc_err *err)
{
	struct digest d;
	uint64_t size;

	if (note_id(p, ref->id, err) < 0)
		return -1;
	p->v.out->snapshots++;
	if (ref->damage)
		verify_problem(&p->v, "index.json",
			       one((const char *const *)&ref->id), ref->damage);
	if (!layout_target(desc, &d, &size))
		return 0;
	return check_documents(p, desc, ref, err);
}

static int check_list(struct plan *p, const json_t *index,
		      const char *const *ids, size_t n, struct sc_err *err)
{
	const json_t *all = json_object_get(index, "manifests");
	size_t i;
	json_t *d;

	json_array_foreach(all, i, d)
	{
		struct snapshot_ref ref = { 0 };
		int rc = find_one(p->v.repo, d, &ref, err);

		if (rc > 0 && wanted(ref.id, ids, n))
			rc = check_snapshot(p, d, &ref, err);
		snapshot_ref_clear(&ref);
		if (rc < 0 || cancel_check(p->v.o->cancel, err) < 0)
			return -1;
	}
	for (i = 0; i < n; i++)
		if (!wanted(ids[i], (const char *const *)p->ids, p->nids) ||
		    !p->nids)
			return sc_fail(err, SC_ENOTFOUND, 0, "no snapshot %s",
				       ids[i]);
	return 0;
}

/* -- the blobs --------------------------------------------------------------
 */

static int by_digest(const void *a, const void *b)
{
	const struct item *x = a, *y = b;
	int c = digest_cmp(&x->digest, &y->digest);

	if (c)
		return c;
	if (x->length != y->length)
		return x->length < y->length ? -1 : 1;
	return (int)y->index - (int)x->index;
}

/* Equal ones once. Their packs may differ only if one manifest lies. */
static int unite(struct plan *p, struct sc_err *err)
{
	size_t k = 0;

	p->touched = malloc((p->n + 1) * sizeof(*p->touched));
	if (!p->touched)
		return sc_oom(err, "snapshots");
	if (p->n)
		qsort(p->items, p->n, sizeof(*p->items), by_digest);
	for (size_t i = 0; i < p->n; i++) {
		struct item *it = &p->items[i];

		p->touched[i] = p->ids[it->snapshot];
		if (k && by_digest(&p->items[k - 1], it) == 0) {
			free(it->packs);
			p->items[k - 1].count++;
			continue;
		}
		p->items[k] = *it;
		p->items[k].first = i;
		p->items[k++].count = 1;
	}
	p->n = k;
	return 0;
}

static int blob_worker(void *arg, struct sc_err *err)
{
	struct plan *p = arg;
	const struct blob_watch watch = { p->v.o->bytes, p->v.o->cancel,
					  &p->v.stop };

	for (;;) {
		size_t i = atomic_fetch_add(&p->v.next, 1);
		struct sc_err why = { 0 };
		char name[DIGEST_STR];
		struct item *it;

		if (i >= p->n)
			return 0;
		it = &p->items[i];
		if (blob_check(p->v.repo, &it->digest, it->length, &watch,
			       &why) == 0)
			continue;
		it->bad = true;
		digest_str(&it->digest, name);
		if (verify_found(&p->v, name, all_of(p, it), &why, err) < 0)
			return -1;
	}
}

/* -- the indexes ------------------------------------------------------------
 */

static bool same_packs(const struct item *it, const struct chunk_table *t)
{
	if (it->npacks != t->npacks)
		return false;
	for (size_t i = 0; i < t->npacks; i++)
		if (digest_cmp(&it->packs[i].digest, &t->packs[i].digest) ||
		    it->packs[i].length != t->packs[i].length ||
		    it->packs[i].kind != t->packs[i].kind)
			return false;
	return true;
}

static int load_tables(struct plan *p, const struct item *it, const char *name,
		       struct chunk_table *t, struct sc_err *err)
{
	struct index_reader *r = NULL;
	struct index_source src;
	struct tree *tree = NULL;
	auto_close int fd = -1;
	int rc = blob_open(p->v.repo, &it->digest, &fd, NULL, err);

	if (rc <= 0)
		return rc ? rc
			  : sc_fail(err, SC_ECORRUPT, 0, "blob %s is missing",
				    name);
	src = index_source_fd(&fd, it->length);
	rc = index_open(&src, name, &r, err);
	if (rc == 0)
		rc = index_load(r, &tree, t, err);
	tree_free(tree);
	index_close(r);
	return rc;
}

static int check_index(struct plan *p, const struct item *it,
		       struct sc_err *err)
{
	struct touched ids = all_of(p, it);
	struct chunk_table t = { 0 };
	struct sc_err why = { 0 };
	char name[DIGEST_STR];
	int rc = 0;

	digest_str(&it->digest, name);
	if (load_tables(p, it, name, &t, &why) < 0)
		rc = verify_found(&p->v, name, ids, &why, err);
	else if (!same_packs(it, &t))
		verify_problem(
			&p->v, name, ids,
			"the index refers to other packs than its snapshot");
	else if (p->v.o->deep)
		rc = deep_check(&p->v, &p->seen, &t, ids, err);
	chunk_table_free(&t);
	return rc;
}

/* -- the whole --------------------------------------------------------------
 */

static int check_blobs(struct plan *p, struct sc_err *err)
{
	if (unite(p, err) < 0)
		return -1;
	p->v.out->blobs += p->n;
	for (size_t i = 0; i < p->n; i++)
		p->v.out->bytes += p->items[i].length;
	if (p->v.o->total)
		atomic_store(p->v.o->total, p->v.out->bytes);
	if (p->v.o->bytes) /* manifests and configs are done */
		atomic_store(p->v.o->bytes, 0);
	if (verify_threads(&p->v, p->n, blob_worker, p, err) < 0)
		return -1;
	for (size_t i = 0; i < p->n; i++)
		if (p->items[i].index && !p->items[i].bad &&
		    (cancel_check(p->v.o->cancel, err) < 0 ||
		     check_index(p, &p->items[i], err) < 0))
			return -1;
	return 0;
}

static int run(struct plan *p, const char *const *ids, size_t n,
	       struct sc_err *err)
{
	struct sc_err why = { 0 };
	json_t *index;
	int rc;

	check_layout(p);
	if (layout_read(p->v.repo, &index, NULL, &why) < 0)
		return verify_found(&p->v, "index.json", no_snapshot, &why,
				    err);
	check_keys(p, index);
	rc = check_list(p, index, ids, n, err);
	json_decref(index);
	return rc < 0 ? -1 : check_blobs(p, err);
}

int repo_verify(struct repo *r, const char *const *ids, size_t n,
		const struct verify_options *o, struct verify_result *out,
		struct sc_err *err)
{
	struct plan p = { .v = { .repo = r, .o = o, .out = out } };
	struct repo_lock *lock;
	int rc;

	*out = (struct verify_result){ 0 };
	if (repo_lock(r, "repository", LOCK_SHARED, "verify", LOCK_PATIENCE,
		      o->cancel, &lock, err) < 0)
		return -1;
	if (pthread_mutex_init(&p.v.mutex, NULL)) {
		repo_unlock(lock);
		return sc_oom(err, "mutex");
	}
	rc = run(&p, ids, n, err);
	for (size_t i = 0; i < p.n; i++)
		free(p.items[i].packs);
	for (size_t i = 0; i < p.nids; i++)
		free(p.ids[i]);
	free(p.items);
	free(p.touched);
	free(p.ids);
	deep_seen_free(&p.seen);
	pthread_mutex_destroy(&p.v.mutex);
	repo_unlock(lock);
	return rc;
}
