/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <jansson.h>
#include <stdlib.h>

#include "ui/screen.h"

static struct ui *ui_on(struct screen *s, enum ui_mode mode, int level,
			bool tty, bool colour)
{
	struct ui_term t = screen_term(s, tty);
	struct ui *ui;

	t.colour = colour;
	assert_int_equal(ui_new(&t, mode, level, &ui, NULL), 0);
	return ui;
}

static void all_kinds(struct ui *ui)
{
	ui_error(ui, "e%d", 1);
	ui_warn(ui, "w%d", 2);
	ui_note(ui, "n%d", 3);
	ui_detail(ui, "d%d", 4);
}

static void levels_choose(void **state)
{
	static const struct {
		int level;
		const char *want;
	} t[] = {
		{ UI_QUIET, "error: e1\nwarning: w2\n" },
		{ UI_NORMAL, "error: e1\nwarning: w2\nsnapctl: n3\n" },
		{ UI_VERBOSE,
		  "error: e1\nwarning: w2\nsnapctl: n3\nsnapctl: d4\n" },
	};

	(void)state;
	for (size_t i = 0; i < 3; i++) {
		struct screen *s = screen_new(80, 24);
		struct ui *ui = ui_on(s, UI_AUTO, t[i].level, false, false);

		all_kinds(ui);
		assert_string_equal(buf_cstr(&s->raw), t[i].want);
		ui_free(ui);
		screen_free(s);
	}
}

static void one_call_is_one_harmless_line(void **state)
{
	struct screen *s = screen_new(80, 24);
	struct ui *ui = ui_on(s, UI_AUTO, 0, false, false);

	(void)state;
	ui_warn(ui, "volume %s\n", "a\nsnapctl: all is well\033[2J\xff");
	ui_error(ui, "name \\x1b kept as it is\n\n");
	ui_note(ui, "%s", "");
	assert_string_equal(
		buf_cstr(&s->raw),
		"warning: volume a\\nsnapctl: all is well\\x1b[2J\\xff\n"
		"error: name \\x1b kept as it is\n"
		"snapctl: \n");
	ui_free(ui);
	screen_free(s);
}

static void json_messages_parse(void **state)
{
	struct screen *s = screen_new(80, 24);
	struct ui *ui = ui_on(s, UI_JSON, UI_QUIET, false, false);
	json_t *o;

	(void)state;
	ui_note(ui, "not shown when quiet");
	ui_error(ui, "bad \"name\" \xff\n");
	o = json_loads(buf_cstr(&s->raw), 0, NULL);
	assert_non_null(o);
	assert_string_equal(json_string_value(json_object_get(o, "type")),
			    "message");
	assert_string_equal(json_string_value(json_object_get(o, "level")),
			    "error");
	assert_string_equal(json_string_value(json_object_get(o, "text")),
			    "bad \"name\" \\xff");
	json_decref(o);
	ui_free(ui);
	screen_free(s);
}

/* The screen would abort on a colour: only the bytes are looked at. */
static int raw_write(void *arg, const char *p, size_t n, bool drop)
{
	(void)drop;
	buf_put(arg, p, n);
	return 1;
}

static void colour_only_when_wanted(void **state)
{
	auto_buf struct buf b = { 0 };
	struct ui_term t = { .write = raw_write, .arg = &b, .colour = true };
	struct ui *ui;

	(void)state;
	assert_int_equal(ui_new(&t, UI_NONE, 0, &ui, NULL), 0);
	all_kinds(ui);
	assert_string_equal(buf_cstr(&b), "\033[1;31merror:\033[0m e1\n"
					  "\033[1;33mwarning:\033[0m w2\n"
					  "snapctl: n3\n");
	ui_free(ui);
}

static void stderr_obeys_the_environment(void **state)
{
	(void)state;
	assert_int_equal(setenv("TERM", "dumb", 1), 0);
	assert_false(ui_term_stderr().tty);
	assert_int_equal(unsetenv("TERM"), 0);
	assert_false(ui_term_stderr().tty);
	assert_int_equal(setenv("NO_COLOR", "1", 1), 0);
	assert_false(ui_term_stderr().colour);
}

static void lost_stderr_is_survived(void **state)
{
	struct screen *s = screen_new(80, 24);
	struct ui *ui = ui_on(s, UI_AUTO, 0, false, false);

	(void)state;
	s->gone = true;
	ui_error(ui, "nobody reads this");
	s->gone = false;
	ui_error(ui, "nor this");
	assert_int_equal(s->raw.len, 0);
	ui_free(ui);
	screen_free(s);
}

static void nothing_is_lost_at_the_end(void **state)
{
	struct screen *s = screen_new(80, 24);
	struct ui *ui = ui_on(s, UI_AUTO, 0, false, false);

	(void)state;
	s->stuck = true;
	ui_error(ui, "kept");
	assert_int_equal(s->raw.len, 0);
	ui_free(ui); /* insists */
	assert_string_equal(buf_cstr(&s->raw), "error: kept\n");
	screen_free(s);
}

static void modes(void **state)
{
	static const char *const name[] = { "auto", "tty", "plain", "json",
					    "none" };
	struct screen *s = screen_new(80, 24);
	enum ui_mode m;
	struct ui *ui;

	(void)state;
	for (size_t i = 0; i < 5; i++) {
		assert_true(ui_mode_parse(name[i], &m));
		assert_int_equal(m, i);
	}
	assert_false(ui_mode_parse("TTY", &m));
	assert_false(ui_mode_parse("", &m));
	ui = ui_on(s, UI_AUTO, 0, true, false);
	assert_int_equal(ui_mode(ui), UI_TTY);
	ui_free(ui);
	ui = ui_on(s, UI_AUTO, 0, false, false);
	assert_int_equal(ui_mode(ui), UI_PLAIN);
	ui_free(ui);
	ui = ui_on(s, UI_TTY, UI_QUIET, true, false);
	assert_int_equal(ui_mode(ui), UI_NONE);
	ui_free(ui);
	screen_free(s);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(levels_choose),
		cmocka_unit_test(one_call_is_one_harmless_line),
		cmocka_unit_test(json_messages_parse),
		cmocka_unit_test(colour_only_when_wanted),
		cmocka_unit_test(stderr_obeys_the_environment),
		cmocka_unit_test(lost_stderr_is_survived),
		cmocka_unit_test(nothing_is_lost_at_the_end),
		cmocka_unit_test(modes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
