/* SPDX-License-Identifier: MIT */
/* Content-defined chunking: FastCDC (Xia et al., USENIX ATC 2016) with the
 * gear hash and normalised cuts.
 *
 * The gear hash at a position depends on the 64 bytes before it and on
 * nothing else: it is never restarted at a cut. So any stretch of a file can
 * be searched for candidates on its own, given the 64 bytes before it, and
 * one cheap pass over the candidates picks the cuts: the boundaries are those
 * a sequential pass finds, however the work is split.
 *
 * A position p (the number of bytes before it) is a loose candidate if the
 * hash satisfies the loose mask, a strict one if it satisfies the strict mask
 * too (which holds the loose one). A chunk starting at s ends at the first
 * strict candidate in [s+min, s+avg), else at the first loose one in
 * [s+avg, s+max), else at s+max, or at the end of the data. */
#ifndef SNAPCTL_ARCHIVE_CHUNKER_H
#define SNAPCTL_ARCHIVE_CHUNKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CHUNK_AVG_DEFAULT (64u << 10)
#define CHUNK_AVG_MAX	  (1u << 20)
#define CHUNK_WINDOW	  64

struct chunker {
	uint32_t min, avg, max; /* avg/4, avg, avg*4 */
	uint64_t loose, strict; /* masks */
};

/* avg: a power of two, 64 KiB to CHUNK_AVG_MAX. */
void chunker_init(struct chunker *c, uint32_t avg);

/* One candidate: position relative to the start of the stretch (1 … n),
 * bit 31 set if strict. */
#define CAND_STRICT 0x80000000u

/* Marks the candidates of n bytes at p. before: the min(64, position) bytes
 * that come before p in the file (nbefore of them), borrowed. out holds at
 * least chunker_cand_max(n); returns how many. Ascending. */
size_t chunker_mark(const struct chunker *c, const unsigned char *p, size_t n,
		    const unsigned char *before, size_t nbefore, uint32_t *out);
size_t chunker_cand_max(size_t n); /* n: a hard bound, every position */

/* Picks cuts one after the other. Positions are absolute (u64). */
struct chunk_cutter {
	const struct chunker *c;
	uint64_t start; /* where the current chunk starts */
};
/* The end of the chunk that starts at k->start, given all candidates in
 * (k->start, known], or 0 if the candidates known so far do not decide it
 * (then call again with more). known is the position up to which candidates
 * were marked; end: true if known is the end of the data (the rest, if any,
 * is a last chunk). cand: n ascending candidates relative to base. Advances
 * k->start on success. */
uint64_t chunker_cut(struct chunk_cutter *k, const uint32_t *cand, size_t n,
		     uint64_t base, uint64_t known, bool end);

/* All chunk lengths of one whole buffer (a file read at once); lens holds
 * n / min + 2; returns how many. scratch: chunker_cand_max(n) words. */
size_t chunker_all(const struct chunker *c, const unsigned char *p, size_t n,
		   uint32_t *scratch, uint32_t *lens);

#endif
