/* SPDX-License-Identifier: MIT */
/* Bind mounts: somebody's directories. Taken without being asked for only
 * where people keep data (DESIGN 7), listed otherwise, and never where they
 * are the system's. Only a local engine's paths are looked at. */
#include "volumes.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <snapctl/base/mem.h>

static bool never(const char *path)
{
	static const char *const roots[] = { "/proc", "/sys", "/dev" };

	for (size_t i = 0; i < ARRAY_LEN(roots); i++)
		if (path_within(roots[i], path))
			return true;
	return strcmp(path, "/") == 0;
}

/* Name of something at the root of path that marks sources, not data. */
static const char *mark_at(const struct stack *s, const char *path)
{
	static const char *const marks[] = { ".git", "compose.yaml",
					     "compose.yml",
					     "docker-compose.yaml",
					     "docker-compose.yml" };
	size_t len = strlen(path);

	for (char **c = s->config_files; c && *c; c++)
		if (strncmp(*c, path, len) == 0 && (*c)[len] == '/' &&
		    !strchr(*c + len + 1, '/'))
			return *c + len + 1;
	for (size_t i = 0; i < ARRAY_LEN(marks); i++) {
		auto_free char *at = NULL;

		if (asprintf(&at, "%s/%s", path, marks[i]) < 0)
			return "?";
		if (faccessat(AT_FDCWD, at, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
			return marks[i];
	}
	return NULL;
}

static bool truly_beneath(const char *dir, const char *path)
{
	auto_free char *d = realpath(dir, NULL);
	auto_free char *p = realpath(path, NULL);

	return d && p && strcmp(d, p) != 0 && path_within(d, p);
}

/* Why a bind mount is not taken although it could be; NULL if it is. */
static const char *left_out_by_rule(const struct filling *f, size_t i)
{
	const struct stack_volume *v = &f->s->volumes[i];
	const char *dir = f->s->working_dir;
	const char *mark;
	struct stat st;

	if (f->facts[i].bind_ok)
		return NULL;
	if (!f->facts[i].writable)
		return "it is mounted read-only";
	if (!f->local)
		return "the engine is remote, so it cannot be looked at";
	if (!*dir || !path_within(dir, v->source) ||
	    strcmp(dir, v->source) == 0)
		return "it is not beneath the project's directory";
	if (stat(v->source, &st) < 0)
		return "it cannot be looked at";
	if (!S_ISDIR(st.st_mode))
		return "it is not a directory";
	if (!truly_beneath(dir, v->source))
		return "it leads out of the project's directory";
	mark = mark_at(f->s, v->source);
	if (mark && strcmp(mark, ".git") == 0)
		return "it holds a .git";
	return mark ? "it holds a compose file" : NULL;
}

/* What can never be taken: a reason, or NULL. */
static const char *impossible(const struct filling *f,
			      const struct stack_volume *v)
{
	struct stat st;

	if (never(v->source))
		return "it is the system's";
	if (!f->local || stat(v->source, &st) < 0)
		return NULL;
	if (S_ISSOCK(st.st_mode))
		return "it is a socket";
	if (!S_ISDIR(st.st_mode) && !S_ISREG(st.st_mode))
		return "it is neither a directory nor a file";
	return NULL;
}

static int absolute(const char *base, const char *path, char **out)
{
	auto_free char *joined = NULL;

	*out = NULL;
	if (asprintf(&joined, "%s%s%s", *path == '/' ? "" : base,
		     *path == '/' ? "" : "/", path) < 0)
		return -1;
	*out = path_normal(joined);
	return *out ? 0 : -1;
}

int binds_name(struct filling *f, const char *option, const char *path,
	       struct sc_err *err)
{
	auto_free char *cwd = getcwd(NULL, 0);
	auto_free char *full = NULL;
	const struct stack_volume *v;
	const char *why;
	struct stat st;
	size_t at;

	if (absolute(cwd ? cwd : "", path, &full) < 0)
		return sc_oom(err, "bind mount");
	v = volumes_by_key(f->s, full);
	if (!v &&
	    (f->local ? stat(full, &st) < 0 : !f->s->down && !f->s->adhoc))
		return volumes_unknown(f, option, full, err);
	if (volumes_add(f, STACK_BIND, full, &at) < 0)
		return sc_oom(err, "bind mount");
	why = impossible(f, &f->s->volumes[at]);
	if (why)
		return sc_fail(err, SC_EREFUSED, 0,
			       "%s %s: %s and cannot be taken", option,
			       SHOW(full), why);
	f->facts[at].named = true;
	f->facts[at].bind_ok = true;
	return 0;
}

int binds_labels(struct filling *f, struct sc_err *err)
{
	for (size_t i = 0; i < f->s->ncontainers; i++) {
		const struct stack_container *c = &f->s->containers[i];
		const char *path = stack_label(c->c, LABEL_BIND);
		auto_free char *full = NULL;
		bool found = false;

		if (!c->member || c->oneoff || !*path)
			continue;
		if (absolute(stack_label(c->c, LABEL_WORKING_DIR), path,
			     &full) < 0)
			return sc_oom(err, "bind mount");
		for (size_t k = 0; k < f->s->nvolumes; k++) {
			if (strcmp(f->s->volumes[k].source, full) != 0)
				continue;
			f->facts[k].bind_ok = true;
			found = true;
		}
		if (!found)
			notes_add(f->notes, NOTE_WARN,
				  "label %s of %s names %s, which is no bind "
				  "mount of the stack",
				  LABEL_BIND, SHOW(c->c->name), SHOW(full));
	}
	return 0;
}

int binds_choose(struct filling *f, size_t i)
{
	struct stack_volume *v = &f->s->volumes[i];
	const char *why = impossible(f, v);
	struct stat st;

	if (why)
		return volumes_leave_out(v, why);
	why = left_out_by_rule(f, i);
	if (why) {
		notes_add(f->notes, NOTE_INFO,
			  "bind mount %s (%s) is not included: %s; "
			  "--bind %s takes it",
			  SHOW(v->source),
			  SHOW(v->targets[0] ? v->targets[0] : ""), why,
			  SHOW(v->source));
		return volumes_leave_out(v, why);
	}
	v->missing = f->local && stat(v->source, &st) < 0 && errno == ENOENT;
	v->selected = true;
	return 0;
}

int binds_nested(struct filling *f)
{
	struct stack *s = f->s;

	for (size_t i = 0; i < s->nvolumes; i++) {
		struct stack_volume *in = &s->volumes[i];

		if (in->kind != STACK_BIND || !in->selected)
			continue;
		for (size_t j = 0; j < s->nvolumes; j++) {
			struct stack_volume *out = &s->volumes[j];

			if (i == j || out->kind != STACK_BIND ||
			    !out->selected ||
			    !path_within(out->source, in->source))
				continue;
			if (volumes_leave_out(in, "it is part of another "
						  "bind mount") < 0)
				return -1;
			break;
		}
	}
	return 0;
}

/* Where repo lies in root, relative to it; NULL if it does not. */
static const char *below(const char *root, const char *repo)
{
	const char *rest;

	if (!path_within(root, repo))
		return NULL;
	rest = repo + strlen(root);
	return rest + (*rest == '/');
}

static int note_repo(struct filling *f, struct stack_volume *v,
		     const char *repo)
{
	const char *root =
		v->kind == STACK_BIND ? v->source : v->info.mountpoint;
	auto_free char *real = realpath(root, NULL);
	const char *at = real ? below(real, repo) : NULL;
	char *copy;

	if (!at)
		return 0;
	if (!*at) {
		notes_add(f->notes, NOTE_INFO,
			  "%s is the repository itself and is not included",
			  SHOW(v->name));
		return volumes_leave_out(v, "it is the repository");
	}
	copy = strdup(at);
	if (!copy)
		return -1;
	free(v->repo_below);
	v->repo_below = copy;
	notes_add(f->notes, NOTE_INFO,
		  "the repository lies in %s, at %s: it is left out",
		  SHOW(v->name), SHOW(at));
	return 0;
}

int binds_repo(struct filling *f)
{
	auto_free char *repo = NULL;

	if (!f->local || !f->o->repo)
		return 0;
	/* One that is yet to be made lies nowhere else than its text says. */
	repo = realpath(f->o->repo, NULL);
	if (!repo)
		repo = path_normal(f->o->repo);
	if (!repo)
		return -1;
	for (size_t i = 0; i < f->s->nvolumes; i++)
		if (f->s->volumes[i].selected && !f->s->volumes[i].missing &&
		    note_repo(f, &f->s->volumes[i], repo) < 0)
			return -1;
	return 0;
}
