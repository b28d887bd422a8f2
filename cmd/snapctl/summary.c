/* SPDX-License-Identifier: MIT */
#include "summary.h"

#include <string.h>
#include <time.h>

struct summary summary_of(const struct snapshot *s)
{
	struct summary sum = { 0, 0 };

	for (size_t i = 0; i < s->nvolumes; i++) {
		sum.size += s->volumes[i].bytes;
		sum.stored += s->volumes[i].stored_bytes;
	}
	return sum;
}

const char *summary_status(const struct snapshot *s)
{
	return s->incomplete ? "incomplete" : "ok";
}

json_t *summary_strings(struct ui_json *j, char *const *v)
{
	json_t *list = ui_json_array(j);

	for (; v && *v; v++)
		ui_json_push(j, list, ui_json_bytes(j, *v, strlen(*v)));
	return list;
}

void summary_json(struct ui_json *j, json_t *obj, const struct snapshot *s)
{
	struct summary sum = summary_of(s);

	ui_json_str(j, obj, "id", s->id);
	ui_json_str(j, obj, "stack", s->stack);
	ui_json_time(j, obj, "created", s->created);
	ui_json_int(j, obj, "age_seconds", time(NULL) - s->created);
	ui_json_uint(j, obj, "size_bytes", sum.size);
	ui_json_uint(j, obj, "stored_bytes", sum.stored);
	ui_json_bool(j, obj, "clean", s->clean);
	ui_json_bool(j, obj, "torn", s->torn);
	if (s->downtime > 0)
		ui_json_seconds(j, obj, "downtime_seconds", s->downtime);
	else
		ui_json_str(j, obj, "downtime_seconds", NULL);
	ui_json_str(j, obj, "note", s->note);
	ui_json_set(j, obj, "tags", summary_strings(j, s->tags));
	ui_json_str(j, obj, "status", summary_status(s));
}
