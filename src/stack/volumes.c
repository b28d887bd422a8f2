/* SPDX-License-Identifier: MIT */
/* Which volumes a stack has.
 *
 * Named and anonymous volumes come from the containers' mounts and from the
 * project label of the volumes, so that a stack that is down still has some.
 * Bind mounts are somebody's directories: taken without being asked for only
 * where people keep data (DESIGN 7), listed otherwise. The host's file system
 * is looked at only when it is the engine's. */
#include "volumes.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <snapctl/base/mem.h>
#include <snapctl/base/text.h>

static void labels_free(struct docker_label *l, size_t n)
{
	for (size_t i = 0; l && i < n; i++) {
		free(l[i].key);
		free(l[i].value);
	}
	free(l);
}

void volumes_free(struct stack_volume *v, size_t n)
{
	for (size_t i = 0; v && i < n; i++) {
		free(v[i].name);
		free(v[i].info.name);
		free(v[i].info.driver);
		free(v[i].info.mountpoint);
		free(v[i].info.created_at);
		free(v[i].info.scope);
		labels_free(v[i].info.labels, v[i].info.nlabels);
		labels_free(v[i].info.options, v[i].info.noptions);
		free(v[i].source);
		free(v[i].service);
		free(v[i].target);
		docker_strv_free(v[i].targets);
		free(v[i].left_out);
		free(v[i].repo_below);
	}
	free(v);
}

static const char *info_label(const struct stack_volume *v, const char *key)
{
	const char *s = docker_label(v->info.labels, v->info.nlabels, key);

	return s ? s : "";
}

static bool is_hex64(const char *s)
{
	return strlen(s) == 64 && strspn(s, "0123456789abcdef") == 64;
}

/* -- finding -------------------------------------------------------------- */

const struct stack_volume *volumes_by_key(const struct stack *s,
					  const char *name)
{
	for (size_t i = 0; i < s->nvolumes; i++)
		if (strcmp(s->volumes[i].name, name) == 0)
			return &s->volumes[i];
	return NULL;
}

const struct stack_volume *stack_volume_anon(const struct stack *s,
					     const char *service,
					     unsigned number,
					     const char *target)
{
	for (size_t i = 0; i < s->nvolumes; i++) {
		const struct stack_volume *v = &s->volumes[i];

		if (v->kind == STACK_ANON && v->number == number &&
		    strcmp(v->service, service) == 0 &&
		    strcmp(v->target, target) == 0)
			return v;
	}
	return NULL;
}

const struct stack_volume *stack_volume_find(const struct stack *s,
					     const char *name)
{
	const struct stack_volume *found = volumes_by_key(s, name);
	size_t fits = 0;

	if (found)
		return found;
	for (size_t i = 0; i < s->nvolumes; i++)
		for (char **t = s->volumes[i].targets; t && *t; t++)
			if (strcmp(*t, name) == 0)
				return &s->volumes[i];
	for (size_t i = 0; i < s->nvolumes; i++) {
		if (strcmp(info_label(&s->volumes[i], LABEL_VOLUME), name) != 0)
			continue;
		found = &s->volumes[i];
		fits++;
	}
	return fits == 1 ? found : NULL;
}

/* -- adding --------------------------------------------------------------- */

int volumes_add(struct filling *f, enum stack_kind kind, const char *name,
		size_t *index)
{
	struct stack *s = f->s;
	struct stack_volume *v;

	for (*index = 0; *index < s->nvolumes; (*index)++)
		if (strcmp(s->volumes[*index].name, name) == 0)
			return 0;
	if (mem_grow(&s->volumes, &f->cap, s->nvolumes + 1, sizeof(*v)) < 0 ||
	    mem_grow(&f->facts, &f->facts_cap, s->nvolumes + 1,
		     sizeof(*f->facts)) < 0)
		return -1;
	f->facts[s->nvolumes] = (struct facts){ 0 };
	v = &s->volumes[s->nvolumes++];
	*v = (struct stack_volume){
		.kind = kind,
		.name = strdup(name),
		.source = strdup(kind == STACK_BIND ? name : ""),
		.service = strdup(""),
		.target = strdup(""),
		.targets = calloc(1, sizeof(char *)),
		.left_out = strdup(""),
		.repo_below = strdup(""),
	};
	return v->name && v->source && v->service && v->target && v->targets &&
			       v->left_out && v->repo_below
		       ? 0
		       : -1;
}

static int set_string(char **p, const char *s)
{
	char *copy = strdup(s);

	if (!copy)
		return -1;
	free(*p);
	*p = copy;
	return 0;
}

static int compare_strings(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static int add_target(struct filling *f, size_t i,
		      const struct stack_container *c, const char *target)
{
	struct stack_volume *v = &f->s->volumes[i];
	struct facts *k = &f->facts[i];
	char *text = NULL;

	if (mem_grow(&v->targets, &k->targets_cap, k->ntargets + 2,
		     sizeof(char *)) < 0 ||
	    asprintf(&text, "%s:%s", stack_who(c), target) < 0)
		return -1;
	for (size_t t = 0; t < k->ntargets; t++) {
		if (strcmp(v->targets[t], text) == 0) {
			free(text);
			return 0;
		}
	}
	v->targets[k->ntargets++] = text;
	v->targets[k->ntargets] = NULL;
	qsort(v->targets, k->ntargets, sizeof(char *), compare_strings);
	return 0;
}

static int add_mount(struct filling *f, const struct stack_container *c,
		     const struct docker_mount *m)
{
	bool bind = strcmp(m->type, "bind") == 0;
	const char *key;
	auto_free char *path = bind ? path_normal(m->source) : NULL;
	enum stack_kind kind = bind	      ? STACK_BIND
			       : m->anonymous ? STACK_ANON
					      : STACK_NAMED;
	struct stack_volume *v;
	size_t i;

	if (bind && !path)
		return -1;
	key = bind ? path : m->name;
	if (!bind && (strcmp(m->type, "volume") != 0 || !*key))
		return 0;
	/* An ad-hoc stack has what was named, nothing by rule. */
	if (f->s->adhoc && !volumes_by_key(f->s, key))
		return 0;
	if (volumes_add(f, kind, key, &i) < 0 ||
	    add_target(f, i, c, m->target) < 0)
		return -1;
	v = &f->s->volumes[i];
	v->kind = kind;
	/* The one it was made for is the one that does not name it. */
	if (kind == STACK_ANON && !*v->target) {
		v->number = c->number;
		if (set_string(&v->service, stack_who(c)) < 0 ||
		    set_string(&v->target, m->target) < 0)
			return -1;
	}
	f->facts[i].writable |= m->rw;
	if (stack_label_is(c->c, LABEL_EXCLUDE, "true"))
		f->facts[i].excluded_by = c->service;
	else
		f->facts[i].included = true;
	return 0;
}

static int add_mounts(struct filling *f)
{
	for (size_t i = 0; i < f->s->ncontainers; i++) {
		const struct stack_container *c = &f->s->containers[i];

		if (!c->member || c->oneoff)
			continue;
		for (size_t m = 0; m < c->c->nmounts; m++)
			if (add_mount(f, c, &c->c->mounts[m]) < 0)
				return -1;
	}
	return 0;
}

/* -- what the engine says of them ----------------------------------------- */

static void take_info(struct stack_volume *v, struct docker_volume *info)
{
	const char *type;

	v->info = *info;
	*info = (struct docker_volume){ 0 };
	type = docker_label(v->info.options, v->info.noptions, "type");
	v->tmpfs = v->info.driver && strcmp(v->info.driver, "local") == 0 &&
		   type && strcmp(type, "tmpfs") == 0;
	v->no_stop = strcmp(info_label(v, LABEL_STOP), "false") == 0;
}

static int add_labelled(struct filling *f, struct sc_err *err)
{
	auto_free char *label = NULL;
	struct docker_volume *v = NULL;
	size_t n = 0, at;
	int rc = 0;

	if (f->s->adhoc)
		return 0;
	if (asprintf(&label, "%s=%s", LABEL_PROJECT, f->s->name) < 0)
		return sc_oom(err, "volume list");
	if (docker_volume_list(f->d, label, &v, &n, err) < 0)
		return -1;
	for (size_t i = 0; i < n && rc == 0; i++) {
		rc = volumes_add(f, STACK_NAMED, v[i].name, &at);
		if (rc == 0 && !f->s->volumes[at].info.name)
			take_info(&f->s->volumes[at], &v[i]);
	}
	docker_volumes_free(v, n);
	return rc < 0 ? sc_oom(err, "volumes") : 0;
}

static int no_info(struct stack_volume *v)
{
	v->missing = v->kind != STACK_BIND;
	v->info.name = strdup(v->name);
	v->info.driver = strdup("");
	v->info.mountpoint = strdup("");
	v->info.created_at = strdup("");
	v->info.scope = strdup("");
	return v->info.name && v->info.driver && v->info.mountpoint &&
			       v->info.created_at && v->info.scope
		       ? 0
		       : -1;
}

static int inspect_volume(struct filling *f, struct stack_volume *v,
			  struct sc_err *err)
{
	struct docker_volume *info = NULL;
	int rc = 0;

	if (v->info.name)
		return 0;
	if (v->kind != STACK_BIND)
		rc = docker_volume_inspect(f->d, v->name, &info, err);
	if (rc < 0)
		return -1;
	if (rc == 1) {
		take_info(v, info);
		docker_volumes_free(info, 1);
		return 0;
	}
	return no_info(v) < 0 ? sc_oom(err, "volume") : 0;
}

/* What the last snapshot had: all of it when the stack is down or is to be
 * restored, else only what has gone is worth a word. */
static int add_known(struct filling *f, struct sc_err *err)
{
	const char *const *k = f->o->known_volumes;
	enum stack_kind kind;
	size_t at;

	for (; k && *k; k++) {
		if (!f->s->down && !f->s->for_restore) {
			if (!volumes_by_key(f->s, *k) && !is_hex64(*k))
				notes_add(f->notes, NOTE_INFO,
					  "volume %s of the last snapshot is "
					  "no longer part of the stack",
					  SHOW(*k));
			continue;
		}
		kind = **k == '/'     ? STACK_BIND
		       : is_hex64(*k) ? STACK_ANON
				      : STACK_NAMED;
		if (volumes_add(f, kind, *k, &at) < 0)
			return sc_oom(err, "volumes");
		f->facts[at].bind_ok = true;
	}
	return 0;
}

/* -- choosing ------------------------------------------------------------- */

int volumes_leave_out(struct stack_volume *v, const char *why)
{
	v->selected = false;
	return set_string(&v->left_out, why);
}

/* The names a user may mean: keys, short names; of an ad-hoc stack the
 * engine's volumes. */
static void near_volumes(struct filling *f, const char *name, struct buf *out)
{
	const struct stack *s = f->s;
	struct docker_volume *all = NULL;
	auto_free const char **names = NULL;
	size_t n = 0, count = 0;

	if (s->adhoc && docker_volume_list(f->d, NULL, &all, &n, NULL) < 0)
		n = 0;
	names = calloc(2 * s->nvolumes + n + 1, sizeof(*names));
	for (size_t i = 0; names && i < n; i++)
		names[count++] = all[i].name;
	for (size_t i = 0; names && i < s->nvolumes; i++) {
		names[count++] = s->volumes[i].name;
		if (*info_label(&s->volumes[i], LABEL_VOLUME))
			names[count++] =
				info_label(&s->volumes[i], LABEL_VOLUME);
	}
	if (names)
		text_near(out, name, names, count);
	docker_volumes_free(all, n);
}

int volumes_unknown(struct filling *f, const char *option, const char *name,
		    struct sc_err *err)
{
	auto_buf struct buf near = { 0 };
	bool path = *name == '/';

	near_volumes(f, name, &near);
	return sc_fail(err, SC_ENOTFOUND, 0, "%s %s: no such %s%s%s%s%s%s",
		       option, SHOW(name), path ? "directory" : "volume",
		       f->s->adhoc ? "" : " in stack ",
		       f->s->adhoc ? "" : SHOW(f->s->name),
		       near.len ? "; near: " : "",
		       near.len && !near.failed ? buf_cstr(&near) : "",
		       path ? "" : "; \"docker volume ls\" lists them");
}

/* One --volume: of the stack, else of the engine (an external volume of a
 * stack that is down is known to nobody else). */
static int name_volume(struct filling *f, const char *name, struct sc_err *err)
{
	const struct stack_volume *v = stack_volume_find(f->s, name);
	struct docker_volume *info = NULL;
	size_t at;
	int rc;

	if (!v && *name == '/')
		return binds_name(f, "--volume", name, err);
	if (v && (!v->missing || f->s->for_restore)) {
		/* NOLINTNEXTLINE(clang-analyzer-core.NullDereference) */
		f->facts[v - f->s->volumes].named = true;
		f->facts[v - f->s->volumes].bind_ok = true;
		return 0;
	}
	rc = docker_volume_inspect(f->d, name, &info, err);
	if (rc <= 0)
		return rc < 0 ? -1 : volumes_unknown(f, "--volume", name, err);
	if (volumes_add(f, is_hex64(name) ? STACK_ANON : STACK_NAMED,
			info->name, &at) < 0) {
		docker_volumes_free(info, 1);
		return sc_oom(err, "volumes");
	}
	take_info(&f->s->volumes[at], info);
	docker_volumes_free(info, 1);
	f->facts[at].named = true;
	if (!f->s->adhoc)
		notes_add(f->notes, NOTE_INFO,
			  "volume %s is not known to be of stack %s; it is "
			  "taken because it was named",
			  SHOW(name), SHOW(f->s->name));
	return 0;
}

static int exclude_volume(struct filling *f, const char *name,
			  struct sc_err *err)
{
	const struct stack_volume *v = stack_volume_find(f->s, name);

	if (!v)
		return volumes_unknown(f, "--exclude-volume", name, err);
	return volumes_leave_out(&f->s->volumes[v - f->s->volumes],
				 "excluded by --exclude-volume") < 0
		       ? sc_oom(err, "volumes")
		       : 0;
}

static int choose_missing(struct filling *f, struct stack_volume *v)
{
	if (f->s->for_restore) {
		v->selected = true;
		return 0;
	}
	notes_add(f->notes, NOTE_WARN,
		  "volume %s is not there and is not included", SHOW(v->name));
	return volumes_leave_out(v, "it is not there");
}

/* What was named on the command line is stronger than any label. */
static int choose(struct filling *f, size_t i)
{
	struct stack_volume *v = &f->s->volumes[i];
	struct facts *k = &f->facts[i];
	const char *why = NULL;

	if (*v->left_out)
		return 0;
	if (f->o->volumes && *f->o->volumes && !k->named)
		return volumes_leave_out(v, "not named by --volume");
	if (!k->named && !k->included && k->excluded_by)
		why = "excluded by the label of its service";
	else if (!k->named && strcmp(info_label(v, LABEL_EXCLUDE), "true") == 0)
		why = "excluded by its label";
	if (why) {
		notes_add(f->notes, NOTE_INFO, "%s is not included: %s (%s)",
			  SHOW(v->name), why, LABEL_EXCLUDE);
		return volumes_leave_out(v, why);
	}
	if (v->kind == STACK_BIND && binds_choose(f, i) < 0)
		return -1;
	if (v->missing)
		return choose_missing(f, v);
	if (v->kind != STACK_BIND)
		v->selected = true;
	return 0;
}

static int gather(struct filling *f, struct sc_err *err)
{
	const struct stack_options *o = f->o;
	int rc = 0;

	if (!f->s->adhoc && add_mounts(f) < 0)
		return sc_oom(err, "volumes");
	rc = add_labelled(f, err);
	if (rc == 0)
		rc = add_known(f, err);
	for (size_t i = 0; rc == 0 && i < f->s->nvolumes; i++)
		rc = inspect_volume(f, &f->s->volumes[i], err);
	for (const char *const *v = o->volumes; rc == 0 && v && *v; v++)
		rc = name_volume(f, *v, err);
	for (const char *const *b = o->binds; rc == 0 && b && *b; b++)
		rc = binds_name(f, "--bind", *b, err);
	if (rc == 0 && f->s->adhoc && add_mounts(f) < 0)
		return sc_oom(err, "volumes");
	if (rc == 0 && !f->s->adhoc)
		rc = binds_labels(f, err);
	for (size_t i = 0; rc == 0 && i < f->s->nvolumes; i++)
		rc = inspect_volume(f, &f->s->volumes[i], err);
	for (const char *const *v = o->exclude_volumes; rc == 0 && v && *v; v++)
		rc = exclude_volume(f, *v, err);
	return rc;
}

static int compare_volumes(const void *a, const void *b)
{
	return strcmp(((const struct stack_volume *)a)->name,
		      ((const struct stack_volume *)b)->name);
}

int volumes_fill(struct docker *d, struct stack *s,
		 const struct stack_options *o, struct notes *notes,
		 struct sc_err *err)
{
	struct filling f = { .d = d,
			     .s = s,
			     .o = o,
			     .notes = notes,
			     .local = docker_info(d)->local };
	int rc;

	/* There is a row of facts for each. */
	s->nvolumes = 0;
	rc = gather(&f, err);
	for (size_t i = 0; rc == 0 && i < s->nvolumes; i++)
		if (choose(&f, i) < 0)
			rc = sc_oom(err, "volumes");
	if (rc == 0 && (binds_nested(&f) < 0 || binds_repo(&f) < 0))
		rc = sc_oom(err, "volumes");
	free(f.facts);
	if (s->nvolumes)
		qsort(s->volumes, s->nvolumes, sizeof(*s->volumes),
		      compare_volumes);
	return rc;
}
