/* SPDX-License-Identifier: MIT */
/* snapctl show. */
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

static const char *const kinds[] = {
	[SNAP_FULL] = "full",
	[SNAP_INCREMENTAL] = "incremental",
	[SNAP_UNCHANGED] = "unchanged",
};

/* -- as JSON --------------------------------------------------------------- */

/* "" in the snapshot is "does not apply". */
static void put(struct ui_json *j, json_t *o, const char *key, const char *s)
{
	ui_json_str(j, o, key, *s ? s : NULL);
}

static json_t *labels_json(struct ui_json *j, const struct snapshot_label *l,
			   size_t n)
{
	json_t *o = ui_json_object(j);

	for (size_t i = 0; i < n; i++) {
		auto_buf struct buf key = { 0 };

		text_escape(&key, l[i].key, strlen(l[i].key));
		if (buf_cstr(&key))
			ui_json_str(j, o, (const char *)key.p, l[i].value);
		else
			j->failed = true;
	}
	return o;
}

static json_t *packs_json(struct ui_json *j, const struct snapshot_volume *v)
{
	json_t *list = ui_json_array(j);
	char digest[DIGEST_STR];

	for (size_t i = 0; i < v->npacks; i++) {
		json_t *o = ui_json_object(j);

		digest_str(&v->packs[i].digest, digest);
		ui_json_str(j, o, "digest", digest);
		ui_json_uint(j, o, "size_bytes", v->packs[i].length);
		ui_json_push(j, list, o);
	}
	return list;
}

static json_t *volume_json(struct ui_json *j, const struct snapshot_volume *v)
{
	json_t *o = ui_json_object(j);
	char digest[DIGEST_STR];

	ui_json_str(j, o, "name", v->name);
	ui_json_str(j, o, "type", v->type);
	put(j, o, "driver", v->driver);
	put(j, o, "source", v->source);
	put(j, o, "service", v->service);
	put(j, o, "target", v->target);
	if (*v->service)
		ui_json_uint(j, o, "number", v->number);
	else
		ui_json_str(j, o, "number", NULL);
	ui_json_set(j, o, "targets", summary_strings(j, v->targets));
	ui_json_set(j, o, "options", labels_json(j, v->options, v->noptions));
	ui_json_set(j, o, "labels", labels_json(j, v->labels, v->nlabels));
	ui_json_str(j, o, "kind", kinds[v->kind]);
	ui_json_uint(j, o, "entries", v->entries);
	ui_json_uint(j, o, "size_bytes", v->bytes);
	ui_json_uint(j, o, "chunks", v->chunks);
	ui_json_uint(j, o, "new_bytes", v->new_bytes);
	ui_json_uint(j, o, "stored_bytes", v->stored_bytes);
	ui_json_uint(j, o, "unreadable", v->unreadable);
	ui_json_uint(j, o, "changed", v->changed);
	ui_json_uint(j, o, "sockets", v->sockets);
	ui_json_uint(j, o, "mounts", v->mounts);
	digest_str(&v->index, digest);
	ui_json_str(j, o, "index", digest);
	ui_json_set(j, o, "packs", packs_json(j, v));
	return o;
}

static json_t *container_json(struct ui_json *j,
			      const struct snapshot_container *c)
{
	json_t *o = ui_json_object(j);

	ui_json_str(j, o, "name", c->name);
	put(j, o, "service", c->service);
	ui_json_uint(j, o, "number", c->number);
	ui_json_str(j, o, "image", c->image);
	ui_json_str(j, o, "image_id", c->image_id);
	ui_json_set(j, o, "digests", summary_strings(j, c->digests));
	ui_json_str(j, o, "state", c->state);
	put(j, o, "stopped", c->how);
	return o;
}

static json_t *engine_json(struct ui_json *j, const struct snapshot *s)
{
	json_t *o = ui_json_object(j);

	put(j, o, "id", s->engine_id);
	put(j, o, "name", s->engine_name);
	put(j, o, "version", s->engine_version);
	put(j, o, "host", s->engine_host);
	return o;
}

static int print_json(const struct snapshot *s, struct sc_err *err)
{
	struct ui_json json = { 0 }, *j = &json;
	json_t *o = ui_json_object(j), *volumes = ui_json_array(j);
	json_t *containers = ui_json_array(j), *files = ui_json_array(j);

	for (size_t i = 0; i < s->nvolumes; i++)
		ui_json_push(j, volumes, volume_json(j, &s->volumes[i]));
	for (size_t i = 0; i < s->ncontainers; i++)
		ui_json_push(j, containers,
			     container_json(j, &s->containers[i]));
	for (size_t i = 0; i < s->nfiles; i++) {
		json_t *f = ui_json_object(j);

		ui_json_str(j, f, "path", s->files[i].path);
		ui_json_str(j, f, "content", s->files[i].content);
		ui_json_push(j, files, f);
	}
	summary_json(j, o, s);
	ui_json_str(j, o, "tool", s->tool);
	ui_json_str(j, o, "mode", s->mode);
	ui_json_bool(j, o, "incomplete", s->incomplete);
	ui_json_seconds(j, o, "duration_seconds", s->duration);
	ui_json_set(j, o, "engine", engine_json(j, s));
	ui_json_set(j, o, "volumes", volumes);
	ui_json_set(j, o, "containers", containers);
	ui_json_set(j, o, "files", files);
	ui_json_set(j, o, "warnings", summary_strings(j, s->warnings));
	return ui_json_print(j, o, STDOUT_FILENO, err);
}

/* -- as text --------------------------------------------------------------- */

static void line(struct ui_table *t, const char *key, const char *value)
{
	if (!*value)
		return;
	ui_table_cell(t, "%s", key);
	ui_table_name(t, value);
}

static void state_line(struct ui_table *t, const struct snapshot *s)
{
	ui_table_cell(t, "State");
	ui_table_cell(
		t, "%s%s%s", s->clean ? "clean" : "not clean",
		s->torn ? ", torn (files changed while they were read)" : "",
		s->incomplete ? ", incomplete (not all could be read)" : "");
}

static int head(const struct snapshot *s, struct buf *out, struct sc_err *err)
{
	static const struct ui_column plain[2];
	auto_table struct ui_table *t = NULL;
	struct summary sum = summary_of(s);
	char a[32], b[32], size[16], stored[16];

	if (ui_table_new(plain, ARRAY_LEN(plain), &t, err) < 0)
		return -1;
	line(t, "Snapshot", s->id);
	line(t, "Stack", s->stack);
	ui_table_cell(t, "Created");
	ui_table_cell(t, "%s (%s)", text_utc(a, s->created, 0),
		      text_age(b, s->created, time(NULL)));
	state_line(t, s);
	line(t, "Mode", s->mode);
	if (s->downtime > 0)
		line(t, "Downtime", text_duration(a, s->downtime));
	if (s->duration > 0)
		line(t, "Duration", text_duration(a, s->duration));
	ui_table_cell(t, "Size");
	ui_table_cell(t, "%s, stored as %s", text_size(size, sum.size),
		      text_size(stored, sum.stored));
	line(t, "Note", s->note);
	for (char **tag = s->tags; *tag; tag++)
		line(t, "Tag", *tag);
	line(t, "Tool", s->tool);
	line(t, "Engine", s->engine_name);
	line(t, "Engine version", s->engine_version);
	line(t, "Engine address", s->engine_host);
	for (size_t i = 0; i < s->nfiles; i++)
		line(t, "Compose file", s->files[i].path);
	return ui_table_format(t, out, err);
}

/* "db:/data, web:/srv", a bind's path besides. */
static void where_cell(struct ui_table *t, const struct snapshot_volume *v)
{
	auto_buf struct buf b = { 0 };

	for (char **at = v->targets; *at; at++)
		buf_printf(&b, "%s%s", at == v->targets ? "" : ", ", *at);
	if (*v->source)
		buf_printf(&b, "%s%s", b.len ? " from " : "", v->source);
	ui_table_name(t, buf_cstr(&b) ? (const char *)b.p : "");
}

static int volumes(const struct snapshot *s, struct buf *out,
		   struct sc_err *err)
{
	static const struct ui_column cols[] = {
		{ "VOLUME", false },	 { "TYPE", false }, { "KIND", false },
		{ "ENTRIES", true },	 { "SIZE", true },  { "STORED", true },
		{ "MOUNTED AT", false },
	};
	auto_table struct ui_table *t = NULL;
	char a[16];

	if (!s->nvolumes)
		return 0;
	if (ui_table_new(cols, ARRAY_LEN(cols), &t, err) < 0)
		return -1;
	for (size_t i = 0; i < s->nvolumes; i++) {
		const struct snapshot_volume *v = &s->volumes[i];

		ui_table_name(t, v->name);
		ui_table_name(t, v->type);
		ui_table_cell(t, "%s", kinds[v->kind]);
		ui_table_cell(t, "%llu", (unsigned long long)v->entries);
		ui_table_cell(t, "%s", text_size(a, v->bytes));
		ui_table_cell(t, "%s", text_size(a, v->stored_bytes));
		where_cell(t, v);
	}
	buf_printf(out, "\n");
	return ui_table_format(t, out, err);
}

static int containers(const struct snapshot *s, struct buf *out,
		      struct sc_err *err)
{
	static const struct ui_column cols[] = {
		{ "CONTAINER", false }, { "IMAGE", false },
		{ "IMAGE ID", false },	{ "BEFORE", false },
		{ "STOPPED", false },
	};
	auto_table struct ui_table *t = NULL;

	if (!s->ncontainers)
		return 0;
	if (ui_table_new(cols, ARRAY_LEN(cols), &t, err) < 0)
		return -1;
	for (size_t i = 0; i < s->ncontainers; i++) {
		const struct snapshot_container *c = &s->containers[i];
		char id[20];

		snprintf(id, sizeof(id), "%.19s", c->image_id);
		ui_table_name(t, c->name);
		ui_table_name(t, c->image);
		ui_table_name(t, id);
		ui_table_name(t, c->state);
		ui_table_name(t, *c->how ? c->how : "-");
	}
	buf_printf(out, "\n");
	return ui_table_format(t, out, err);
}

static int print_text(const struct snapshot *s, struct sc_err *err)
{
	auto_buf struct buf out = { 0 };

	if (head(s, &out, err) < 0 || volumes(s, &out, err) < 0 ||
	    containers(s, &out, err) < 0)
		return -1;
	if (*s->warnings)
		buf_printf(&out, "\nWarnings:\n");
	for (char **w = s->warnings; *w; w++) {
		char text[1024];

		/* Names in it were escaped when it was made. */
		buf_printf(&out, "  %s\n",
			   text_escaped(text, sizeof(text), *w, strlen(*w)));
	}
	return app_print(&out, err);
}

/* -- the command ----------------------------------------------------------- */

static int load(struct app *app, const char *name, struct snapshot **out,
		struct sc_err *err)
{
	struct snapshot_ref ref = { 0 };
	struct repo *repo;
	int rc;

	if (repo_open(app->repo, REPO_READ, &repo, err) < 0)
		return -1;
	rc = repo_find(repo, name, NULL, &ref, err);
	if (rc == 0)
		rc = repo_load(repo, &ref, out, err);
	snapshot_ref_clear(&ref);
	repo_close(repo);
	return rc;
}

int cmd_show(struct app *app, struct args *args)
{
	struct snapshot *s = NULL;
	struct sc_err err = { 0 };
	int rc = load(app, args_word(args, 0), &s, &err);

	if (rc == 0)
		rc = app->json ? print_json(s, &err) : print_text(s, &err);
	snapshot_free(s);
	return rc < 0 ? app_fail(app, &err) : EXIT_DONE;
}
