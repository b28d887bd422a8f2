/* SPDX-License-Identifier: MIT */
/* The command line: one table row per command and per option (options.c).
 *
 * The rows feed the parser (cli.c), --help (help.c), the completion scripts
 * (completion.c), and tests/cli/man.bats holds the man page against --help.
 * To add an option: an id below and its row; a command: an id, its row, its
 * prototype in commands.h and its section in snapctl.1.
 *
 * An option name means the same in every command that has it. Options may
 * stand anywhere; "--" ends them. */
#ifndef SNAPCTL_CLI_H
#define SNAPCTL_CLI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <snapctl/base/buf.h>
#include <snapctl/base/err.h>

struct app;
struct args;

enum cmd_id {
	CMD_CREATE,
	CMD_RESTORE,
	CMD_LIST,
	CMD_SHOW,
	CMD_VERIFY,
	CMD_COMPLETION,
	CMD_VERSION,
	CMD_COUNT,
};

enum opt_id {
	OPT_PROJECT,
	OPT_VOLUME,
	OPT_EXCLUDE_VOLUME,
	OPT_BIND,
	OPT_TAG,
	OPT_MESSAGE,
	OPT_FULL,
	OPT_NO_STOP,
	OPT_NO_START,
	OPT_NO_SAFETY,
	OPT_ALLOW_INCOMPLETE,
	OPT_LEVEL,
	OPT_THREADS,
	OPT_MAX_PACK_SIZE,
	OPT_STOP_TIMEOUT,
	OPT_HEALTH_TIMEOUT,
	OPT_TRANSPORT,
	OPT_ALLOW_RM,
	OPT_IGNORE_SHARING,
	OPT_STOP_SHARING,
	OPT_STOP_ONEOFF,
	OPT_CAP_SYS_ADMIN,
	OPT_DEEP,
	OPT_DRY_RUN,
	OPT_JSON,
	/* global */
	OPT_REPO,
	OPT_HOST,
	OPT_WAIT,
	OPT_PROGRESS,
	OPT_VERBOSE,
	OPT_QUIET,
	OPT_HELP,
	OPT_VERSION,
	OPT_COUNT,
};

enum opt_kind {
	KIND_FLAG,   /* takes no value */
	KIND_NAME,   /* text, not empty; the last one counts */
	KIND_TEXT,   /* any text, also empty */
	KIND_LIST,   /* text, not empty; may be repeated */
	KIND_DIR,    /* a directory of this host */
	KIND_NUMBER, /* decimal, min to max */
	KIND_SIZE,   /* bytes, K M G T (binary), min to max */
	KIND_CHOICE, /* one of choices, separated by "|" */
};

#define CMD(c)	(1u << (CMD_##c))
#define CMD_ALL ((1u << CMD_COUNT) - 1)

struct cli_option {
	const char *name; /* without dashes */
	char letter;	  /* 0: none */
	enum opt_kind kind;
	const char *value;   /* as shown, "NAME"; NULL for a flag */
	const char *choices; /* of KIND_CHOICE */
	uint64_t min, max;   /* of KIND_NUMBER and KIND_SIZE */
	unsigned commands;   /* bits CMD(); CMD_ALL: global */
	const char *help;
};

enum cli_need {
	NEED_REPO = 1, /* app.repo is resolved before it runs */
};

struct cli_command {
	const char *name;
	const char *words; /* "[STACK] [SNAPSHOT]", "" for none */
	size_t min_words, max_words;
	const char *choices; /* of its first word, or NULL */
	unsigned needs;	     /* enum cli_need */
	/* Returns the exit status. */
	int (*run)(struct app *app, struct args *args);
	const char *summary; /* one line */
	const char *about;   /* what a reader of --help should know */
};

extern const struct cli_option cli_options[OPT_COUNT];
extern const struct cli_command cli_commands[CMD_COUNT];

/* What was given. Strings are those of argv (borrowed). */
struct args {
	const struct cli_command *command; /* NULL: none named */
	const char **words;		   /* after the command */
	size_t n_words;
	const char **values; /* of all options, grouped by option */
	size_t start[OPT_COUNT], count[OPT_COUNT];
	uint64_t number[OPT_COUNT]; /* of KIND_NUMBER and KIND_SIZE */
};

/* Fills *args (any content before is overwritten); args_free it also after
 * -1. -1 with SC_EUSAGE: wrong; args->command and what came before the fault
 * are set, so that the hint can name the command and -q counts. */
int cli_parse(int argc, char **argv, struct args *args, struct sc_err *err);
void args_free(struct args *args);

bool args_flag(const struct args *args, enum opt_id id);
size_t args_count(const struct args *args, enum opt_id id);
/* The last one given, or NULL. */
const char *args_value(const struct args *args, enum opt_id id);
/* All given, in order; *n their number, 0 with any pointer for none. */
const char *const *args_values(const struct args *args, enum opt_id id,
			       size_t *n);
uint64_t args_number(const struct args *args, enum opt_id id,
		     uint64_t fallback);
/* Word i after the command, or NULL. */
const char *args_word(const struct args *args, size_t i);

static inline bool cli_option_of(const struct cli_option *o, enum cmd_id c)
{
	return (o->commands >> c & 1) != 0;
}

static inline bool cli_option_global(const struct cli_option *o)
{
	return o->commands == CMD_ALL;
}

/* Calls fn for each name in "a|b|c" (none for NULL) until it returns true. */
bool cli_each_choice(const char *choices,
		     bool (*fn)(void *arg, const char *name, size_t n),
		     void *arg);

/* -- help.c ---------------------------------------------------------------- */

/* "snapctl create [OPTION...] [STACK]"; c NULL: of the program. */
void help_usage(struct buf *out, const struct cli_command *c);
void help_program(struct buf *out);
void help_command(struct buf *out, const struct cli_command *c);

#endif
