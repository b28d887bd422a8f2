/* SPDX-License-Identifier: MIT */
/* The names of one directory, and the two orders they are wanted in: by bytes
 * (slots) and by inode (stat: neighbours in the inode table are read from the
 * disk together).
 *
 * Both sorts are radix sorts of 64-bit keys over the bytes in which the keys
 * differ. A name's key is its eight bytes behind what all names of the
 * directory begin with; names with equal keys are then sorted whole. */
#ifndef SNAPCTL_SCAN_NAMES_H
#define SNAPCTL_SCAN_NAMES_H

#include <stddef.h>
#include <stdint.h>

#include <snapctl/base/err.h>

struct name {
	const char *p; /* borrowed, NUL-terminated */
	uint64_t ino;
	uint16_t len;
	uint8_t type; /* DT_* */
};

struct key {
	uint64_t key;
	uint32_t at;
};

/* Zero-initialised is empty; used for one directory after the other. */
struct names {
	struct name *v;
	size_t n, cap;
	size_t common; /* bytes that all names begin with */
	struct key *order, *spare;
	size_t order_cap, spare_cap;
};

void names_free(struct names *s);
/* Empties it; gives memory back that only a huge directory needs. */
void names_clear(struct names *s);
int names_add(struct names *s, const struct name *n, struct sc_err *err);
/* order[0 … n-1].at: indices into v by bytes. A name that came twice (the
 * directory changed under the read) is dropped: n is then smaller. */
int names_sort(struct names *s, struct sc_err *err);
/* Sorts order[0 … n-1] by its keys, which the caller has set. */
void names_sort_keys(struct names *s);

#endif
