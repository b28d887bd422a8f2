/* SPDX-License-Identifier: MIT */
/* Any bytes as a line of the engine's event stream. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "../../src/docker/internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct docker_event e;
	struct sc_err err = { 0 };
	int rc = docker_event_parse((const char *)data, size, &e, &err);

	if (rc < -1 || rc > 1 || (rc < 0 && err.code == SC_OK))
		abort();
	if (rc == 1 && (strcmp(e.type, "container") != 0 || !*e.action ||
			!memchr(e.action, 0, sizeof(e.action)) ||
			!memchr(e.id, 0, sizeof(e.id))))
		abort();
	return 0;
}
