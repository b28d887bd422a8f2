/* SPDX-License-Identifier: MIT */
#include "internal.h"

#include <string.h>

#include <snapctl/base/text.h>

static bool selected(const struct snapshot_volume *v,
		     const char *const *volumes)
{
	for (; volumes && *volumes; volumes++)
		if (strcmp(*volumes, v->name) == 0)
			return true;
	return !volumes;
}

static int check_length(struct repo *r, const struct snapshot_volume *v,
			const char *what, const struct digest *d,
			uint64_t length, struct sc_err *err)
{
	char digest[DIGEST_STR], name[256];
	uint64_t size = 0;
	int rc = blob_stat(r, d, &size, err);

	digest_str(d, digest);
	text_escaped(name, sizeof(name), v->name, strlen(v->name));
	if (rc < 0)
		return sc_wrap(err, "volume %s", name);
	if (rc == 0)
		return sc_fail(err, SC_ECORRUPT, 0,
			       "volume %s: its %s, blob %s, is missing", name,
			       what, digest);
	if (size != length)
		return sc_fail(err, SC_ECORRUPT, 0,
			       "volume %s: its %s, blob %s, has %llu bytes "
			       "instead of %llu",
			       name, what, digest, (unsigned long long)size,
			       (unsigned long long)length);
	return 0;
}

int present_lengths(struct repo *r, const struct snapshot *s,
		    const char *const *volumes, struct sc_err *err)
{
	for (size_t i = 0; i < s->nvolumes; i++) {
		const struct snapshot_volume *v = &s->volumes[i];

		if (!selected(v, volumes))
			continue;
		for (size_t k = 0; k < v->npacks; k++)
			if (check_length(r, v, "pack", &v->packs[k].digest,
					 v->packs[k].length, err) < 0)
				return -1;
		if (check_length(r, v, "index", &v->index, v->index_length,
				 err) < 0)
			return -1;
	}
	return 0;
}

int repo_check_present(struct repo *r, const struct snapshot *s,
		       const char *const *volumes, struct sc_err *err)
{
	if (present_lengths(r, s, volumes, err) < 0)
		return -1;
	for (size_t i = 0; i < s->nvolumes; i++)
		if (selected(&s->volumes[i], volumes) &&
		    blob_check(r, &s->volumes[i].index,
			       s->volumes[i].index_length, NULL, err) < 0)
			return sc_wrap(err, "index of volume %s",
				       s->volumes[i].name);
	return 0;
}
