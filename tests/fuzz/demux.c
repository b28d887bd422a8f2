/* SPDX-License-Identifier: MIT */
/* Any bytes as an attached stream: taken whole and byte by byte, both must
 * give the same payload and the same end. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "../../src/docker/internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct taken {
	struct demux m;
	struct buf out; /* kind and byte, alternating */
	int rc;
};

static void take(struct taken *t, const uint8_t *p, size_t n)
{
	while (n && t->rc == 0) {
		const unsigned char *data;
		size_t len;
		struct sc_err err = { 0 };
		ssize_t k = demux_take(&t->m, p, n, &data, &len, &err);

		if (k < 0) {
			if (err.code != SC_EPROTO)
				abort();
			t->rc = -1;
			return;
		}
		if (k == 0 || (size_t)k > n || len > (size_t)k ||
		    (len && (data < p || data + len > p + k)))
			abort();
		for (size_t i = 0; i < len; i++) {
			buf_u8(&t->out, (uint8_t)t->m.kind);
			buf_u8(&t->out, data[i]);
		}
		p += k;
		n -= (size_t)k;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct taken whole = { 0 }, bytes = { 0 };

	take(&whole, data, size);
	for (size_t i = 0; i < size; i++)
		take(&bytes, data + i, 1);
	if (whole.rc != bytes.rc || whole.out.len != bytes.out.len ||
	    (whole.out.len &&
	     memcmp(whole.out.p, bytes.out.p, whole.out.len) != 0) ||
	    demux_inside(&whole.m) != demux_inside(&bytes.m))
		abort();
	buf_free(&whole.out);
	buf_free(&bytes.out);
	return 0;
}
