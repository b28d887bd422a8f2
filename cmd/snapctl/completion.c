/* SPDX-License-Identifier: MIT */
/* Completion scripts, written from the tables. They complete commands,
 * options, and values that are known without an engine or a repository. */
#include <string.h>

#include "app.h"
#include "cli.h"
#include "commands.h"

static bool put_choice(void *arg, const char *name, size_t n)
{
	buf_printf(arg, "%.*s ", (int)n, name);
	return false;
}

static void put_choices(struct buf *out, const char *choices)
{
	(void)cli_each_choice(choices, put_choice, out);
	if (!out->failed && out->len && out->p[out->len - 1] == ' ')
		out->len--;
}

/* s within single quotes of sh, zsh and (with its \') fish. special: bytes
 * that get a backslash as well. */
static void put_quoted(struct buf *out, const char *s, const char *special,
		       const char *quote)
{
	for (; *s; s++) {
		if (*s == '\'') {
			buf_printf(out, "%s", quote);
			continue;
		}
		if (strchr(special, *s))
			buf_put(out, "\\", 1);
		buf_put(out, s, 1);
	}
}

/* -- bash ----------------------------------------------------------------- */

/* The case labels "-p|--project". */
static void bash_labels(struct buf *out, const struct cli_option *o)
{
	if (o->letter)
		buf_printf(out, "-%c|", o->letter);
	buf_printf(out, "--%s", o->name);
}

static void bash_values(struct buf *out)
{
	buf_printf(out, "\tcase $prev in\n");
	for (size_t i = 0; i < OPT_COUNT; i++) {
		const struct cli_option *o = &cli_options[i];

		if (o->kind == KIND_FLAG)
			continue;
		buf_printf(out, "\t");
		bash_labels(out, o);
		buf_printf(out, ")\n");
		if (o->kind == KIND_CHOICE) {
			buf_printf(out, "\t\tCOMPREPLY=($(compgen -W '");
			put_choices(out, o->choices);
			buf_printf(out, "' -- \"$cur\"))\n");
		} else if (o->kind == KIND_DIR) {
			buf_printf(out, "\t\tcompopt -o filenames\n"
					"\t\tmapfile -t COMPREPLY < "
					"<(compgen -d -- \"$cur\")\n");
		}
		buf_printf(out, "\t\treturn ;;\n");
	}
	buf_printf(out, "\tesac\n");
}

/* Finds the command among the words before the cursor. */
static void bash_command(struct buf *out)
{
	buf_printf(out, "\tfor ((i = 1; i < COMP_CWORD; i++)); do\n"
			"\t\tcase ${COMP_WORDS[i]} in\n\t\t");
	for (size_t i = 0, n = 0; i < OPT_COUNT; i++)
		if (cli_options[i].kind != KIND_FLAG) {
			buf_printf(out, "%s", n++ ? "|" : "");
			bash_labels(out, &cli_options[i]);
		}
	buf_printf(out, ")\n"
			"\t\t\t[ \"${COMP_WORDS[i + 1]}\" = = ] && ((i++))\n"
			"\t\t\t((i++)) ;;\n"
			"\t\t-*) ;;\n"
			"\t\t*) cmd=${COMP_WORDS[i]}; break ;;\n"
			"\t\tesac\n"
			"\tdone\n");
}

static void bash_words(struct buf *out, size_t cmd)
{
	for (size_t i = 0; i < OPT_COUNT; i++) {
		const struct cli_option *o = &cli_options[i];

		if (cmd < CMD_COUNT ? cli_option_of(o, (enum cmd_id)cmd)
				    : cli_option_global(o))
			buf_printf(out, " --%s", o->name);
	}
}

static void bash_script(struct buf *out)
{
	buf_printf(out, "# bash completion for snapctl\n"
			"_snapctl()\n{\n"
			"\tlocal cur=${COMP_WORDS[COMP_CWORD]} cmd= words= i\n"
			"\tlocal prev=${COMP_WORDS[COMP_CWORD - 1]}\n"
			"\tCOMPREPLY=()\n"
			"\t# --option=value comes as three words\n"
			"\tif [ \"$cur\" = = ]; then\n"
			"\t\tcur=\n"
			"\telif [ \"$prev\" = = ]; then\n"
			"\t\tprev=${COMP_WORDS[COMP_CWORD - 2]}\n"
			"\tfi\n");
	bash_values(out);
	bash_command(out);
	buf_printf(out, "\tcase $cmd in\n");
	for (size_t i = 0; i < CMD_COUNT; i++) {
		buf_printf(out, "\t%s) words='", cli_commands[i].name);
		put_choices(out, cli_commands[i].choices);
		bash_words(out, i);
		buf_printf(out, "' ;;\n");
	}
	buf_printf(out, "\t'') words='");
	for (size_t i = 0; i < CMD_COUNT; i++)
		buf_printf(out, "%s%s", i ? " " : "", cli_commands[i].name);
	bash_words(out, CMD_COUNT);
	buf_printf(out, "' ;;\n\tesac\n"
			"\tCOMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n"
			"}\ncomplete -F _snapctl snapctl\n");
}

/* -- zsh ------------------------------------------------------------------ */

static void zsh_option(struct buf *out, const struct cli_option *o)
{
	const char *many = o->kind == KIND_LIST ? "*" : "";
	const char *joined = o->value ? "=" : ""; /* also --name=value */

	buf_printf(out, " \\\n\t\t");
	if (o->letter)
		buf_printf(out, "'(-%c --%s)'{-%c%s,--%s%s}'[", o->letter,
			   o->name, o->letter, o->value ? "+" : "", o->name,
			   joined);
	else
		buf_printf(out, "'%s--%s%s[", many, o->name, joined);
	put_quoted(out, o->help, "[]:", "'\\''");
	buf_printf(out, "]");
	if (o->value)
		buf_printf(out, ":%s:", o->value);
	if (o->kind == KIND_CHOICE) {
		buf_printf(out, "(");
		put_choices(out, o->choices);
		buf_printf(out, ")");
	} else if (o->kind == KIND_DIR) {
		buf_printf(out, "_files -/");
	}
	buf_printf(out, "'");
}

static void zsh_command(struct buf *out, size_t cmd)
{
	const struct cli_command *c = &cli_commands[cmd];

	buf_printf(out, "\t%s) _arguments", c->name);
	for (size_t i = 0; i < OPT_COUNT; i++)
		if (cli_option_of(&cli_options[i], (enum cmd_id)cmd))
			zsh_option(out, &cli_options[i]);
	if (c->choices) {
		buf_printf(out, " \\\n\t\t'1:%s:(", c->words);
		put_choices(out, c->choices);
		buf_printf(out, ")'");
	}
	buf_printf(out, " ;;\n");
}

static void zsh_script(struct buf *out)
{
	buf_printf(out, "#compdef snapctl\n"
			"_snapctl() {\n"
			"\tlocal context state state_descr line\n"
			"\ttypeset -A opt_args\n"
			"\tlocal -a commands\n"
			"\tcommands=(\n");
	for (size_t i = 0; i < CMD_COUNT; i++) {
		buf_printf(out, "\t\t'%s:", cli_commands[i].name);
		put_quoted(out, cli_commands[i].summary, ":", "'\\''");
		buf_printf(out, "'\n");
	}
	buf_printf(out, "\t)\n\t_arguments -C");
	for (size_t i = 0; i < OPT_COUNT; i++)
		if (cli_option_global(&cli_options[i]))
			zsh_option(out, &cli_options[i]);
	buf_printf(out, " \\\n\t\t'1: :->command' '*:: :->rest'\n"
			"\tif [[ $state == command ]]; then\n"
			"\t\t_describe command commands\n"
			"\t\treturn\n"
			"\tfi\n"
			"\t[[ $state == rest ]] || return\n"
			"\tcase $words[1] in\n");
	for (size_t i = 0; i < CMD_COUNT; i++)
		zsh_command(out, i);
	buf_printf(out, "\tesac\n}\n"
			"if [[ $funcstack[1] == _snapctl ]]; then\n"
			"\t_snapctl \"$@\"\n"
			"else\n"
			"\tcompdef _snapctl snapctl\n"
			"fi\n");
}

/* -- fish ----------------------------------------------------------------- */

static void fish_seen(struct buf *out, const struct cli_option *o)
{
	buf_printf(out, " -n '__fish_seen_subcommand_from");
	for (size_t i = 0; i < CMD_COUNT; i++)
		if (cli_option_of(o, (enum cmd_id)i))
			buf_printf(out, " %s", cli_commands[i].name);
	buf_printf(out, "'");
}

static void fish_option(struct buf *out, const struct cli_option *o)
{
	buf_printf(out, "complete -c snapctl");
	if (!cli_option_global(o))
		fish_seen(out, o);
	buf_printf(out, " -l %s", o->name);
	if (o->letter)
		buf_printf(out, " -s %c", o->letter);
	if (o->kind == KIND_CHOICE) {
		buf_printf(out, " -xa '");
		put_choices(out, o->choices);
		buf_printf(out, "'");
	} else if (o->kind == KIND_DIR) {
		buf_printf(out, " -xa '(__fish_complete_directories)'");
	} else if (o->kind != KIND_FLAG) {
		buf_printf(out, " -x");
	}
	buf_printf(out, " -d '");
	put_quoted(out, o->help, "\\", "\\'");
	buf_printf(out, "'\n");
}

static void fish_script(struct buf *out)
{
	buf_printf(out, "# fish completion for snapctl\n"
			"complete -c snapctl -f\n");
	for (size_t i = 0; i < CMD_COUNT; i++) {
		const struct cli_command *c = &cli_commands[i];

		buf_printf(out,
			   "complete -c snapctl -n __fish_use_subcommand "
			   "-a %s -d '",
			   c->name);
		put_quoted(out, c->summary, "\\", "\\'");
		buf_printf(out, "'\n");
		if (!c->choices)
			continue;
		buf_printf(out,
			   "complete -c snapctl -n "
			   "'__fish_seen_subcommand_from %s' -a '",
			   c->name);
		put_choices(out, c->choices);
		buf_printf(out, "'\n");
	}
	for (size_t i = 0; i < OPT_COUNT; i++)
		fish_option(out, &cli_options[i]);
}

int cmd_completion(struct app *app, struct args *args)
{
	const char *shell = args_word(args, 0);
	auto_buf struct buf out = { 0 };
	struct sc_err err = { 0 };

	/* The parser let through only what the command's row lists. */
	if (strcmp(shell, "bash") == 0)
		bash_script(&out);
	else if (strcmp(shell, "zsh") == 0)
		zsh_script(&out);
	else
		fish_script(&out);
	return app_print(&out, &err) < 0 ? app_fail(app, &err) : EXIT_DONE;
}
