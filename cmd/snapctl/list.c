/* SPDX-License-Identifier: MIT */
/* snapctl list. A snapshot that cannot be read is a line like the others, so
 * that nobody believes it is gone, or that it is there. */
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <snapctl/base/mem.h>
#include <snapctl/base/text.h>
#include <snapctl/repo/repo.h>
#include <snapctl/ui/json.h>
#include <snapctl/ui/table.h>

#include "app.h"
#include "cli.h"
#include "commands.h"
#include "summary.h"

struct list {
	struct app *app;
	struct repo *repo;
	struct snapshot_ref *refs; /* oldest first */
	size_t n;
	size_t damaged;
	/* One of the two. */
	struct ui_table *table;
	json_t *array;
	struct ui_json json;
};

static const struct ui_column columns[] = {
	{ "SNAPSHOT", false }, { "STACK", false },  { "AGE", true },
	{ "VOLUMES", true },   { "SIZE", true },    { "STORED", true },
	{ "DOWN", true },      { "STATUS", false }, { "NOTE", false },
};

/* -- rows ------------------------------------------------------------------ */

static void row_json(struct list *l, const struct snapshot *s)
{
	json_t *o = ui_json_object(&l->json);
	json_t *volumes = ui_json_array(&l->json);

	for (size_t i = 0; i < s->nvolumes; i++)
		ui_json_push(&l->json, volumes,
			     ui_json_bytes(&l->json, s->volumes[i].name,
					   strlen(s->volumes[i].name)));
	summary_json(&l->json, o, s);
	ui_json_set(&l->json, o, "volumes", volumes);
	ui_json_push(&l->json, l->array, o);
}

static void row_text(struct list *l, const struct snapshot *s)
{
	struct summary sum = summary_of(s);
	char a[32], b[16];

	ui_table_name(l->table, s->id);
	ui_table_name(l->table, s->stack);
	ui_table_cell(l->table, "%s", text_age(a, s->created, time(NULL)));
	ui_table_cell(l->table, "%zu", s->nvolumes);
	ui_table_cell(l->table, "%s", text_size(b, sum.size));
	ui_table_cell(l->table, "%s", text_size(b, sum.stored));
	ui_table_cell(l->table, "%s",
		      s->downtime > 0 ? text_duration(a, s->downtime) : "-");
	ui_table_cell(l->table, "%s%s%s", summary_status(s),
		      s->clean ? "" : ", not clean", s->torn ? ", torn" : "");
	ui_table_name(l->table, s->note);
}

static void damaged_json(struct list *l, const struct snapshot_ref *ref)
{
	static const char *const unknown[] = {
		"age_seconds",	    "volumes", "size_bytes",
		"stored_bytes",	    "clean",   "torn",
		"downtime_seconds", "note",    "tags",
	};
	json_t *o = ui_json_object(&l->json);

	ui_json_str(&l->json, o, "id", ref->id);
	ui_json_str(&l->json, o, "stack", *ref->stack ? ref->stack : NULL);
	if (ref->created)
		ui_json_time(&l->json, o, "created", ref->created);
	else
		ui_json_str(&l->json, o, "created", NULL);
	for (size_t i = 0; i < ARRAY_LEN(unknown); i++)
		ui_json_str(&l->json, o, unknown[i], NULL);
	ui_json_str(&l->json, o, "status", "damaged");
	ui_json_push(&l->json, l->array, o);
}

static void damaged_text(struct list *l, const struct snapshot_ref *ref)
{
	char age[32];

	ui_table_name(l->table, ref->id);
	ui_table_name(l->table, ref->stack);
	ui_table_cell(l->table, "%s",
		      ref->created ? text_age(age, ref->created, time(NULL))
				   : "?");
	for (size_t i = 0; i < 4; i++)
		ui_table_cell(l->table, "?");
	ui_table_cell(l->table, "damaged");
	ui_table_cell(l->table, "%s", "");
}

static int add(struct list *l, const struct snapshot_ref *ref,
	       struct sc_err *err)
{
	struct snapshot *s = NULL;
	struct sc_err why = { 0 };

	if (repo_load(l->repo, ref, &s, &why) < 0) {
		if (why.code == SC_ENOMEM) {
			*err = why;
			return -1;
		}
		l->damaged++;
		ui_warn(l->app->ui, "%s", why.msg);
		if (l->app->json)
			damaged_json(l, ref);
		else
			damaged_text(l, ref);
		return 0;
	}
	if (l->app->json)
		row_json(l, s);
	else
		row_text(l, s);
	snapshot_free(s);
	return 0;
}

/* -- which ----------------------------------------------------------------- */

/* What a damaged entry says of its stack may be what is damaged. */
static bool is_of(const struct snapshot_ref *ref, const char *stack)
{
	return !stack || ref->damage || strcmp(ref->stack, stack) == 0;
}

static int no_such_stack(const struct list *l, const char *stack,
			 struct sc_err *err)
{
	auto_free const char **names = calloc(l->n + 1, sizeof(*names));
	auto_buf struct buf near = { 0 };
	size_t n = 0;

	if (!names)
		return sc_oom(err, "stacks");
	for (size_t i = 0; i < l->n; i++) {
		size_t k = 0;

		while (k < n && strcmp(names[k], l->refs[i].stack) != 0)
			k++;
		if (k == n)
			names[n++] = l->refs[i].stack;
	}
	text_near(&near, stack, names, n);
	if (!buf_cstr(&near))
		return sc_oom(err, "stacks");
	return sc_fail(err, SC_ENOTFOUND, 0, "no snapshot of stack %s%s%s",
		       stack, near.len ? "; near names: " : "",
		       (const char *)near.p);
}

static int fill(struct list *l, const char *stack, struct sc_err *err)
{
	size_t shown = 0;

	for (size_t i = l->n; i-- > 0;) {
		if (!is_of(&l->refs[i], stack))
			continue;
		shown++;
		if (cancel_check(&l->app->cancel, err) < 0 ||
		    add(l, &l->refs[i], err) < 0)
			return -1;
	}
	return stack && !shown ? no_such_stack(l, stack, err) : 0;
}

static int print(struct list *l, struct sc_err *err)
{
	json_t *root, *array = l->array;

	if (!l->app->json)
		return ui_table_print(l->table, STDOUT_FILENO, err);
	root = ui_json_object(&l->json);
	l->array = NULL;
	ui_json_set(&l->json, root, "snapshots", array);
	return ui_json_print(&l->json, root, STDOUT_FILENO, err);
}

static int list(struct list *l, const char *word, struct sc_err *err)
{
	auto_buf struct buf escaped = { 0 };
	const char *stack = NULL;

	if (word) {
		/* As references hold it. */
		text_escape(&escaped, word, strlen(word));
		stack = buf_cstr(&escaped);
		if (!stack)
			return sc_oom(err, "stack");
	}
	if (l->app->json)
		l->array = ui_json_array(&l->json);
	else if (ui_table_new(columns, ARRAY_LEN(columns), &l->table, err) < 0)
		return -1;
	if (repo_open(l->app->repo, REPO_READ, &l->repo, err) < 0 ||
	    repo_list(l->repo, &l->refs, &l->n, err) < 0 ||
	    fill(l, stack, err) < 0)
		return -1;
	if (!l->n && !l->app->json) {
		ui_note(l->app->ui, "no snapshots in %s", repo_path(l->repo));
		return 0;
	}
	return print(l, err);
}

int cmd_list(struct app *app, struct args *args)
{
	const char *word = args_word(args, 0);
	const char *project = args_value(args, OPT_PROJECT);
	struct list l = { .app = app };
	struct sc_err err = { 0 };
	int rc;

	if (word && project && strcmp(word, project) != 0)
		rc = sc_fail(&err, SC_EUSAGE, 0,
			     "two stacks: the argument and --project");
	else
		rc = list(&l, word ? word : project, &err);

	if (rc == 0 && l.damaged)
		ui_warn(app->ui, "%zu damaged; snapctl verify says more",
			l.damaged);
	snapshot_refs_free(l.refs, l.n);
	repo_close(l.repo);
	ui_table_free(l.table);
	json_decref(l.array);
	if (rc < 0)
		return app_fail(app, &err);
	return l.damaged ? EXIT_WARNED : EXIT_DONE;
}
