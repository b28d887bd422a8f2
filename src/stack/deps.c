/* SPDX-License-Identifier: MIT */
/* Who depends on whom.
 *
 * Compose v2 writes depends_on into a label; Compose 1.x does not, then the
 * compose files that the containers name are read. What cannot be read is
 * replaced by the one order that is safe for data: containers without a
 * selected volume depend on those that have one. */
#include "internal.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <snapctl/base/mem.h>

/* "container:ID-or-NAME" and plain references to a container. */
static bool refers(const char *ref, size_t len,
		   const struct docker_container *c)
{
	if (len == 0)
		return false;
	if (strlen(c->name) == len && strncmp(ref, c->name, len) == 0)
		return true;
	return len >= 12 && strlen(c->id) >= len &&
	       strncmp(ref, c->id, len) == 0;
}

static bool mode_refers(const char *mode, const struct docker_container *c)
{
	return mode && strncmp(mode, "container:", 10) == 0 &&
	       refers(mode + 10, strlen(mode + 10), c);
}

bool deps_joins(const struct docker_container *c,
		const struct docker_container *owner)
{
	return mode_refers(c->network_mode, owner) ||
	       mode_refers(c->pid_mode, owner) ||
	       mode_refers(c->ipc_mode, owner);
}

/* volumes_from is "ID[:mode]", a link "/name:/me/alias". */
static bool list_refers(char *const *list, const struct docker_container *c)
{
	for (; list && *list; list++) {
		const char *s = *list + (**list == '/');

		if (refers(s, strcspn(s, ":"), c))
			return true;
	}
	return false;
}

static int add_dep(struct stack_container *c, size_t on,
		   enum stack_condition condition)
{
	struct stack_dep *v;

	for (size_t i = 0; i < c->ndeps; i++) {
		if (c->deps[i].on == on) {
			if (condition != DEP_STARTED)
				c->deps[i].condition = condition;
			return 0;
		}
	}
	v = realloc(c->deps, (c->ndeps + 1) * sizeof(*v));
	if (!v)
		return -1;
	c->deps = v;
	v[c->ndeps++] = (struct stack_dep){ on, condition };
	return 0;
}

/* Every replica of the service counts; an absent one is nobody. */
static int add_service(struct stack *s, size_t i, const char *service,
		       size_t len, enum stack_condition condition)
{
	const char *project = s->containers[i].project;

	for (size_t j = 0; j < s->ncontainers; j++) {
		struct stack_container *o = &s->containers[j];

		if (j != i && !o->oneoff && strcmp(o->project, project) == 0 &&
		    strlen(o->service) == len &&
		    strncmp(o->service, service, len) == 0 &&
		    add_dep(&s->containers[i], j, condition) < 0)
			return -1;
	}
	return 0;
}

static enum stack_condition parse_condition(const char *s, size_t len)
{
	static const char healthy[] = "service_healthy";
	static const char completed[] = "service_completed_successfully";

	if (len == sizeof(healthy) - 1 && strncmp(s, healthy, len) == 0)
		return DEP_HEALTHY;
	if (len == sizeof(completed) - 1 && strncmp(s, completed, len) == 0)
		return DEP_COMPLETED;
	return DEP_STARTED;
}

/* "svc[:condition[:restart]]", comma separated. */
static int from_label(struct stack *s, size_t i, const char *label)
{
	while (*label) {
		size_t all = strcspn(label, ",");
		size_t name = strcspn(label, ":,");
		const char *c = label + name + (label[name] == ':');

		if (add_service(s, i, label, name,
				parse_condition(c, strcspn(c, ":,"))) < 0)
			return -1;
		label += all + (label[all] == ',');
	}
	return 0;
}

static bool by_label(const struct stack_container *c)
{
	return docker_label(c->c->labels, c->c->nlabels, LABEL_DEPENDS_ON);
}

/* What the engine itself knows: namespaces, volumes_from, links. */
static int from_engine(struct stack *s, size_t i)
{
	const struct docker_container *c = s->containers[i].c;

	for (size_t j = 0; j < s->ncontainers; j++) {
		const struct docker_container *o = s->containers[j].c;

		if (j != i &&
		    (deps_joins(c, o) || list_refers(c->volumes_from, o) ||
		     list_refers(c->links, o)) &&
		    add_dep(&s->containers[i], j, DEP_STARTED) < 0)
			return -1;
	}
	return 0;
}

/* -- compose files -------------------------------------------------------- */

static int apply_file(struct stack *s, const char *project,
		      const struct compose_service *v, size_t n)
{
	for (size_t i = 0; i < s->ncontainers; i++) {
		struct stack_container *c = &s->containers[i];

		if (c->oneoff || by_label(c) ||
		    strcmp(c->project, project) != 0)
			continue;
		for (size_t k = 0; k < n; k++) {
			if (strcmp(v[k].name, c->service) != 0)
				continue;
			for (size_t d = 0; v[k].deps[d]; d++)
				if (add_service(s, i, v[k].deps[d],
						strlen(v[k].deps[d]),
						v[k].conditions[d]) < 0)
					return -1;
		}
	}
	return 0;
}

/* Reads the project's files as container c names them. Returns 1, 0 with
 * *why when one cannot be read, -1 when out of memory. */
static int from_files(struct stack *s, const struct stack_container *c,
		      struct sc_err *why)
{
	const char *dir = stack_label(c->c, LABEL_WORKING_DIR);
	const char *files = stack_label(c->c, LABEL_FILES);

	if (!*files) {
		sc_fail(why, SC_ENOTFOUND, 0, "no compose file is recorded");
		return 0;
	}
	while (*files) {
		size_t len = strcspn(files, ",");
		struct compose_service *v = NULL;
		size_t n = 0;
		char *path = NULL;
		int rc;

		if (asprintf(&path, "%s%s%.*s", *files == '/' ? "" : dir,
			     *files == '/' ? "" : "/", (int)len, files) < 0)
			return -1;
		rc = *path == '/' ? compose_read(path, &v, &n, why)
				  : sc_fail(why, SC_ENOTFOUND, 0,
					    "%s is not absolute", path);
		free(path);
		if (rc < 0)
			return why->code == SC_ENOMEM ? -1 : 0;
		rc = apply_file(s, c->project, v, n);
		compose_free(v, n);
		if (rc < 0)
			return -1;
		files += len + (files[len] == ',');
	}
	return 1;
}

/* Does i reach j along dependencies? seen: ncontainers, zeroed. */
static bool reaches(const struct stack *s, size_t i, size_t j, bool *seen)
{
	const struct stack_container *c = &s->containers[i];

	seen[i] = true;
	for (size_t d = 0; d < c->ndeps; d++)
		if (c->deps[d].on == j || (!seen[c->deps[d].on] &&
					   reaches(s, c->deps[d].on, j, seen)))
			return true;
	return false;
}

/* Nothing can be read: without data stops first, with data last. */
static int by_volumes(struct stack *s, const char *project)
{
	auto_free bool *seen = calloc(s->ncontainers + 1, sizeof(*seen));

	if (!seen)
		return -1;
	for (size_t i = 0; i < s->ncontainers; i++) {
		struct stack_container *c = &s->containers[i];

		if (c->oneoff || by_label(c) ||
		    strcmp(c->project, project) != 0 ||
		    stack_holds_selected(s, c->c, true))
			continue;
		for (size_t j = 0; j < s->ncontainers; j++) {
			struct stack_container *o = &s->containers[j];

			if (o->oneoff || strcmp(o->project, project) != 0 ||
			    !stack_holds_selected(s, o->c, true))
				continue;
			memset(seen, 0, s->ncontainers);
			if (!reaches(s, j, i, seen) &&
			    add_dep(c, j, DEP_STARTED) < 0)
				return -1;
		}
	}
	return 0;
}

static int without_label(struct stack *s, const struct stack_container *c,
			 bool local, struct notes *notes)
{
	struct sc_err why = { 0 };
	int rc = 0;

	if (local)
		rc = from_files(s, c, &why);
	else
		sc_fail(&why, SC_ENOTFOUND, 0, "the engine is remote");
	if (rc != 0)
		return rc;
	notes_add(notes, NOTE_INFO,
		  "the dependencies of %s are unknown (%s): containers without "
		  "selected volumes stop first and start last",
		  SHOW(c->project), SHOW(why.msg));
	return by_volumes(s, c->project);
}

/* Which container to ask for the files of i's project: the first that names
 * some, else the first. Each project is looked at once, and only if a stop
 * may touch it. */
static bool file_needed(const struct stack *s, size_t i, bool others)
{
	const struct stack_container *c = &s->containers[i];
	size_t ask = SIZE_MAX;
	bool touched = false;

	if (c->oneoff || !*c->project || by_label(c))
		return false;
	for (size_t j = 0; j < s->ncontainers; j++) {
		const struct stack_container *o = &s->containers[j];

		if (strcmp(o->project, c->project) != 0)
			continue;
		touched |= stack_runs(o->c) && (o->member || others) &&
			   stack_holds_selected(s, o->c, o->member);
		if (o->oneoff || by_label(o))
			continue;
		if (ask == SIZE_MAX ||
		    (!*stack_label(s->containers[ask].c, LABEL_FILES) &&
		     *stack_label(o->c, LABEL_FILES)))
			ask = j;
	}
	return touched && ask == i;
}

int deps_fill(struct stack *s, const struct stack_options *o, bool local,
	      struct notes *notes, struct sc_err *err)
{
	for (size_t i = 0; i < s->ncontainers; i++) {
		struct stack_container *c = &s->containers[i];

		if (*c->project && !c->oneoff && by_label(c) &&
		    from_label(s, i, stack_label(c->c, LABEL_DEPENDS_ON)) < 0)
			return sc_oom(err, "dependencies");
		if (from_engine(s, i) < 0)
			return sc_oom(err, "dependencies");
	}
	for (size_t i = 0; i < s->ncontainers; i++)
		if (file_needed(s, i, o->stop_sharing) &&
		    without_label(s, &s->containers[i], local, notes) < 0)
			return sc_oom(err, "dependencies");
	return 0;
}
