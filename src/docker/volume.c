/* SPDX-License-Identifier: MIT */
#include <stdlib.h>

#include <snapctl/base/mem.h>

#include "internal.h"

static void read_volume(struct js *s, json_t *o, struct docker_volume *v)
{
	v->name = js_str(s, o, "Name");
	v->driver = js_str(s, o, "Driver");
	v->mountpoint = js_str(s, o, "Mountpoint");
	v->created_at = js_str(s, o, "CreatedAt");
	v->scope = js_str(s, o, "Scope");
	v->labels = js_labels(s, o, "Labels", &v->nlabels);
	v->options = js_labels(s, o, "Options", &v->noptions);
	if (v->name && !*v->name)
		s->bad = "Name";
}

void docker_volumes_free(struct docker_volume *v, size_t n)
{
	for (size_t i = 0; v && i < n; i++) {
		free(v[i].name);
		free(v[i].driver);
		free(v[i].mountpoint);
		free(v[i].created_at);
		free(v[i].scope);
		js_labels_free(v[i].labels, v[i].nlabels);
		js_labels_free(v[i].options, v[i].noptions);
	}
	free(v);
}

int docker_volume_list(struct docker *d, const char *label,
		       struct docker_volume **out, size_t *n,
		       struct sc_err *err)
{
	json_t auto_json *doc = NULL;
	struct js s = { 0 };
	struct docker_volume *v;
	size_t count;
	json_t *arr;

	if (api_list(d, "/volumes?", "label", label, "list volumes", &doc,
		     err) < 0)
		return -1;
	if (!json_is_object(doc))
		s.bad = "list";
	arr = js_arr(&s, doc, "Volumes");
	count = json_array_size(arr);
	v = calloc(count + 1, sizeof(*v));
	if (!v)
		return sc_oom(err, "volumes");
	for (size_t i = 0; i < count; i++)
		read_volume(&s, json_array_get(arr, i), &v[i]);
	if (js_check(&s, "list volumes", err) < 0) {
		docker_volumes_free(v, count);
		return -1;
	}
	*out = v;
	*n = count;
	return 0;
}

int docker_volume_inspect(struct docker *d, const char *name,
			  struct docker_volume **out, struct sc_err *err)
{
	auto_free char *path = docker_path("/volumes/", name, "", err);
	json_t auto_json *doc = NULL;
	struct docker_volume *v;
	struct js s = { 0 };
	int rc;

	*out = NULL;
	if (!path)
		return -1;
	rc = api_get(d, path, "inspect volume", name, &doc, err);
	if (rc <= 0)
		return rc;
	v = calloc(1, sizeof(*v));
	if (!v)
		return sc_oom(err, "volume");
	read_volume(&s, doc, v);
	if (js_check(&s, "inspect volume", err) < 0) {
		docker_volumes_free(v, 1);
		return -1;
	}
	*out = v;
	return 1;
}

static json_t *create_body(const struct docker_volume *v)
{
	json_t *o = json_pack("{s:s, s:o, s:o}", "Name", v->name, "DriverOpts",
			      js_from_labels(v->options, v->noptions), "Labels",
			      js_from_labels(v->labels, v->nlabels));

	if (o && v->driver && *v->driver &&
	    json_object_set_new(o, "Driver", json_string(v->driver)) < 0) {
		json_decref(o);
		return NULL;
	}
	return o;
}

int docker_volume_create(struct docker *d, const struct docker_volume *v,
			 struct sc_err *err)
{
	struct docker_volume *there = NULL;
	json_t auto_json *body = NULL;
	int rc = docker_volume_inspect(d, v->name, &there, err);

	if (rc < 0)
		return -1;
	/* The engine would answer as if it had made it. */
	if (rc) {
		docker_volumes_free(there, 1);
		return sc_fail(err, SC_EREFUSED, 0,
			       "create volume %s: it exists", v->name);
	}
	body = create_body(v);
	if (!body)
		return sc_fail(err, SC_EUSAGE, 0,
			       "create volume %s: its name, options or labels "
			       "are not valid UTF-8",
			       v->name);
	return api_do(d, "POST", "/volumes/create", body, DOCKER_SLOW_MS,
		      "create volume", v->name, NULL, NULL, err);
}

int docker_volume_remove(struct docker *d, const char *name, struct sc_err *err)
{
	auto_free char *path = docker_path("/volumes/", name, "", err);

	if (!path)
		return -1;
	return api_do(d, "DELETE", path, NULL, DOCKER_SLOW_MS, "remove volume",
		      name, NULL, NULL, err);
}
