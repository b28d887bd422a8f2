/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include <snapctl/base/mem.h>

#include "internal.h"

int docker_image_ids(struct docker *d, const char *label, char ***ids,
		     struct sc_err *err)
{
	json_t auto_json *doc = NULL;
	struct js s = { 0 };
	char **v;

	if (api_list(d, "/images/json?", "label", label, "list images", &doc,
		     err) < 0)
		return -1;
	if (!json_is_array(doc))
		s.bad = "list";
	v = js_pluck(&s, doc, "Id");
	if (js_check(&s, "list images", err) < 0) {
		docker_strv_free(v);
		return -1;
	}
	*ids = v;
	return 0;
}

/* "/images/REF/json". The slashes of a reference stay as they are, as other
 * clients send them: not every engine decodes them. */
static char *image_path(const char *ref, struct sc_err *err)
{
	struct buf auto_buf p = { 0 };
	const char *s;

	buf_printf(&p, "/images");
	while (*ref) {
		size_t n = strcspn(ref, "/");
		auto_free char *part = strndup(ref, n);
		auto_free char *q = part && *part ? docker_quote(part) : NULL;

		if (!q || strcmp(part, ".") == 0 || strcmp(part, "..") == 0) {
			(void)sc_fail(err, SC_ENOTFOUND, 0,
				      "bad image reference");
			return NULL;
		}
		buf_printf(&p, "/%s", q);
		ref += n + (ref[n] == '/');
	}
	buf_printf(&p, "/json");
	s = buf_cstr(&p);
	if (!s) {
		(void)sc_oom(err, "request");
		return NULL;
	}
	p.p = NULL;
	return (char *)(uintptr_t)s;
}

static void read_image(struct js *s, json_t *o, struct docker_image *i)
{
	i->id = js_str(s, o, "Id");
	i->arch = js_str(s, o, "Architecture");
	i->digests = js_strv(s, o, "RepoDigests");
	i->tags = js_strv(s, o, "RepoTags");
	i->layers = js_strv(s, js_obj(s, o, "RootFS"), "Layers");
	i->entrypoint = js_strv(s, js_obj(s, o, "Config"), "Entrypoint");
	if (i->id && !*i->id)
		s->bad = "Id";
}

int docker_image_inspect(struct docker *d, const char *ref,
			 struct docker_image **out, struct sc_err *err)
{
	auto_free char *path = NULL;
	json_t auto_json *doc = NULL;
	struct docker_image *i;
	struct js s = { 0 };
	int rc;

	*out = NULL;
	if (!*ref)
		return 0;
	path = image_path(ref, err);
	if (!path)
		return -1;
	rc = api_get(d, path, "inspect image", ref, &doc, err);
	if (rc <= 0)
		return rc;
	i = calloc(1, sizeof(*i));
	if (!i)
		return sc_oom(err, "image");
	read_image(&s, doc, i);
	if (js_check(&s, "inspect image", err) < 0) {
		docker_image_free(i);
		return -1;
	}
	*out = i;
	return 1;
}

void docker_image_free(struct docker_image *i)
{
	if (!i)
		return;
	free(i->id);
	free(i->arch);
	docker_strv_free(i->digests);
	docker_strv_free(i->tags);
	docker_strv_free(i->layers);
	docker_strv_free(i->entrypoint);
	free(i);
}

/* -- load --------------------------------------------------------------- */

/* Documents one after the other; one with an "error" is a failure that came
 * too late for a status. */
static int scan_progress(const char *p, size_t n, struct sc_err *err)
{
	while (n) {
		json_error_t e;
		json_t auto_json *doc = NULL;

		if (strchr(" \t\r\n", *p) && *p) {
			p++, n--;
			continue;
		}
		doc = json_loadb(p, n, JSON_DISABLE_EOF_CHECK, &e);
		if (!json_is_object(doc))
			return sc_fail(err, SC_EPROTO, 0,
				       "load image: the engine's answer is "
				       "not JSON");
		if (json_object_get(doc, "error") ||
		    json_object_get(doc, "errorDetail"))
			return docker_said_no(err, 500, doc, "load image", "");
		p += e.position;
		n -= (size_t)e.position;
	}
	return 0;
}

int docker_image_load(struct docker *d, const void *tar, size_t n,
		      struct sc_err *err)
{
	struct http_rsp auto_rsp rsp = { 0 };
	json_t auto_json *doc = NULL;

	if (docker_exchange(d, "POST", "/images/load?quiet=1",
			    "application/x-tar", tar, n, DOCKER_SLOW_MS, &rsp,
			    err) < 0)
		return sc_wrap(err, "load image");
	if (rsp.status == 200)
		return scan_progress((const char *)rsp.body.p, rsp.body.len,
				     err);
	doc = docker_error_doc(rsp.body.p, rsp.body.len);
	return docker_said_no(err, rsp.status, doc, "load image", "");
}
