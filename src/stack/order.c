/* SPDX-License-Identifier: MIT */
/* Who is stopped, in which order, and what is refused instead. */
#include "internal.h"

#include <stdlib.h>
#include <string.h>

#include <snapctl/base/buf.h>
#include <snapctl/base/mem.h>

bool stack_runs(const struct docker_container *c)
{
	return c->state == DOCKER_RUNNING || c->state == DOCKER_PAUSED ||
	       c->state == DOCKER_RESTARTING;
}

static int worse(int a, int b)
{
	return a > b ? a : b;
}

int stack_holds(const struct docker_container *c, const struct stack_volume *v,
		bool above)
{
	const char *root =
		v->kind == STACK_BIND ? v->source : v->info.mountpoint;
	int held = 0;

	for (size_t i = 0; i < c->nmounts; i++) {
		const struct docker_mount *m = &c->mounts[i];
		int how = m->rw ? 2 : 1;

		if (strcmp(m->type, "volume") == 0) {
			if (v->kind != STACK_BIND &&
			    strcmp(m->name, v->name) == 0)
				held = worse(held, how);
		} else if (strcmp(m->type, "bind") == 0 && root && *root) {
			auto_free char *source = path_normal(m->source);

			/* Out of memory: better one stop too many. */
			if (!source || path_within(root, source) ||
			    (above && path_within(source, root)))
				held = worse(held, how);
		}
	}
	return held;
}

int stack_holds_selected(const struct stack *s,
			 const struct docker_container *c, bool above)
{
	int held = 0;

	for (size_t i = 0; i < s->nvolumes; i++)
		if (s->volumes[i].selected)
			held = worse(held,
				     stack_holds(c, &s->volumes[i], above));
	return held;
}

/* As stack_holds_selected, without volumes nobody is to stop for. What is
 * about to be replaced is never left in use, whatever its label says. */
static int holds_for_stop(const struct stack *s,
			  const struct stack_container *c)
{
	int held = 0;

	for (size_t i = 0; i < s->nvolumes; i++) {
		const struct stack_volume *v = &s->volumes[i];

		if (v->selected && (!v->no_stop || s->for_restore))
			held = worse(held, stack_holds(c->c, v, c->member));
	}
	return held;
}

/* Another run's helper is never stopped: it may be committing. */
static bool is_helper(const struct stack_container *c)
{
	return *stack_label(c->c, LABEL_HELPER) != 0;
}

static bool by_itself(const struct stack *s, const struct stack_container *c,
		      const struct stack_options *o)
{
	if (!stack_runs(c->c) || c->keep || is_helper(c) ||
	    holds_for_stop(s, c) < (s->for_restore ? 1 : 2))
		return false;
	if (c->member)
		return !c->oneoff || o->stop_oneoff;
	return o->stop_sharing;
}

/* Marks c if something it depends on stops. True if that is new. */
static bool by_dependency(struct stack *s, struct stack_container *c,
			  const struct stack_options *o)
{
	if (c->stop || c->keep || c->oneoff || !stack_runs(c->c))
		return false;
	for (size_t d = 0; d < c->ndeps; d++) {
		const struct stack_container *on =
			&s->containers[c->deps[d].on];

		if (!on->stop || (on->oneoff && on->no_restart))
			continue;
		if (c->member || o->stop_sharing) {
			c->stop = true;
			return true;
		}
		if (deps_joins(c->c, on->c))
			c->shares_namespace = true;
	}
	return false;
}

static void note_kept(const struct stack *s, struct stack_container *c,
		      const struct stack_options *o, struct notes *notes)
{
	int held = stack_holds_selected(s, c->c, c->member);

	if (!c->keep || !stack_runs(c->c) || !held ||
	    !(c->member || o->stop_sharing))
		return;
	if (s->for_restore) {
		c->keep = false;
		notes_add(notes, NOTE_INFO,
			  "container %s is stopped in spite of its label %s: "
			  "its volume is being replaced",
			  SHOW(c->c->name), LABEL_STOP);
	} else if (held == 2) {
		notes_add(notes, NOTE_INFO,
			  "container %s is left running (label %s): its "
			  "volume is read while it may change",
			  SHOW(c->c->name), LABEL_STOP);
	}
}

int order_mark(struct stack *s, const struct stack_options *o,
	       struct notes *notes, struct sc_err *err)
{
	bool again = true;

	(void)err;
	if (o->no_stop)
		return 0;
	for (size_t i = 0; i < s->ncontainers; i++) {
		struct stack_container *c = &s->containers[i];

		note_kept(s, c, o, notes);
		c->stop = by_itself(s, c, o);
		c->no_restart = c->stop && c->oneoff;
	}
	while (again) {
		again = false;
		for (size_t i = 0; i < s->ncontainers; i++)
			again |= by_dependency(s, &s->containers[i], o);
	}
	return 0;
}

/* -- refusals ------------------------------------------------------------- */

/* Which selected volume c holds that way, for a message. */
static const char *which_held(const struct stack *s,
			      const struct stack_container *c, int least)
{
	for (size_t i = 0; i < s->nvolumes; i++)
		if (s->volumes[i].selected &&
		    stack_holds(c->c, &s->volumes[i], c->member) >= least)
			return s->volumes[i].name;
	return "a volume";
}

static int check_stopped(const struct stack_container *c,
			 const struct stack_options *o, struct sc_err *err)
{
	const char *by = NULL;

	if (*stack_label(c->c, LABEL_SWARM))
		by = "a swarm service";
	else if (*stack_label(c->c, LABEL_PODMAN_UNIT))
		by = "a systemd unit";
	if (by)
		return sc_fail(err, SC_EREFUSED, 0,
			       "container %s is run by %s, which would start "
			       "it again at once; stop that first, or take the "
			       "snapshot beside it with --no-stop",
			       SHOW(c->c->name), by);
	if (c->c->auto_remove && !c->no_restart && !o->allow_rm)
		return sc_fail(err, SC_EREFUSED, 0,
			       "container %s was started with --rm: it would "
			       "be removed when it stops; --allow-rm stops it "
			       "all the same",
			       SHOW(c->c->name));
	return 0;
}

static int check_running(const struct stack *s, const struct stack_container *c,
			 const struct stack_options *o, struct sc_err *err)
{
	int least = s->for_restore ? 1 : 2;
	bool holds = stack_holds_selected(s, c->c, c->member) >= least;

	if (c->member && c->oneoff && !o->stop_oneoff &&
	    stack_holds_selected(s, c->c, true))
		return sc_fail(err, SC_EREFUSED, 0,
			       "container %s (compose run) holds %s; wait for "
			       "it to end, or --stop-oneoff stops it for good",
			       SHOW(c->c->name), SHOW(which_held(s, c, 1)));
	if (c->member || o->ignore_sharing)
		return 0;
	if (holds)
		return sc_fail(err, SC_EREFUSED, 0,
			       "container %s, which is not of stack %s, also "
			       "has %s%s; --stop-sharing stops it as well, "
			       "--ignore-sharing goes on beside it",
			       SHOW(c->c->name), SHOW(s->name),
			       SHOW(which_held(s, c, least)),
			       s->for_restore ? "" : " mounted writable");
	if (c->shares_namespace)
		return sc_fail(err, SC_EREFUSED, 0,
			       "container %s, which is not of stack %s, uses "
			       "a namespace of one that has to stop; "
			       "--stop-sharing stops it as well, "
			       "--ignore-sharing lets it lose that",
			       SHOW(c->c->name), SHOW(s->name));
	return 0;
}

/* A helper of this stack's name is told from a left-over when ours is made. */
static int check_helper(const struct stack *s, const struct stack_container *c,
			struct sc_err *err)
{
	int least = s->for_restore ? 1 : 2;

	if (stack_label_is(c->c, "io.snapctl.stack", s->name) ||
	    stack_holds_selected(s, c->c, c->member) < least)
		return 0;
	return sc_fail(err, SC_ELOCKED, 0,
		       "volume %s is held by snapctl %s of stack %s (pid %s on "
		       "%s), container %s",
		       SHOW(which_held(s, c, least)),
		       SHOW(stack_label(c->c, "io.snapctl.command")),
		       SHOW(stack_label(c->c, "io.snapctl.stack")),
		       SHOW(stack_label(c->c, "io.snapctl.pid")),
		       SHOW(stack_label(c->c, "io.snapctl.host")),
		       SHOW(c->c->name));
}

static int check_helpers(const struct stack *s, struct sc_err *err)
{
	for (size_t i = 0; i < s->ncontainers; i++)
		if (is_helper(&s->containers[i]) &&
		    stack_runs(s->containers[i].c) &&
		    check_helper(s, &s->containers[i], err) < 0)
			return -1;
	return 0;
}

int stack_check(const struct stack *s, const struct stack_options *o,
		struct sc_err *err)
{
	auto_free size_t *order = NULL;
	size_t n;

	if (check_helpers(s, err) < 0)
		return -1;
	if (o->no_stop)
		return 0;
	for (size_t i = 0; i < s->ncontainers; i++) {
		const struct stack_container *c = &s->containers[i];
		int rc = 0;

		if (c->stop)
			rc = check_stopped(c, o, err);
		else if (stack_runs(c->c) && !(c->keep && c->member) &&
			 !is_helper(c))
			rc = check_running(s, c, o, err);
		if (rc < 0)
			return -1;
	}
	return stack_stop_order(s, &order, &n, err);
}

/* -- order ---------------------------------------------------------------- */

/* One that is to be stopped before i and is not done yet; ncontainers if
 * there is none. */
static size_t dependent_of(const struct stack *s, size_t i, const bool *done)
{
	for (size_t j = 0; j < s->ncontainers; j++) {
		const struct stack_container *c = &s->containers[j];

		if (!c->stop || done[j])
			continue;
		for (size_t d = 0; d < c->ndeps; d++)
			if (c->deps[d].on == i)
				return j;
	}
	return s->ncontainers;
}

/* Every undone container has an undone dependent, so going from dependent to
 * dependent must meet itself; what is met twice lies on a cycle. */
static int refuse_cycle(const struct stack *s, const bool *done,
			struct sc_err *err)
{
	auto_free bool *seen = calloc(s->ncontainers, sizeof(*seen));
	auto_free size_t *path = calloc(s->ncontainers + 1, sizeof(*path));
	auto_buf struct buf text = { 0 };
	size_t i = 0, n = 0, first;

	if (!seen || !path)
		return sc_oom(err, "dependencies");
	while (!s->containers[i].stop || done[i])
		i++;
	while (!seen[i]) {
		seen[i] = true;
		path[n++] = i;
		i = dependent_of(s, i, done);
	}
	for (first = 0; path[first] != i; first++)
		;
	/* path goes from a dependency to its dependent: print it backwards. */
	buf_printf(&text, "%s", SHOW(s->containers[i].c->name));
	while (n-- > first)
		buf_printf(&text, " -> %s",
			   SHOW(s->containers[path[n]].c->name));
	return sc_fail(err, SC_EREFUSED, 0,
		       "these containers depend on each other in a circle: %s",
		       text.failed ? "" : buf_cstr(&text));
}

int stack_stop_order(const struct stack *s, size_t **order, size_t *n,
		     struct sc_err *err)
{
	auto_free bool *done = calloc(s->ncontainers + 1, sizeof(*done));
	auto_free size_t *v = calloc(s->ncontainers + 1, sizeof(*v));
	size_t count = 0, want = 0;

	if (!done || !v)
		return sc_oom(err, "stop order");
	for (size_t i = 0; i < s->ncontainers; i++)
		want += s->containers[i].stop;
	while (count < want) {
		size_t i = 0;

		while (i < s->ncontainers &&
		       (!s->containers[i].stop || done[i] ||
			dependent_of(s, i, done) < s->ncontainers))
			i++;
		if (i == s->ncontainers)
			return refuse_cycle(s, done, err);
		done[i] = true;
		v[count++] = i;
	}
	*order = take_ptr(v);
	*n = count;
	return 0;
}
