/* SPDX-License-Identifier: MIT */
/* The commit, and the last look before it. The stack is down: no data moves
 * here, only names and what must be last. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <snapctl/base/io.h>
#include <snapctl/base/mem.h>

#include "internal.h"

struct commit {
	struct restore *r;
	struct rdirs live, stage;
	struct rmeta meta;
};

/* -- looking again -------------------------------------------------------- */

/* What the new plan wants from the stage and the first one did not. Files
 * with data are all staged; a directory would be made in place. */
static int stage_late(struct stager *s, uint32_t slot, struct sc_err *err)
{
	struct restore *r = s->r;
	const struct entry *e = tree_at(r->tree, slot);
	char path[RPATH];

	if (entry_is_dir(e) || entry_is_reg(e) ||
	    rlinks_leader(r, slot) != TREE_NONE)
		return sc_fail(err, SC_EREFUSED, 0,
			       "%s changed while the restore was prepared: run "
			       "it again",
			       rpath(r, slot, path));
	r->op[slot] |= ROP_FLAT;
	return rmake_plain(s, slot, err);
}

static int check_staged(struct stager *s, struct sc_err *err)
{
	struct restore *r = s->r;
	char path[RPATH];
	int same;

	for (uint32_t i = 1; i < r->n; i++) {
		const struct entry *e = tree_at(r->tree, i);
		enum rop op = rop_of(r, i);

		if ((op == ROP_REPLACE || op == ROP_INSIDE) &&
		    !is_staged(r, i) && stage_late(s, i, err) < 0)
			return -1;
		if (!is_staged(r, i) || !entry_is_reg(e) || is_link(e))
			continue;
		same = rmake_same(s, i, err);
		if (same < 0)
			return -1;
		if (!same)
			return sc_fail(err, SC_EREFUSED, 0,
				       "the staged data of %s was changed by "
				       "somebody: run the restore again",
				       rpath(r, i, path));
	}
	return 0;
}

int restore_recheck(struct restore *r, struct sc_err *err)
{
	struct stager s;
	int rc;

	r->rechecking = true;
	if (rplan_merge(r, err) < 0)
		return -1;
	rmake_init(&s, r);
	rc = check_staged(&s, err);
	rmake_free(&s);
	return rc;
}

/* -- names ---------------------------------------------------------------- */

static int remove_live(struct commit *c, int dir, uint32_t parent,
		       const char *name, struct sc_err *err)
{
	struct rremove x = { .r = c->r };
	char path[RPATH];

	return rremove(&x, dir, name, rpath_in(c->r, parent, name, path), err);
}

static int remove_extras(struct commit *c, struct sc_err *err)
{
	const struct restore *r = c->r;
	int dir;

	for (size_t i = 0; i < r->nrm; i++) {
		const struct removal *m = &r->rm[i];

		if (rdirs_get(&c->live, m->parent, &dir, err) < 0 ||
		    remove_live(c, dir, m->parent,
				(const char *)r->rm_names.p + m->name, err) < 0)
			return -1;
	}
	return 0;
}

/* A socket, which no walk shows, or what came after the last look. */
static bool in_the_way(int sys)
{
	return sys == EEXIST || sys == ENOTEMPTY || sys == EISDIR ||
	       sys == ENOTDIR;
}

static int move_in(struct commit *c, uint32_t slot, int dir, struct sc_err *err)
{
	const struct entry *e = tree_at(c->r->tree, slot);
	char tmp[16], path[RPATH];
	const char *from;
	int stage, rc;

	if (rdirs_place(&c->stage, slot, &stage, &from, tmp, err) < 0)
		return -1;
	rc = renameat(stage, from, dir, e->name);
	if (rc < 0 && in_the_way(errno)) {
		if (remove_live(c, dir, e->parent, e->name, err) < 0)
			return -1;
		rc = renameat(stage, from, dir, e->name);
	}
	if (rc < 0)
		return sc_fail(err, SC_EIO, errno, "rename to %s",
			       rpath(c->r, slot, path));
	/* Onto another name of the same inode a rename does nothing. */
	if (rlinks_leader(c->r, slot) != TREE_NONE &&
	    unlinkat(stage, from, 0) < 0 && errno != ENOENT)
		return sc_fail(err, SC_EIO, errno,
			       "remove the staged name of %s",
			       rpath(c->r, slot, path));
	return 0;
}

static int make_dir(struct commit *c, uint32_t slot, int dir,
		    struct sc_err *err)
{
	const struct entry *e = tree_at(c->r->tree, slot);
	char path[RPATH];

	if (mkdirat(dir, e->name, 0700) == 0)
		return 0;
	if (in_the_way(errno)) {
		if (remove_live(c, dir, e->parent, e->name, err) < 0)
			return -1;
		if (mkdirat(dir, e->name, 0700) == 0)
			return 0;
	}
	return sc_fail(err, SC_EIO, errno, "make directory %s",
		       rpath(c->r, slot, path));
}

static int put_name(struct commit *c, uint32_t slot, struct sc_err *err)
{
	const struct entry *e = tree_at(c->r->tree, slot);
	enum rop op = rop_of(c->r, slot);
	int dir;

	if (op != ROP_REPLACE && op != ROP_MKDIR)
		return 0;
	if (rdirs_get(&c->live, e->parent, &dir, err) < 0)
		return -1;
	if (c->r->op[slot] & ROP_CLEAR &&
	    remove_live(c, dir, e->parent, e->name, err) < 0)
		return -1;
	if (op == ROP_MKDIR)
		return make_dir(c, slot, dir, err);
	return move_in(c, slot, dir, err);
}

/* -- metadata ------------------------------------------------------------- */

static bool mends(const struct restore *r, uint32_t slot)
{
	enum rop op = rop_of(r, slot);

	if (op == ROP_META || op == ROP_MKDIR)
		return true;
	/* A moved directory got a new "..", which some file systems stamp. */
	return op == ROP_REPLACE && entry_is_dir(tree_at(r->tree, slot));
}

static int mend(struct commit *c, uint32_t slot, struct sc_err *err)
{
	const struct entry *e = tree_at(c->r->tree, slot);
	int fd;

	if (entry_is_dir(e)) {
		if (rdirs_get(&c->live, slot, &fd, err) < 0)
			return -1;
		return rmeta_mend(&c->meta, fd, slot, err);
	}
	if (rdirs_get(&c->live, e->parent, &fd, err) < 0)
		return -1;
	return rmeta_mend_at(&c->meta, fd, e->name, slot, err);
}

static int lock(struct commit *c, uint32_t slot, struct sc_err *err)
{
	const struct entry *e = tree_at(c->r->tree, slot);
	auto_close int fd = -1;
	char path[RPATH];
	int dir;

	if (!entry_is_reg(e) && !entry_is_dir(e))
		return 0;
	if (rdirs_get(&c->live, e->parent, &dir, err) < 0)
		return -1;
	fd = openat(dir, e->name,
		    O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0)
		return sc_fail(err, SC_EIO, errno, "open %s",
			       rpath(c->r, slot, path));
	return rmeta_last_flags(&c->meta, fd, slot, err);
}

static int finish(struct commit *c, uint32_t slot, struct sc_err *err)
{
	enum rop op = rop_of(c->r, slot);

	if (op == ROP_SKIP || op == ROP_KEEP)
		return 0;
	if (mends(c->r, slot) && mend(c, slot, err) < 0)
		return -1;
	if (tree_at(c->r->tree, slot)->flags & RMETA_LOCKS)
		return lock(c, slot, err);
	return 0;
}

/* -- all ------------------------------------------------------------------ */

static int sync_volume(const struct restore *r, struct sc_err *err)
{
	if (syncfs(r->rootfd) < 0)
		return sc_fail(err, SC_EIO, errno, "syncfs of the volume");
	return 0;
}

static int apply(struct commit *c, struct sc_err *err)
{
	uint32_t n = c->r->n;

	if (remove_extras(c, err) < 0)
		return -1;
	for (uint32_t s = 1; s < n; s++)
		if (put_name(c, s, err) < 0)
			return -1;
	/* Children have higher slots than their directories. */
	for (uint32_t s = n; s-- > 1;)
		if (finish(c, s, err) < 0)
			return -1;
	return 0;
}

static int commit_all(struct commit *c, struct sc_err *err)
{
	struct restore *r = c->r;
	const struct entry *root = tree_at(r->tree, 0);

	if (apply(c, err) < 0 || finish(c, 0, err) < 0 ||
	    sync_volume(r, err) < 0)
		return -1;
	/* A crash from here on costs the root's time, which the journal has:
	 * the stage's removal moves it once more. */
	r->root_before = (struct timespec){ root->mtime, root->mtime_ns };
	if (rjournal_state(r, RJ_DONE, err) < 0 || rjournal_remove(r, err) < 0)
		return -1;
	if (finish(c, 0, err) < 0)
		return -1;
	return sync_volume(r, err);
}

int restore_mark(struct restore *r, struct sc_err *err)
{
	if (sync_volume(r, err) < 0 ||
	    rjournal_state(r, RJ_COMMITTING, err) < 0)
		return -1;
	r->marked = true;
	return 0;
}

int restore_commit(struct restore *r, struct sc_err *err)
{
	struct commit c = { .r = r, .meta = { .r = r } };
	int rc;

	if (!r->marked && restore_mark(r, err) < 0)
		return -1;
	r->committing = true;
	rdirs_init(&c.live, r, false);
	rdirs_init(&c.stage, r, true);
	rc = commit_all(&c, err);
	rdirs_free(&c.live);
	rdirs_free(&c.stage);
	rmeta_free(&c.meta);
	if (rc < 0 && err) {
		err->code = SC_EPARTIAL;
		(void)sc_wrap(err, "commit of the restore");
	}
	mem_closep(&r->stagefd);
	r->stagefd = -1;
	return rc;
}
