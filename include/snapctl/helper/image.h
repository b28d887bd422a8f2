/* SPDX-License-Identifier: MIT */
/* The helper's image: one static binary in an otherwise empty image, made
 * from the bytes embedded in snapctl, loaded when the engine lacks it.
 *
 * It is recognised by its RootFS.Layers being exactly the layer digest
 * computed here and by its entrypoint. Its label only narrows the search: any
 * image can carry a label, and image ids differ between image stores. */
#ifndef SNAPCTL_HELPER_IMAGE_H
#define SNAPCTL_HELPER_IMAGE_H

#include <stdbool.h>
#include <stddef.h>

#include <snapctl/base/buf.h>
#include <snapctl/base/err.h>
#include <snapctl/base/hash.h>
#include <snapctl/docker/docker.h>

#define IMAGE_LABEL	 "io.snapctl.helper"
#define IMAGE_ENTRYPOINT "/snapctl-helper"

/* The image as a docker archive (what /images/load takes), the same bytes
 * every time. binary: borrowed. */
int image_build(const void *binary, size_t n, struct buf *tar,
		struct digest *layer, struct sc_err *err);
/* Finds or loads the image; *id (owned) is what to create containers from.
 * An engine of another architecture than the binary's is SC_EREFUSED.
 * *loaded (may be NULL) tells whether it had to be loaded. */
int image_ensure(struct docker *d, const void *binary, size_t n, char **id,
		 bool *loaded, struct sc_err *err);

#endif
