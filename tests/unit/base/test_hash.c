/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include <snapctl/base/hash.h>
#include <snapctl/base/mem.h>

static void sha_is(struct hash *h, const void *p, size_t n, const char *want)
{
	struct digest d;
	char hex[DIGEST_HEX + 1];

	assert_int_equal(hash_once(h, p, n, &d, NULL), 0);
	digest_hex(&d, hex);
	assert_string_equal(hex, want);
}

static void known_answers(void **state)
{
	auto_hash struct hash *h = NULL;
	auto_free char *million = malloc(1000000);

	(void)state;
	assert_non_null(million);
	memset(million, 'a', 1000000);
	assert_int_equal(hash_new(&h, NULL), 0);
	/* FIPS 180-4 examples */
	sha_is(h, "", 0,
	       "e3b0c44298fc1c149afbf4c8996fb924"
	       "27ae41e4649b934ca495991b7852b855");
	sha_is(h, "abc", 3,
	       "ba7816bf8f01cfea414140de5dae2223"
	       "b00361a396177a9cb410ff61f20015ad");
	sha_is(h, "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
	       56,
	       "248d6a61d20638b8e5c026930c3e6039"
	       "a33ce45964ff2167f6ecedd419db06c1");
	sha_is(h, million, 1000000,
	       "cdc76e5c9914fb9281a1c7e284d73e67"
	       "f1809a48a497200e046d39ccc7112cd0");
}

static void pieces_make_the_whole(void **state)
{
	auto_hash struct hash *h = NULL;
	struct digest a, b;

	(void)state;
	assert_int_equal(hash_new(&h, NULL), 0);
	assert_int_equal(hash_update(h, "spoilt", 6, NULL), 0);
	assert_int_equal(hash_reset(h, NULL), 0);
	assert_int_equal(hash_update(h, "a", 1, NULL), 0);
	assert_int_equal(hash_update(h, "", 0, NULL), 0);
	assert_int_equal(hash_update(h, "bc", 2, NULL), 0);
	assert_int_equal(hash_final(h, &a, NULL), 0);
	assert_int_equal(hash_once(h, "abc", 3, &b, NULL), 0);
	assert_int_equal(digest_cmp(&a, &b), 0);
	b.b[31] ^= 1;
	assert_true(digest_cmp(&a, &b) != 0);
}

#define HEX64 "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"

static void digests_are_read_strictly(void **state)
{
	static const char *const bad[] = {
		NULL,
		"",
		"sha256:",
		HEX64,
		"sha512:" HEX64,
		"SHA256:" HEX64,
		"sha256:" HEX64 "0",
		"sha256:" HEX64 "\n",
		"sha256:"
		"Ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015"
		"ad",
		"sha256:"
		"ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015"
		"a",
		"sha256:../../../../../../../../../../../../../../../../../../"
		"etc/passwd",
		" sha256:" HEX64,
	};
	struct digest d;
	char s[DIGEST_STR];

	(void)state;
	assert_true(digest_parse("sha256:" HEX64, &d));
	assert_int_equal(d.b[0], 0xba);
	assert_int_equal(d.b[31], 0xad);
	digest_str(&d, s);
	assert_string_equal(s, "sha256:" HEX64);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		assert_false(digest_parse(bad[i], &d));
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(known_answers),
		cmocka_unit_test(pieces_make_the_whole),
		cmocka_unit_test(digests_are_read_strictly),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
