/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include <snapctl/base/mem.h>
#include <snapctl/ui/table.h>
#include <snapctl/ui/width.h>

static void table_is(const struct ui_table *t, const char *want)
{
	auto_buf struct buf b = { 0 };

	assert_int_equal(ui_table_format(t, &b, NULL), 0);
	assert_string_equal(buf_cstr(&b), want);
}

static void columns_are_aligned(void **state)
{
	static const struct ui_column cols[] = { { "NAME", false },
						 { "SIZE", true },
						 { "NOTE", false } };
	auto_table struct ui_table *t = NULL;

	(void)state;
	assert_int_equal(ui_table_new(cols, 3, &t, NULL), 0);
	table_is(t, "NAME  SIZE  NOTE\n");
	ui_table_name(t, "db");
	ui_table_cell(t, "%d MiB", 1234);
	ui_table_name(t, "before 2.0");
	ui_table_name(t, "a\n\x1b[2J\xff");
	ui_table_cell(t, "5 B");
	ui_table_name(t, "");
	table_is(t, "NAME                SIZE  NOTE\n"
		    "db              1234 MiB  before 2.0\n"
		    "a\\n\\x1b[2J\\xff       5 B\n");
}

static void wide_names_line_up(void **state)
{
	static const struct ui_column cols[] = { { NULL, false },
						 { NULL, false } };
	auto_table struct ui_table *t = NULL;

	(void)state;
	assert_int_equal(ui_table_new(cols, 2, &t, NULL), 0);
	ui_table_name(t, "\xe6\x97\xa5\xe6\x9c\xac"); /* four columns */
	ui_table_cell(t, "x");
	ui_table_name(t, "Gr\xc3\xb6\xc3\x9f"
			 "e"); /* five */
	ui_table_cell(t, "y");
	table_is(t, "\xe6\x97\xa5\xe6\x9c\xac   x\n"
		    "Gr\xc3\xb6\xc3\x9f"
		    "e  y\n");
}

static void half_a_row_is_printed(void **state)
{
	static const struct ui_column cols[] = { { "A", false },
						 { "B", false } };
	auto_table struct ui_table *t = NULL;

	(void)state;
	assert_int_equal(ui_table_new(cols, 2, &t, NULL), 0);
	ui_table_cell(t, "one");
	table_is(t, "A    B\none\n");
}

static void fits(const char *s, size_t cols, const char *want)
{
	auto_buf struct buf b = { 0 };

	ui_fit(&b, s, strlen(s), cols);
	assert_string_equal(buf_cstr(&b), want);
}

static void fit_keeps_the_end(void **state)
{
	(void)state;
	assert_int_equal(ui_width("", 0), 0);
	assert_int_equal(ui_width("e\xcc\x81", 3), 1); /* combining acute */
	fits("abc", 5, "abc  ");
	fits("abc", 3, "abc");
	fits("abcdef", 5, "...ef");
	fits("abcdef", 2, "..");
	fits("abcdef", 0, "");
	/* A character of two columns is not split but padded. */
	fits("\xe6\x97\xa5\xe6\x9c\xac\xe6\x97\xa5", 4, "... ");
	fits("\xe6\x97\xa5\xe6\x9c\xac\xe6\x97\xa5", 5, "...\xe6\x97\xa5");
	fits("abcde\xcc\x81", 4, "...e\xcc\x81");
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(columns_are_aligned),
		cmocka_unit_test(wide_names_line_up),
		cmocka_unit_test(half_a_row_is_printed),
		cmocka_unit_test(fit_keeps_the_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
