/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "index_internal.h"

const char *index_column_name(unsigned id)
{
	static const char *const names[] = {
		[COL_PATH] = "path",	   [COL_MODE] = "mode",
		[COL_UID] = "uid",	   [COL_GID] = "gid",
		[COL_SIZE] = "size",	   [COL_MTIME] = "mtime",
		[COL_CTIME] = "ctime",	   [COL_INODE] = "inode",
		[COL_RDEV] = "rdev",	   [COL_NLINK] = "nlink",
		[COL_FLAGS] = "flags",	   [COL_BITS] = "bits",
		[COL_TARGET] = "target",   [COL_XATTR] = "xattr",
		[COL_XSETS] = "xsets",	   [COL_DATA] = "data",
		[COL_EXTENT] = "extent",   [COL_CHASH] = "chunk hash",
		[COL_CLEN] = "chunk len",  [COL_CPLACE] = "chunk place",
		[COL_SEGMENT] = "segment", [COL_PACK] = "pack",
		[COL_META] = "meta",
	};
	const char *s = NULL;

	if (id < sizeof(names) / sizeof(names[0]))
		s = names[id];
	return s ? s : "unknown";
}

void index_meta_put(struct buf *b, const struct index_meta *m)
{
	buf_varint(b, m->entries);
	buf_varint(b, m->chunks);
	buf_varint(b, m->bytes);
	buf_svarint(b, m->t0);
	buf_varint(b, m->t0_ns);
	buf_varint(b, m->grain_ns);
	buf_varint(b, m->beside_writers);
	buf_varint(b, m->parent_ok);
	buf_varint(b, m->fs_type);
	buf_varint(b, m->fs_id);
	buf_varint(b, m->dev);
	buf_varint(b, m->chunk_avg);
	buf_varint(b, m->links);
	buf_put(b, m->parent.b, DIGEST_LEN);
}

static uint32_t get_u32(struct cur *c, uint64_t max)
{
	uint64_t v = cur_varint(c);

	if (v > max)
		c->bad = true;
	return (uint32_t)v;
}

int index_meta_get(struct index_meta *m, const void *p, size_t n)
{
	struct cur c = cur_of(p, n);
	const unsigned char *parent;

	*m = (struct index_meta){ 0 };
	m->entries = cur_varint(&c);
	m->chunks = cur_varint(&c);
	m->bytes = cur_varint(&c);
	m->t0 = cur_svarint(&c);
	m->t0_ns = get_u32(&c, 999999999);
	m->grain_ns = get_u32(&c, UINT32_MAX);
	m->beside_writers = get_u32(&c, 1);
	m->parent_ok = get_u32(&c, 1);
	m->fs_type = cur_varint(&c);
	m->fs_id = cur_varint(&c);
	m->dev = cur_varint(&c);
	m->chunk_avg = get_u32(&c, UINT32_MAX);
	m->links = get_u32(&c, UINT32_MAX);
	parent = cur_take(&c, DIGEST_LEN);
	if (!parent || c.bad)
		return -1;
	memcpy(m->parent.b, parent, DIGEST_LEN);
	return 0;
}
