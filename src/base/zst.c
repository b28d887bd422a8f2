/* SPDX-License-Identifier: MIT */
#include <snapctl/base/zst.h>

#include <stdlib.h>
#include <zstd.h>

struct zst_enc {
	ZSTD_CCtx *c;
};

struct zst_dec {
	ZSTD_DCtx *d;
};

int zst_enc_new(int level, struct zst_enc **out, struct sc_err *err)
{
	struct zst_enc *e = calloc(1, sizeof(*e));

	if (!e || !(e->c = ZSTD_createCCtx())) {
		free(e);
		return sc_oom(err, "zstd context");
	}
	if (ZSTD_isError(ZSTD_CCtx_setParameter(e->c, ZSTD_c_compressionLevel,
						level)) ||
	    ZSTD_isError(
		    ZSTD_CCtx_setParameter(e->c, ZSTD_c_checksumFlag, 1)) ||
	    ZSTD_isError(
		    ZSTD_CCtx_setParameter(e->c, ZSTD_c_contentSizeFlag, 1))) {
		zst_enc_free(e);
		return sc_fail(err, SC_EUSAGE, 0,
			       "zstd does not accept level %d", level);
	}
	*out = e;
	return 0;
}

void zst_enc_free(struct zst_enc *e)
{
	if (!e)
		return;
	ZSTD_freeCCtx(e->c);
	free(e);
}

size_t zst_bound(size_t n)
{
	return ZSTD_compressBound(n);
}

int zst_encode(struct zst_enc *e, const void *src, size_t n, void *dst,
	       size_t cap, size_t *out, struct sc_err *err)
{
	size_t k = ZSTD_compress2(e->c, dst, cap, src, n);

	if (ZSTD_isError(k))
		return sc_fail(err, SC_EIO, 0, "compress %zu bytes: %s", n,
			       ZSTD_getErrorName(k));
	*out = k;
	return 0;
}

int zst_dec_new(struct zst_dec **out, struct sc_err *err)
{
	struct zst_dec *d = calloc(1, sizeof(*d));

	if (!d || !(d->d = ZSTD_createDCtx())) {
		free(d);
		return sc_oom(err, "zstd context");
	}
	*out = d;
	return 0;
}

void zst_dec_free(struct zst_dec *d)
{
	if (!d)
		return;
	ZSTD_freeDCtx(d->d);
	free(d);
}

int zst_decode(struct zst_dec *d, const void *src, size_t n, void *dst,
	       size_t plain, const char *what, struct sc_err *err)
{
	size_t k = ZSTD_findFrameCompressedSize(src, n);

	if (ZSTD_isError(k) || k != n)
		return sc_fail(err, SC_ECORRUPT, 0,
			       "%s is damaged: not one zstd frame", what);
	k = ZSTD_decompressDCtx(d->d, dst, plain, src, n);
	if (ZSTD_isError(k))
		return sc_fail(err, SC_ECORRUPT, 0, "%s is damaged: %s", what,
			       ZSTD_getErrorName(k));
	if (k != plain)
		return sc_fail(err, SC_ECORRUPT, 0,
			       "%s is damaged: %zu bytes instead of %zu", what,
			       k, plain);
	return 0;
}
