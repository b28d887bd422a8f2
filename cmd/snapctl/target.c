/* SPDX-License-Identifier: MIT */
#include "target.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <snapctl/base/mem.h>
#include <snapctl/base/text.h>

#include "app.h"
#include "cli.h"

#define CONFIG_HASH "com.docker.compose.config-hash"

/* -- which snapshot ------------------------------------------------------- */

/* One word may be a stack or a snapshot: a stack if the repository has
 * snapshots of one of that name. */
static int is_stack(struct repo *r, const char *word, struct sc_err *err)
{
	struct snapshot_ref *v;
	int found = 0;
	size_t n;

	if (repo_list(r, &v, &n, err) < 0)
		return -1;
	for (size_t i = 0; i < n; i++)
		found |= strcmp(v[i].stack, word) == 0;
	snapshot_refs_free(v, n);
	return found;
}

/* Nothing was named: the project of the current directory. */
static int stack_here(struct task *t, char **out, struct sc_err *err)
{
	int rc;

	if (task_resolve(t, NULL, NULL, err) < 0)
		return -1;
	*out = strdup(t->stack->name);
	rc = *out ? 0 : sc_oom(err, "stack name");
	stack_free(t->stack);
	t->stack = NULL;
	return rc;
}

/* What "latest" means for a restore: ref is the stack's newest snapshot, *out
 * the newest that was not taken by a restore before it changed something. So a
 * restore that is run twice does not undo itself; to undo it, name the
 * pre-restore snapshot. */
static int latest_wanted(struct task *t, const struct snapshot_ref *ref,
			 struct snapshot **out, struct sc_err *err)
{
	struct snapshot_ref *v;
	int rc = 0;
	size_t n;

	*out = NULL;
	if (repo_list(t->repo, &v, &n, err) < 0)
		return -1;
	while (rc == 0 && !*out && n-- > 0) {
		if (strcmp(v[n].stack, ref->stack) != 0)
			continue;
		rc = repo_load(t->repo, &v[n], out, err);
		if (rc == 0 && strcmp((*out)->mode, "pre-restore") == 0) {
			snapshot_free(*out);
			*out = NULL;
		}
		snapshot_ref_clear(&v[n]);
	}
	snapshot_refs_free(v, n == SIZE_MAX ? 0 : n);
	if (rc == 0 && !*out)
		rc = sc_fail(err, SC_ENOTFOUND, 0,
			     "all snapshots of %s were taken before a restore; "
			     "name the one to go back to (snapctl list)",
			     ref->stack);
	return rc;
}

int target_snapshot(struct task *t, struct snapshot **out, struct sc_err *err)
{
	const char *project = args_value(t->args, OPT_PROJECT);
	const char *one = args_word(t->args, 0), *two = args_word(t->args, 1);
	const char *name = "latest";
	auto_free char *here = NULL;
	struct snapshot_ref ref;
	int rc = 0;

	if (two && project)
		return sc_fail(err, SC_EUSAGE, 0,
			       "STACK and --project both name a stack");
	if (two || (one && project)) {
		name = two ? two : one;
		project = project ? project : one;
	} else if (one) {
		rc = is_stack(t->repo, one, err);
		if (rc < 0)
			return -1;
		name = rc ? "latest" : one;
		project = rc ? one : NULL;
	} else if (!project) {
		if (stack_here(t, &here, err) < 0)
			return -1;
		project = here;
	}
	if (repo_find(t->repo, name, project, &ref, err) < 0)
		return -1;
	/* A mistyped stack must not be taken for the beginning of an id. */
	if (!project && strcmp(name, "latest") != 0 &&
	    strlen(name) <= strlen(ref.stack)) {
		rc = sc_fail(err, SC_ENOTFOUND, 0,
			     "no stack and no snapshot %s; near: %s", name,
			     ref.stack);
		snapshot_ref_clear(&ref);
		return rc;
	}
	rc = strcmp(name, "latest") == 0 ? latest_wanted(t, &ref, out, err)
					 : repo_load(t->repo, &ref, out, err);
	snapshot_ref_clear(&ref);
	return rc;
}

/* -- which volumes -------------------------------------------------------- */

static bool wanted(const struct task *t, const struct snapshot_volume *v)
{
	if (!t->volume_args)
		return true;
	for (const char **w = t->volume_args; *w; w++) {
		if (strcmp(*w, v->name) == 0)
			return true;
		for (size_t i = 0; i < v->nlabels; i++)
			if (strcmp(v->labels[i].key,
				   "com.docker.compose.volume") == 0 &&
			    strcmp(v->labels[i].value, *w) == 0)
				return true;
		for (char **m = v->targets; m && *m; m++)
			if (strcmp(*m, *w) == 0)
				return true;
	}
	return false;
}

static int check_named(const struct task *t, const struct snapshot *from,
		       const char *name, struct sc_err *err)
{
	auto_free const char **names =
		calloc(from->nvolumes + 1, sizeof(*names));
	auto_buf struct buf near = { 0 };
	const char *only[2] = { name, NULL };
	struct task probe = { .volume_args = only };

	(void)t;
	if (!names)
		return sc_oom(err, "volumes");
	for (size_t i = 0; i < from->nvolumes; i++) {
		if (wanted(&probe, &from->volumes[i]))
			return 0;
		names[i] = from->volumes[i].name;
	}
	text_near(&near, name, names, from->nvolumes);
	return sc_fail(err, SC_ENOTFOUND, 0,
		       "--volume %s: not in snapshot %s%s%s; \"snapctl show "
		       "%s\" lists its volumes",
		       name, from->id, near.len ? "; near: " : "",
		       near.len ? buf_cstr(&near) : "", from->id);
}

static int add_volume(struct target *g, struct snapshot_volume *v,
		      struct sc_err *err)
{
	const char *ref = v->name;

	if (strcmp(v->type, "anonymous") == 0) {
		if (asprintf(&g->owned[g->n], "%s:%s", v->service, v->target) <
		    0)
			return sc_oom(err, "volume");
		ref = g->owned[g->n];
	} else if (strcmp(v->type, "bind") == 0) {
		ref = v->source;
	}
	g->refs[g->n] = ref;
	g->volumes[g->n++] = v;
	return 0;
}

static int choose(struct target *g, struct task *t, struct snapshot *from,
		  struct sc_err *err)
{
	for (const char **w = t->volume_args; w && *w; w++)
		if (check_named(t, from, *w, err) < 0)
			return -1;
	g->volumes = calloc(from->nvolumes + 1, sizeof(*g->volumes));
	g->refs = calloc(from->nvolumes + 1, sizeof(*g->refs));
	g->owned = calloc(from->nvolumes + 1, sizeof(*g->owned));
	g->created = calloc(from->nvolumes + 1, sizeof(*g->created));
	if (!g->volumes || !g->refs || !g->owned || !g->created)
		return sc_oom(err, "volumes");
	g->n = 0;
	for (size_t i = 0; i < from->nvolumes; i++)
		if (wanted(t, &from->volumes[i]) &&
		    add_volume(g, &from->volumes[i], err) < 0)
			return -1;
	return 0;
}

/* The stack's volume that v goes into. */
static struct stack_volume *live_of(struct task *t,
				    const struct snapshot_volume *v,
				    const char *ref)
{
	const struct stack_volume *s =
		strcmp(v->type, "anonymous") == 0
			? stack_volume_anon(t->stack, v->service, v->number,
					    v->target)
			: stack_volume_find(t->stack, ref);

	return s ? &t->stack->volumes[s - t->stack->volumes] : NULL;
}

static int match(struct target *g, struct task *t, struct sc_err *err)
{
	t->mounts = calloc(t->stack->nvolumes + g->n + 1, sizeof(*t->mounts));
	t->volumes = calloc(g->n + 1, sizeof(*t->volumes));
	if (!t->mounts || !t->volumes)
		return sc_oom(err, "volumes");
	g->all_new = true;
	t->nvolumes = 0;
	for (size_t i = 0; i < g->n; i++) {
		struct stack_volume *s = live_of(t, g->volumes[i], g->refs[i]);

		if (!s)
			return sc_fail(err, SC_ENOTFOUND, 0,
				       "volume %s of the snapshot has no place "
				       "on this engine: create its container "
				       "first (docker compose up --no-start)",
				       g->refs[i]);
		g->all_new &= s->missing;
		t->volumes[t->nvolumes++] = s;
	}
	task_mounts(t);
	return 0;
}

static int check_present(struct target *g, struct task *t,
			 const struct snapshot *from, struct sc_err *err)
{
	auto_free const char **names = calloc(g->n + 1, sizeof(*names));

	if (!names)
		return sc_oom(err, "volumes");
	for (size_t i = 0; i < g->n; i++)
		names[i] = g->volumes[i]->name;
	return repo_check_present(t->repo, from, names, err);
}

int target_choose(struct target *g, struct task *t, struct snapshot *from,
		  struct sc_err *err)
{
	auto_free const char **known = NULL;
	const char **given = t->volume_args;
	size_t n = 0;
	int rc;

	if (choose(g, t, from, err) < 0 || check_present(g, t, from, err) < 0)
		return -1;
	known = calloc(g->n + 1, sizeof(*known));
	if (!known)
		return sc_oom(err, "volumes");
	for (size_t i = 0; i < g->n; i++)
		if (strcmp(g->volumes[i]->type, "volume") == 0)
			known[n++] = g->volumes[i]->name;
	t->volume_args = g->refs;
	rc = task_resolve(t, from->stack, known, err);
	t->volume_args = given;
	return rc < 0 ? -1 : match(g, t, err);
}

/* -- making what is missing ----------------------------------------------- */

static int create_volume(struct task *t, const struct snapshot_volume *v,
			 struct sc_err *err)
{
	auto_free struct docker_label *labels =
		calloc(v->nlabels + 1, sizeof(*labels));
	auto_free struct docker_label *options =
		calloc(v->noptions + 1, sizeof(*options));
	struct docker_volume d = {
		.name = v->name,
		.driver = v->driver,
		.labels = labels,
		.options = options,
		.noptions = v->noptions,
	};

	if (!labels || !options)
		return sc_oom(err, "volume");
	/* A config hash of an older compose file would make compose ask
	 * whether to recreate the volume. */
	for (size_t i = 0; i < v->nlabels; i++)
		if (strcmp(v->labels[i].key, CONFIG_HASH) != 0)
			labels[d.nlabels++] =
				(struct docker_label){ v->labels[i].key,
						       v->labels[i].value };
	for (size_t i = 0; i < v->noptions; i++)
		options[i] = (struct docker_label){ v->options[i].key,
						    v->options[i].value };
	return docker_volume_create(t->docker, &d, err);
}

int target_create(struct target *g, struct task *t, struct sc_err *err)
{
	for (size_t i = 0; i < g->n; i++) {
		if (!t->volumes[i]->missing)
			continue;
		if (create_volume(t, g->volumes[i], err) < 0)
			return sc_wrap(err, "create volume %s",
				       g->volumes[i]->name);
		g->created[i] = true;
		ui_detail(t->app->ui, "created volume %s", g->volumes[i]->name);
	}
	return 0;
}

void target_undo(struct target *g, struct task *t)
{
	bool any = false;

	for (size_t i = 0; g->created && i < g->n; i++)
		any |= g->created[i];
	if (!any || t->leave_down)
		return;
	session_close(t->session);
	t->session = NULL;
	docker_shield(t->docker, true);
	for (size_t i = 0; i < g->n; i++) {
		struct sc_err e;

		if (g->created[i] &&
		    docker_volume_remove(t->docker, g->volumes[i]->name, &e) <
			    0)
			notes_add(&t->notes, NOTE_WARN,
				  "the new volume remains: %s", e.msg);
	}
	docker_shield(t->docker, false);
}

void target_free(struct target *g)
{
	for (size_t i = 0; g->owned && i < g->n; i++)
		free(g->owned[i]);
	free(g->volumes);
	free(g->refs);
	free(g->owned);
	free(g->created);
}
