/* SPDX-License-Identifier: MIT */
/* What list and show say alike about a snapshot. */
#ifndef SNAPCTL_SUMMARY_H
#define SNAPCTL_SUMMARY_H

#include <stdint.h>

#include <snapctl/repo/snapshot.h>
#include <snapctl/ui/json.h>

struct summary {
	uint64_t size;	 /* what the files of all volumes hold */
	uint64_t stored; /* what it added to the repository */
};

struct summary summary_of(const struct snapshot *s);
/* "ok" or "incomplete", as snapctl-json(5) has it. */
const char *summary_status(const struct snapshot *s);
/* The members of a snapshot from id to tags, volumes but by name. */
void summary_json(struct ui_json *j, json_t *obj, const struct snapshot *s);
/* An array of the strings of v (NULL-terminated, or NULL). */
json_t *summary_strings(struct ui_json *j, char *const *v);

#endif
