/* SPDX-License-Identifier: MIT */
#include "task.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <snapctl/archive/chunker.h>
#include <snapctl/base/mem.h>
#include <snapctl/base/text.h>
#include <snapctl/ui/json.h>

#include "app.h"
#include "cli.h"

/* docker/helper-blob.S */
extern const unsigned char helper_blob[], helper_blob_end[];

double task_now(void)
{
	struct timespec t;

	if (clock_gettime(CLOCK_MONOTONIC, &t) < 0)
		return 0;
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void show_note(void *arg, enum note_kind kind, const char *text)
{
	struct app *app = arg;

	if (kind == NOTE_WARN)
		ui_warn(app->ui, "%s", text);
	else
		ui_note(app->ui, "%s", text);
}

/* Values of an option with a NULL after them; NULL for none. */
static int values_of(const struct args *args, enum opt_id id, const char ***out,
		     struct sc_err *err)
{
	size_t n;
	const char *const *v = args_values(args, id, &n);

	if (!n)
		return 0;
	*out = calloc(n + 1, sizeof(**out));
	if (!*out)
		return sc_oom(err, "options");
	memcpy(*out, v, n * sizeof(*v));
	return 0;
}

int task_open(struct task *t, struct app *app, const struct args *args,
	      const char *command, struct sc_err *err)
{
	*t = (struct task){ .app = app, .args = args, .command = command };
	t->began = task_now();
	notes_init(&t->notes);
	t->notes.sink = show_note;
	t->notes.sink_arg = app;
	if (values_of(args, OPT_VOLUME, &t->volume_args, err) < 0 ||
	    values_of(args, OPT_EXCLUDE_VOLUME, &t->exclude_args, err) < 0 ||
	    values_of(args, OPT_BIND, &t->bind_args, err) < 0)
		return -1;
	return docker_open(app->host, &app->cancel, &t->docker, err);
}

int task_resolve(struct task *t, const char *project, const char *const *known,
		 struct sc_err *err)
{
	const struct args *a = t->args;

	t->stack_options = (struct stack_options){
		.project = project,
		.volumes = t->volume_args,
		.exclude_volumes = t->exclude_args,
		.binds = t->bind_args,
		.known_volumes = known,
		.repo = t->app->repo,
		.for_restore = strcmp(t->command, "restore") == 0,
		.allow_rm = args_flag(a, OPT_ALLOW_RM),
		.ignore_sharing = args_flag(a, OPT_IGNORE_SHARING),
		.stop_sharing = args_flag(a, OPT_STOP_SHARING),
		.stop_oneoff = args_flag(a, OPT_STOP_ONEOFF),
		.no_stop = args_flag(a, OPT_NO_STOP),
	};
	if (stack_resolve(t->docker, &t->stack_options, &t->notes, &t->stack,
			  err) < 0)
		return -1;
	return stack_check(t->stack, &t->stack_options, err);
}

int task_lock(struct task *t, struct sc_err *err)
{
	auto_free char *name = NULL;

	if (asprintf(&name, "stack-%s", t->stack->name) < 0)
		return sc_oom(err, "lock name");
	if (repo_lock(t->repo, name, LOCK_EXCLUSIVE, t->command,
		      (int)t->app->wait, &t->app->cancel, &t->stack_lock,
		      err) < 0)
		return -1;
	return repo_lock(t->repo, "repository", LOCK_SHARED, t->command,
			 (int)t->app->wait, &t->app->cancel, &t->repo_lock,
			 err);
}

/* -- the helper ----------------------------------------------------------- */

static struct session_volume mount_of(const struct stack_volume *v, bool held)
{
	return (struct session_volume){
		.volume = v->kind == STACK_BIND ? NULL : v->name,
		.bind = v->kind == STACK_BIND ? v->source : NULL,
		.leave_out =
			v->repo_below && *v->repo_below ? v->repo_below : NULL,
		.held = held,
	};
}

static bool is_taken(const struct task *t, const struct stack_volume *v)
{
	for (size_t i = 0; i < t->nvolumes; i++)
		if (t->volumes[i] == v)
			return true;
	return false;
}

void task_mounts(struct task *t)
{
	struct stack *s = t->stack;

	t->nmounts = 0;
	for (size_t i = 0; i < t->nvolumes; i++)
		t->mounts[t->nmounts++] = mount_of(t->volumes[i], false);
	/* A tmpfs volume dies with its last mount: those that are not taken
	 * are held too. */
	for (size_t i = 0; i < s->nvolumes; i++)
		if (s->volumes[i].tmpfs && !s->volumes[i].missing &&
		    !is_taken(t, &s->volumes[i]))
			t->mounts[t->nmounts++] =
				mount_of(&s->volumes[i], true);
}

int task_choose_volumes(struct task *t, struct sc_err *err)
{
	struct stack *s = t->stack;

	t->mounts = calloc(s->nvolumes + 1, sizeof(*t->mounts));
	t->volumes = calloc(s->nvolumes + 1, sizeof(*t->volumes));
	if (!t->mounts || !t->volumes)
		return sc_oom(err, "volumes");
	t->nvolumes = 0;
	for (size_t i = 0; i < s->nvolumes; i++)
		if (s->volumes[i].selected && !s->volumes[i].missing)
			t->volumes[t->nvolumes++] = &s->volumes[i];
	if (!t->nvolumes)
		return sc_fail(err, SC_ENOTFOUND, 0,
			       "stack %s has no volume to take; volumes and "
			       "binds that are left out are named above",
			       s->name);
	task_mounts(t);
	return 0;
}

static void on_progress(void *arg, unsigned volume, uint64_t bytes,
			uint64_t files)
{
	struct task *t = arg;
	struct ui_count *c;

	if (!t->progress)
		return;
	for (; t->at < volume; t->at++)
		ui_count_done(ui_progress_volume(t->progress, t->at));
	c = ui_progress_volume(t->progress, volume);
	/* What is read or staged stays so while the helper goes on with
	 * something else and counts from zero. */
	if (bytes >= atomic_load(&c->bytes) && files >= atomic_load(&c->files))
		ui_count_set(c, bytes, files);
}

void task_volumes_done(struct task *t)
{
	for (size_t i = 0; t->progress && i < t->nvolumes; i++)
		ui_count_done(ui_progress_volume(t->progress, i));
}

static enum session_transport transport_of(const struct args *args)
{
	const char *t = args_value(args, OPT_TRANSPORT);

	if (!t)
		return TRANSPORT_AUTO;
	return strcmp(t, "socket") == 0 ? TRANSPORT_SOCKET : TRANSPORT_ATTACH;
}

int task_helper(struct task *t, struct sc_err *err)
{
	const struct args *a = t->args;
	struct session_options o = {
		.stack = t->stack->name,
		.command = t->command,
		.volumes = t->mounts,
		.nvolumes = t->nmounts,
		.write = t->stack_options.for_restore,
		.cap_sys_admin = args_flag(a, OPT_CAP_SYS_ADMIN),
		.allow_incomplete = args_flag(a, OPT_ALLOW_INCOMPLETE),
		.transport = transport_of(a),
		.threads = (unsigned)args_number(a, OPT_THREADS, 0),
		.level = (int)args_number(a, OPT_LEVEL, 3),
		.chunk_avg = CHUNK_AVG_DEFAULT,
		.binary = helper_blob,
		.binary_len = (size_t)(helper_blob_end - helper_blob),
		.notes = &t->notes,
		.cancel = &t->app->cancel,
		.progress = on_progress,
		.progress_arg = t,
	};

	if (session_open(t->docker, &o, &t->session, err) < 0)
		return -1;
	ui_detail(t->app->ui, "helper %.12s by %s",
		  session_container(t->session),
		  session_transport_name(t->session));
	return 0;
}

int task_progress(struct task *t, struct sc_err *err)
{
	auto_free const char **names = calloc(t->nvolumes + 1, sizeof(*names));

	if (!names)
		return sc_oom(err, "progress");
	for (size_t i = 0; i < t->nvolumes; i++)
		names[i] = t->volumes[i]->name;
	return ui_progress_start(t->app->ui, names, t->nvolumes, &t->progress,
				 err);
}

/* -- stop and start ------------------------------------------------------- */

static void on_step(void *arg, const char *what, const char *container)
{
	struct task *t = arg;
	char phase[200], name[120];

	text_escaped(name, sizeof(name), container, strlen(container));
	snprintf(phase, sizeof(phase), "%s %s", what, name);
	if (t->progress)
		ui_progress_phase(t->progress, phase);
	ui_detail(t->app->ui, "%s", phase);
}

static int seconds_of(const struct args *args, enum opt_id id)
{
	return args_count(args, id) ? (int)args_number(args, id, 0) : -1;
}

static bool stops_any(const struct stack *s)
{
	for (size_t i = 0; i < s->ncontainers; i++)
		if (s->containers[i].stop)
			return !s->no_stop;
	return false;
}

int task_stop(struct task *t, struct sc_err *err)
{
	struct quiesce_options o = {
		.stop_timeout = seconds_of(t->args, OPT_STOP_TIMEOUT),
		.health_timeout = seconds_of(t->args, OPT_HEALTH_TIMEOUT),
		.helper_id = t->session ? session_container(t->session) : NULL,
		.step = on_step,
		.arg = t,
	};

	if (quiesce_new(t->docker, t->stack, &o, &t->notes, &t->quiesce, err) <
	    0)
		return -1;
	if (t->progress && stops_any(t->stack))
		ui_progress_down(t->progress, true);
	return quiesce_stop(t->quiesce, err);
}

static int start(struct task *t, struct sc_err *err)
{
	int rc;

	if (!t->quiesce || t->leave_down || t->up)
		return 0;
	rc = quiesce_start(t->quiesce, err);
	t->tried = true;
	t->up = rc == 0;
	if (t->progress)
		ui_progress_down(t->progress, false);
	return rc;
}

void task_try_start(struct task *t)
{
	struct sc_err down;

	(void)start(t, &down);
}

static void release(struct task *t)
{
	ui_progress_end(t->progress);
	if (t->quiesce)
		quiesce_free(t->quiesce);
	session_close(t->session);
	if (t->repo_lock)
		repo_unlock(t->repo_lock);
	if (t->stack_lock)
		repo_unlock(t->stack_lock);
	stack_free(t->stack);
	if (t->repo)
		repo_close(t->repo);
	if (t->docker)
		docker_close(t->docker);
	free(t->mounts);
	free(t->volumes);
	free(t->volume_args);
	free(t->exclude_args);
	free(t->bind_args);
	notes_free(&t->notes);
}

int task_close(struct task *t, int rc, struct sc_err *err)
{
	struct sc_err down = { 0 };
	bool again = t->tried && !t->up;

	if (start(t, &down) == 0) {
		if (again && !t->leave_down)
			ui_note(t->app->ui,
				"the stack is up at the second try");
	} else {
		if (rc == 0)
			*err = down;
		else
			sc_wrap(err, "%s; before that", down.msg);
		/* The stack is not as it was: something was changed. */
		err->code = SC_EPARTIAL;
		rc = -1;
	}
	release(t);
	return rc;
}

/* -- saying --------------------------------------------------------------- */

json_t *task_warnings(struct task *t)
{
	struct ui_json j = { 0 };
	json_t *list = ui_json_array(&j);

	for (size_t i = 0; i < t->notes.n; i++)
		if (t->notes.v[i].kind == NOTE_WARN)
			ui_json_push(&j, list,
				     ui_json_bytes(&j, t->notes.v[i].text,
						   strlen(t->notes.v[i].text)));
	return list;
}

static int print_dry_json(struct task *t, const char *id, const size_t *order,
			  size_t n, struct sc_err *err)
{
	struct ui_json j = { 0 };
	json_t *root = ui_json_object(&j), *v = ui_json_array(&j),
	       *stop = ui_json_array(&j), *start = ui_json_array(&j);

	if (id)
		ui_json_str(&j, root, "id", id);
	ui_json_bool(&j, root, "dry_run", true);
	ui_json_str(&j, root, "stack", t->stack->name);
	for (size_t i = 0; i < t->nvolumes; i++)
		ui_json_push(&j, v,
			     ui_json_bytes(&j, t->volumes[i]->name,
					   strlen(t->volumes[i]->name)));
	for (size_t i = 0; i < n; i++) {
		const struct stack_container *c =
			&t->stack->containers[order[n - 1 - i]];
		const char *name = t->stack->containers[order[i]].c->name;

		ui_json_push(&j, stop, ui_json_bytes(&j, name, strlen(name)));
		if (!c->no_restart)
			ui_json_push(&j, start,
				     ui_json_bytes(&j, c->c->name,
						   strlen(c->c->name)));
	}
	ui_json_set(&j, root, "volumes", v);
	ui_json_set(&j, root, "stop", stop);
	ui_json_set(&j, root, "start", start);
	ui_json_set(&j, root, "warnings", task_warnings(t));
	return ui_json_print(&j, root, STDOUT_FILENO, err);
}

int task_dry(struct task *t, const char *id, struct sc_err *err)
{
	auto_buf struct buf out = { 0 };
	auto_free size_t *order = NULL;
	size_t n;

	if (stack_stop_order(t->stack, &order, &n, err) < 0)
		return -1;
	if (t->app->json)
		return print_dry_json(t, id, order, n, err);
	buf_printf(&out, "stack %s%s%s\n", t->stack->name, id ? " to " : "",
		   id ? id : "");
	for (size_t i = 0; i < t->nvolumes; i++) {
		buf_printf(&out, "volume ");
		text_escape(&out, t->volumes[i]->name,
			    strlen(t->volumes[i]->name));
		buf_printf(&out, "\n");
	}
	for (size_t i = 0; i < n; i++)
		buf_printf(&out, "would stop %s\n",
			   t->stack->containers[order[i]].c->name);
	for (size_t i = n; i-- > 0;)
		if (!t->stack->containers[order[i]].no_restart)
			buf_printf(&out, "would start %s\n",
				   t->stack->containers[order[i]].c->name);
	return app_print(&out, err);
}
