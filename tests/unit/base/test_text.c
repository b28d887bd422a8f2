/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <limits.h>
#include <string.h>

#include <snapctl/base/mem.h>
#include <snapctl/base/text.h>

#define BYTES(s) (s), sizeof(s) - 1

static void escaped_is(const char *in, size_t n, const char *want)
{
	auto_buf struct buf b = { 0 };

	text_escape(&b, in, n);
	assert_string_equal(buf_cstr(&b), want);
}

static void escape_keeps_what_can_be_seen(void **state)
{
	(void)state;
	escaped_is(BYTES("db-data_1.x y"), "db-data_1.x y");
	escaped_is(BYTES("Gr\xc3\xb6\xc3\x9f"
			 "e \xe6\x97\xa5"),
		   "Gr\xc3\xb6\xc3\x9f"
		   "e \xe6\x97\xa5");
	escaped_is(BYTES("\xf0\x9f\x90\x98"), "\xf0\x9f\x90\x98");
	escaped_is(BYTES(""), "");
}

static void escape_disarms_controls(void **state)
{
	(void)state;
	escaped_is(BYTES("a\nb\tc\\d"), "a\\nb\\tc\\\\d");
	escaped_is(BYTES("\x1b[2J\x07\x7f\r"), "\\x1b[2J\\x07\\x7f\\x0d");
	escaped_is("a\0b", 3, "a\\x00b");
	escaped_is(BYTES("\xc2\x9b"
			 "1m"),
		   "\\xc2\\x9b1m"); /* C1 CSI */
	escaped_is(BYTES("\xe2\x80\xae"
			 "gpj"),
		   "\\xe2\\x80\\xaegpj");
	escaped_is(BYTES("a\xe2\x80\x8b"), "a\\xe2\\x80\\x8b");
	escaped_is(BYTES("\xef\xbf\xbf"), "\\xef\\xbf\\xbf");
}

static void escape_shows_invalid_utf8(void **state)
{
	(void)state;
	escaped_is(BYTES("\xff\xfe"), "\\xff\\xfe");
	escaped_is(BYTES("\xc3"), "\\xc3");	     /* cut */
	escaped_is(BYTES("\xe6\x97"), "\\xe6\\x97"); /* cut */
	escaped_is(BYTES("\xc0\xaf"), "\\xc0\\xaf"); /* over-long */
	escaped_is(BYTES("\xe0\x80\xaf"), "\\xe0\\x80\\xaf");
	escaped_is(BYTES("\xed\xa0\x80"), "\\xed\\xa0\\x80"); /* surrogate */
	escaped_is(BYTES("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80");
	escaped_is(BYTES("\xc3(\xc3\xb6"), "\\xc3(\xc3\xb6");
}

static void escaped_cuts_between_characters(void **state)
{
	char out[16];

	(void)state;
	assert_string_equal(text_escaped(out, 9, BYTES("12345678")),
			    "12345678");
	assert_string_equal(text_escaped(out, 9, BYTES("123456789")),
			    "12345...");
	/* Neither an escape nor a UTF-8 sequence is split. */
	assert_string_equal(text_escaped(out, 9,
					 BYTES("123\x01"
					       "45678")),
			    "123...");
	assert_string_equal(text_escaped(out, 9,
					 BYTES("1234\xc3\xb6"
					       "5678")),
			    "1234...");
	assert_string_equal(text_escaped(out, 3, BYTES("abcd")), "..");
	assert_string_equal(text_escaped(out, 1, BYTES("abcd")), "");
}

static void sizes(void **state)
{
	static const struct {
		uint64_t n;
		const char *want;
	} t[] = {
		{ 0, "0 B" },
		{ 512, "512 B" },
		{ 1023, "1023 B" },
		{ 1024, "1.00 KiB" },
		{ 1500000, "1.43 MiB" },
		{ 15000000, "14.3 MiB" },
		{ 150000000, "143 MiB" },
		{ 1048575, "1.00 MiB" },
		{ 10234, "9.99 KiB" },
		{ 10236, "10.0 KiB" },
		{ (uint64_t)1 << 40, "1.00 TiB" },
		{ UINT64_MAX, "16.0 EiB" },
	};
	char out[16];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(t); i++)
		assert_string_equal(text_size(out, t[i].n), t[i].want);
}

static void durations(void **state)
{
	static const struct {
		double s;
		const char *want;
	} t[] = {
		{ 0, "0.00 s" },
		{ -3, "0.00 s" },
		{ 0.4249, "0.42 s" },
		{ 9.996, "10.0 s" },
		{ 12.34, "12.3 s" },
		{ 59.96, "1 min 00 s" },
		{ 185, "3 min 05 s" },
		{ 3599.6, "1 h 00 min" },
		{ 7440, "2 h 04 min" },
		{ 300000, "3 d 11 h" },
		{ 1e300, "11574074 d 01 h" },
	};
	char out[32];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(t); i++)
		assert_string_equal(text_duration(out, t[i].s), t[i].want);
	assert_string_equal(text_duration(out, __builtin_nan("")), "0.00 s");
}

static void times(void **state)
{
	char out[32];

	(void)state;
	assert_string_equal(text_utc(out, 1769860800, 0),
			    "2026-01-31T12:00:00Z");
	assert_string_equal(text_utc(out, 1769860800, 1), "20260131T120000Z");
	assert_string_equal(text_utc(out, -1, 0), "1969-12-31T23:59:59Z");
	assert_string_equal(text_utc(out, LONG_MAX, 0), "?");
}

static void ages(void **state)
{
	char out[32];

	(void)state;
	assert_string_equal(text_age(out, 100, 125), "25 s ago");
	assert_string_equal(text_age(out, 100, 160), "1 min ago");
	assert_string_equal(text_age(out, 0, 3 * 60 + 59), "3 min ago");
	assert_string_equal(text_age(out, 0, 47 * 3600), "47 h ago");
	assert_string_equal(text_age(out, 0, 48 * 3600), "2 d ago");
	assert_string_equal(text_age(out, 300, 100), "in 3 min");
	assert_string_equal(text_age(out, LONG_MIN, LONG_MAX),
			    "213503982334601 d ago");
}

static void distance(void **state)
{
	char big[300];

	(void)state;
	memset(big, 'x', sizeof(big) - 1);
	big[sizeof(big) - 1] = 0;
	assert_int_equal(text_distance("", ""), 0);
	assert_int_equal(text_distance("abc", ""), 3);
	assert_int_equal(text_distance("", "abc"), 3);
	assert_int_equal(text_distance("create", "crate"), 1);
	assert_int_equal(text_distance("create", "craete"), 1);
	assert_int_equal(text_distance("kitten", "sitting"), 3);
	assert_int_equal(text_distance("ca", "abc"), 3); /* OSA, not Damerau */
	assert_int_equal(text_distance(big, big), 299);
}

static void near_is(const char *wanted, const char *const *names, size_t n,
		    const char *want)
{
	auto_buf struct buf b = { 0 };

	text_near(&b, wanted, names, n);
	assert_string_equal(buf_cstr(&b), want);
}

static void near_names(void **state)
{
	static const char *const n[] = { "list",    "restore",	"create",
					 "shop_db", "shop_web", "a\x1b[2Jb" };
	static const char *const many[] = { "v1", "v2", "v3", "v4",
					    "v5", "v6", "v7" };

	(void)state;
	near_is("crate", n, ARRAY_LEN(n), "create");
	near_is("lst", n, ARRAY_LEN(n), "list");
	near_is("shop", n, ARRAY_LEN(n), "shop_db, shop_web");
	near_is("shop_bd", n, ARRAY_LEN(n), "shop_db");
	near_is("frobnicate", n, ARRAY_LEN(n), "");
	near_is("", n, ARRAY_LEN(n), "");
	near_is("a", n + 5, 1, "a\\x1b[2Jb");
	near_is("v", many, ARRAY_LEN(many), "v1, v2, v3, v4, v5");
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(escape_keeps_what_can_be_seen),
		cmocka_unit_test(escape_disarms_controls),
		cmocka_unit_test(escape_shows_invalid_utf8),
		cmocka_unit_test(escaped_cuts_between_characters),
		cmocka_unit_test(sizes),
		cmocka_unit_test(durations),
		cmocka_unit_test(times),
		cmocka_unit_test(ages),
		cmocka_unit_test(distance),
		cmocka_unit_test(near_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
