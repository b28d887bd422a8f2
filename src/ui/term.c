/* SPDX-License-Identifier: MIT */
#include <snapctl/ui/ui.h>

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include <snapctl/base/io.h>

static int stderr_write(void *arg, const char *p, size_t n, bool droppable)
{
	struct pollfd pfd = { .fd = STDERR_FILENO, .events = POLLOUT };

	(void)arg;
	if (droppable && (poll(&pfd, 1, 0) != 1 || !(pfd.revents & POLLOUT)))
		return 0;
	return io_write_all(STDERR_FILENO, p, n, "stderr", NULL) < 0 ? -1 : 1;
}

static void stderr_size(void *arg, unsigned *cols, unsigned *rows)
{
	struct winsize w;

	(void)arg;
	if (ioctl(STDERR_FILENO, TIOCGWINSZ, &w) < 0)
		return;
	if (w.ws_col)
		*cols = w.ws_col;
	if (w.ws_row)
		*rows = w.ws_row;
}

static uint64_t monotonic(void *arg)
{
	struct timespec t;

	(void)arg;
	if (clock_gettime(CLOCK_MONOTONIC, &t) < 0)
		return 0;
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

struct ui_term ui_term_stderr(void)
{
	const char *term = getenv("TERM");
	const char *no_color = getenv("NO_COLOR");
	struct ui_term t = {
		.write = stderr_write,
		.size = stderr_size,
		.now = monotonic,
	};

	t.tty = isatty(STDERR_FILENO) == 1 && term && *term &&
		strcmp(term, "dumb") != 0;
	t.colour = t.tty && !(no_color && *no_color);
	return t;
}
