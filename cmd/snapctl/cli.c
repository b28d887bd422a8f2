/* SPDX-License-Identifier: MIT */
#include "cli.h"

#include <stdlib.h>
#include <string.h>

#include <snapctl/base/mem.h>
#include <snapctl/base/text.h>

/* One occurrence of an option. */
struct given {
	enum opt_id id;
	const char *value; /* "" for a flag */
};

struct parser {
	int argc, at; /* at: the next one to look at */
	char **argv;
	struct args *args;
	struct given *given;
	size_t n_given;
};

bool cli_each_choice(const char *choices,
		     bool (*fn)(void *arg, const char *name, size_t n),
		     void *arg)
{
	while (choices && *choices) {
		size_t n = strcspn(choices, "|");

		if (fn(arg, choices, n))
			return true;
		choices += n + (choices[n] == '|');
	}
	return false;
}

static bool same_name(void *arg, const char *name, size_t n)
{
	const char *s = arg;

	return strlen(s) == n && memcmp(s, name, n) == 0;
}

static bool is_choice(const char *choices, const char *s)
{
	return cli_each_choice(choices, same_name, (void *)(uintptr_t)s);
}

/* -- values ------------------------------------------------------------- */

static bool parse_digits(const char **s, uint64_t *out)
{
	const char *p = *s;
	uint64_t v = 0;

	for (; *p >= '0' && *p <= '9'; p++)
		if (__builtin_mul_overflow(v, 10, &v) ||
		    __builtin_add_overflow(v, (uint64_t)(*p - '0'), &v))
			return false;
	if (p == *s)
		return false;
	*s = p;
	*out = v;
	return true;
}

static bool parse_number(const char *s, uint64_t *out)
{
	return parse_digits(&s, out) && !*s;
}

/* "4294967296", "4G", "4GiB"; decimal units would be a trap, so "GB" is
 * not taken. */
static bool parse_size(const char *s, uint64_t *out)
{
	static const char units[] = "KMGT";
	const char *u;

	if (!parse_digits(&s, out))
		return false;
	if (!*s)
		return true;
	u = strchr(units, *s >= 'a' ? *s - 'a' + 'A' : *s);
	if (!u || (s[1] && strcmp(s + 1, "iB") != 0))
		return false;
	for (; u >= units; u--)
		if (__builtin_mul_overflow(*out, 1024, out))
			return false;
	return true;
}

static int check_range(const struct cli_option *o, const char *value,
		       bool parsed, uint64_t v, struct sc_err *err)
{
	char min[16], max[16];

	if (parsed && v >= o->min && v <= o->max)
		return 0;
	if (o->kind == KIND_SIZE)
		return sc_fail(err, SC_EUSAGE, 0,
			       "--%s %s: a size from %s to %s is wanted, like "
			       "512M or 4G",
			       o->name, value, text_size(min, o->min),
			       text_size(max, o->max));
	return sc_fail(err, SC_EUSAGE, 0,
		       "--%s %s: a number from %llu to %llu is wanted", o->name,
		       value, (unsigned long long)o->min,
		       (unsigned long long)o->max);
}

static int check_value(struct args *args, enum opt_id id, const char *value,
		       struct sc_err *err)
{
	const struct cli_option *o = &cli_options[id];
	uint64_t *number = &args->number[id];
	bool ok;

	switch (o->kind) {
	case KIND_FLAG:
	case KIND_TEXT:
		return 0;
	case KIND_NAME:
	case KIND_LIST:
	case KIND_DIR:
		if (*value)
			return 0;
		return sc_fail(err, SC_EUSAGE, 0, "--%s: %s is empty", o->name,
			       o->value);
	case KIND_NUMBER:
		ok = parse_number(value, number);
		return check_range(o, value, ok, *number, err);
	case KIND_SIZE:
		ok = parse_size(value, number);
		return check_range(o, value, ok, *number, err);
	case KIND_CHOICE:
		break;
	}
	if (is_choice(o->choices, value))
		return 0;
	return sc_fail(err, SC_EUSAGE, 0, "--%s %s: one of %s is wanted",
		       o->name, value, o->choices);
}

/* -- options ------------------------------------------------------------ */

static int unknown_option(const struct parser *p, const char *name,
			  struct sc_err *err)
{
	const struct cli_command *c = p->args->command;
	const char *names[OPT_COUNT];
	auto_buf struct buf near = { 0 };
	size_t n = 0;

	for (size_t i = 0; i < OPT_COUNT; i++)
		if (!c || cli_option_of(&cli_options[i],
					(enum cmd_id)(c - cli_commands)))
			names[n++] = cli_options[i].name;
	text_near(&near, name, names, n);
	if (near.len && !near.failed)
		return sc_fail(err, SC_EUSAGE, 0,
			       "unknown option --%s (did you mean %s?)", name,
			       buf_cstr(&near));
	return sc_fail(err, SC_EUSAGE, 0, "unknown option --%s", name);
}

static int take(struct parser *p, enum opt_id id, const char *value,
		struct sc_err *err)
{
	if (check_value(p->args, id, value, err) < 0)
		return -1;
	p->given[p->n_given++] = (struct given){ id, value };
	p->args->count[id]++;
	return 0;
}

/* The value of an option that stands in the next argument. */
static int take_next(struct parser *p, enum opt_id id, struct sc_err *err)
{
	const struct cli_option *o = &cli_options[id];

	if (p->at >= p->argc)
		return sc_fail(err, SC_EUSAGE, 0, "--%s: %s is missing",
			       o->name, o->value);
	return take(p, id, p->argv[p->at++], err);
}

static int take_long(struct parser *p, const char *s, struct sc_err *err)
{
	size_t n = strcspn(s, "=");
	const char *value = s[n] ? s + n + 1 : NULL;
	auto_free char *name = strndup(s, n);

	if (!name)
		return sc_oom(err, "option");
	for (size_t i = 0; i < OPT_COUNT; i++) {
		const struct cli_option *o = &cli_options[i];

		if (strcmp(o->name, name) != 0)
			continue;
		if (o->kind == KIND_FLAG && value)
			return sc_fail(err, SC_EUSAGE, 0, "--%s takes no value",
				       o->name);
		if (o->kind == KIND_FLAG)
			return take(p, (enum opt_id)i, "", err);
		return value ? take(p, (enum opt_id)i, value, err)
			     : take_next(p, (enum opt_id)i, err);
	}
	return unknown_option(p, name, err);
}

/* s: what follows the dash. "-vv", "-pshop", "-p shop". */
static int take_short(struct parser *p, const char *s, struct sc_err *err)
{
	for (; *s; s++) {
		size_t i = 0;

		while (i < OPT_COUNT && cli_options[i].letter != *s)
			i++;
		if (i == OPT_COUNT)
			return sc_fail(err, SC_EUSAGE, 0, "unknown option -%c",
				       *s);
		if (cli_options[i].kind == KIND_FLAG) {
			if (take(p, (enum opt_id)i, "", err) < 0)
				return -1;
			continue;
		}
		return s[1] ? take(p, (enum opt_id)i, s + 1, err)
			    : take_next(p, (enum opt_id)i, err);
	}
	return 0;
}

/* -- words -------------------------------------------------------------- */

static int take_command(struct parser *p, const char *s, struct sc_err *err)
{
	const char *names[CMD_COUNT];
	auto_buf struct buf near = { 0 };

	for (size_t i = 0; i < CMD_COUNT; i++) {
		names[i] = cli_commands[i].name;
		if (strcmp(s, names[i]) == 0) {
			p->args->command = &cli_commands[i];
			return 0;
		}
	}
	text_near(&near, s, names, CMD_COUNT);
	if (near.len && !near.failed)
		return sc_fail(err, SC_EUSAGE, 0,
			       "unknown command %s (did you mean %s?)", s,
			       buf_cstr(&near));
	return sc_fail(err, SC_EUSAGE, 0, "unknown command %s", s);
}

static int take_word(struct parser *p, const char *s, struct sc_err *err)
{
	struct args *args = p->args;

	if (!*s) /* an unset variable in a script, more often than not */
		return sc_fail(err, SC_EUSAGE, 0, "an argument is empty");
	if (!args->command)
		return take_command(p, s, err);
	if (args->n_words >= args->command->max_words)
		return sc_fail(err, SC_EUSAGE, 0, "stray argument %s", s);
	args->words[args->n_words++] = s;
	return 0;
}

static int take_all(struct parser *p, struct sc_err *err)
{
	bool options = true;

	while (p->at < p->argc) {
		const char *s = p->argv[p->at++];
		int rc;

		if (options && strcmp(s, "--") == 0) {
			options = false;
			continue;
		}
		if (options && s[0] == '-' && s[1] == '-')
			rc = take_long(p, s + 2, err);
		else if (options && s[0] == '-' && s[1])
			rc = take_short(p, s + 1, err);
		else
			rc = take_word(p, s, err);
		if (rc < 0)
			return -1;
	}
	return 0;
}

/* -- the whole ---------------------------------------------------------- */

/* A counting sort: values of one option end up side by side, in order. */
static void group_values(struct parser *p)
{
	struct args *args = p->args;
	size_t fill[OPT_COUNT], sum = 0;

	for (size_t i = 0; i < OPT_COUNT; i++) {
		args->start[i] = fill[i] = sum;
		sum += args->count[i];
	}
	for (size_t i = 0; i < p->n_given; i++)
		args->values[fill[p->given[i].id]++] = p->given[i].value;
}

static int check_whole(const struct args *args, struct sc_err *err)
{
	const struct cli_command *c = args->command;

	if (args->count[OPT_HELP] || args->count[OPT_VERSION])
		return 0;
	if (!c)
		return sc_fail(err, SC_EUSAGE, 0, "a command is missing");
	for (size_t i = 0; i < OPT_COUNT; i++)
		if (args->count[i] &&
		    !cli_option_of(&cli_options[i],
				   (enum cmd_id)(c - cli_commands)))
			return sc_fail(err, SC_EUSAGE, 0,
				       "%s has no option --%s", c->name,
				       cli_options[i].name);
	if (args->n_words < c->min_words)
		return sc_fail(err, SC_EUSAGE, 0, "%s: %s is missing", c->name,
			       c->words);
	if (c->choices && args->n_words &&
	    !is_choice(c->choices, args->words[0]))
		return sc_fail(err, SC_EUSAGE, 0, "%s %s: one of %s is wanted",
			       c->name, args->words[0], c->choices);
	return 0;
}

int cli_parse(int argc, char **argv, struct args *args, struct sc_err *err)
{
	size_t n = argc > 0 ? (size_t)argc : 1;
	struct parser p = { .argc = argc, .at = 1, .argv = argv, .args = args };
	/* A bundle like -vv gives more options than arguments. */
	size_t most = n;
	int rc;

	for (int i = 1; i < argc; i++)
		most += strlen(argv[i]);
	*args = (struct args){ 0 };
	args->words = calloc(n, sizeof(*args->words));
	args->values = calloc(most, sizeof(*args->values));
	p.given = calloc(most, sizeof(*p.given));
	if (!args->words || !args->values || !p.given) {
		free(p.given);
		return sc_oom(err, "arguments");
	}
	rc = take_all(&p, err);
	group_values(&p);
	free(p.given);
	return rc < 0 ? -1 : check_whole(args, err);
}

void args_free(struct args *args)
{
	free(args->words);
	free(args->values);
	*args = (struct args){ 0 };
}

bool args_flag(const struct args *args, enum opt_id id)
{
	return args->count[id] > 0;
}

size_t args_count(const struct args *args, enum opt_id id)
{
	return args->count[id];
}

const char *args_value(const struct args *args, enum opt_id id)
{
	size_t n = args->count[id];

	return n ? args->values[args->start[id] + n - 1] : NULL;
}

const char *const *args_values(const struct args *args, enum opt_id id,
			       size_t *n)
{
	*n = args->count[id];
	return args->values + args->start[id];
}

uint64_t args_number(const struct args *args, enum opt_id id, uint64_t fallback)
{
	return args->count[id] ? args->number[id] : fallback;
}

const char *args_word(const struct args *args, size_t i)
{
	return i < args->n_words ? args->words[i] : NULL;
}
