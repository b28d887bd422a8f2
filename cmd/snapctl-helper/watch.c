/* SPDX-License-Identifier: MIT */
#include "helper.h"

#include <errno.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define PROGRESS_MS 160

static void send_progress(struct helper *h)
{
	uint64_t v[2] = { atomic_load(&h->bytes), atomic_load(&h->files) };
	struct sc_err ignored;

	/* A broken stream is found by whoever sends something that counts. */
	(void)frame_send_varints(&h->frames, FRAME_PROGRESS,
				 atomic_load(&h->current), v, 2, &ignored);
}

void watch_volume(struct helper *h, unsigned volume)
{
	atomic_store(&h->bytes, 0);
	atomic_store(&h->files, 0);
	atomic_store(&h->current, volume);
}

/* Anything but silence from snapctl means: stop. */
static void hear(struct helper *h)
{
	struct frame in = { 0 }; /* h->in is the command's */
	struct sc_err ignored;

	if (frame_recv(&h->frames, &in, &ignored) <= 0)
		h->ended = true;
	frame_free(&in);
	atomic_store(&h->stop, true);
}

static void *run(void *arg)
{
	struct watch *w = arg;
	struct pollfd p[2] = {
		{ .fd = w->wake, .events = POLLIN },
		{ .fd = w->listen ? w->h->infd : -1, .events = POLLIN },
	};
	bool sent = false;

	for (;;) {
		int n = poll(p, 2, PROGRESS_MS);

		if (n < 0 && errno != EINTR)
			atomic_store(&w->h->stop, true);
		if (n > 0 && p[0].revents)
			break;
		if (n > 0 && p[1].revents) {
			hear(w->h);
			p[1].fd = -1;
		}
		if (n == 0 || !sent)
			send_progress(w->h);
		sent = true;
	}
	send_progress(w->h);
	return NULL;
}

int watch_start(struct watch *w, struct helper *h, bool listen,
		struct sc_err *err)
{
	int rc;

	*w = (struct watch){ .h = h, .listen = listen, .runs = true };
	w->wake = eventfd(0, EFD_CLOEXEC);
	if (w->wake < 0)
		return sc_fail(err, SC_EIO, errno, "eventfd");
	watch_volume(h, FRAME_NO_VOLUME);
	rc = pthread_create(&w->thread, NULL, run, w);
	if (rc) {
		(void)close(w->wake);
		return sc_fail(err, SC_EIO, rc, "start thread");
	}
	return 0;
}

void watch_stop(struct watch *w)
{
	if (!w->runs)
		return;
	w->runs = false;
	/* Cannot fail: the counter is far from its end. */
	(void)eventfd_write(w->wake, 1);
	pthread_join(w->thread, NULL);
	(void)close(w->wake);
}
