/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include <snapctl/base/buf.h>
#include <snapctl/base/mem.h>

static void numbers_are_little_endian(void **state)
{
	static const unsigned char want[] = { 0x01, 0x03, 0x02, 0x07, 0x06,
					      0x05, 0x04, 0x0f, 0x0e, 0x0d,
					      0x0c, 0x0b, 0x0a, 0x09, 0x08 };
	auto_buf struct buf b = { 0 };
	struct cur c;

	(void)state;
	buf_u8(&b, 0x01);
	buf_u16(&b, 0x0203);
	buf_u32(&b, 0x04050607);
	buf_u64(&b, 0x08090a0b0c0d0e0f);
	assert_false(b.failed);
	assert_int_equal(b.len, sizeof(want));
	assert_memory_equal(b.p, want, sizeof(want));
	c = cur_of(b.p, b.len);
	assert_int_equal(cur_u8(&c), 0x01);
	assert_int_equal(cur_u16(&c), 0x0203);
	assert_int_equal(cur_u32(&c), 0x04050607);
	assert_int_equal(cur_u64(&c), 0x08090a0b0c0d0e0f);
	assert_int_equal(cur_left(&c), 0);
	assert_false(c.bad);
}

static void varints_round_trip(void **state)
{
	static const struct {
		uint64_t v;
		size_t len;
	} t[] = {
		{ 0, 1 },	   { 1, 1 },	     { 127, 1 },
		{ 128, 2 },	   { 16383, 2 },     { 16384, 3 },
		{ UINT32_MAX, 5 }, { INT64_MAX, 9 }, { UINT64_MAX, 10 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(t); i++) {
		auto_buf struct buf b = { 0 };
		struct cur c;

		buf_varint(&b, t[i].v);
		assert_int_equal(b.len, t[i].len);
		c = cur_of(b.p, b.len);
		assert_true(cur_varint(&c) == t[i].v);
		assert_false(c.bad);
		assert_int_equal(cur_left(&c), 0);
	}
}

static void signed_varints_round_trip(void **state)
{
	static const struct {
		int64_t v;
		size_t len;
	} t[] = {
		{ 0, 1 },  { -1, 1 },  { 63, 1 },	  { -64, 1 },
		{ 64, 2 }, { -65, 2 }, { INT64_MAX, 10 }, { INT64_MIN, 10 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(t); i++) {
		auto_buf struct buf b = { 0 };
		struct cur c;

		buf_svarint(&b, t[i].v);
		assert_int_equal(b.len, t[i].len);
		c = cur_of(b.p, b.len);
		assert_true(cur_svarint(&c) == t[i].v);
		assert_false(c.bad);
	}
}

static void varint_is_bad(const char *bytes, size_t n)
{
	struct cur c = cur_of(bytes, n);

	assert_true(cur_varint(&c) == 0);
	assert_true(c.bad);
	assert_int_equal(cur_left(&c), 0);
}

static void hostile_varints_are_bad(void **state)
{
	(void)state;
	varint_is_bad("", 0);
	varint_is_bad("\x80", 1);
	varint_is_bad("\xff\xff\xff\xff\xff\xff\xff\xff\xff", 9);
	/* the 65th bit */
	varint_is_bad("\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02", 10);
	/* an eleventh byte */
	varint_is_bad("\xff\xff\xff\xff\xff\xff\xff\xff\xff\x81\x00", 11);
	varint_is_bad("\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80", 11);
}

static void reading_past_the_end_latches(void **state)
{
	struct cur c = cur_of("\x01\x02\x03", 3);
	size_t n = 7;

	(void)state;
	assert_int_equal(cur_u32(&c), 0);
	assert_true(c.bad);
	/* Enough for these, but the cursor is spoilt. */
	assert_int_equal(cur_u8(&c), 0);
	assert_int_equal(cur_u16(&c), 0);
	assert_null(cur_take(&c, 0));
	assert_null(cur_bytes(&c, 10, &n));
	assert_int_equal(n, 0);
	assert_null(cur_str(&c, 10));
	assert_int_equal(cur_left(&c), 0);
}

static void bytes_are_bounded_twice(void **state)
{
	size_t n = 7;
	struct cur c = cur_of("\x03"
			      "abcd",
			      5);

	(void)state;
	assert_memory_equal(cur_bytes(&c, 3, &n), "abc", 3);
	assert_int_equal(n, 3);
	assert_int_equal(cur_left(&c), 1);

	c = cur_of("\x03"
		   "abcd",
		   5); /* above the limit of the caller */
	assert_null(cur_bytes(&c, 2, &n));
	assert_true(c.bad);

	c = cur_of("\x05"
		   "abcd",
		   5); /* above what is there */
	assert_null(cur_bytes(&c, 100, &n));
	assert_true(c.bad);

	c = cur_of("\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 10);
	assert_null(cur_bytes(&c, SIZE_MAX, &n));
	assert_true(c.bad);

	c = cur_of("", 0);
	assert_non_null(cur_take(&c, 0));
	assert_null(cur_take(&c, SIZE_MAX));
	assert_true(c.bad);
}

static void strings_hold_no_nul(void **state)
{
	auto_free char *s = NULL;
	struct cur c = cur_of("\x02"
			      "ab\x00",
			      4);

	(void)state;
	s = cur_str(&c, 10);
	assert_string_equal(s, "ab");
	free(s);
	s = cur_str(&c, 10); /* the empty one after it */
	assert_string_equal(s, "");
	assert_false(c.bad);
	c = cur_of("\x03"
		   "a\0b",
		   4);
	assert_null(cur_str(&c, 10));
	assert_true(c.bad);
}

static void writers_compose(void **state)
{
	auto_buf struct buf b = { 0 };

	(void)state;
	assert_string_equal(buf_cstr(&b), "");
	buf_str(&b, "abc");
	buf_bytes(&b, "", 0);
	buf_put(&b, NULL, 0);
	buf_zero(&b, 2);
	buf_printf(&b, "%s-%d", "x", 42);
	assert_int_equal(b.len, 4 + 1 + 2 + 4);
	assert_memory_equal(b.p,
			    "\x03"
			    "abc\x00\x00\x00x-42",
			    11);
	buf_clear(&b);
	assert_int_equal(b.len, 0);
	for (int i = 0; i < 1000; i++)
		buf_printf(&b, "%03d", i);
	assert_int_equal(strlen(buf_cstr(&b)), 3000);
	assert_memory_equal(b.p + 2997, "999", 3);
}

static void failure_latches_until_cleared(void **state)
{
	auto_buf struct buf b = { 0 };

	(void)state;
	buf_put(&b, "ab", 2);
	assert_null(buf_reserve(&b, SIZE_MAX));
	assert_true(b.failed);
	buf_put(&b, "c", 1);
	buf_u64(&b, 1);
	buf_printf(&b, "%d", 1);
	assert_int_equal(b.len, 2);
	assert_null(buf_cstr(&b));
	buf_clear(&b);
	buf_put(&b, "c", 1);
	assert_string_equal(buf_cstr(&b), "c");
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(numbers_are_little_endian),
		cmocka_unit_test(varints_round_trip),
		cmocka_unit_test(signed_varints_round_trip),
		cmocka_unit_test(hostile_varints_are_bad),
		cmocka_unit_test(reading_past_the_end_latches),
		cmocka_unit_test(bytes_are_bounded_twice),
		cmocka_unit_test(strings_hold_no_nul),
		cmocka_unit_test(writers_compose),
		cmocka_unit_test(failure_latches_until_cleared),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
