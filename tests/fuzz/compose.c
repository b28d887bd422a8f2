/* SPDX-License-Identifier: MIT */
/* Any bytes as a compose file. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <snapctl/stack/stack.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	int fd = memfd_create("compose", MFD_CLOEXEC);
	struct compose_service *v;
	struct sc_err err = { 0 };
	char path[32];
	size_t n;

	if (fd < 0 || write(fd, data, size) != (ssize_t)size)
		abort();
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (compose_read(path, &v, &n, &err) == 0)
		compose_free(v, n);
	else if (err.code == SC_OK)
		abort();
	close(fd);
	return 0;
}
