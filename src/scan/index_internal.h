/* SPDX-License-Identifier: MIT */
/* Numbers that both sides of the index format hold to. */
#ifndef SNAPCTL_SCAN_INDEX_INTERNAL_H
#define SNAPCTL_SCAN_INDEX_INTERNAL_H

#include <snapctl/scan/index.h>

#define INDEX_MAGIC	  "SNAPIDX\n"
#define INDEX_END_MAGIC	  "XDIPANS\n"
#define INDEX_HEAD_LEN	  16
#define INDEX_TAIL_LEN	  24
#define INDEX_DIR_MAX	  (64u << 10)
#define INDEX_COLUMNS_MAX 256

#define INDEX_PATH_MAX	 (16u << 20) /* a whole path in a volume */
#define INDEX_TARGET_MAX 4095
#define INDEX_XSET_MAX	 (16u << 20) /* all xattrs of an entry */
#define INDEX_XVALUE_MAX 65536
#define INDEX_META_MAX	 4096
#define INDEX_PACK_ROW	 (DIGEST_LEN + 8 + 1)

enum index_codec { INDEX_RAW = 0, INDEX_ZSTD = 1 };

const char *index_name(const struct index_reader *r);
/* Plain bytes not taken yet, as the directory has it: bounds what a length in
 * the column can mean. */
uint64_t index_col_left(const struct index_col *c);
/* SC_ECORRUPT, naming file and column; -1. */
int index_col_bad(const struct index_col *c, struct sc_err *err,
		  const char *why);
const char *index_column_name(unsigned id);
void index_meta_put(struct buf *b, const struct index_meta *m);
/* 0, or -1 when p is not what index_meta_put writes (or a later version of
 * it, which appends). */
int index_meta_get(struct index_meta *m, const void *p, size_t n);

#endif
