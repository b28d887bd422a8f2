/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#include <snapctl/base/mem.h>
#include <snapctl/base/zst.h>

#define PLAIN 20000

struct fixture {
	struct zst_enc *e;
	struct zst_dec *d;
	unsigned char plain[PLAIN], out[PLAIN];
	unsigned char *frame;
	size_t len, cap;
};

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	uint32_t x = 1;

	assert_non_null(f);
	/* Half noise, half runs: both kinds of block are in the frame. */
	for (size_t i = 0; i < PLAIN; i++) {
		x = x * 1664525 + 1013904223;
		f->plain[i] = i % 2000 < 1000 ? (unsigned char)(x >> 24) : 'a';
	}
	f->cap = zst_bound(PLAIN);
	f->frame = malloc(f->cap);
	assert_non_null(f->frame);
	assert_int_equal(zst_enc_new(3, &f->e, NULL), 0);
	assert_int_equal(zst_dec_new(&f->d, NULL), 0);
	assert_int_equal(zst_encode(f->e, f->plain, PLAIN, f->frame, f->cap,
				    &f->len, NULL),
			 0);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	zst_enc_free(f->e);
	zst_dec_free(f->d);
	free(f->frame);
	free(f);
	return 0;
}

static int decode(struct fixture *f, size_t n, size_t plain, struct sc_err *err)
{
	return zst_decode(f->d, f->frame, n, f->out, plain, "segment", err);
}

static void corrupt(struct fixture *f, size_t n, size_t plain)
{
	struct sc_err err = { 0 };

	assert_int_equal(decode(f, n, plain, &err), -1);
	assert_int_equal(err.code, SC_ECORRUPT);
	assert_memory_equal(err.msg, "segment is damaged", 18);
}

static void round_trip(void **state)
{
	struct fixture *f = *state;

	assert_true(f->len < PLAIN);
	assert_int_equal(decode(f, f->len, PLAIN, NULL), 0);
	assert_memory_equal(f->out, f->plain, PLAIN);
	/* The frame says its size and ends in a checksum. */
	assert_int_equal(ZSTD_getFrameContentSize(f->frame, f->len), PLAIN);
	assert_true(f->frame[4] & 4);
}

static void empty_content(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(
		zst_encode(f->e, "", 0, f->frame, f->cap, &f->len, NULL), 0);
	assert_int_equal(decode(f, f->len, 0, NULL), 0);
	corrupt(f, f->len, 1);
}

static void flipped_bytes_never_change_the_content(void **state)
{
	struct fixture *f = *state;
	size_t found = 0;

	for (size_t i = 0; i < f->len; i++) {
		struct sc_err err = { 0 };

		f->frame[i] ^= 0x10;
		if (decode(f, f->len, PLAIN, &err) == 0) {
			/* A bit that means nothing to the decoder: the digest
			 * of the pack finds it. */
			assert_memory_equal(f->out, f->plain, PLAIN);
			assert_true(i < f->len - 4); /* the checksum counts */
		} else {
			assert_int_equal(err.code, SC_ECORRUPT);
			found++;
		}
		f->frame[i] ^= 0x10;
	}
	assert_true(found >= f->len - f->len / 1000);
}

static void every_cut_is_found(void **state)
{
	struct fixture *f = *state;

	for (size_t n = 0; n < f->len; n += n < 64 ? 1 : 97)
		corrupt(f, n, PLAIN);
	corrupt(f, f->len - 1, PLAIN);
}

static void wrong_length_is_found(void **state)
{
	struct fixture *f = *state;

	corrupt(f, f->len, PLAIN - 1); /* and nothing is written beyond it */
	corrupt(f, f->len, 0);
	f->frame[f->len] = 0; /* one byte too many */
	corrupt(f, f->len + 1, PLAIN);
}

static void two_frames_are_not_one(void **state)
{
	struct fixture *f = *state;
	size_t a, b;

	assert_int_equal(
		zst_encode(f->e, f->plain, 100, f->frame, f->cap, &a, NULL), 0);
	assert_int_equal(zst_encode(f->e, f->plain, 100, f->frame + a,
				    f->cap - a, &b, NULL),
			 0);
	corrupt(f, a + b, 200);
	assert_int_equal(decode(f, a, 100, NULL), 0);
}

static void too_little_room_is_an_error(void **state)
{
	struct fixture *f = *state;
	struct sc_err err = { 0 };
	size_t n = 77;

	assert_int_equal(
		zst_encode(f->e, f->plain, PLAIN, f->frame, 100, &n, &err), -1);
	assert_int_equal(err.code, SC_EIO);
	assert_int_equal(n, 77);
	/* The context is good for the next one. */
	assert_int_equal(zst_encode(f->e, f->plain, PLAIN, f->frame, f->cap,
				    &f->len, NULL),
			 0);
	assert_int_equal(decode(f, f->len, PLAIN, NULL), 0);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	static const struct CMUnitTest tests[] = {
		T(round_trip),
		T(empty_content),
		T(flipped_bytes_never_change_the_content),
		T(every_cut_is_found),
		T(wrong_length_is_found),
		T(two_frames_are_not_one),
		T(too_little_room_is_an_error),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
