/* SPDX-License-Identifier: MIT */
/* A snapshot in memory, and a tree as text to compare it by. */
#ifndef TESTS_RESTORE_SNAP_H
#define TESTS_RESTORE_SNAP_H

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cmocka.h>

#include <snapctl/archive/take.h>
#include <snapctl/base/hash.h>
#include <snapctl/base/mem.h>
#include <snapctl/base/text.h>
#include <snapctl/restore/restore.h>
#include <snapctl/scan/walk.h>

#define OK(call)                                                               \
	do {                                                                   \
		if ((call) < 0)                                                \
			fail_msg("%s: %s: %s", #call, e.msg, strerror(errno)); \
	} while (0)
#define SYS(call)                                                   \
	do {                                                        \
		if ((call) < 0)                                     \
			fail_msg("%s: %s", #call, strerror(errno)); \
	} while (0)

struct snap {
	struct tree *tree; /* as loaded from an index */
	struct chunk_table chunks;
	struct buf *segments;
	size_t nsegments, cap;
	size_t next; /* position in needs while restoring */
	const uint32_t *needs;
	size_t nneeds;
	struct chunk_table built;
	uint64_t at;
};

static struct sc_err e;

static inline int open_root(const char *path)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	SYS(fd);
	return fd;
}

static inline int keep_segment(void *arg, const void *stored, size_t n,
			       uint32_t plain, struct sc_err *err)
{
	struct snap *s = arg;
	struct segment g = { .stored = (uint32_t)n,
			     .plain = plain,
			     .offset = s->at };
	struct chunk_table *t = &s->built;

	(void)err;
	s->at += n;
	assert_int_equal(mem_grow(&s->segments, &s->cap, s->nsegments + 1,
				  sizeof(*s->segments)),
			 0);
	s->segments[s->nsegments] = (struct buf){ 0 };
	buf_put(&s->segments[s->nsegments++], stored, n);
	assert_int_equal(mem_grow(&t->segments, &t->segments_cap,
				  t->nsegments + 1, sizeof(g)),
			 0);
	t->segments[t->nsegments++] = g;
	return 0;
}

/* Through a written index and back, as a restore gets it. */
static inline void reload(struct snap *s, struct tree *t, struct sc_err *err)
{
	struct index_meta m = { .entries = tree_count(t), .chunk_avg = 65536 };
	struct index_writer *w;
	struct index_reader *r;
	struct index_source src;
	struct index_sink sink;
	struct digest d;
	uint64_t len;
	int fd = memfd_create("index", MFD_CLOEXEC);

	(void)err;
	SYS(fd);
	m.chunks = s->built.nchunks;
	OK(index_writer_new(fd, INDEX_FULL, &w, &e));
	sink = index_writer_sink(w);
	OK(index_encode(t, &s->built, &m, &sink, &e));
	OK(index_encode_places(&s->built, &sink, &e));
	OK(index_writer_finish(w, &d, &len, &e));
	index_writer_free(w);
	src = index_source_fd(&fd, len);
	OK(index_open(&src, "index", &r, &e));
	OK(index_load(r, &s->tree, &s->chunks, &e));
	index_close(r);
	close(fd);
}

static inline void snap_take(struct snap *s, const char *path)
{
	struct walk_options wo = { .threads = 2 };
	struct take_options to = { .threads = 2,
				   .level = 1,
				   .chunk_avg = 65536 };
	struct take_sink sink = { .segment = keep_segment, .arg = s };
	struct walk_result w;
	struct take_result t;
	int fd = open_root(path);

	*s = (struct snap){ 0 };
	OK(walk_tree(fd, &wo, NULL, &w, &e));
	OK(take_full(fd, w.tree, &to, &sink, NULL, &s->built, &t, &e));
	s->built.packs = calloc(1, sizeof(*s->built.packs));
	s->built.packs[0] =
		(struct pack_ref){ .length = s->at, .kind = PACK_TAR };
	s->built.npacks = s->built.packs_cap = 1;
	reload(s, w.tree, &e);
	tree_free(w.tree);
	close(fd);
}

static inline void snap_free(struct snap *s)
{
	tree_free(s->tree);
	chunk_table_free(&s->chunks);
	chunk_table_free(&s->built);
	for (size_t i = 0; i < s->nsegments; i++)
		buf_free(&s->segments[i]);
	free(s->segments);
}

static inline int give_segment(void *arg, struct buf *out, struct sc_err *err)
{
	struct snap *s = arg;
	const struct buf *b;

	(void)err;
	assert_true(s->next < s->nneeds);
	assert_int_equal(out->len, 0);
	b = &s->segments[s->needs[s->next++]];
	buf_put(out, b->p, b->len);
	return 0;
}

/* -- a tree as text ------------------------------------------------------- */

struct inode_seen {
	ino_t ino;
	char *path;
};

struct shown {
	struct buf out;
	struct inode_seen *v;
	size_t n, cap;
};

static inline void show_data(struct shown *s, int fd, off_t size)
{
	static char block[1 << 16];
	struct digest d;
	char hex[DIGEST_HEX + 1];
	struct hash *h;
	ssize_t n;
	off_t at = 0, end;

	while ((at = lseek(fd, at, SEEK_DATA)) >= 0) {
		end = lseek(fd, at, SEEK_HOLE);
		buf_printf(&s->out, " [%lld,%lld)", (long long)at,
			   (long long)end);
		at = end;
	}
	OK(hash_new(&h, &e));
	if (size > (1 << 28)) { /* only what is there, and where */
		for (at = 0; (at = lseek(fd, at, SEEK_DATA)) >= 0; at = end) {
			end = lseek(fd, at, SEEK_HOLE);
			for (off_t p = at; p < end; p += n) {
				n = pread(fd, block, sizeof(block), p);
				assert_true(n > 0);
				OK(hash_update(h, block, (size_t)n, &e));
			}
		}
	} else {
		lseek(fd, 0, SEEK_SET);
		while ((n = read(fd, block, sizeof(block))) > 0)
			OK(hash_update(h, block, (size_t)n, &e));
	}
	OK(hash_final(h, &d, &e));
	hash_free(h);
	digest_hex(&d, hex);
	buf_printf(&s->out, " %s", hex);
}

static inline int name_cmp(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static inline void show_xattrs(struct shown *s, const char *proc)
{
	static char list[65536], value[65536];
	ssize_t n = llistxattr(proc, list, sizeof(list)), len;
	char *names[100];
	size_t count = 0;

	for (char *p = list; n > 0 && p < list + n; p += strlen(p) + 1)
		names[count++] = p;
	qsort(names, count, sizeof(*names), name_cmp);
	for (size_t i = 0; i < count; i++) {
		len = lgetxattr(proc, names[i], value, sizeof(value));
		buf_printf(&s->out, " %s=", names[i]);
		for (ssize_t j = 0; j < len; j++)
			buf_printf(&s->out, "%02x", (unsigned char)value[j]);
	}
}

static inline void show_entry(struct shown *s, int dir, const char *name,
			      const char *path);

static inline void show_dir(struct shown *s, int dir, const char *name,
			    const char *path)
{
	int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
	struct dirent **v;
	char *below;
	int n;

	SYS(fd);
	n = scandirat(fd, ".", &v, NULL, NULL);
	SYS(n);
	for (int pass = 0; pass < 2; pass++)
		for (int i = 1; i < n; i++)
			for (int j = i; j > 0 && strcmp(v[j - 1]->d_name,
							v[j]->d_name) > 0;
			     j--) {
				struct dirent *t = v[j];

				v[j] = v[j - 1];
				v[j - 1] = t;
			}
	for (int i = 0; i < n; i++) {
		if (strcmp(v[i]->d_name, ".") && strcmp(v[i]->d_name, "..")) {
			assert_true(asprintf(&below, "%s/%s", path,
					     v[i]->d_name) > 0);
			show_entry(s, fd, v[i]->d_name, below);
			free(below);
		}
		free(v[i]);
	}
	free(v);
	close(fd);
}

static inline void show_group(struct shown *s, const struct stat *st,
			      const char *path)
{
	if (S_ISDIR(st->st_mode) || st->st_nlink < 2)
		return;
	for (size_t i = 0; i < s->n; i++)
		if (s->v[i].ino == st->st_ino) {
			buf_printf(&s->out, " link:%s", s->v[i].path);
			return;
		}
	assert_int_equal(mem_grow(&s->v, &s->cap, s->n + 1, sizeof(*s->v)), 0);
	s->v[s->n++] = (struct inode_seen){ st->st_ino, strdup(path) };
	buf_printf(&s->out, " nlink:%lu", (unsigned long)st->st_nlink);
}

static inline void show_entry(struct shown *s, int dir, const char *name,
			      const char *path)
{
	char proc[512], target[4096];
	struct stat st;
	ssize_t n;
	int fd, flags = 0;

	SYS(fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW));
	text_escape(&s->out, path, strlen(path));
	buf_printf(&s->out, " %o %u:%u %lld.%09ld %llu", st.st_mode, st.st_uid,
		   st.st_gid, (long long)st.st_mtim.tv_sec, st.st_mtim.tv_nsec,
		   S_ISREG(st.st_mode) ? (unsigned long long)st.st_size : 0);
	show_group(s, &st, path);
	if (S_ISCHR(st.st_mode) || S_ISBLK(st.st_mode))
		buf_printf(&s->out, " %u,%u", major(st.st_rdev),
			   minor(st.st_rdev));
	snprintf(proc, sizeof(proc), "/proc/self/fd/%d/%s", dir, name);
	show_xattrs(s, proc);
	if (S_ISLNK(st.st_mode)) {
		n = readlinkat(dir, name, target, sizeof(target) - 1);
		SYS(n);
		target[n] = 0;
		buf_printf(&s->out, " -> %s", target);
	}
	if (S_ISREG(st.st_mode) || S_ISDIR(st.st_mode)) {
		fd = openat(dir, name, O_RDONLY | O_NOFOLLOW);
		SYS(fd);
		if (ioctl(fd, FS_IOC_GETFLAGS, &flags) == 0)
			buf_printf(&s->out, " flags:%x",
				   flags & (FS_IMMUTABLE_FL | FS_APPEND_FL |
					    FS_NODUMP_FL | FS_NOATIME_FL |
					    FS_SYNC_FL));
		if (S_ISREG(st.st_mode))
			show_data(s, fd, st.st_size);
		close(fd);
	}
	buf_u8(&s->out, '\n');
	if (S_ISDIR(st.st_mode))
		show_dir(s, dir, name, path);
}

/* Owned by the caller. */
static inline char *show(const char *path)
{
	struct shown s = { 0 };
	char *text;

	show_entry(&s, AT_FDCWD, path, ".");
	text = strdup(buf_cstr(&s.out));
	buf_free(&s.out);
	for (size_t i = 0; i < s.n; i++)
		free(s.v[i].path);
	free(s.v);
	return text;
}

static inline void assert_same(const char *want, const char *have)
{
	size_t i = 0, line = 0;

	if (strcmp(want, have) == 0)
		return;
	for (; want[i] == have[i]; i++)
		if (want[i] == '\n')
			line = i + 1;
	fail_msg("trees differ:\n- %.*s\n+ %.*s",
		 (int)strcspn(want + line, "\n"), want + line,
		 (int)strcspn(have + line, "\n"), have + line);
}

#endif
