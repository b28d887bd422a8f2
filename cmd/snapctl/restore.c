/* SPDX-License-Identifier: MIT */
/* snapctl restore: DESIGN section 6, in order. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <snapctl/base/group.h>
#include <snapctl/base/mem.h>
#include <snapctl/base/text.h>
#include <snapctl/ui/json.h>

#include "app.h"
#include "capture.h"
#include "cli.h"
#include "commands.h"
#include "record.h"
#include "source.h"
#include "target.h"
#include "task.h"

struct restoring {
	struct task t;
	struct snapshot *from;
	struct target target;
	struct source *source;
	struct capture *safety;
	char *safety_id;
	uint64_t written;
	bool committed;
};

/* -- saying what was done ------------------------------------------------- */

static int print_json(struct restoring *r, struct sc_err *err)
{
	struct ui_json j = { 0 };
	json_t *root = ui_json_object(&j), *list = ui_json_array(&j);

	for (size_t i = 0; i < r->target.n; i++) {
		const char *name = r->target.volumes[i]->name;

		ui_json_push(&j, list, ui_json_bytes(&j, name, strlen(name)));
	}
	ui_json_str(&j, root, "id", r->from->id);
	ui_json_str(&j, root, "stack", r->t.stack->name);
	ui_json_str(&j, root, "safety_id", r->safety_id);
	ui_json_set(&j, root, "volumes", list);
	ui_json_uint(&j, root, "written_bytes", r->written);
	ui_json_seconds(&j, root, "downtime_seconds",
			quiesce_downtime(r->t.quiesce));
	ui_json_seconds(&j, root, "duration_seconds", task_now() - r->t.began);
	ui_json_set(&j, root, "warnings", task_warnings(&r->t));
	return ui_json_print(&j, root, STDOUT_FILENO, err);
}

static int print_result(struct restoring *r, struct sc_err *err)
{
	char size[16], down[32], took[32];
	bool stopped = quiesce_stopped_any(r->t.quiesce);

	if (r->t.app->json)
		return print_json(r, err);
	if (r->safety_id)
		ui_note(r->t.app->ui,
			"the state before is %s; \"snapctl restore %s %s\" "
			"goes back to it",
			r->safety_id, r->t.stack->name, r->safety_id);
	ui_note(r->t.app->ui, "%s is back: %zu volume%s, %s written in %s%s%s",
		r->from->id, r->target.n, r->target.n == 1 ? "" : "s",
		text_size(size, r->written),
		text_duration(took, task_now() - r->t.began),
		stopped ? ", stack down for " : "",
		stopped ? text_duration(down, quiesce_downtime(r->t.quiesce))
			: "");
	return 0;
}

/* -- the order of events -------------------------------------------------- */

static int plan(struct restoring *r, struct sc_err *err)
{
	size_t n = r->target.n;
	auto_free uint64_t *lengths = calloc(n + 1, sizeof(*lengths));
	auto_free struct frame_planned *planned =
		calloc(n + 1, sizeof(*planned));

	if (!lengths || !planned)
		return sc_oom(err, "volumes");
	ui_progress_phase(r->t.progress, "compare");
	if (source_send_indexes(r->source, r->t.session, lengths, err) < 0 ||
	    session_plan(r->t.session, lengths, planned, err) < 0)
		return -1;
	for (size_t i = 0; i < n; i++) {
		r->written += planned[i].stage_bytes;
		ui_count_total(ui_progress_volume(r->t.progress, i),
			       planned[i].stage_bytes, planned[i].stage_files);
	}
	return 0;
}

/* Which blob is it? The helper sees segments, not blobs. */
static void name_blob(void *arg, const char *blob, const char *snapshot,
		      const char *text)
{
	struct sc_err *found = arg;

	(void)snapshot;
	if (found->code == SC_OK)
		sc_fail(found, SC_ECORRUPT, 0, "%s: %s", blob, text);
}

static int stage(struct restoring *r, struct sc_err *err)
{
	struct sc_err found = { 0 }, unread;
	const char *ids[1] = { r->from->id };
	struct verify_result result;
	struct verify_options o = {
		.threads = group_cores(),
		.cancel = &r->t.app->cancel,
		.problem = name_blob,
		.arg = &found,
	};

	ui_progress_phase(r->t.progress, "stage");
	if (session_stage(r->t.session, source_segment, r->source, err) == 0) {
		task_volumes_done(&r->t);
		return 0;
	}
	if (err->code == SC_ECORRUPT &&
	    repo_verify(r->t.repo, ids, 1, &o, &result, &unread) == 0 &&
	    found.code != SC_OK)
		sc_wrap(err,
			"the repository is damaged, nothing was changed (%s)",
			found.msg);
	return -1;
}

/* The state that is about to be replaced, so that the restore can be undone. */
static int take_safety(struct restoring *r, struct sc_err *err)
{
	struct capture_options o = { .mode = "pre-restore" };
	auto_free char *note = NULL;

	if (args_flag(r->t.args, OPT_NO_SAFETY) || r->target.all_new)
		return 0;
	if (asprintf(&note, "before the restore of %s", r->from->id) < 0)
		return sc_oom(err, "note");
	o.note = note;
	ui_progress_restart(r->t.progress);
	r->t.at = 0;
	ui_progress_phase(r->t.progress, "save the state before");
	if (capture_take(&r->t, &o, &r->safety, err) < 0 ||
	    capture_publish(r->safety, err) < 0)
		return sc_wrap(err, "pre-restore snapshot");
	r->safety_id = strdup(capture_snapshot(r->safety)->id);
	return r->safety_id ? 0 : sc_oom(err, "snapshot id");
}

static int replace(struct restoring *r, struct sc_err *err)
{
	if (task_stop(&r->t, err) < 0 || take_safety(r, err) < 0 ||
	    session_recheck(r->t.session, err) < 0 ||
	    quiesce_check(r->t.quiesce, err) < 0 ||
	    cancel_check(&r->t.app->cancel, err) < 0)
		return -1;
	ui_progress_phase(r->t.progress, "commit");
	if (session_commit(r->t.session, err) == 0) {
		r->committed = true;
		return 0;
	}
	/* A volume that is neither old nor new must not be run on. */
	if (err->code != SC_EPARTIAL && err->code != SC_EREFUSED)
		err->code = SC_EPARTIAL;
	if (err->code == SC_EPARTIAL) {
		r->t.leave_down = true;
		sc_wrap(err,
			"stack %s is left stopped: the commit of %s did not "
			"end; run \"snapctl restore %s %s\" again, then "
			"start the stack (docker compose up -d)",
			r->t.stack->name, r->from->id, r->t.stack->name,
			r->from->id);
	}
	return -1;
}

/* Owners were recorded as the helper saw them then. */
static int check_uid_map(struct restoring *r, struct sc_err *err)
{
	if (strcmp(record_uid_map(&r->t), r->from->uid_map) == 0)
		return 0;
	return sc_fail(err, SC_EREFUSED, 0,
		       "this engine maps user ids another way than the one "
		       "that %s was taken on: owners would come out wrong",
		       r->from->id);
}

static const struct snapshot_container *recorded(
	const struct snapshot *s, const struct stack_container *c)
{
	for (size_t i = 0; i < s->ncontainers; i++)
		if (strcmp(s->containers[i].service, c->service) == 0 &&
		    s->containers[i].number == c->number)
			return &s->containers[i];
	return NULL;
}

/* Old data under a newer version may not be what is wanted. */
static void say_drift(struct restoring *r)
{
	const struct stack *s = r->t.stack;

	for (size_t i = 0; i < s->ncontainers; i++) {
		const struct stack_container *c = &s->containers[i];
		const struct snapshot_container *was =
			*c->service ? recorded(r->from, c) : NULL;

		if (was && strcmp(was->image_id, c->c->image_id) != 0)
			notes_add(&r->t.notes, NOTE_INFO,
				  "service %s runs image %.19s (%s); the "
				  "snapshot was taken with %.19s (%s)",
				  c->service, c->c->image_id, c->c->image_ref,
				  was->image_id, was->image);
	}
	if (*s->config_hash && *r->from->config_hash &&
	    strcmp(s->config_hash, r->from->config_hash) != 0)
		notes_add(&r->t.notes, NOTE_INFO,
			  "the compose configuration has changed since the "
			  "snapshot (\"snapctl show %s --json\" has the old)",
			  r->from->id);
}

static int restore(struct restoring *r, struct sc_err *err)
{
	struct task *t = &r->t;
	int rc;

	if (task_lock(t, err) < 0 || target_create(&r->target, t, err) < 0 ||
	    source_open(t->repo, r->target.volumes, r->target.n, &r->source,
			err) < 0 ||
	    task_helper(t, err) < 0 || check_uid_map(r, err) < 0 ||
	    task_progress(t, err) < 0)
		return -1;
	rc = plan(r, err);
	if (rc == 0)
		rc = stage(r, err);
	if (rc == 0)
		rc = replace(r, err);
	if (rc < 0 && !t->leave_down) {
		struct sc_err undo;

		if (session_undo(t->session, &undo) < 0)
			notes_add(&t->notes, NOTE_WARN,
				  "what was staged (.snapctl-stage) may remain "
				  "in a volume until the next restore: %s",
				  undo.msg);
	}
	if (rc < 0)
		return -1;
	if (args_flag(t->args, OPT_NO_START))
		t->leave_down = true;
	else
		task_try_start(t);
	/* Before the end is told: a helper that remains is a warning. */
	session_close(t->session);
	t->session = NULL;
	ui_progress_end(t->progress);
	t->progress = NULL;
	return print_result(r, err);
}

/* For writing (locks, the snapshot before), but never made by a restore. */
static int open_existing(struct task *t, struct sc_err *err)
{
	if (repo_open(t->app->repo, REPO_READ, &t->repo, err) < 0)
		return -1;
	repo_close(t->repo);
	t->repo = NULL;
	return repo_open(t->app->repo, REPO_WRITE, &t->repo, err);
}

static int prepare(struct restoring *r, struct app *app, struct args *args,
		   struct sc_err *err)
{
	struct task *t = &r->t;

	if (task_open(t, app, args, "restore", err) < 0 ||
	    open_existing(t, err) < 0 ||
	    target_snapshot(t, &r->from, err) < 0 ||
	    target_choose(&r->target, t, r->from, err) < 0)
		return -1;
	say_drift(r);
	if (args_flag(args, OPT_DRY_RUN))
		return task_dry(t, r->from->id, err);
	return restore(r, err);
}

int cmd_restore(struct app *app, struct args *args)
{
	struct restoring r = { 0 };
	struct sc_err err = { 0 };
	bool warned;
	int rc;

	rc = prepare(&r, app, args, &err);
	if (rc < 0 && !r.committed)
		target_undo(&r.target, &r.t);
	if (rc < 0 && r.committed)
		err.code = SC_EPARTIAL;
	warned = r.t.notes.warnings > 0;
	rc = task_close(&r.t, rc, &err);
	target_free(&r.target);
	source_close(r.source);
	capture_free(r.safety);
	snapshot_free(r.from);
	free(r.safety_id);
	if (rc < 0)
		return app_fail(app, &err);
	return warned ? EXIT_WARNED : EXIT_DONE;
}
