/* SPDX-License-Identifier: MIT */
/* flock belongs to the open file, not to the process or thread. So a blocking
 * flock is waited for in a child that shares the descriptor: when the child
 * gets the lock, we have it; on a timeout or a cancel the child is killed,
 * wherever it waits, and nothing else is disturbed: no signal handlers, no
 * polling of the lock. */
#include "internal.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <snapctl/base/io.h>
#include <snapctl/base/mem.h>
#include <snapctl/base/text.h>

#define CONTENT_MAX   1024
#define LOCK_NAME_MAX 200

struct repo_lock {
	int fd; /* -1: a repository that nobody can write needs no lock */
	bool exclusive;
};

/* "locks/" and name with what is not fit for a file name as %XX. */
static int lock_path(struct buf *out, const char *name, struct sc_err *err)
{
	struct digest d;
	char hex[DIGEST_HEX + 1];

	buf_printf(out, "locks/");
	for (const char *c = name; *c; c++) {
		unsigned char u = (unsigned char)*c;

		if ((u >= '0' && u <= '9') || (u >= 'a' && u <= 'z') ||
		    (u >= 'A' && u <= 'Z') || u == '_' || u == '-' ||
		    (u == '.' && c != name))
			buf_u8(out, u);
		else
			buf_printf(out, "%%%02X", u);
	}
	if (out->len > LOCK_NAME_MAX) {
		auto_hash struct hash *h = NULL;

		if (hash_new(&h, err) < 0 ||
		    hash_once(h, name, strlen(name), &d, err) < 0)
			return -1;
		digest_hex(&d, hex);
		out->len = LOCK_NAME_MAX - DIGEST_HEX;
		buf_printf(out, "%s", hex);
	}
	return buf_cstr(out) ? 0 : sc_oom(err, "lock name");
}

/* *fd -1 where there is no such lock and none can be made. */
static int lock_open(struct repo *r, const char *path, int *fd,
		     struct sc_err *err)
{
	const int flags = O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;

	*fd = openat(r->dir, path, O_RDWR | O_CREAT | flags, 0600);
	if (*fd < 0 && errno == ENOENT && mkdirat(r->dir, "locks", 0700) == 0)
		*fd = openat(r->dir, path, O_RDWR | O_CREAT | flags, 0600);
	if (*fd >= 0)
		return 0;
	if (errno != EROFS && errno != EACCES && errno != ENOENT)
		return sc_fail(err, SC_EIO, errno, "open %s", path);
	*fd = openat(r->dir, path, O_RDONLY | flags);
	if (*fd < 0 && errno != ENOENT)
		return sc_fail(err, SC_EIO, errno, "open %s", path);
	return 0;
}

static void write_holder(int fd, const char *what)
{
	auto_buf struct buf b = { 0 };
	char host[256] = "", when[32];
	struct sc_err ignored;

	if (gethostname(host, sizeof(host) - 1) < 0)
		host[0] = 0;
	buf_printf(&b, "pid %ld\nhost %s\ncommand %s\nsince %s\n",
		   (long)getpid(), host, what, text_utc(when, time(NULL), 0));
	/* It only helps to explain. A full disk must not stop "rm". */
	if (!b.failed && ftruncate(fd, 0) == 0)
		(void)io_pwrite_all(fd, b.p, b.len, 0, "lock", &ignored);
}

/* The value after "key " at the start of a line, escaped. */
static const char *field(const char *text, const char *key, char out[128])
{
	size_t k = strlen(key);

	for (const char *p = text; p; p = strchr(p, '\n'), p = p ? p + 1 : p)
		if (strncmp(p, key, k) == 0 && p[k] == ' ')
			return text_escaped(out, 128, p + k + 1,
					    strcspn(p + k + 1, "\n"));
	return NULL;
}

static int fail_locked(int fd, const char *name, struct sc_err *err)
{
	char text[CONTENT_MAX + 1], lock[128];
	char pid[128], host[128], what[128], since[128];
	ssize_t n = pread(fd, text, CONTENT_MAX, 0);

	text_escaped(lock, sizeof(lock), name, strlen(name));
	text[n < 0 ? 0 : n] = 0;
	if (!field(text, "pid", pid) || !field(text, "host", host) ||
	    !field(text, "command", what) || !field(text, "since", since))
		return sc_fail(err, SC_ELOCKED, 0,
			       "lock \"%s\" is held by another run of snapctl",
			       lock);
	return sc_fail(err, SC_ELOCKED, 0,
		       "lock \"%s\" is held by pid %s on %s (%s, since %s)",
		       lock, pid, host, what, since);
}

/* In the child: only calls that are safe after a fork of a threaded process.
 * Nothing but fd stays open, so that it keeps no other lock alive. */
static void wait_in_child(int fd, int op, pid_t parent)
{
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != parent)
		_exit(1);
	if (fd != 3 && dup2(fd, 3) < 0)
		_exit(1);
	if (close_range(4, ~0U, 0) < 0)
		_exit(1);
	while (flock(3, op) < 0)
		if (errno != EINTR)
			_exit(1);
	_exit(0);
}

static int64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* 1: the child ended, 0: time is up, -1: cancelled or failed. */
static int await(int pidfd, int wait, const struct cancel *cancel,
		 struct sc_err *err)
{
	int64_t end = now_ms() + (int64_t)wait * 1000;

	for (;;) {
		struct pollfd p[2] = {
			{ .fd = pidfd, .events = POLLIN },
			{ .fd = cancel ? cancel->fd : -1, .events = POLLIN },
		};
		int64_t left = wait < 0 ? -1 : end - now_ms();
		int n;

		if (wait >= 0 && left < 0)
			left = 0;
		n = poll(p, 2, left > INT32_MAX ? INT32_MAX : (int)left);
		if (cancel_check(cancel, err) < 0)
			return -1;
		if (n < 0 && errno != EINTR)
			return sc_fail(err, SC_EIO, errno, "wait for a lock");
		if (n > 0 && p[0].revents)
			return 1;
		if (wait >= 0 && now_ms() >= end)
			return 0;
	}
}

static int reap(pid_t child, struct sc_err *err)
{
	int status;

	while (waitpid(child, &status, 0) < 0)
		if (errno != EINTR)
			return sc_fail(err, SC_EIO, errno, "wait for a lock");
	return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* 1: locked, 0: time is up, -1. */
static int wait_locked(int fd, int op, int wait, const struct cancel *cancel,
		       struct sc_err *err)
{
	auto_close int pidfd = -1;
	pid_t parent = getpid(), child = fork();
	int rc;

	if (child < 0)
		return sc_fail(err, SC_EIO, errno, "fork to wait for a lock");
	if (child == 0)
		wait_in_child(fd, op, parent);
	pidfd = pidfd_open(child, 0);
	rc = pidfd < 0 ? sc_fail(err, SC_EIO, errno, "pidfd_open")
		       : await(pidfd, wait, cancel, err);
	if (rc <= 0 && kill(child, SIGKILL) < 0)
		rc = sc_fail(err, SC_EIO, errno, "end a wait for a lock");
	switch (reap(child, rc < 0 ? NULL : err)) {
	case 1:
		return rc < 0 ? -1
			      : 1; /* also when it came at the last moment */
	case 0:
		return rc == 1 ? sc_fail(err, SC_EIO, 0,
					 "waiting for a lock failed")
			       : rc;
	}
	return -1;
}

static int acquire(int fd, const char *name, int op, int wait,
		   const struct cancel *cancel, struct sc_err *err)
{
	int rc = 1;

	if (flock(fd, op | LOCK_NB) < 0) {
		if (errno != EWOULDBLOCK)
			return sc_fail(err, SC_EIO, errno, "lock %s", name);
		rc = wait ? wait_locked(fd, op, wait, cancel, err) : 0;
	}
	if (rc == 0)
		return fail_locked(fd, name, err);
	return rc < 0 ? -1 : 0;
}

int repo_lock(struct repo *r, const char *name, enum repo_lock_mode mode,
	      const char *what, int wait, const struct cancel *cancel,
	      struct repo_lock **out, struct sc_err *err)
{
	int op = mode == LOCK_EXCLUSIVE ? LOCK_EX : LOCK_SH;
	auto_buf struct buf path = { 0 };
	auto_close int fd = -1;
	struct repo_lock *l;

	if (cancel_check(cancel, err) < 0 || lock_path(&path, name, err) < 0 ||
	    lock_open(r, (const char *)path.p, &fd, err) < 0)
		return -1;
	if (fd < 0 && mode == LOCK_EXCLUSIVE)
		return sc_fail(err, SC_EIO, EROFS, "lock %s", name);
	if (fd >= 0 && acquire(fd, name, op, wait, cancel, err) < 0)
		return -1;
	l = malloc(sizeof(*l));
	if (!l)
		return sc_oom(err, "lock");
	l->exclusive = mode == LOCK_EXCLUSIVE;
	/* Whatever stands there is from a dead holder. */
	if (l->exclusive)
		write_holder(fd, what);
	else if (fd >= 0)
		(void)!ftruncate(fd, 0);
	l->fd = take_fd(&fd);
	*out = l;
	return 0;
}

void repo_unlock(struct repo_lock *l)
{
	if (!l)
		return;
	if (l->fd >= 0) {
		if (l->exclusive)
			(void)!ftruncate(l->fd, 0);
		(void)flock(l->fd, LOCK_UN);
		mem_closep(&l->fd);
	}
	free(l);
}
