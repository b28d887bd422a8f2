/* SPDX-License-Identifier: MIT */
#include "known.h"

#include <stdlib.h>
#include <string.h>

#include <snapctl/repo/repo.h>

static int list_names(struct known *k, struct sc_err *err)
{
	size_t n = 0;

	k->names = calloc(k->from->nvolumes + 1, sizeof(*k->names));
	if (!k->names)
		return sc_oom(err, "volumes");
	for (size_t i = 0; i < k->from->nvolumes; i++)
		if (strcmp(k->from->volumes[i].type, "volume") == 0)
			k->names[n++] = k->from->volumes[i].name;
	return 0;
}

int known_volumes(const char *repo, const char *stack, struct known *out,
		  struct sc_err *err)
{
	struct snapshot_ref ref;
	struct sc_err unknown;
	struct repo *r;

	*out = (struct known){ 0 };
	if (!stack || repo_open(repo, REPO_READ, &r, &unknown) < 0)
		return 0;
	if (repo_find(r, "latest", stack, &ref, &unknown) == 0) {
		if (repo_load(r, &ref, &out->from, &unknown) < 0)
			out->from = NULL;
		snapshot_ref_clear(&ref);
	}
	repo_close(r);
	return out->from ? list_names(out, err) : 0;
}

void known_free(struct known *k)
{
	free(k->names);
	snapshot_free(k->from);
}
