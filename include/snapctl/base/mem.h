/* SPDX-License-Identifier: MIT */
/* Scoped cleanup for memory and descriptors, and explicit taking. */
#ifndef SNAPCTL_BASE_MEM_H
#define SNAPCTL_BASE_MEM_H

#include <stddef.h>
#include <stdint.h>

void mem_freep(void *pp); /* free(*(void **)pp) */
void mem_closep(int *fd); /* close, keeps errno; ignores fd < 0 */

#define auto_free  __attribute__((cleanup(mem_freep)))
#define auto_close __attribute__((cleanup(mem_closep)))

/* Gives the value away: the variable no longer owns it. */
static inline int take_fd(int *fd)
{
	int v = *fd;

	*fd = -1;
	return v;
}

static inline void *mem_take(void *pp)
{
	void **p = pp;
	void *v = *p;

	*p = NULL;
	return v;
}
#define take_ptr(p) ((__typeof__(p))mem_take(&(p)))

/* Grows *arr (cap elements of size bytes) so that it holds need of them.
 * Amortised doubling. Returns 0, or -1 with errno ENOMEM and *arr intact. */
int mem_grow(void *arr, size_t *cap, size_t need, size_t size);

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

#endif
