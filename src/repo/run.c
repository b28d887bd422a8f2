/* SPDX-License-Identifier: MIT */
/* state/partial/RUN: what a run has written and not published. The directory
 * holds a file "lock" that the run keeps locked; where that lock can be had,
 * the run is dead. Removing a dead run and making a new one race only in that
 * a new directory may be swept before its lock is taken: the maker sees that
 * its lock file is gone and takes another name. */
#include "internal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <snapctl/base/io.h>
#include <snapctl/base/mem.h>

#define ATTEMPTS 100

/* 1: locked, and the file is still there; 0: somebody else has it; -1. */
static int take_lock(int dir, int *fd, struct sc_err *err)
{
	struct stat st;

	*fd = openat(dir, "lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW,
		     0600);
	if (*fd < 0 && errno == ENOENT)
		return 0; /* the directory was removed meanwhile */
	if (*fd < 0)
		return sc_fail(err, SC_EIO, errno, "lock the run's directory");
	if (flock(*fd, LOCK_EX | LOCK_NB) == 0) {
		if (fstat(*fd, &st) == 0 && st.st_nlink > 0)
			return 1;
	} else if (errno != EWOULDBLOCK) {
		sc_fail(err, SC_EIO, errno, "lock the run's directory");
		mem_closep(fd);
		*fd = -1;
		return -1;
	}
	mem_closep(fd);
	*fd = -1;
	return 0;
}

static int try_start(struct repo *r, int partial, struct sc_err *err)
{
	int rc;

	if (io_random_name(r->run_name, sizeof(r->run_name), "run-", err) < 0)
		return -1;
	if (mkdirat(partial, r->run_name, 0700) < 0)
		return errno == EEXIST ? 0
				       : sc_fail(err, SC_EIO, errno,
						 "create %s", r->run_name);
	r->run = openat(partial, r->run_name,
			O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (r->run < 0)
		return errno == ENOENT ? 0
				       : sc_fail(err, SC_EIO, errno, "open %s",
						 r->run_name);
	rc = take_lock(r->run, &r->run_lock, err);
	if (rc == 1)
		return 1;
	mem_closep(&r->run);
	r->run = -1;
	/* Empty, or gone: nothing is lost if this fails. */
	(void)unlinkat(partial, r->run_name, AT_REMOVEDIR);
	return rc;
}

int run_start(struct repo *r, struct sc_err *err)
{
	auto_close int partial = -1;
	int rc = 1;

	pthread_mutex_lock(&r->mutex);
	if (r->run >= 0)
		goto out;
	partial = openat(r->dir, "state/partial",
			 O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (partial < 0) {
		rc = sc_fail(err, SC_EIO, errno, "open state/partial");
		goto out;
	}
	rc = 0;
	for (int i = 0; rc == 0 && i < ATTEMPTS; i++)
		rc = try_start(r, partial, err);
	if (rc == 0)
		rc = sc_fail(err, SC_EIO, EEXIST,
			     "create a directory in state/partial");
out:
	pthread_mutex_unlock(&r->mutex);
	return rc < 0 ? -1 : 0;
}

/* Removes all files of dir, the lock last: until then it is not ours to lose.
 * What cannot be removed stays, the next run tries again. */
static void empty(int dir)
{
	int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *e;

	if (!d) {
		mem_closep(&fd);
		return;
	}
	while ((e = readdir(d)))
		if (e->d_name[0] != '.' && strcmp(e->d_name, "lock") != 0)
			(void)unlinkat(dir, e->d_name, 0);
	closedir(d);
	(void)unlinkat(dir, "lock", 0);
}

void run_end(struct repo *r)
{
	auto_close int partial = -1;

	if (r->run < 0)
		return;
	empty(r->run);
	partial = openat(r->dir, "state/partial",
			 O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (partial >= 0)
		(void)unlinkat(partial, r->run_name, AT_REMOVEDIR);
	mem_closep(&r->run);
	mem_closep(&r->run_lock);
	r->run = r->run_lock = -1;
	r->nsealed = 0;
}

static int sweep_one(int partial, const char *name, struct sc_err *err)
{
	auto_close int dir = openat(
		partial, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	auto_close int lock = -1;
	int rc;

	if (dir < 0)
		return 0; /* gone, or nothing of ours */
	rc = take_lock(dir, &lock, err);
	if (rc <= 0)
		return rc;
	empty(dir);
	(void)unlinkat(partial, name, AT_REMOVEDIR);
	return 0;
}

int run_sweep(struct repo *r, struct sc_err *err)
{
	int fd = openat(r->dir, "state/partial",
			O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *e;
	int rc = 0;

	if (!d) {
		rc = sc_fail(err, SC_EIO, errno, "read state/partial");
		mem_closep(&fd);
		return rc;
	}
	while (rc == 0 && (e = readdir(d)))
		if (strncmp(e->d_name, "run-", 4) == 0)
			rc = sweep_one(fd, e->d_name, err);
	closedir(d);
	return rc;
}
