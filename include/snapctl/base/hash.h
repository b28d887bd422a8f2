/* SPDX-License-Identifier: MIT */
/* SHA-256 (libcrypto, which uses the CPU's SHA instructions) and digests. */
#ifndef SNAPCTL_BASE_HASH_H
#define SNAPCTL_BASE_HASH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <snapctl/base/err.h>

#define DIGEST_LEN 32
#define DIGEST_HEX 64		/* hex digits, no NUL */
#define DIGEST_STR (7 + 64 + 1) /* "sha256:" + hex + NUL */

struct digest {
	unsigned char b[DIGEST_LEN];
};

struct hash; /* a running SHA-256 */

int hash_new(struct hash **out, struct sc_err *err);
void hash_free(struct hash *h); /* NULL allowed */
void hash_freep(struct hash **h);
#define auto_hash __attribute__((cleanup(hash_freep)))
/* Restarts h for a new message. */
int hash_reset(struct hash *h, struct sc_err *err);
int hash_update(struct hash *h, const void *p, size_t n, struct sc_err *err);
/* Ends the message; hash_reset before the next one. */
int hash_final(struct hash *h, struct digest *out, struct sc_err *err);
/* One message, one call; h is reset first and left to be reset. */
int hash_once(struct hash *h, const void *p, size_t n, struct digest *out,
	      struct sc_err *err);

void digest_str(const struct digest *d, char out[DIGEST_STR]);
void digest_hex(const struct digest *d, char out[DIGEST_HEX + 1]);
/* Accepts exactly "sha256:" and 64 lower-case hex digits. */
bool digest_parse(const char *s, struct digest *out);
int digest_cmp(const struct digest *a, const struct digest *b); /* memcmp */

#endif
