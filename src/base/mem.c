/* SPDX-License-Identifier: MIT */
#include <snapctl/base/mem.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void mem_freep(void *pp)
{
	free(*(void **)pp);
}

void mem_closep(int *fd)
{
	int saved = errno;

	/* Nothing durable hangs on this close: what must be durable was
	 * fsynced and checked before. */
	if (*fd >= 0)
		(void)close(*fd);
	errno = saved;
}

int mem_grow(void *arr, size_t *cap, size_t need, size_t size)
{
	void **p = arr;
	size_t want = *cap ? *cap : 16;
	void *q;

	if (need <= *cap)
		return 0;
	while (want < need) {
		if (want > SIZE_MAX / 2) {
			errno = ENOMEM;
			return -1;
		}
		want *= 2;
	}
	q = reallocarray(*p, want, size);
	if (!q)
		return -1;
	*p = q;
	*cap = want;
	return 0;
}
