/* SPDX-License-Identifier: MIT */
#include <snapctl/base/hash.h>

#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

struct hash {
	EVP_MD_CTX *ctx;
	EVP_MD *md; /* fetched once: a fetch per message costs more than it */
};

int hash_new(struct hash **out, struct sc_err *err)
{
	struct hash *h = calloc(1, sizeof(*h));

	if (!h)
		return sc_oom(err, "hash");
	h->md = EVP_MD_fetch(NULL, "SHA256", NULL);
	h->ctx = EVP_MD_CTX_new();
	if (!h->md || !h->ctx || EVP_DigestInit_ex2(h->ctx, h->md, NULL) != 1) {
		hash_free(h);
		return sc_fail(err, SC_EIO, 0,
			       "libcrypto does not provide SHA-256");
	}
	*out = h;
	return 0;
}

void hash_free(struct hash *h)
{
	if (!h)
		return;
	EVP_MD_CTX_free(h->ctx);
	EVP_MD_free(h->md);
	free(h);
}

void hash_freep(struct hash **h)
{
	hash_free(*h);
}

int hash_reset(struct hash *h, struct sc_err *err)
{
	if (EVP_DigestInit_ex2(h->ctx, h->md, NULL) != 1)
		return sc_fail(err, SC_EIO, 0, "SHA-256: start failed");
	return 0;
}

int hash_update(struct hash *h, const void *p, size_t n, struct sc_err *err)
{
	if (EVP_DigestUpdate(h->ctx, p, n) != 1)
		return sc_fail(err, SC_EIO, 0, "SHA-256: update failed");
	return 0;
}

int hash_final(struct hash *h, struct digest *out, struct sc_err *err)
{
	unsigned len = 0;

	if (EVP_DigestFinal_ex(h->ctx, out->b, &len) != 1 || len != DIGEST_LEN)
		return sc_fail(err, SC_EIO, 0, "SHA-256: end failed");
	return 0;
}

int hash_once(struct hash *h, const void *p, size_t n, struct digest *out,
	      struct sc_err *err)
{
	if (hash_reset(h, err) < 0 || hash_update(h, p, n, err) < 0)
		return -1;
	return hash_final(h, out, err);
}

void digest_hex(const struct digest *d, char out[DIGEST_HEX + 1])
{
	static const char hex[] = "0123456789abcdef";

	for (size_t i = 0; i < DIGEST_LEN; i++) {
		out[2 * i] = hex[d->b[i] >> 4];
		out[2 * i + 1] = hex[d->b[i] & 15];
	}
	out[DIGEST_HEX] = 0;
}

void digest_str(const struct digest *d, char out[DIGEST_STR])
{
	digest_hex(d, stpcpy(out, "sha256:"));
}

static int hex_value(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	return -1;
}

bool digest_parse(const char *s, struct digest *out)
{
	if (!s || strncmp(s, "sha256:", 7) != 0 || strlen(s) != DIGEST_STR - 1)
		return false;
	s += 7;
	for (size_t i = 0; i < DIGEST_LEN; i++) {
		int hi = hex_value(s[2 * i]), lo = hex_value(s[2 * i + 1]);

		if (hi < 0 || lo < 0)
			return false;
		out->b[i] = (unsigned char)(hi << 4 | lo);
	}
	return true;
}

int digest_cmp(const struct digest *a, const struct digest *b)
{
	return memcmp(a->b, b->b, DIGEST_LEN);
}
