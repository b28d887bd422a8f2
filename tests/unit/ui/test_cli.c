/* SPDX-License-Identifier: MIT */
/* The parser with its real tables; only the commands are stand-ins. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>

#include "../../../cmd/snapctl/cli.c"
#include "../../../cmd/snapctl/options.c"

#define STAND_IN(name)                               \
	int name(struct app *app, struct args *args) \
	{                                            \
		(void)app;                           \
		(void)args;                          \
		return 0;                            \
	}
STAND_IN(cmd_create)
STAND_IN(cmd_restore)
STAND_IN(cmd_list)
STAND_IN(cmd_show)
STAND_IN(cmd_verify)
STAND_IN(cmd_completion)
STAND_IN(cmd_version)

/* Splits line at spaces, '' being an empty argument, and parses it. */
static int parse(const char *line, struct args *args, struct sc_err *err)
{
	static char text[512]; /* args borrow from it */
	char *argv[32] = { (char *)(uintptr_t) "snapctl" }, *save = NULL;
	int argc = 1;

	strcpy(text, line);
	for (char *s = strtok_r(text, " ", &save); s;
	     s = strtok_r(NULL, " ", &save))
		argv[argc++] = strcmp(s, "''") == 0 ? s + 2 : s;
	return cli_parse(argc, argv, args, err);
}

static void refused(const char *line, const char *why)
{
	struct args args;
	struct sc_err err = { 0 };

	assert_int_equal(parse(line, &args, &err), -1);
	assert_int_equal(err.code, SC_EUSAGE);
	assert_string_equal(err.msg, why);
	args_free(&args);
}

static void all_ways_to_give_a_value(void **state)
{
	static const char *const lines[] = {
		"create -p shop",	   "create -pshop",
		"create --project shop",   "create --project=shop",
		"-p shop create",	   "--project=shop create",
		"create -p other -p shop",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(lines); i++) {
		struct args args;

		assert_int_equal(parse(lines[i], &args, NULL), 0);
		assert_ptr_equal(args.command, &cli_commands[CMD_CREATE]);
		assert_string_equal(args_value(&args, OPT_PROJECT), "shop");
		assert_int_equal(args.n_words, 0);
		args_free(&args);
	}
}

static void values_are_grouped_in_order(void **state)
{
	struct args args;
	const char *const *v;
	size_t n;

	(void)state;
	assert_int_equal(parse("--volume a create --tag t --volume=b -vv shop "
			       "--volume c --tag u -m '' --wait=7",
			       &args, NULL),
			 0);
	v = args_values(&args, OPT_VOLUME, &n);
	assert_int_equal(n, 3);
	assert_string_equal(v[0], "a");
	assert_string_equal(v[1], "b");
	assert_string_equal(v[2], "c");
	v = args_values(&args, OPT_TAG, &n);
	assert_int_equal(n, 2);
	assert_string_equal(v[0], "t");
	assert_string_equal(v[1], "u");
	args_values(&args, OPT_BIND, &n);
	assert_int_equal(n, 0);
	assert_string_equal(args_value(&args, OPT_MESSAGE), "");
	assert_null(args_value(&args, OPT_PROJECT));
	assert_int_equal(args_count(&args, OPT_VERBOSE), 2);
	assert_true(args_flag(&args, OPT_VERBOSE));
	assert_false(args_flag(&args, OPT_FULL));
	assert_int_equal(args_number(&args, OPT_WAIT, 1), 7);
	assert_int_equal(args_number(&args, OPT_LEVEL, 3), 3);
	assert_string_equal(args_word(&args, 0), "shop");
	assert_null(args_word(&args, 1));
	args_free(&args);
}

static void two_dashes_end_options(void **state)
{
	struct args args;

	(void)state;
	assert_int_equal(parse("restore -- --full -p", &args, NULL), 0);
	assert_string_equal(args_word(&args, 0), "--full");
	assert_string_equal(args_word(&args, 1), "-p");
	args_free(&args);
	assert_int_equal(parse("create -p -- -", &args, NULL), 0);
	assert_string_equal(args_value(&args, OPT_PROJECT), "--");
	assert_string_equal(args_word(&args, 0), "-");
	args_free(&args);
}

static void size_is(const char *s, uint64_t want)
{
	struct args args;
	char line[128];

	snprintf(line, sizeof(line), "create --max-pack-size %s", s);
	assert_int_equal(parse(line, &args, NULL), 0);
	assert_int_equal(args_number(&args, OPT_MAX_PACK_SIZE, 0), want);
	args_free(&args);
}

static void sizes_are_binary(void **state)
{
	static const char *const bad[] = {
		"7M",
		"1025G",
		"4GB",
		"1.5G",
		"G",
		"-1",
		"+9M",
		"0x10M",
		"9Q",
		"99999999999999999999",
		"18446744073709551615T",
		"9 M",
		"9Mi",
	};

	(void)state;
	size_is("8388608", 8 * MIB);
	size_is("8M", 8 * MIB);
	size_is("8192k", 8 * MIB);
	size_is("4GiB", 4096 * MIB);
	size_is("1t", MIB * MIB);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		uint64_t v;

		assert_false(parse_size(bad[i], &v) &&
			     check_range(&cli_options[OPT_MAX_PACK_SIZE],
					 bad[i], true, v, NULL) == 0);
	}
}

static void wrong_lines_say_why(void **state)
{
	(void)state;
	refused("''", "an argument is empty");
	refused("crate", "unknown command crate (did you mean create?)");
	refused("frobnicate", "unknown command frobnicate");
	refused("create a b", "stray argument b");
	refused("version x", "stray argument x");
	refused("create ''", "an argument is empty");
	refused("create --ful", "unknown option --ful (did you mean full?)");
	refused("create --=x", "unknown option --");
	refused("list --deep", "list has no option --deep");
	refused("completion --json bash", "completion has no option --json");
	refused("create -x", "unknown option -x");
	refused("create --full=yes", "--full takes no value");
	refused("create --volume", "--volume: NAME is missing");
	refused("create -p", "--project: NAME is missing");
	refused("create --volume=", "--volume: NAME is empty");
	refused("create --level 20",
		"--level 20: a number from 1 to 19 is wanted");
	refused("create --level 3x",
		"--level 3x: a number from 1 to 19 is wanted");
	refused("create --wait 18446744073709551617",
		"--wait 18446744073709551617: a number from 0 to 31536000 is "
		"wanted");
	refused("create --transport bus",
		"--transport bus: one of socket|attach is wanted");
	refused("create --transport sock",
		"--transport sock: one of socket|attach is wanted");
	refused("show", "show: SNAPSHOT is missing");
	refused("completion ksh",
		"completion ksh: one of bash|zsh|fish is wanted");
	refused("-v", "a command is missing");
}

static void help_needs_nothing_else(void **state)
{
	struct args args;

	(void)state;
	assert_int_equal(parse("--help", &args, NULL), 0);
	assert_null(args.command);
	args_free(&args);
	assert_int_equal(parse("show -h", &args, NULL), 0);
	assert_ptr_equal(args.command, &cli_commands[CMD_SHOW]);
	args_free(&args);
}

/* What the tables promise to the parser, help and completion. */
static void tables_are_whole(void **state)
{
	(void)state;
	for (size_t i = 0; i < OPT_COUNT; i++) {
		const struct cli_option *o = &cli_options[i];

		assert_non_null(o->name);
		assert_non_null(o->help);
		assert_true(o->commands != 0);
		assert_int_equal(o->value == NULL, o->kind == KIND_FLAG);
		assert_int_equal(o->choices != NULL, o->kind == KIND_CHOICE);
		for (size_t k = 0; k < i; k++) {
			assert_string_not_equal(o->name, cli_options[k].name);
			assert_false(o->letter &&
				     o->letter == cli_options[k].letter);
		}
	}
	for (size_t i = 0; i < CMD_COUNT; i++) {
		assert_non_null(cli_commands[i].name);
		assert_non_null(cli_commands[i].run);
		assert_non_null(cli_commands[i].summary);
		assert_non_null(cli_commands[i].about);
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_ways_to_give_a_value),
		cmocka_unit_test(values_are_grouped_in_order),
		cmocka_unit_test(two_dashes_end_options),
		cmocka_unit_test(sizes_are_binary),
		cmocka_unit_test(wrong_lines_say_why),
		cmocka_unit_test(help_needs_nothing_else),
		cmocka_unit_test(tables_are_whole),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
