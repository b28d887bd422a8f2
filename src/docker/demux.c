/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "internal.h"

/* kind, three zero bytes, length (big-endian) */
static int decode_head(struct demux *m, struct sc_err *err)
{
	const unsigned char *h = m->head;
	uint32_t len = (uint32_t)h[4] << 24 | (uint32_t)h[5] << 16 |
		       (uint32_t)h[6] << 8 | h[7];

	if (h[0] > DEMUX_ERROR || h[1] || h[2] || h[3])
		return sc_fail(err, SC_EPROTO, 0,
			       "attached stream: bad frame header "
			       "%02x%02x%02x%02x",
			       h[0], h[1], h[2], h[3]);
	if (len > DEMUX_MAX)
		return sc_fail(err, SC_EPROTO, 0,
			       "attached stream: frame of %u bytes", len);
	m->kind = h[0];
	m->left = len;
	m->nhead = 0;
	return 0;
}

ssize_t demux_take(struct demux *m, const unsigned char *p, size_t n,
		   const unsigned char **data, size_t *len, struct sc_err *err)
{
	size_t used = 0;

	*data = NULL;
	*len = 0;
	if (!m->left) {
		used = DEMUX_HEAD - m->nhead;
		if (used > n)
			used = n;
		memcpy(m->head + m->nhead, p, used);
		m->nhead += (unsigned)used;
		if (m->nhead < DEMUX_HEAD)
			return (ssize_t)used;
		if (decode_head(m, err) < 0)
			return -1;
	}
	*data = p + used;
	*len = n - used < m->left ? n - used : m->left;
	m->left -= (uint32_t)*len;
	return (ssize_t)(used + *len);
}

bool demux_inside(const struct demux *m)
{
	return m->left || m->nhead;
}
