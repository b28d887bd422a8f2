/* SPDX-License-Identifier: MIT */
/* Walks and takes a directory into nothing and says how fast, and where the
 * time went. For a profiler and for comparison with tar | zstd -T0.
 *
 *     take DIRECTORY [THREADS [LEVEL]] [> FILE.tar.zst]
 *
 * The archive goes to stdout when that is not a terminal. */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <snapctl/archive/chunker.h>
#include <snapctl/archive/take.h>
#include <snapctl/base/group.h>
#include <snapctl/base/io.h>
#include <snapctl/scan/walk.h>

static uint64_t stored;
static double read_at;

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double cpu(void)
{
	struct rusage r;

	getrusage(RUSAGE_SELF, &r);
	return (double)(r.ru_utime.tv_sec + r.ru_stime.tv_sec) +
	       1e-6 * (double)(r.ru_utime.tv_usec + r.ru_stime.tv_usec);
}

static int segment(void *arg, const void *p, size_t n, uint32_t plain,
		   struct sc_err *err)
{
	(void)plain;
	stored += n;
	if (isatty(*(int *)arg))
		return 0;
	return io_write_all(*(int *)arg, p, n, "standard output", err);
}

static void read_done(void *arg)
{
	(void)arg;
	read_at = now();
}

static int run(int root, unsigned threads, int level, struct sc_err *err)
{
	struct walk_options wo = { .threads = threads };
	struct take_options to = { .threads = threads,
				   .level = level,
				   .chunk_avg = CHUNK_AVG_DEFAULT };
	int out = STDOUT_FILENO;
	struct take_sink sink = { segment, read_done, &out };
	struct chunk_table chunks = { 0 };
	struct walk_result walk = { 0 };
	struct take_result res;
	double t0 = now(), t1, t2, c1;
	struct rusage r;

	if (walk_tree(root, &wo, NULL, &walk, err) < 0)
		return -1;
	t1 = now();
	c1 = cpu();
	if (take_full(root, walk.tree, &to, &sink, NULL, &chunks, &res, err) <
	    0)
		return -1;
	t2 = now();
	getrusage(RUSAGE_SELF, &r);
	fprintf(stderr,
		"walk %.3f s, %" PRIu64 " entries; take %.3f s (read %.3f s), "
		"cpu %.3f s\n%" PRIu64 " bytes, %" PRIu64 " tar, %" PRIu64
		" stored in %u segments, %zu chunks; %.3f GB/s; %ld MiB\n",
		t1 - t0, walk.entries, t2 - t1, read_at - t1, cpu() - c1,
		res.bytes, res.plain, stored, res.segments, chunks.nchunks,
		(double)res.bytes / (t2 - t1) / 1e9, r.ru_maxrss / 1024);
	tree_free(walk.tree);
	free(chunks.chunks);
	return 0;
}

int main(int argc, char **argv)
{
	struct sc_err err = { 0 };
	unsigned threads = group_cores();
	int level = 3, root;

	if (argc < 2)
		return 2;
	if (argc > 2)
		threads = (unsigned)atoi(argv[2]);
	if (argc > 3)
		level = atoi(argv[3]);
	root = open(argv[1], O_RDONLY | O_CLOEXEC);
	if (root < 0 || run(root, threads, level, &err) < 0) {
		fprintf(stderr, "take: %s\n", err.msg);
		return 1;
	}
	return 0;
}
