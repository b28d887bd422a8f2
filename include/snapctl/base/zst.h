/* SPDX-License-Identifier: MIT */
/* zstd frames: one-shot in both directions and a bounded stream reader. */
#ifndef SNAPCTL_BASE_ZST_H
#define SNAPCTL_BASE_ZST_H

#include <stddef.h>
#include <stdint.h>

#include <snapctl/base/buf.h>
#include <snapctl/base/err.h>

struct zst_enc; /* a compression context, for one thread at a time */
struct zst_dec;

/* Frames carry their content size and a checksum. */
int zst_enc_new(int level, struct zst_enc **out, struct sc_err *err);
void zst_enc_free(struct zst_enc *e);
size_t zst_bound(size_t n);
/* One frame of src into dst (cap at least zst_bound(n)); *out its length. */
int zst_encode(struct zst_enc *e, const void *src, size_t n, void *dst,
	       size_t cap, size_t *out, struct sc_err *err);

int zst_dec_new(struct zst_dec **out, struct sc_err *err);
void zst_dec_free(struct zst_dec *d);
/* Exactly one frame whose content is exactly plain bytes, into dst. Anything
 * else is SC_ECORRUPT. what: for the message. */
int zst_decode(struct zst_dec *d, const void *src, size_t n, void *dst,
	       size_t plain, const char *what, struct sc_err *err);

#endif
