/* SPDX-License-Identifier: MIT */
/* walk_tree against a bare getdents64 and statx loop with as many threads, on
 * a million empty files in a thousand directories.
 *
 *   walk DIR [THREADS]
 *
 * DIR/walk-1m is made when it is not there, and stays. Five rounds, taking
 * turns; medians. Prints one line of JSON. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <snapctl/base/group.h>
#include <snapctl/base/notes.h>
#include <snapctl/scan/walk.h>

#define DIRS   1000
#define FILES  1000
#define ROUNDS 5
#define BUFLEN (256u << 10)

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* -- data --------------------------------------------------------------- */

static void fill(int root, int d)
{
	char name[32];
	int dir, fd;

	snprintf(name, sizeof(name), "dir-%04d", d);
	if (mkdirat(root, name, 0755) < 0 && errno != EEXIST)
		die("mkdir");
	dir = openat(root, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0)
		die("open directory");
	for (int i = 0; i < FILES; i++) {
		snprintf(name, sizeof(name), "file-%06d", d * FILES + i);
		fd = openat(dir, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
		if (fd < 0)
			die("create file");
		close(fd);
	}
	close(dir);
}

static int data(const char *base)
{
	char path[4096];
	int root;

	snprintf(path, sizeof(path), "%s/walk-1m", base);
	if (mkdir(path, 0755) < 0 && errno != EEXIST)
		die("mkdir");
	root = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (root < 0)
		die("open root");
	if (faccessat(root, "complete", F_OK, 0) == 0)
		return root;
	for (int d = 0; d < DIRS; d++)
		fill(root, d);
	if (mkdirat(root, "complete", 0755) < 0)
		die("mkdir");
	return root;
}

/* -- the bare loop ------------------------------------------------------ */

struct bare {
	int root;
	char (*dirs)[32];
	unsigned n;
	atomic_uint next;
	atomic_ulong seen;
};

static void bare_dir(struct bare *b, const char *name, char *buf)
{
	int fd = openat(b->root, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	unsigned long seen = 0;
	const struct dirent64 *d;
	struct statx st;
	ssize_t got;

	if (fd < 0)
		die("open directory");
	while ((got = getdents64(fd, buf, BUFLEN)) > 0) {
		for (ssize_t at = 0; at < got; at += d->d_reclen) {
			d = (const struct dirent64 *)(buf + at);
			if (d->d_name[0] == '.')
				continue;
			if (statx(fd, d->d_name, AT_SYMLINK_NOFOLLOW,
				  STATX_BASIC_STATS, &st) < 0)
				die("statx");
			seen++;
		}
	}
	close(fd);
	atomic_fetch_add(&b->seen, seen);
}

static int bare_thread(void *arg, struct sc_err *err)
{
	struct bare *b = arg;
	char *buf = malloc(BUFLEN);
	unsigned i;

	if (!buf)
		return sc_oom(err, "buffer");
	while ((i = atomic_fetch_add(&b->next, 1)) < b->n)
		bare_dir(b, b->dirs[i], buf);
	free(buf);
	return 0;
}

static double run_bare(int root, unsigned threads)
{
	static char dirs[DIRS + 1][32];
	struct bare b = { .root = root, .dirs = dirs };
	double t = now();
	struct group *g;
	int fd = openat(root, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *top = fdopendir(fd);
	const struct dirent *d;

	if (!top || group_new(&g, NULL) < 0)
		die("start");
	while ((d = readdir(top)))
		if (d->d_name[0] != '.' && b.n < DIRS + 1)
			snprintf(dirs[b.n++], 32, "%.31s", d->d_name);
	closedir(top);
	for (unsigned i = 0; i < threads; i++)
		if (group_start(g, bare_thread, &b, NULL) < 0)
			die("thread");
	if (group_join(g, NULL) < 0)
		die("join");
	t = now() - t;
	if (atomic_load(&b.seen) != (unsigned long)DIRS * FILES) {
		fprintf(stderr, "bare loop saw %lu\n", atomic_load(&b.seen));
		exit(1);
	}
	return t;
}

/* -- the walk ----------------------------------------------------------- */

static double run_walk(int root, unsigned threads)
{
	struct walk_options o = { .threads = threads };
	struct walk_result r;
	struct sc_err err = { 0 };
	double t = now();

	if (walk_tree(root, &o, NULL, &r, &err) < 0) {
		fprintf(stderr, "%s\n", err.msg);
		exit(1);
	}
	t = now() - t;
	if (r.files != (uint64_t)DIRS * FILES) {
		fprintf(stderr, "walk saw %lu files\n", (unsigned long)r.files);
		exit(1);
	}
	tree_free(r.tree);
	return t;
}

/* Each run in a process of its own: fresh memory for both, and the peak of
 * one walk alone. */
static double in_child(double (*fn)(int, unsigned), int root, unsigned threads,
		       double *rss)
{
	struct rusage u;
	double t = 0;
	int p[2], st;
	pid_t pid;

	if (pipe(p) < 0 || (pid = fork()) < 0)
		die("fork");
	if (pid == 0) {
		t = fn(root, threads);
		_exit(write(p[1], &t, sizeof(t)) != sizeof(t));
	}
	close(p[1]);
	if (read(p[0], &t, sizeof(t)) != sizeof(t) ||
	    wait4(pid, &st, 0, &u) != pid || st != 0)
		die("child");
	close(p[0]);
	*rss = (double)u.ru_maxrss / 1024;
	return t;
}

static int cmp(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

int main(int argc, char **argv)
{
	double bare[ROUNDS], walk[ROUNDS], rss, peak = 0;
	unsigned threads = group_cores();
	int root;

	if (argc < 2 || argc > 3) {
		fprintf(stderr, "usage: %s DIR [THREADS]\n", argv[0]);
		return 2;
	}
	if (argc == 3)
		threads = (unsigned)strtoul(argv[2], NULL, 10);
	if (threads == 0)
		threads = 1;
	root = data(argv[1]);
	in_child(run_bare, root, threads, &rss); /* warm */
	for (int i = 0; i < ROUNDS; i++) {
		bare[i] = in_child(run_bare, root, threads, &rss);
		walk[i] = in_child(run_walk, root, threads, &rss);
		peak = rss > peak ? rss : peak;
	}
	qsort(bare, ROUNDS, sizeof(*bare), cmp);
	qsort(walk, ROUNDS, sizeof(*walk), cmp);
	printf("{\"threads\": %u, \"bare_s\": %.3f, \"walk_s\": %.3f, "
	       "\"ratio\": %.3f, \"peak_rss_mb\": %.1f}\n",
	       threads, bare[ROUNDS / 2], walk[ROUNDS / 2],
	       walk[ROUNDS / 2] / bare[ROUNDS / 2], peak);
	return 0;
}
