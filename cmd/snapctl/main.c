/* SPDX-License-Identifier: MIT */
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "app.h"
#include "cli.h"

/* Started with one of them closed, the next file opened would take its place
 * and be written to by a message. */
static int have_standard_fds(void)
{
	int fd;

	do
		fd = open("/dev/null", O_RDWR);
	while (fd >= 0 && fd <= STDERR_FILENO);
	return fd < 0 || close(fd) < 0 ? -1 : 0;
}

static int usage_error(struct app *app, const struct args *args,
		       const struct sc_err *err)
{
	const struct cli_command *c = args->command;
	auto_buf struct buf usage = { 0 };
	const char *s;

	ui_error(app->ui, "%s", err->msg);
	help_usage(&usage, c);
	s = buf_cstr(&usage);
	if (s && app_status(err) == EXIT_USAGE)
		ui_note(app->ui, "usage: %s; see snapctl %s%s--help", s,
			c ? c->name : "", c ? " " : "");
	return app_status(err);
}

/* --help and --version: asked for, so on stdout. */
static int print_info(struct app *app, const struct args *args)
{
	auto_buf struct buf out = { 0 };
	struct sc_err err = { 0 };

	if (!args_flag(args, OPT_HELP))
		buf_printf(&out, "snapctl %s\n", SNAPCTL_VERSION);
	else if (args->command)
		help_command(&out, args->command);
	else
		help_program(&out);
	return app_print(&out, &err) < 0 ? app_fail(app, &err) : EXIT_DONE;
}

static int run(struct app *app, struct args *args)
{
	struct sc_err err = { 0 };

	if (cancel_init(&app->cancel, &err) < 0) {
		app->cancel.fd = app->cancel.wfd = -1;
		return app_fail(app, &err);
	}
	if (cancel_on_signals(&app->cancel, &err) < 0)
		return app_fail(app, &err);
	return args->command->run(app, args);
}

int main(int argc, char **argv)
{
	struct sc_err parse = { 0 }, err = { 0 };
	struct app app;
	struct args args;
	int bad, status;

	if (have_standard_fds() < 0)
		return EXIT_FAILED;
	bad = cli_parse(argc, argv, &args, &parse);
	if (app_open(&app, &args, &err) < 0 && !app.ui) {
		/* Not even messages can be made. */
		dprintf(STDERR_FILENO, "error: %s\n", err.msg);
		status = app_status(&err);
	} else if (bad < 0) {
		status = usage_error(&app, &args, &parse);
	} else if (args_flag(&args, OPT_HELP) ||
		   args_flag(&args, OPT_VERSION)) {
		status = print_info(&app, &args);
	} else if (err.code) {
		status = app_fail(&app, &err);
	} else {
		status = run(&app, &args);
	}
	app_close(&app);
	args_free(&args);
	return status;
}
