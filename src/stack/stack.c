/* SPDX-License-Identifier: MIT */
/* Finding a stack and everything a stop of it may touch. */
#include "internal.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include <snapctl/base/hash.h>
#include <snapctl/base/mem.h>
#include <snapctl/base/text.h>

/* -- small things the module shares --------------------------------------- */

const char *stack_show(struct shown *b, const char *name)
{
	return text_escaped(b->s, sizeof(b->s), name, strlen(name));
}

const char *stack_label(const struct docker_container *c, const char *key)
{
	const char *v = docker_label(c->labels, c->nlabels, key);

	return v ? v : "";
}

bool stack_label_is(const struct docker_container *c, const char *key,
		    const char *value)
{
	return strcmp(stack_label(c, key), value) == 0;
}

const char *stack_who(const struct stack_container *c)
{
	return *c->service ? c->service : c->c->name;
}

bool stack_has(const char *const *list, const char *name)
{
	for (; list && *list; list++)
		if (strcmp(*list, name) == 0)
			return true;
	return false;
}

bool path_within(const char *outer, const char *inner)
{
	size_t n = strlen(outer);

	if (n == 1 && *outer == '/')
		return *inner == '/';
	return n > 0 && strncmp(outer, inner, n) == 0 &&
	       (inner[n] == 0 || inner[n] == '/');
}

char *path_normal(const char *path)
{
	char *out = malloc(strlen(path) + 2);
	size_t n = 0;

	if (!out)
		return NULL;
	while (*path) {
		size_t len = strcspn(path, "/");

		if (len == 2 && strncmp(path, "..", 2) == 0) {
			while (n > 0 && out[--n] != '/')
				;
		} else if (len > 0 && !(len == 1 && *path == '.')) {
			out[n++] = '/';
			memcpy(out + n, path, len);
			n += len;
		}
		path += len + (path[len] == '/');
	}
	if (n == 0)
		out[n++] = '/';
	out[n] = 0;
	return out;
}

/* -- containers ----------------------------------------------------------- */

static void container_free(struct stack_container *c)
{
	docker_container_free(c->c);
	free(c->service);
	free(c->project);
	free(c->deps);
	*c = (struct stack_container){ 0 };
}

static int add_ids(struct docker *d, struct names *ids, bool all,
		   const char *label, struct sc_err *err)
{
	char **v = NULL;
	int rc = docker_container_ids(d, all, label, &v, err);

	for (char **id = v; rc == 0 && id && *id; id++)
		if (names_add(ids, *id) < 0)
			rc = sc_oom(err, "containers");
	docker_strv_free(v);
	return rc;
}

static int add_users(struct docker *d, struct names *ids, const char *volume,
		     struct sc_err *err)
{
	char **v = NULL;
	int rc = docker_volume_users(d, volume, &v, err);

	for (char **id = v; rc == 0 && id && *id; id++)
		if (names_add(ids, *id) < 0)
			rc = sc_oom(err, "containers");
	docker_strv_free(v);
	return rc;
}

/* Every container that runs (it may share a volume or a namespace), the
 * project's others, and the users of volumes named. */
static int pool_ids(struct docker *d, const struct stack *s,
		    const struct stack_options *o, struct names *ids,
		    struct sc_err *err)
{
	auto_free char *label = NULL;

	if (add_ids(d, ids, false, NULL, err) < 0)
		return -1;
	if (asprintf(&label, "%s=%s", LABEL_PROJECT, s->name) < 0)
		return sc_oom(err, "containers");
	if (!s->adhoc && add_ids(d, ids, true, label, err) < 0)
		return -1;
	for (const char *const *v = o->volumes; v && *v; v++)
		if (**v != '/' && !strchr(*v, ':') &&
		    add_users(d, ids, *v, err) < 0)
			return -1;
	return 0;
}

static int add_container(struct stack *s, struct docker_container *c)
{
	const char *number = stack_label(c, LABEL_NUMBER);
	struct stack_container *o = &s->containers[s->ncontainers];
	unsigned long n = strtoul(number, NULL, 10);

	*o = (struct stack_container){
		.c = c,
		.service = strdup(stack_label(c, LABEL_SERVICE)),
		.project = strdup(stack_label(c, LABEL_PROJECT)),
		.number = n > UINT_MAX ? 0 : (unsigned)n,
		.oneoff = stack_label_is(c, LABEL_ONEOFF, "True") ||
			  stack_label_is(c, LABEL_ONEOFF, "true"),
		.keep = stack_label_is(c, LABEL_STOP, "false"),
	};
	s->ncontainers++;
	o->member = !s->adhoc &&
		    strcmp(stack_label(c, LABEL_PROJECT), s->name) == 0;
	return o->service && o->project ? 0 : -1;
}

static int compare_containers(const void *a, const void *b)
{
	const struct stack_container *x = a, *y = b;
	int d = strcmp(x->project, y->project);

	if (d == 0)
		d = strcmp(x->service, y->service);
	if (d == 0)
		d = (x->number > y->number) - (x->number < y->number);
	return d ? d : strcmp(x->c->name, y->c->name);
}

static int pool_containers(struct docker *d, struct stack *s,
			   const struct stack_options *o, struct sc_err *err)
{
	auto_names struct names ids = { 0 };

	if (pool_ids(d, s, o, &ids, err) < 0)
		return -1;
	s->containers = calloc(ids.n + 1, sizeof(*s->containers));
	if (!s->containers)
		return sc_oom(err, "containers");
	for (size_t i = 0; i < ids.n; i++) {
		struct docker_container *c = NULL;
		int rc = docker_container_inspect(d, ids.v[i], &c, err);

		if (rc < 0)
			return -1;
		if (rc > 0 && add_container(s, c) < 0)
			return sc_oom(err, "containers");
	}
	qsort(s->containers, s->ncontainers, sizeof(*s->containers),
	      compare_containers);
	return 0;
}

static bool names_volume(const struct stack_options *o,
			 const struct docker_container *c)
{
	for (const char *const *v = o->volumes; v && *v; v++) {
		for (size_t i = 0; i < c->nmounts; i++) {
			const struct docker_mount *m = &c->mounts[i];
			bool bind = strcmp(m->type, "bind") == 0;

			if (strcmp(*v, bind ? m->source : m->name) == 0)
				return true;
		}
	}
	return false;
}

/* Of an ad-hoc stack are those that have its volumes, and the projects these
 * are of: who depends on a user has to stop as well. */
static void adhoc_members(struct stack *s, const struct stack_options *o)
{
	for (size_t i = 0; i < s->ncontainers; i++) {
		struct stack_container *c = &s->containers[i];

		if (docker_label(c->c->labels, c->c->nlabels, LABEL_HELPER) ||
		    !names_volume(o, c->c))
			continue;
		c->member = true;
		for (size_t j = 0; *c->project && j < s->ncontainers; j++)
			if (strcmp(s->containers[j].project, c->project) == 0)
				s->containers[j].member = true;
	}
}

/* -- the stack as a whole ------------------------------------------------- */

static bool is_service(const struct stack_container *c)
{
	return c->member && !c->oneoff;
}

static int files_of(struct stack *s, const struct stack_container *c)
{
	auto_names struct names files = { 0 };
	const char *list = stack_label(c->c, LABEL_FILES);

	while (*list) {
		size_t len = strcspn(list, ",");
		auto_free char *joined = NULL;
		auto_free char *path = NULL;

		if (asprintf(&joined, "%s/%.*s",
			     *list == '/' ? "" : s->working_dir, (int)len,
			     list) < 0)
			return -1;
		path = path_normal(joined);
		if (!path || names_add(&files, path) < 0)
			return -1;
		list += len + (list[len] == ',');
	}
	if (files.v) {
		docker_strv_free(s->config_files);
		s->config_files = take_ptr(files.v);
	}
	return 0;
}

/* The directory and the files, as the first container with them says. */
static int fill_project(struct stack *s, struct sc_err *err)
{
	s->working_dir = strdup("");
	s->config_files = calloc(1, sizeof(*s->config_files));
	if (!s->working_dir || !s->config_files)
		return sc_oom(err, "stack");
	for (size_t i = 0; !s->adhoc && i < s->ncontainers; i++) {
		const struct stack_container *c = &s->containers[i];
		const char *dir = stack_label(c->c, LABEL_WORKING_DIR);

		if (!is_service(c) || *dir != '/')
			continue;
		free(s->working_dir);
		s->working_dir = path_normal(dir);
		if (!s->working_dir || files_of(s, c) < 0)
			return sc_oom(err, "stack");
		break;
	}
	return 0;
}

/* One digest over what each service was made from. */
static int fill_config_hash(struct stack *s, struct sc_err *err)
{
	auto_hash struct hash *h = NULL;
	auto_names struct names lines = { 0 };
	struct digest digest;
	char hex[DIGEST_HEX + 1] = "";

	for (size_t i = 0; i < s->ncontainers; i++) {
		const struct stack_container *c = &s->containers[i];
		const char *hash = stack_label(c->c, LABEL_CONFIG_HASH);
		auto_free char *line = NULL;

		if (!is_service(c) || !*hash)
			continue;
		if (asprintf(&line, "%s=%s\n", c->service, hash) < 0 ||
		    names_add(&lines, line) < 0)
			return sc_oom(err, "configuration hash");
	}
	if (lines.n) {
		qsort(lines.v, lines.n, sizeof(*lines.v), names_compare);
		if (hash_new(&h, err) < 0)
			return -1;
		for (size_t i = 0; i < lines.n; i++)
			if (hash_update(h, lines.v[i], strlen(lines.v[i]),
					err) < 0)
				return -1;
		if (hash_final(h, &digest, err) < 0)
			return -1;
		digest_hex(&digest, hex);
	}
	s->config_hash = strdup(hex);
	return s->config_hash ? 0 : sc_oom(err, "configuration hash");
}

static bool keep_container(const struct stack *s,
			   const struct stack_container *c)
{
	return c->member || c->stop || c->shares_namespace ||
	       stack_holds_selected(s, c->c, true);
}

static void renumber_deps(struct stack_container *c, const size_t *to)
{
	size_t n = 0;

	for (size_t d = 0; d < c->ndeps; d++) {
		if (to[c->deps[d].on] == SIZE_MAX)
			continue;
		c->deps[n] = c->deps[d];
		c->deps[n++].on = to[c->deps[d].on];
	}
	c->ndeps = n;
}

/* Forgets the containers that have nothing to do with the stack. */
static int drop_strangers(struct stack *s, struct sc_err *err)
{
	auto_free size_t *to = calloc(s->ncontainers + 1, sizeof(*to));
	size_t n = 0;

	if (!to)
		return sc_oom(err, "containers");
	for (size_t i = 0; i < s->ncontainers; i++) {
		to[i] = SIZE_MAX;
		if (!keep_container(s, &s->containers[i])) {
			container_free(&s->containers[i]);
			continue;
		}
		to[i] = n;
		if (n != i) {
			s->containers[n] = s->containers[i];
			s->containers[i] = (struct stack_container){ 0 };
		}
		n++;
	}
	s->ncontainers = n;
	for (size_t i = 0; i < n; i++)
		renumber_deps(&s->containers[i], to);
	return 0;
}

/* Whole trees mounted from outside, read-write: seen often (agents that mount
 * the host), so said, not refused. */
static void note_above(const struct stack *s, struct notes *notes)
{
	for (size_t i = 0; i < s->ncontainers; i++) {
		const struct stack_container *c = &s->containers[i];

		if (!c->member && stack_runs(c->c) &&
		    stack_holds_selected(s, c->c, true) == 2 &&
		    stack_holds_selected(s, c->c, false) != 2)
			notes_add(notes, NOTE_INFO,
				  "container %s has a directory above one of "
				  "the volumes mounted writable; it is left "
				  "running",
				  SHOW(c->c->name));
	}
}

static int resolve(struct docker *d, struct stack *s,
		   const struct stack_options *o, struct notes *notes,
		   struct sc_err *err)
{
	size_t services = 0, members = 0;

	if (project_name(d, s, o, err) < 0 || pool_containers(d, s, o, err) < 0)
		return -1;
	for (size_t i = 0; i < s->ncontainers; i++)
		members += s->containers[i].member;
	if (!s->adhoc && !members && project_check_known(d, s, o, err) < 0)
		return -1;
	if (s->adhoc)
		adhoc_members(s, o);
	for (size_t i = 0; i < s->ncontainers; i++)
		services += is_service(&s->containers[i]);
	s->down = services == 0;
	if (fill_project(s, err) < 0 || volumes_fill(d, s, o, notes, err) < 0)
		return -1;
	if (deps_fill(s, o, docker_info(d)->local, notes, err) < 0 ||
	    order_mark(s, o, notes, err) < 0 || drop_strangers(s, err) < 0 ||
	    fill_config_hash(s, err) < 0)
		return -1;
	note_above(s, notes);
	return 0;
}

int stack_resolve(struct docker *d, const struct stack_options *o,
		  struct notes *notes, struct stack **out, struct sc_err *err)
{
	struct stack *s = calloc(1, sizeof(*s));

	if (!s)
		return sc_oom(err, "stack");
	s->for_restore = o->for_restore;
	s->no_stop = o->no_stop;
	s->ignore_sharing = o->ignore_sharing;
	if (resolve(d, s, o, notes, err) < 0) {
		stack_free(s);
		return -1;
	}
	*out = s;
	return 0;
}

void stack_free(struct stack *s)
{
	if (!s)
		return;
	for (size_t i = 0; i < s->ncontainers; i++)
		container_free(&s->containers[i]);
	free(s->containers);
	volumes_free(s->volumes, s->nvolumes);
	docker_strv_free(s->config_files);
	free(s->working_dir);
	free(s->config_hash);
	free(s->name);
	free(s);
}
