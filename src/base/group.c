/* SPDX-License-Identifier: MIT */
#include <snapctl/base/group.h>

#include <errno.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include <snapctl/base/mem.h>

struct group {
	pthread_mutex_t lock;
	atomic_bool stopping;
	bool failed;
	struct sc_err first;
	void (*wake)(void *);
	void *wake_arg;
	pthread_t *threads;
	size_t n, cap;
};

struct member {
	struct group *g;
	group_fn fn;
	void *arg;
};

int group_new(struct group **out, struct sc_err *err)
{
	struct group *g = calloc(1, sizeof(*g));

	if (!g)
		return sc_oom(err, "thread group");
	pthread_mutex_init(&g->lock, NULL);
	*out = g;
	return 0;
}

void group_on_stop(struct group *g, void (*wake)(void *), void *arg)
{
	g->wake = wake;
	g->wake_arg = arg;
}

bool group_stopping(const struct group *g)
{
	return atomic_load_explicit(&g->stopping, memory_order_relaxed);
}

void group_stop(struct group *g)
{
	if (!atomic_exchange(&g->stopping, true) && g->wake)
		g->wake(g->wake_arg);
}

static void keep_first(struct group *g, const struct sc_err *e)
{
	pthread_mutex_lock(&g->lock);
	if (!g->failed) {
		g->failed = true;
		g->first = *e;
	}
	pthread_mutex_unlock(&g->lock);
	group_stop(g);
}

static void *run_member(void *arg)
{
	struct member m = *(struct member *)arg;
	struct sc_err e = { 0 };

	free(arg);
	if (m.fn(m.arg, &e) < 0)
		keep_first(m.g, &e);
	return NULL;
}

int group_start(struct group *g, group_fn fn, void *arg, struct sc_err *err)
{
	struct member *m = malloc(sizeof(*m));
	int rc;

	if (!m ||
	    mem_grow(&g->threads, &g->cap, g->n + 1, sizeof(*g->threads)) < 0) {
		free(m);
		group_stop(g);
		return sc_oom(err, "thread");
	}
	*m = (struct member){ g, fn, arg };
	rc = pthread_create(&g->threads[g->n], NULL, run_member, m);
	if (rc) {
		free(m);
		group_stop(g);
		return sc_fail(err, SC_EIO, rc, "start thread");
	}
	g->n++;
	return 0;
}

int group_join(struct group *g, struct sc_err *err)
{
	int rc = 0;

	for (size_t i = 0; i < g->n; i++)
		pthread_join(g->threads[i], NULL);
	if (g->failed) {
		if (err)
			*err = g->first;
		rc = -1;
	}
	pthread_mutex_destroy(&g->lock);
	free(g->threads);
	free(g);
	return rc;
}

unsigned group_cores(void)
{
	cpu_set_t set;

	if (sched_getaffinity(0, sizeof(set), &set) == 0 && CPU_COUNT(&set) > 0)
		return (unsigned)CPU_COUNT(&set);
	return 1;
}
