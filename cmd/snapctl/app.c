/* SPDX-License-Identifier: MIT */
#include "app.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <snapctl/base/io.h>

#include "cli.h"

int app_status(const struct sc_err *err)
{
	switch (err->code) {
	case SC_EUSAGE:
		return EXIT_USAGE;
	case SC_ELOCKED:
		return EXIT_LOCKED;
	case SC_EINTR:
		return EXIT_INTERRUPTED;
	case SC_EPARTIAL:
		return EXIT_CHANGED;
	case SC_OK: /* a failure that forgot to say why is one still */
	case SC_EIO:
	case SC_ENOMEM:
	case SC_ENOTFOUND:
	case SC_EREFUSED:
	case SC_EENGINE:
	case SC_EPROTO:
	case SC_ECORRUPT:
	case SC_ETORN:
		break;
	}
	return EXIT_FAILED;
}

int app_fail(struct app *app, const struct sc_err *err)
{
	ui_error(app->ui, "%s", err->msg);
	return app_status(err);
}

int app_print(const struct buf *out, struct sc_err *err)
{
	if (out->failed)
		return sc_oom(err, "output");
	return io_write_all(STDOUT_FILENO, out->p, out->len, "standard output",
			    err);
}

static const char *env(const char *name)
{
	const char *v = getenv(name);

	return v && *v ? v : NULL;
}

/* As the XDG base directories say: a relative path there is ignored. */
static const char *absolute(const char *path)
{
	return path && *path == '/' ? path : NULL;
}

static int find_repo(const struct args *args, char **out, struct sc_err *err)
{
	const char *given = args_value(args, OPT_REPO);
	const char *state = absolute(env("XDG_STATE_HOME"));
	const char *home = absolute(env("HOME"));
	auto_buf struct buf b = { 0 };
	const char *path;

	if (!given)
		given = env("SNAPCTL_REPO");
	if (given)
		buf_printf(&b, "%s", given);
	else if (geteuid() == 0)
		buf_printf(&b, "/var/lib/snapctl");
	else if (state)
		buf_printf(&b, "%s/snapctl", state);
	else if (home)
		buf_printf(&b, "%s/.local/state/snapctl", home);
	else
		return sc_fail(
			err, SC_EUSAGE, 0,
			"no repository: HOME is not set, give --repo DIR");
	path = buf_cstr(&b);
	*out = path ? strdup(path) : NULL;
	return *out ? 0 : sc_oom(err, "repository path");
}

int app_open(struct app *app, const struct args *args, struct sc_err *err)
{
	int level = args_flag(args, OPT_QUIET)	   ? UI_QUIET
		    : args_flag(args, OPT_VERBOSE) ? UI_VERBOSE
						   : UI_NORMAL;
	const char *progress = args_value(args, OPT_PROGRESS);
	struct ui_term term = ui_term_stderr();
	enum ui_mode mode = UI_AUTO;

	*app = (struct app){ .cancel = { .fd = -1, .wfd = -1 } };
	if (progress && !ui_mode_parse(progress, &mode))
		return sc_fail(err, SC_EUSAGE, 0, "bad progress mode");
	if (ui_new(&term, mode, level, &app->ui, err) < 0)
		return -1;
	app->host = args_value(args, OPT_HOST);
	app->wait = (unsigned)args_number(args, OPT_WAIT, 0);
	app->json = args_flag(args, OPT_JSON);
	if (args->command && args->command->needs & NEED_REPO)
		return find_repo(args, &app->repo, err);
	return 0;
}

void app_close(struct app *app)
{
	ui_free(app->ui);
	free(app->repo);
	if (app->cancel.fd >= 0)
		cancel_close(&app->cancel);
}
