/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

#include <snapctl/base/mem.h>
#include <snapctl/ui/json.h>

/* What ui_json_print writes, read back from a pipe. */
static void printed_is(const struct ui_json *j, json_t *root, const char *want)
{
	char got[4096] = { 0 };
	int p[2];

	assert_int_equal(pipe2(p, O_CLOEXEC), 0);
	assert_int_equal(ui_json_print(j, root, p[1], NULL), 0);
	assert_true(read(p[0], got, sizeof(got) - 1) >= 0);
	assert_string_equal(got, want);
	assert_int_equal(close(p[0]) | close(p[1]), 0);
}

static void one_document(void **state)
{
	struct ui_json j = { 0 };
	json_t *o = ui_json_object(&j), *a = ui_json_array(&j);

	(void)state;
	ui_json_str(&j, o, "id", "shop-20260131T120000Z");
	ui_json_str(&j, o, "note", NULL);
	ui_json_time(&j, o, "created", 1769860800);
	ui_json_uint(&j, o, "size_bytes", UINT64_MAX);
	ui_json_int(&j, o, "level", -3);
	ui_json_seconds(&j, o, "downtime_seconds", 3.4196);
	ui_json_seconds(&j, o, "age", NAN);
	ui_json_bool(&j, o, "clean", true);
	ui_json_push(&j, a, ui_json_bytes(&j, "db", 2));
	ui_json_set(&j, o, "volumes", a);
	printed_is(&j, o,
		   "{\n"
		   "  \"id\": \"shop-20260131T120000Z\",\n"
		   "  \"note\": null,\n"
		   "  \"created\": \"2026-01-31T12:00:00Z\",\n"
		   "  \"size_bytes\": 9223372036854775807,\n"
		   "  \"level\": -3,\n"
		   "  \"downtime_seconds\": 3.42,\n"
		   "  \"age\": null,\n"
		   "  \"clean\": true,\n"
		   "  \"volumes\": [\n"
		   "    \"db\"\n"
		   "  ]\n"
		   "}\n");
}

static void bytes_become_valid_utf8(void **state)
{
	struct ui_json j = { 0 };
	json_t *a = ui_json_array(&j);

	(void)state;
	ui_json_push(&j, a, ui_json_bytes(&j, "a\0b", 3));
	ui_json_push(&j, a, ui_json_bytes(&j, "\xff\xc3", 2));
	ui_json_push(&j, a, ui_json_bytes(&j, "\\xff", 4));
	ui_json_push(&j, a, ui_json_bytes(&j, "\xc3\xb6\"\n", 4));
	assert_false(j.failed);
	assert_string_equal(json_string_value(json_array_get(a, 0)), "a\\x00b");
	assert_string_equal(json_string_value(json_array_get(a, 1)),
			    "\\xff\\xc3");
	/* Not the same as the byte 0xff. */
	assert_string_equal(json_string_value(json_array_get(a, 2)), "\\\\xff");
	assert_string_equal(json_string_value(json_array_get(a, 3)),
			    "\xc3\xb6\"\\n");
	json_decref(a);
}

static void failure_is_latched(void **state)
{
	struct ui_json j = { 0 };
	json_t *o = ui_json_object(&j);
	struct sc_err err = { 0 };

	(void)state;
	ui_json_set(&j, o, "gone", NULL); /* an allocation that failed */
	assert_true(j.failed);
	assert_int_equal(ui_json_print(&j, o, 1, &err), -1);
	assert_int_equal(err.code, SC_ENOMEM);
}

static void closed_output_is_an_error(void **state)
{
	struct ui_json j = { 0 };
	struct sc_err err = { 0 };
	auto_close int fd = open("/dev/full", O_WRONLY | O_CLOEXEC);

	(void)state;
	assert_true(fd >= 0);
	assert_int_equal(ui_json_print(&j, ui_json_object(&j), fd, &err), -1);
	assert_int_equal(err.code, SC_EIO);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_document),
		cmocka_unit_test(bytes_become_valid_utf8),
		cmocka_unit_test(failure_is_latched),
		cmocka_unit_test(closed_output_is_an_error),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
