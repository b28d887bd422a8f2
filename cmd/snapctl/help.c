/* SPDX-License-Identifier: MIT */
#include "cli.h"

#include <string.h>

#define WIDTH	    79
#define HELP_COLUMN 30

/* text broken at spaces, from column at on; other lines start at indent. */
static void wrap(struct buf *out, const char *text, size_t at, size_t indent)
{
	bool first = true;

	while (*text) {
		size_t n = strcspn(text, " ");

		if (!first && at + 1 + n > WIDTH) {
			buf_printf(out, "\n%*s", (int)indent, "");
			at = indent;
		} else if (!first) {
			buf_put(out, " ", 1);
			at++;
		}
		buf_put(out, text, n);
		at += n;
		text += n + (text[n] == ' ');
		first = false;
	}
	buf_put(out, "\n", 1);
}

static void put_entry(struct buf *out, const char *left, const char *text)
{
	size_t at = 2 + strlen(left);

	buf_printf(out, "  %s", left);
	if (at + 2 > HELP_COLUMN) {
		buf_put(out, "\n", 1);
		at = 0;
	}
	buf_printf(out, "%*s", (int)(HELP_COLUMN - at), "");
	wrap(out, text, HELP_COLUMN, HELP_COLUMN);
}

static void put_option(struct buf *out, const struct cli_option *o)
{
	auto_buf struct buf left = { 0 };
	const char *s;

	if (o->letter)
		buf_printf(&left, "-%c, ", o->letter);
	else
		buf_printf(&left, "    ");
	buf_printf(&left, "--%s", o->name);
	if (o->value)
		buf_printf(&left, " %s", o->value);
	s = buf_cstr(&left);
	if (s)
		put_entry(out, s, o->help);
	else
		out->failed = true;
}

static void put_global_options(struct buf *out)
{
	buf_printf(out, "\nGlobal options:\n");
	for (size_t i = 0; i < OPT_COUNT; i++)
		if (cli_option_global(&cli_options[i]))
			put_option(out, &cli_options[i]);
}

void help_usage(struct buf *out, const struct cli_command *c)
{
	if (c)
		buf_printf(out, "snapctl %s [OPTION...]%s%s", c->name,
			   *c->words ? " " : "", c->words);
	else
		buf_printf(out, "snapctl [OPTION...] COMMAND [ARGUMENT...]");
}

void help_program(struct buf *out)
{
	buf_printf(out, "Usage: ");
	help_usage(out, NULL);
	buf_printf(out,
		   "\n\nSnapshots the volumes of Docker Compose stacks and "
		   "rolls them back.\n\nCommands:\n");
	for (size_t i = 0; i < CMD_COUNT; i++)
		put_entry(out, cli_commands[i].name, cli_commands[i].summary);
	put_global_options(out);
	buf_printf(out, "\nSee snapctl COMMAND --help, and snapctl(1).\n");
}

void help_command(struct buf *out, const struct cli_command *c)
{
	enum cmd_id id = (enum cmd_id)(c - cli_commands);
	bool titled = false;

	buf_printf(out, "Usage: ");
	help_usage(out, c);
	buf_printf(out, "\n\n");
	wrap(out, c->about, 0, 0);
	for (size_t i = 0; i < OPT_COUNT; i++) {
		if (cli_option_global(&cli_options[i]) ||
		    !cli_option_of(&cli_options[i], id))
			continue;
		if (!titled)
			buf_printf(out, "\nOptions:\n");
		titled = true;
		put_option(out, &cli_options[i]);
	}
	put_global_options(out);
}
