/* SPDX-License-Identifier: MIT */
/* A batch: consecutive entries, each with its header and all of its data, in
 * one segment (seldom more: when files grew since the walk). */
#include <errno.h>
#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <snapctl/base/mem.h>

#include "take_internal.h"

/* A segment is closed early above this, and no file of a batch has more. */
#define BATCH_MAX ((size_t)2 * SEGMENT_TARGET)

static int flush(struct worker *w, struct job *j, struct sc_err *err)
{
	if (job_segment(w, j, w->plain.p, w->plain.len, err) < 0)
		return -1;
	buf_clear(&w->plain);
	return 0;
}

/* -- opening ------------------------------------------------------------ */

static int open_flags(const struct entry *e)
{
	if (entry_is_reg(e))
		return O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY |
		       O_CLOEXEC;
	return O_PATH | O_NOFOLLOW | O_CLOEXEC;
}

/* Opens slot; *fd is to be closed if *own. 1; 0: lost and recorded; -1. */
static int open_entry(struct worker *w, struct job *j, uint32_t slot, int *fd,
		      bool *own, struct sc_err *err)
{
	const struct entry *e = tree_at(w->k->t, slot);
	struct sc_err why = { 0 };
	int dir;

	*own = false;
	if (slot == 0) {
		*fd = w->k->rootfd;
		return 1;
	}
	if (dirs_get(&w->dirs, entry_is_dir(e) ? slot : e->parent, &dir, &why) <
	    0)
		return entry_lost(w, j, slot, why.sys, err);
	if (entry_is_dir(e)) {
		*fd = dir;
		return 1;
	}
	*fd = openat(dir, e->name, open_flags(e));
	if (*fd < 0)
		return entry_lost(w, j, slot, errno, err);
	*own = true;
	return 1;
}

/* meta_read, and is it what the walk saw? 1; 0: lost and recorded; -1. */
static int look(struct worker *w, struct job *j, uint32_t slot, int fd,
		struct sc_err *err)
{
	const struct entry *e = tree_at(w->k->t, slot);
	bool path_fd = !entry_is_reg(e) && !entry_is_dir(e) && slot != 0;
	struct sc_err why = { 0 };

	if (meta_read(&w->meta, fd, path_fd, w->k->o->trusted_xattrs, &why) <
	    0) {
		if (why.code == SC_EIO)
			return entry_lost(w, j, slot, why.sys, err);
		*err = why;
		return -1;
	}
	if (stat_is_entry(&w->meta.st, e))
		return 1;
	if ((w->meta.st.st_mode ^ e->mode) & S_IFMT)
		return entry_lost(w, j, slot, ESTALE, err);
	if (!w->k->o->live)
		return entry_changed(w, j, slot, "changed before it was taken",
				     err);
	return 1;
}

/* -- regular files ------------------------------------------------------- */

/* What is in memory already comes without waiting; if not, others will not
 * be either, and reading ahead is worth it. */
static int read_data(struct take *k, int fd, const struct meta *m,
		     unsigned char *p, bool *missing)
{
	struct iovec v = { p, (size_t)m->data };
	size_t got = 0;
	ssize_t n;

	if (m->sparse)
		return data_read(fd, m->x, m->nx, 0, p, v.iov_len, missing);
	if (v.iov_len == 0)
		return 0;
	n = preadv2(fd, &v, 1, 0, RWF_NOWAIT);
	if (n > 0)
		got = (size_t)n;
	if (got == v.iov_len)
		return 0;
	if ((n < 0 && errno == EAGAIN) || n > 0)
		atomic_store_explicit(&k->cold, true, memory_order_relaxed);
	return data_read(fd, NULL, 0, got, p + got, v.iov_len - got, missing);
}

/* Header and data of an open file to the end of w->plain; *at: where the data
 * begins. *changed: it was changed meanwhile. 1; 0: lost; -1. */
static int read_file(struct worker *w, struct job *j, uint32_t slot, int fd,
		     size_t *at, bool *changed, struct sc_err *err)
{
	struct meta *m = &w->meta;
	struct stat after;
	unsigned pad;
	int rc = look(w, j, slot, fd, err);

	if (rc <= 0)
		return rc;
	if (m->data > BATCH_MAX) { /* grew beside us */
		m->st.st_size = BATCH_MAX;
		m->data = BATCH_MAX;
		m->sparse = false;
		*changed = true;
	}
	if (entry_header(w, slot, NULL, &w->plain, &pad, err) < 0)
		return -1;
	*at = w->plain.len;
	if (!buf_reserve(&w->plain, (size_t)m->data + pad))
		return sc_oom(err, "segment");
	if (read_data(w->k, fd, m, w->plain.p + *at, changed) < 0)
		return entry_lost(w, j, slot, errno, err);
	w->plain.len += (size_t)m->data;
	buf_zero(&w->plain, pad);
	if (m->data == 0)
		return 1;
	if (fstat(fd, &after) < 0)
		return entry_lost(w, j, slot, errno, err);
	if (!stat_same(&m->st, &after))
		*changed = true;
	return 1;
}

static int cut_file(struct worker *w, struct job *j, uint32_t slot, size_t at,
		    struct sc_err *err)
{
	size_t len = (size_t)w->meta.data, n = 1, first = j->nchunks;
	const unsigned char *p = w->plain.p;

	if (len == 0)
		return 0;
	w->lens[0] = (uint32_t)len;
	if (len > WHOLE_MAX)
		n = chunker_all(&w->k->chunker, p + at, len, w->cand, w->lens);
	for (size_t i = 0; i < n; i++) {
		if (job_chunk(w, j, p, at, w->lens[i], err) < 0)
			return -1;
		at += w->lens[i];
	}
	if (mem_grow(&j->files, &j->files_cap, j->nfiles + 1,
		     sizeof(*j->files)) < 0)
		return sc_oom(err, "files");
	j->files[j->nfiles++] =
		(struct job_file){ slot, (uint32_t)first, (uint32_t)n };
	return 0;
}

static void count_file(struct take *k, struct job *j, uint64_t bytes)
{
	j->sum.files++;
	j->sum.bytes += bytes;
	if (k->o->files)
		atomic_fetch_add_explicit(k->o->files, 1, memory_order_relaxed);
	if (k->o->bytes)
		atomic_fetch_add_explicit(k->o->bytes, bytes,
					  memory_order_relaxed);
}

static int read_once(struct worker *w, struct job *j, uint32_t slot, size_t *at,
		     bool *changed, struct sc_err *err)
{
	int fd = -1, rc;
	bool own;

	*changed = false;
	rc = open_entry(w, j, slot, &fd, &own, err);
	if (rc <= 0)
		return rc;
	rc = read_file(w, j, slot, fd, at, changed, err);
	if (own)
		close(fd);
	return rc;
}

/* A file that changes while it is read is read once more, if that can help:
 * with the stack stopped it differs from the walk by then. */
static int take_file(struct worker *w, struct job *j, uint32_t slot,
		     struct sc_err *err)
{
	size_t start = w->plain.len, at = start;
	bool changed;
	int rc = read_once(w, j, slot, &at, &changed, err);

	if (rc > 0 && changed && w->k->o->live) {
		w->plain.len = start;
		rc = read_once(w, j, slot, &at, &changed, err);
	}
	if (rc == 0)
		w->plain.len = start;
	if (rc <= 0)
		return rc;
	if (changed &&
	    entry_changed(w, j, slot, "changed while it was read", err) < 0)
		return -1;
	if (entry_keep(w, j, slot, err) < 0 ||
	    cut_file(w, j, slot, at, err) < 0)
		return -1;
	count_file(w->k, j, w->meta.data);
	return 0;
}

/* -- all others ---------------------------------------------------------- */

static int take_other(struct worker *w, struct job *j, uint32_t slot,
		      struct sc_err *err)
{
	unsigned pad;
	bool own;
	int fd = -1, rc;

	rc = open_entry(w, j, slot, &fd, &own, err);
	if (rc <= 0)
		return rc;
	rc = look(w, j, slot, fd, err);
	if (own)
		close(fd);
	if (rc <= 0)
		return rc;
	if (entry_keep(w, j, slot, err) < 0)
		return -1;
	return entry_header(w, slot, NULL, &w->plain, &pad, err);
}

/* A later name of a group: is it still the same inode? The rest is the first
 * name's, see links_finish. */
static int take_link(struct worker *w, struct job *j, uint32_t slot,
		     struct sc_err *err)
{
	const struct entry *e = tree_at(w->k->t, slot);
	const struct entry *f = tree_at(w->k->t, e->first);
	struct sc_err why = { 0 };
	struct stat st;
	unsigned pad;
	int dir;

	if (e->count != (uint32_t)j->seq && !order_wait_read(w->k, e->count))
		return sc_fail(err, SC_EINTR, 0, "interrupted");
	if (dirs_get(&w->dirs, e->parent, &dir, &why) < 0)
		return entry_lost(w, j, slot, why.sys, err);
	if (fstatat(dir, e->name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return entry_lost(w, j, slot, errno, err);
	if (st.st_ino != f->ino || ((st.st_mode ^ f->mode) & S_IFMT))
		return entry_lost(w, j, slot, ESTALE, err);
	if (!w->k->o->live && !stat_is_entry(&st, e))
		return entry_changed(w, j, slot, "changed before it was taken",
				     err);
	if (entry_marks(w->k, f) & ENTRY_UNREADABLE)
		return 0;
	if (tree_path(w->k->t, e->first, &w->path2, err) < 0)
		return -1;
	if (!buf_cstr(&w->path2))
		return sc_oom(err, "path");
	return entry_header(w, slot, (const char *)w->path2.p, &w->plain, &pad,
			    err);
}

static int take_entry(struct worker *w, struct job *j, uint32_t slot,
		      struct sc_err *err)
{
	const struct entry *e = tree_at(w->k->t, slot);
	unsigned pad;

	if (e->bits & ENTRY_UNREADABLE)
		return entry_no_target(j, slot, e, err);
	if (e->bits & ENTRY_MOUNT)
		return entry_header(w, slot, NULL, &w->plain, &pad, err);
	if (e->bits & ENTRY_LINK)
		return take_link(w, j, slot, err);
	if (entry_is_reg(e))
		return take_file(w, j, slot, err);
	return take_other(w, j, slot, err);
}

int batch_run(struct worker *w, struct job *j, struct sc_err *err)
{
	buf_clear(&w->plain);
	for (uint32_t i = 0; i < j->count; i++) {
		if (w->plain.len > BATCH_MAX && flush(w, j, err) < 0)
			return -1;
		if (take_entry(w, j, tree_order(w->k->t, j->rank + i), err) < 0)
			return -1;
	}
	order_read(w->k, j);
	if (j->last)
		tarhdr_end(&w->plain);
	if (w->plain.failed)
		return sc_oom(err, "segment");
	return flush(w, j, err);
}
