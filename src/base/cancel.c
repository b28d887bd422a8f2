/* SPDX-License-Identifier: MIT */
#include <snapctl/base/cancel.h>

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

/* The one that signal handlers set: a handler has no argument. */
static struct cancel *on_signal;

int cancel_init(struct cancel *c, struct sc_err *err)
{
	int p[2];

	if (pipe2(p, O_CLOEXEC | O_NONBLOCK) < 0)
		return sc_fail(err, SC_EIO, errno, "pipe");
	*c = (struct cancel){ .fd = p[0], .wfd = p[1] };
	return 0;
}

void cancel_close(struct cancel *c)
{
	if (on_signal == c)
		on_signal = NULL;
	(void)close(c->fd);
	(void)close(c->wfd);
}

void cancel_set(struct cancel *c, int sig)
{
	int saved = errno;
	ssize_t n;
	int none = 0;

	if (atomic_compare_exchange_strong(&c->sig, &none, sig)) {
		/* A full pipe is readable already; nothing else can fail. */
		n = write(c->wfd, "", 1);
		(void)n;
	}
	errno = saved;
}

static void handle(int sig)
{
	if (on_signal)
		cancel_set(on_signal, sig);
}

int cancel_on_signals(struct cancel *c, struct sc_err *err)
{
	static const int sigs[] = { SIGINT, SIGTERM, SIGHUP };
	struct sigaction sa = { .sa_handler = handle };

	on_signal = c;
	for (size_t i = 0; i < sizeof(sigs) / sizeof(*sigs); i++) {
		struct sigaction old;

		/* nohup: what was ignored at start stays so. */
		if (sigaction(sigs[i], NULL, &old) == 0 &&
		    old.sa_handler == SIG_IGN && sigs[i] == SIGHUP)
			continue;
		if (sigaction(sigs[i], &sa, NULL) < 0)
			return sc_fail(err, SC_EIO, errno, "sigaction");
	}
	sa.sa_handler = SIG_IGN;
	if (sigaction(SIGPIPE, &sa, NULL) < 0)
		return sc_fail(err, SC_EIO, errno, "sigaction");
	return 0;
}

int cancel_check(const struct cancel *c, struct sc_err *err)
{
	if (!cancel_is_set(c))
		return 0;
	return sc_fail(err, SC_EINTR, 0, "interrupted by SIG%s",
		       sigabbrev_np(atomic_load(&c->sig)));
}
