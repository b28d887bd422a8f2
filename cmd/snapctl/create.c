/* SPDX-License-Identifier: MIT */
/* snapctl create: DESIGN section 4, in order. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <snapctl/base/mem.h>
#include <snapctl/base/text.h>
#include <snapctl/ui/json.h>

#include "app.h"
#include "capture.h"
#include "cli.h"
#include "commands.h"
#include "known.h"
#include "summary.h"
#include "task.h"

/* -- saying what was made ------------------------------------------------- */

static int print_json(struct task *t, const struct snapshot *s,
		      struct sc_err *err)
{
	struct summary sum = summary_of(s);
	struct ui_json j = { 0 };
	json_t *root = ui_json_object(&j), *list = ui_json_array(&j);

	for (size_t i = 0; i < s->nvolumes; i++) {
		const struct snapshot_volume *v = &s->volumes[i];
		json_t *o = ui_json_object(&j);

		ui_json_str(&j, o, "name", v->name);
		ui_json_str(&j, o, "kind", "full");
		ui_json_uint(&j, o, "size_bytes", v->bytes);
		ui_json_uint(&j, o, "new_bytes", v->new_bytes);
		ui_json_uint(&j, o, "stored_bytes", v->stored_bytes);
		ui_json_push(&j, list, o);
	}
	ui_json_str(&j, root, "id", s->id);
	ui_json_str(&j, root, "stack", s->stack);
	ui_json_time(&j, root, "created", s->created);
	ui_json_set(&j, root, "volumes", list);
	ui_json_uint(&j, root, "size_bytes", sum.size);
	ui_json_uint(&j, root, "stored_bytes", sum.stored);
	ui_json_bool(&j, root, "clean", s->clean);
	ui_json_bool(&j, root, "torn", s->torn);
	ui_json_bool(&j, root, "incomplete", s->incomplete);
	ui_json_seconds(&j, root, "downtime_seconds", s->downtime);
	ui_json_seconds(&j, root, "duration_seconds", s->duration);
	ui_json_set(&j, root, "warnings", task_warnings(t));
	return ui_json_print(&j, root, STDOUT_FILENO, err);
}

static int print_result(struct task *t, const struct snapshot *s,
			struct sc_err *err)
{
	struct summary sum = summary_of(s);
	char size[16], stored[16], down[32], took[32];
	auto_buf struct buf out = { 0 };

	if (t->app->json)
		return print_json(t, s, err);
	buf_printf(&out, "%s\n", s->id);
	ui_note(t->app->ui, "%zu volume%s, %s, stored as %s in %s%s%s",
		s->nvolumes, s->nvolumes == 1 ? "" : "s",
		text_size(size, sum.size), text_size(stored, sum.stored),
		text_duration(took, s->duration),
		quiesce_stopped_any(t->quiesce) ? ", stack down for " : "",
		quiesce_stopped_any(t->quiesce)
			? text_duration(down, s->downtime)
			: "");
	return app_print(&out, err);
}

/* -- the order of events -------------------------------------------------- */

static void start_again(void *arg)
{
	task_try_start(arg);
}

static int scan(struct task *t, struct sc_err *err)
{
	auto_free struct frame_scanned *seen =
		calloc(t->nvolumes + 1, sizeof(*seen));

	if (!seen)
		return sc_oom(err, "volumes");
	ui_progress_phase(t->progress, "scan");
	if (session_scan(t->session, seen, err) < 0)
		return -1;
	for (size_t i = 0; i < t->nvolumes; i++)
		ui_count_total(ui_progress_volume(t->progress, i),
			       seen[i].bytes, seen[i].files);
	return 0;
}

static void *dismiss(void *arg)
{
	session_close(arg);
	return NULL;
}

/* The helper goes meanwhile; not earlier: a tmpfs volume lives as long as the
 * helper mounts it, and only now its containers run again. */
static int publish(struct task *t, struct capture *c, struct sc_err *err)
{
	struct session *s = t->session;
	pthread_t going;
	bool apart;
	int rc;

	/* Still down: task_close starts it, then lets the helper go. */
	if (!t->up)
		return capture_publish(c, err);
	t->session = NULL;
	/* What the snapshot says of the helper is known: the closing of it
	 * has nothing to add but a warning. */
	apart = pthread_create(&going, NULL, dismiss, s) == 0;
	if (!apart)
		session_close(s);
	rc = capture_publish(c, err);
	if (apart)
		pthread_join(going, NULL);
	return rc;
}

static int take_and_publish(struct task *t, struct capture **c,
			    struct sc_err *err)
{
	size_t ntags;
	const char *const *tags = args_values(t->args, OPT_TAG, &ntags);
	bool live = t->stack->no_stop;
	struct capture_options o = {
		.mode = live ? "no-stop" : "stop",
		.note = args_value(t->args, OPT_MESSAGE),
		.tags = tags,
		.ntags = ntags,
		.max_pack = args_number(t->args, OPT_MAX_PACK_SIZE, 0),
		.live = live || t->stack->ignore_sharing,
		.all_read = start_again,
		.arg = t,
	};

	ui_progress_phase(t->progress, "read");
	if (capture_take(t, &o, c, err) < 0)
		return -1;
	ui_progress_phase(t->progress, "store");
	return publish(t, *c, err);
}

static int create(struct task *t, struct capture **c, struct sc_err *err)
{
	if (task_choose_volumes(t, err) < 0)
		return -1;
	if (args_flag(t->args, OPT_DRY_RUN))
		return task_dry(t, NULL, err);
	if (repo_open(t->app->repo, REPO_WRITE, &t->repo, err) < 0 ||
	    task_lock(t, err) < 0 || task_helper(t, err) < 0 ||
	    task_progress(t, err) < 0 || scan(t, err) < 0 ||
	    task_stop(t, err) < 0 || take_and_publish(t, c, err) < 0)
		return -1;
	ui_progress_end(t->progress);
	t->progress = NULL;
	return print_result(t, capture_snapshot(*c), err);
}

int cmd_create(struct app *app, struct args *args)
{
	const char *project = args_value(args, OPT_PROJECT);
	struct capture *c = NULL;
	struct known known = { 0 };
	struct sc_err err = { 0 };
	struct task t;
	bool warned;
	int rc;

	if (!project)
		project = args_word(args, 0);
	else if (args_word(args, 0)) {
		sc_fail(&err, SC_EUSAGE, 0,
			"STACK and --project both name a stack");
		return app_fail(app, &err);
	}
	rc = task_open(&t, app, args, "create", &err);
	if (rc == 0)
		rc = known_volumes(app->repo, project, &known, &err);
	if (rc == 0)
		rc = task_resolve(&t, project, known.names, &err);
	if (rc == 0)
		rc = create(&t, &c, &err);
	warned = t.notes.warnings > 0;
	rc = task_close(&t, rc, &err);
	if (rc < 0 && c && capture_snapshot(c)->id) {
		err.code = SC_EPARTIAL;
		sc_wrap(&err, "snapshot %s is complete, but",
			capture_snapshot(c)->id);
	}
	capture_free(c);
	known_free(&known);
	if (rc < 0)
		return app_fail(app, &err);
	return warned ? EXIT_WARNED : EXIT_DONE;
}
