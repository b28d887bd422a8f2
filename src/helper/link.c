/* SPDX-License-Identifier: MIT */
/* The two transports (DESIGN section 3): a unix socket in a private directory
 * that is mounted into the helper, or the container's stdin and stdout. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <snapctl/base/io.h>
#include <snapctl/base/mem.h>

#include "internal.h"

/* A helper that was started connects within milliseconds; this bounds an
 * engine that lost it. */
#define CONNECT_MS 60000

/* An older directory without a listener belongs to a run that was killed. */
#define DESERTED_S 60

/* -- the private directory ------------------------------------------------ */

static int make_dir(const char *path, struct sc_err *err)
{
	struct stat st;

	if (mkdir(path, 0700) < 0 && errno != EEXIST)
		return sc_fail(err, SC_EIO, errno, "create %s", path);
	if (lstat(path, &st) < 0)
		return sc_fail(err, SC_EIO, errno, "stat %s", path);
	if (!S_ISDIR(st.st_mode) || st.st_uid != geteuid())
		return sc_fail(err, SC_EREFUSED, 0,
			       "%s is not a directory of ours", path);
	return 0;
}

/* Nobody listens there any more, and not because it is just being made. */
static bool is_deserted(int base, const char *name)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	auto_close int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct stat st;

	if (fd < 0 || fstatat(base, name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
	    !S_ISDIR(st.st_mode) || time(NULL) - st.st_mtime < DESERTED_S)
		return false;
	/* By the descriptor: a path could be too long for an address. */
	if ((size_t)snprintf(sa.sun_path, sizeof(sa.sun_path),
			     "/proc/self/fd/%d/%s/s", base,
			     name) >= sizeof(sa.sun_path))
		return false;
	return connect(fd, (struct sockaddr *)&sa, sizeof(sa)) < 0 &&
	       (errno == ECONNREFUSED || errno == ENOENT);
}

/* Directories of killed runs; what cannot be removed stays. */
static void sweep(const char *path)
{
	DIR *d = opendir(path);
	struct dirent *e;

	while (d && (e = readdir(d))) {
		char sock[300];

		if (e->d_name[0] == '.' || !is_deserted(dirfd(d), e->d_name))
			continue;
		snprintf(sock, sizeof(sock), "%s/s", e->d_name);
		(void)unlinkat(dirfd(d), sock, 0);
		(void)unlinkat(dirfd(d), e->d_name, AT_REMOVEDIR);
	}
	if (d)
		(void)closedir(d);
}

static int private_dir(char **out, struct sc_err *err)
{
	const char *run = geteuid() == 0 ? "/run" : getenv("XDG_RUNTIME_DIR");
	char base[4096], name[32];

	if (!run || *run != '/')
		return sc_fail(err, SC_EREFUSED, 0,
			       "XDG_RUNTIME_DIR names no directory for the "
			       "helper's socket");
	if ((size_t)snprintf(base, sizeof(base), "%s/snapctl", run) >=
	    sizeof(base))
		return sc_fail(err, SC_EREFUSED, 0, "%s is too long", run);
	if (make_dir(base, err) < 0)
		return -1;
	sweep(base);
	if (io_random_name(name, sizeof(name), "", err) < 0)
		return -1;
	if (asprintf(out, "%s/%s", base, name) < 0) {
		*out = NULL;
		return sc_oom(err, "socket directory");
	}
	if (mkdir(*out, 0700) < 0) {
		sc_fail(err, SC_EIO, errno, "create %s", *out);
		free(*out);
		*out = NULL;
		return -1;
	}
	return 0;
}

static void drop_dir(char *dir)
{
	struct sockaddr_un sa;

	if (!dir)
		return;
	/* Best effort: what stays is an empty directory under /run. */
	if (snprintf(sa.sun_path, sizeof(sa.sun_path), "%s/s", dir) > 0)
		(void)unlink(sa.sun_path);
	(void)rmdir(dir);
	free(dir);
}

static int listen_in(const char *dir, int *out, struct sc_err *err)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	auto_close int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return sc_fail(err, SC_EIO, errno, "socket");
	if ((size_t)snprintf(sa.sun_path, sizeof(sa.sun_path), "%s/s", dir) >=
	    sizeof(sa.sun_path))
		return sc_fail(err, SC_EREFUSED, 0,
			       "%s is too long for a socket", dir);
	if (bind(fd, (struct sockaddr *)&sa, sizeof(sa)) < 0 ||
	    chmod(sa.sun_path, 0666) < 0 || listen(fd, 1) < 0)
		return sc_fail(err, SC_EIO, errno, "listen on %s", sa.sun_path);
	*out = take_fd(&fd);
	return 0;
}

/* -- waiting for the helper ----------------------------------------------- */

/* 1 if the events so far say that the container died, 0, -1. */
static int has_died(struct docker_events *ev, const char *id,
		    struct sc_err *err)
{
	struct docker_event e;
	int rc;

	while ((rc = docker_events_next(ev, 0, &e, err)) > 0)
		if (strcmp(e.id, id) == 0 && strcmp(e.action, "die") == 0)
			return 1;
	return rc;
}

/* The helper connects, or its container dies, or nothing happens. */
static int accept_helper(struct docker *d, const struct session_options *o,
			 struct docker_events *ev, const char *id, int lfd,
			 int *sock, struct sc_err *err)
{
	struct pollfd p[3] = {
		{ .fd = lfd, .events = POLLIN },
		{ .fd = o->cancel ? o->cancel->fd : -1, .events = POLLIN },
		{ .fd = docker_events_fd(ev), .events = POLLIN },
	};
	struct timespec began, now;
	char how[256];
	int rc, left;

	if (clock_gettime(CLOCK_MONOTONIC, &began) < 0)
		return sc_fail(err, SC_EIO, errno, "read the clock");
	for (;;) {
		/* Other containers' events must not keep us waiting. */
		if (clock_gettime(CLOCK_MONOTONIC, &now) < 0)
			return sc_fail(err, SC_EIO, errno, "read the clock");
		left = CONNECT_MS - (int)(now.tv_sec - began.tv_sec) * 1000;
		rc = poll(p, 3, left > 0 ? left : 0);
		if (rc < 0 && errno == EINTR)
			continue;
		if (rc <= 0)
			return sc_fail(err, SC_EENGINE,
				       rc < 0 ? errno : ETIMEDOUT,
				       "wait for the helper to connect");
		if (p[0].revents & POLLIN) {
			*sock = accept4(lfd, NULL, NULL, SOCK_CLOEXEC);
			return *sock < 0 ? sc_fail(err, SC_EIO, errno, "accept")
					 : 0;
		}
		if (p[1].revents)
			return cancel_check(o->cancel, err);
		rc = has_died(ev, id, err);
		if (rc < 0)
			return -1;
		if (rc > 0) {
			container_epitaph(d, id, how, sizeof(how));
			return sc_fail(err, SC_EENGINE, 0,
				       "the helper cannot reach the socket: %s",
				       how);
		}
	}
}

/* -- attach as a channel -------------------------------------------------- */

static ssize_t attach_read(void *arg, void *p, size_t n, struct sc_err *err)
{
	return docker_attach_read(arg, p, n, err);
}

static int attach_write(void *arg, const void *p, size_t n, struct sc_err *err)
{
	return docker_attach_write(arg, p, n, err);
}

/* -- opening and closing -------------------------------------------------- */

static int make_token(char token[FRAME_TOKEN_LEN + 1], struct sc_err *err)
{
	if (io_random_name(token, 17, "", err) < 0)
		return -1;
	return io_random_name(token + 16, 17, "", err);
}

static int open_socket(struct docker *d, const struct session_options *o,
		       const char *image, struct link *l, bool *retry,
		       struct sc_err *err)
{
	struct docker_events *ev = NULL;
	auto_close int lfd = -1;
	int rc;

	*retry = true;
	if (!docker_info(d)->local)
		return sc_fail(err, SC_EREFUSED, 0,
			       "the engine is remote: no socket can be shared "
			       "with it");
	if (private_dir(&l->dir, err) < 0 || listen_in(l->dir, &lfd, err) < 0)
		return -1;
	rc = container_create(d, o, image, l->dir, l->token, &l->container,
			      err);
	if (rc < 0) {
		*retry = err->code != SC_ELOCKED && err->code != SC_EINTR;
		return -1;
	}
	if (docker_events_open(d, &ev, err) < 0)
		return -1;
	rc = docker_container_start(d, l->container, err);
	if (rc == 0)
		rc = accept_helper(d, o, ev, l->container, lfd, &l->sock, err);
	docker_events_close(ev);
	if (rc < 0) {
		*retry = err->code != SC_EINTR;
		return -1;
	}
	l->fds = (struct channel_fds){ l->sock, l->sock, o->cancel };
	return channel_fds_init(&l->fds, &l->ch, err);
}

static int open_attach(struct docker *d, const struct session_options *o,
		       const char *image, struct link *l, bool *retry,
		       struct sc_err *err)
{
	*retry = false;
	if (container_create(d, o, image, NULL, l->token, &l->container, err) <
		    0 ||
	    docker_attach_open(d, l->container, &l->attach, err) < 0 ||
	    docker_container_start(d, l->container, err) < 0)
		return -1;
	l->ch = (struct channel){ attach_read, attach_write, l->attach };
	return 0;
}

int link_open(struct docker *d, const struct session_options *o,
	      const char *image, enum session_transport kind, struct link *out,
	      bool *retry, struct sc_err *err)
{
	struct sc_err ignored;
	int rc;

	*out = (struct link){ .kind = kind, .sock = -1 };
	*retry = false;
	if (make_token(out->token, err) < 0)
		return -1;
	rc = kind == TRANSPORT_SOCKET
		     ? open_socket(d, o, image, out, retry, err)
		     : open_attach(d, o, image, out, retry, err);
	if (rc < 0) {
		docker_shield(d, true);
		if (link_close(d, out, &ignored) < 0) {
			*retry = false;
			sc_wrap(err, "%s; and then", ignored.msg);
		}
		docker_shield(d, false);
	}
	return rc;
}

void link_abort(struct link *l)
{
	/* Closing would not wake another thread's poll. */
	if (l->sock >= 0)
		(void)shutdown(l->sock, SHUT_RDWR);
	if (l->attach)
		docker_attach_abort(l->attach);
}

void link_cut(struct link *l)
{
	if (l->sock >= 0)
		(void)close(l->sock);
	l->sock = -1;
	if (l->attach)
		docker_attach_close(l->attach);
	l->attach = NULL;
}

int link_close(struct docker *d, struct link *l, struct sc_err *err)
{
	int rc = 0;

	link_cut(l);
	if (l->container) {
		rc = docker_container_remove(d, l->container, true, err);
		if (rc < 0 && err->code == SC_ENOTFOUND)
			rc = 0;
	}
	drop_dir(l->dir);
	free(l->container);
	l->dir = NULL;
	l->container = NULL;
	return rc;
}
