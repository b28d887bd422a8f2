/* SPDX-License-Identifier: MIT */
/* Which project is meant, and which there are. */
#include "internal.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <snapctl/base/mem.h>
#include <snapctl/base/text.h>

/* -- lists of names ------------------------------------------------------- */

void names_free(struct names *l)
{
	docker_strv_free(l->v);
	*l = (struct names){ 0 };
}

int names_add(struct names *l, const char *name)
{
	for (size_t i = 0; i < l->n; i++)
		if (strcmp(l->v[i], name) == 0)
			return 0;
	if (mem_grow(&l->v, &l->cap, l->n + 2, sizeof(*l->v)) < 0)
		return -1;
	l->v[l->n + 1] = NULL;
	l->v[l->n] = strdup(name);
	return l->v[l->n] ? (l->n++, 0) : -1;
}

int names_compare(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static void names_print(struct names *l, struct buf *out)
{
	if (l->n)
		qsort(l->v, l->n, sizeof(*l->v), names_compare);
	for (size_t i = 0; i < l->n; i++)
		buf_printf(out, "%s%s", i ? ", " : "", SHOW(l->v[i]));
}

/* Adds the project of each container with that label. */
static int projects_of(struct docker *d, const char *label, struct names *out,
		       struct sc_err *err)
{
	char **ids = NULL;
	int rc = docker_container_ids(d, true, label, &ids, err);

	for (char **id = ids; rc == 0 && id && *id; id++) {
		struct docker_container *c = NULL;

		rc = docker_container_inspect(d, *id, &c, err);
		if (rc > 0 && *stack_label(c, LABEL_PROJECT) &&
		    names_add(out, stack_label(c, LABEL_PROJECT)) < 0)
			rc = sc_oom(err, "projects");
		docker_container_free(c);
		rc = rc < 0 ? -1 : 0;
	}
	docker_strv_free(ids);
	return rc;
}

static int all_projects(struct docker *d, struct names *out, struct sc_err *err)
{
	struct docker_volume *v = NULL;
	size_t n = 0;
	int rc = projects_of(d, LABEL_PROJECT, out, err);

	if (rc == 0)
		rc = docker_volume_list(d, LABEL_PROJECT, &v, &n, err);
	for (size_t i = 0; rc == 0 && i < n; i++) {
		const char *p =
			docker_label(v[i].labels, v[i].nlabels, LABEL_PROJECT);

		if (p && *p && names_add(out, p) < 0)
			rc = sc_oom(err, "projects");
	}
	docker_volumes_free(v, n);
	return rc;
}

int stack_names(struct docker *d, char ***names, struct sc_err *err)
{
	auto_names struct names all = { 0 };

	if (all_projects(d, &all, err) < 0)
		return -1;
	if (!all.v) {
		*names = calloc(1, sizeof(**names));
		return *names ? 0 : sc_oom(err, "projects");
	}
	qsort(all.v, all.n, sizeof(*all.v), names_compare);
	*names = take_ptr(all.v);
	return 0;
}

/* -- which project -------------------------------------------------------- */

static int project_in(struct docker *d, const char *dir, struct names *found,
		      struct sc_err *err)
{
	auto_free char *label = NULL;

	if (asprintf(&label, "%s=%s", LABEL_WORKING_DIR, dir) < 0)
		return sc_oom(err, "projects");
	return projects_of(d, label, found, err);
}

/* Compose records the directory as the shell named it, or resolved. */
static int project_here(struct docker *d, struct names *found,
			struct sc_err *err)
{
	auto_free char *cwd = getcwd(NULL, 0);
	const char *pwd = getenv("PWD");
	struct stat a, b;

	if (cwd && project_in(d, cwd, found, err) < 0)
		return -1;
	if (!cwd || !pwd || *pwd != '/' || strcmp(pwd, cwd) == 0 ||
	    stat(cwd, &a) < 0 || stat(pwd, &b) < 0 || a.st_dev != b.st_dev ||
	    a.st_ino != b.st_ino)
		return 0;
	return project_in(d, pwd, found, err);
}

static int name_by_directory(struct docker *d, struct stack *s,
			     struct sc_err *err)
{
	auto_names struct names here = { 0 };
	auto_names struct names all = { 0 };
	auto_buf struct buf text = { 0 };

	if (project_here(d, &here, err) < 0)
		return -1;
	if (here.n == 1) {
		s->name = strdup(here.v[0]);
		return s->name ? 0 : sc_oom(err, "stack");
	}
	if (here.n == 0 && all_projects(d, &all, err) < 0)
		return -1;
	names_print(here.n ? &here : &all, &text);
	if (here.n)
		return sc_fail(err, SC_EUSAGE, 0,
			       "several stacks belong to this directory, name "
			       "one: %s",
			       buf_cstr(&text));
	return sc_fail(err, SC_EUSAGE, 0,
		       "no stack was named and none belongs to this "
		       "directory; %s%s",
		       all.n ? "there are: " : "this engine has none",
		       text.failed ? "" : buf_cstr(&text));
}

/* The volume's name, or the last part of a path, with nothing in it that a
 * volume could not be called. */
static char *adhoc_name(const char *volume)
{
	auto_free char *path = *volume == '/' ? path_normal(volume) : NULL;
	char *name = strdup(path ? strrchr(path, '/') + 1 : volume);

	for (char *c = name; c && *c; c++)
		if (!isalnum((unsigned char)*c) && !strchr("_.-", *c))
			*c = '_';
	return name;
}

int project_name(struct docker *d, struct stack *s,
		 const struct stack_options *o, struct sc_err *err)
{
	const char *name = o->project;
	bool volumes = o->volumes && *o->volumes;

	if (!name || !*name)
		name = getenv("COMPOSE_PROJECT_NAME");
	if (!name || !*name)
		name = NULL;
	if (!name && !volumes)
		return name_by_directory(d, s, err);
	s->adhoc = !name;
	s->name = name ? strdup(name) : adhoc_name(o->volumes[0]);
	return s->name ? 0 : sc_oom(err, "stack");
}

int project_check_known(struct docker *d, struct stack *s,
			const struct stack_options *o, struct sc_err *err)
{
	auto_names struct names all = { 0 };
	auto_buf struct buf near = { 0 };
	char lower[256] = "";

	if (o->known_volumes && *o->known_volumes)
		return 0;
	if (all_projects(d, &all, err) < 0)
		return -1;
	if (stack_has((const char *const *)all.v, s->name))
		return 0;
	s->adhoc = o->volumes && *o->volumes;
	if (s->adhoc)
		return 0;
	/* Compose makes its names lower case. */
	for (size_t i = 0; i < sizeof(lower) - 1 && s->name[i]; i++)
		lower[i] = (char)tolower((unsigned char)s->name[i]);
	text_near(&near, lower, (const char *const *)all.v, all.n);
	return sc_fail(
		err, SC_ENOTFOUND, 0,
		"no stack %s on this engine%s%s; \"docker compose ls -a\" "
		"lists them",
		SHOW(s->name), near.len ? "; near: " : "",
		near.len && !near.failed ? buf_cstr(&near) : "");
}
