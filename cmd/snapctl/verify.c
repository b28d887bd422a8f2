/* SPDX-License-Identifier: MIT */
/* snapctl verify. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <snapctl/base/mem.h>
#include <snapctl/base/text.h>
#include <snapctl/repo/repo.h>
#include <snapctl/ui/json.h>
#include <snapctl/ui/progress.h>

#include "app.h"
#include "cli.h"
#include "commands.h"

struct problem {
	char *blob, *text;
	char **snapshots;
	size_t n, cap;
};

struct verify {
	struct app *app;
	struct repo *repo;
	char **ids; /* asked for, resolved */
	size_t nids;
	struct problem *problems;
	size_t n, cap;
	bool failed; /* out of memory while one was noted */
	struct verify_result result;
};

/* -- problems -------------------------------------------------------------- */

static struct problem *add_problem(struct verify *v, const char *blob,
				   const char *text)
{
	struct problem *p = v->n ? &v->problems[v->n - 1] : NULL;

	if (p && strcmp(p->blob, blob) == 0 && strcmp(p->text, text) == 0)
		return p; /* touches another snapshot */
	if (mem_grow(&v->problems, &v->cap, v->n + 1, sizeof(*p)) < 0)
		return NULL;
	p = &v->problems[v->n++];
	*p = (struct problem){ .blob = strdup(blob), .text = strdup(text) };
	if (p->blob && p->text)
		return p;
	free(p->blob);
	free(p->text);
	v->n--;
	return NULL;
}

static void note(void *arg, const char *blob, const char *snapshot,
		 const char *text)
{
	struct verify *v = arg;
	struct problem *p = add_problem(v, blob, text);

	if (!p) {
		v->failed = true;
		return;
	}
	if (!snapshot)
		return;
	if (mem_grow(&p->snapshots, &p->cap, p->n + 1, sizeof(*p->snapshots)) <
		    0 ||
	    !(p->snapshots[p->n] = strdup(snapshot)))
		v->failed = true;
	else
		p->n++;
}

static void verify_free(struct verify *v)
{
	for (size_t i = 0; i < v->n; i++) {
		for (size_t k = 0; k < v->problems[i].n; k++)
			free(v->problems[i].snapshots[k]);
		free(v->problems[i].snapshots);
		free(v->problems[i].blob);
		free(v->problems[i].text);
	}
	free(v->problems);
	for (size_t i = 0; i < v->nids; i++)
		free(v->ids[i]);
	free(v->ids);
	repo_close(v->repo);
}

/* -- printing -------------------------------------------------------------- */

static int print_json(const struct verify *v, struct sc_err *err)
{
	struct ui_json json = { 0 }, *j = &json;
	json_t *o = ui_json_object(j), *list = ui_json_array(j);

	for (size_t i = 0; i < v->n; i++) {
		const struct problem *p = &v->problems[i];
		json_t *e = ui_json_object(j), *ids = ui_json_array(j);

		for (size_t k = 0; k < p->n; k++)
			ui_json_push(j, ids,
				     ui_json_bytes(j, p->snapshots[k],
						   strlen(p->snapshots[k])));
		ui_json_str(j, e, "blob", p->blob);
		ui_json_set(j, e, "snapshots", ids);
		ui_json_str(j, e, "problem", p->text);
		ui_json_push(j, list, e);
	}
	ui_json_uint(j, o, "snapshots", v->result.snapshots);
	ui_json_uint(j, o, "blobs", v->result.blobs);
	ui_json_uint(j, o, "bytes", v->result.bytes);
	ui_json_set(j, o, "problems", list);
	return ui_json_print(j, o, STDOUT_FILENO, err);
}

static void print_problem(struct buf *out, const struct problem *p)
{
	char text[SC_ERR_MSG];

	/* Names in it were escaped when it was made. */
	buf_printf(out, "%s",
		   text_escaped(text, sizeof(text), p->text, strlen(p->text)));
	for (size_t k = 0; k < p->n; k++) {
		buf_printf(out, "%s", k ? ", " : " [");
		text_escape(out, p->snapshots[k], strlen(p->snapshots[k]));
	}
	buf_printf(out, "%s\n", p->n ? "]" : "");
}

static int print_text(const struct verify *v, struct sc_err *err)
{
	const struct verify_result *r = &v->result;
	auto_buf struct buf out = { 0 };
	char size[16];

	for (size_t i = 0; i < v->n; i++)
		print_problem(&out, &v->problems[i]);
	buf_printf(&out, "%llu snapshot%s, %llu blobs, %s: ",
		   (unsigned long long)r->snapshots,
		   r->snapshots == 1 ? "" : "s", (unsigned long long)r->blobs,
		   text_size(size, r->bytes));
	if (v->n)
		buf_printf(&out, "%zu problem%s\n", v->n, v->n == 1 ? "" : "s");
	else
		buf_printf(&out, "no damage\n");
	return app_print(&out, err);
}

/* -- the command ----------------------------------------------------------- */

static int resolve(struct verify *v, struct args *args, struct sc_err *err)
{
	v->ids = calloc(args->n_words + 1, sizeof(*v->ids));
	if (!v->ids)
		return sc_oom(err, "snapshots");
	for (size_t i = 0; i < args->n_words; i++) {
		struct snapshot_ref ref = { 0 };

		if (repo_find(v->repo, args_word(args, i), NULL, &ref, err) < 0)
			return -1;
		v->ids[v->nids++] = take_ptr(ref.id);
		snapshot_ref_clear(&ref);
	}
	return 0;
}

static int check(struct verify *v, struct args *args, struct sc_err *err)
{
	static const char *const names[] = { "repository" };
	struct ui_progress *progress = NULL;
	struct verify_options o = {
		.deep = args_flag(args, OPT_DEEP),
		.threads = (unsigned)args_number(args, OPT_THREADS, 0),
		.cancel = &v->app->cancel,
		.problem = note,
		.arg = v,
	};
	struct ui_count *count;
	int rc;

	if (ui_progress_start(v->app->ui, names, 1, &progress, err) < 0)
		return -1;
	count = ui_progress_volume(progress, 0);
	o.bytes = &count->bytes;
	o.total = &count->bytes_total;
	ui_progress_phase(progress, "verify");
	rc = repo_verify(v->repo, (const char *const *)v->ids, v->nids, &o,
			 &v->result, err);
	if (rc == 0)
		ui_count_done(count);
	ui_progress_end(progress);
	if (rc == 0 && v->failed)
		return sc_oom(err, "problems");
	return rc;
}

static int verify(struct verify *v, struct args *args, struct sc_err *err)
{
	if (repo_open(v->app->repo, REPO_READ, &v->repo, err) < 0 ||
	    resolve(v, args, err) < 0 || check(v, args, err) < 0)
		return -1;
	return v->app->json ? print_json(v, err) : print_text(v, err);
}

int cmd_verify(struct app *app, struct args *args)
{
	struct verify v = { .app = app };
	struct sc_err err = { 0 };
	int rc = verify(&v, args, &err);
	bool damage = v.n > 0;

	verify_free(&v);
	if (rc < 0)
		return app_fail(app, &err);
	if (damage)
		ui_error(app->ui,
			 "damage found; restore refuses what it touches");
	return damage ? EXIT_FAILED : EXIT_DONE;
}
