/* SPDX-License-Identifier: MIT */
#include <snapctl/ui/progress.h>

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <snapctl/base/mem.h>
#include <snapctl/base/text.h>

#include "private.h"

#define SECOND	    1000000000ull
#define TICK	    (SECOND / 6)
#define PLAIN_EVERY (10 * SECOND)
#define JSON_EVERY  SECOND
#define SAMPLES	    32 /* at 6 Hz: the rate is that of the last 5 s */

struct sample {
	uint64_t at, bytes;
};

struct volume {
	char *name; /* escaped */
	size_t name_len;
	struct ui_count count;
	struct sample ring[SAMPLES];
	size_t n_samples, next;
	uint64_t first_at, done_at; /* 0: not yet */
	double overall;		    /* rate from first_at to done_at */
};

struct ui_progress {
	struct ui *ui;
	struct volume *v;
	struct ui_row *rows; /* n; filled for each frame */
	size_t n;
	char phase[201]; /* escaped */
	uint64_t started, last_line;
	uint64_t down_at; /* 0: up */
	uint64_t down_ns; /* of earlier times */
	bool was_down;
	struct buf frame; /* the lines on the screen */
	unsigned drawn;	  /* their number; 0: none */
	bool running, stop;
	pthread_t thread;
	pthread_cond_t wake;
};

static uint64_t now(const struct ui_progress *p)
{
	return p->ui->term.now(p->ui->term.arg);
}

static void forget_samples(struct volume *v)
{
	v->n_samples = v->next = 0;
	v->first_at = v->done_at = 0;
	v->overall = 0;
}

/* Takes a sample; the rate over the ring, or over all once it is done. */
static double sample_rate(struct volume *v, const struct ui_row *r, uint64_t t)
{
	struct sample *oldest, *newest = NULL;
	double rate = 0;

	if (v->done_at)
		return v->overall;
	if (v->n_samples)
		newest = &v->ring[(v->next + SAMPLES - 1) % SAMPLES];
	if (newest && r->bytes < newest->bytes)
		forget_samples(v); /* set back by its writer */
	/* A volume that waits for its turn is not slow. */
	if (!v->first_at && (r->bytes || r->files))
		v->first_at = v->n_samples ? newest->at : t;
	oldest = &v->ring[v->n_samples < SAMPLES ? 0 : v->next];
	if (v->n_samples && t > oldest->at)
		rate = (double)(r->bytes - oldest->bytes) * 1e9 /
		       (double)(t - oldest->at);
	/* Extra ticks must not shorten the window. */
	if (!v->n_samples || t - newest->at >= TICK * 3 / 4) {
		v->ring[v->next] = (struct sample){ t, r->bytes };
		v->next = (v->next + 1) % SAMPLES;
		if (v->n_samples < SAMPLES)
			v->n_samples++;
	}
	if (r->done) {
		v->done_at = t;
		if (v->first_at && t > v->first_at)
			v->overall = (double)r->bytes * 1e9 /
				     (double)(t - v->first_at);
		return v->overall;
	}
	return rate;
}

#define GET(x) atomic_load_explicit(&(x), memory_order_relaxed)

static struct ui_frame look(struct ui_progress *p, uint64_t t)
{
	struct ui_frame f = {
		.rows = p->rows,
		.n = p->n,
		.phase = p->phase,
		.elapsed = (double)(t - p->started) / 1e9,
		.down = -1,
	};

	for (size_t i = 0; i < p->n; i++) {
		struct volume *v = &p->v[i];
		struct ui_row *r = &p->rows[i];

		*r = (struct ui_row){
			.name = v->name,
			.name_len = v->name_len,
			.bytes = GET(v->count.bytes),
			.bytes_total = GET(v->count.bytes_total),
			.files = GET(v->count.files),
			.files_total = GET(v->count.files_total),
			.done = GET(v->count.done),
		};
		r->rate = sample_rate(v, r, t);
	}
	if (p->was_down)
		f.down = (double)(p->down_ns +
				  (p->down_at ? t - p->down_at : 0)) /
			 1e9;
	return f;
}

void ui_progress_erase(struct ui_progress *p, struct buf *out)
{
	if (p && p->drawn)
		buf_printf(out, "\r\033[%uA\033[J", p->drawn);
}

void ui_progress_redraw(struct ui_progress *p, struct buf *out)
{
	if (p && p->drawn)
		buf_put(out, p->frame.p, p->frame.len);
}

static void draw_tty(struct ui_progress *p, const struct ui_frame *f)
{
	auto_buf struct buf out = { 0 }, frame = { 0 };
	unsigned cols = 80, rows = 24, lines;
	struct buf old;

	if (p->ui->term.size)
		p->ui->term.size(p->ui->term.arg, &cols, &rows);
	lines = ui_frame_tty(&frame, f, cols, rows);
	if (p->drawn)
		buf_printf(&out, "\r\033[%uA", p->drawn);
	buf_put(&out, frame.p, frame.len);
	buf_printf(&out, "\033[J");
	if (frame.failed || !ui_put(p->ui, &out, !f->last))
		return; /* the old one still stands */
	old = p->frame;
	p->frame = frame;
	frame = old;
	p->drawn = lines;
}

static void draw_line(struct ui_progress *p, const struct ui_frame *f,
		      uint64_t t, bool counts)
{
	auto_buf struct buf out = { 0 };

	if (p->ui->mode == UI_JSON)
		ui_frame_json(&out, f);
	else
		ui_frame_plain(&out, f, counts);
	/* Not written, not owed: the next one says more. */
	(void)ui_put(p->ui, &out, true);
	p->last_line = t;
}

static void tick(struct ui_progress *p)
{
	enum ui_mode mode = p->ui->mode;
	uint64_t t = now(p);
	struct ui_frame f = look(p, t);

	ui_flush(p->ui, true);
	if (mode == UI_TTY)
		draw_tty(p, &f);
	else if ((mode == UI_PLAIN && t - p->last_line >= PLAIN_EVERY) ||
		 (mode == UI_JSON && t - p->last_line >= JSON_EVERY))
		draw_line(p, &f, t, true);
}

void ui_progress_tick(struct ui_progress *p)
{
	pthread_mutex_lock(&p->ui->lock);
	tick(p);
	pthread_mutex_unlock(&p->ui->lock);
}

/* Waits by the real clock; what it draws goes by the injected one. */
static void *render(void *arg)
{
	struct ui_progress *p = arg;
	struct timespec at;

	pthread_mutex_lock(&p->ui->lock);
	while (!p->stop) {
		tick(p);
		clock_gettime(CLOCK_MONOTONIC, &at);
		at.tv_nsec += (long)TICK;
		if (at.tv_nsec >= (long)SECOND) {
			at.tv_nsec -= (long)SECOND;
			at.tv_sec++;
		}
		while (!p->stop &&
		       pthread_cond_clockwait(&p->wake, &p->ui->lock,
					      CLOCK_MONOTONIC, &at) == 0)
			;
	}
	pthread_mutex_unlock(&p->ui->lock);
	return NULL;
}

static void progress_free(struct ui_progress *p)
{
	for (size_t i = 0; p->v && i < p->n; i++)
		free(p->v[i].name);
	free(p->v);
	free(p->rows);
	buf_free(&p->frame);
	pthread_cond_destroy(&p->wake);
	free(p);
}

static int copy_names(struct ui_progress *p, const char *const *names)
{
	for (size_t i = 0; i < p->n; i++) {
		struct buf b = { 0 };

		text_escape(&b, names[i], strlen(names[i]));
		if (!buf_cstr(&b)) {
			buf_free(&b);
			return -1;
		}
		p->v[i].name = (char *)b.p;
		p->v[i].name_len = b.len;
	}
	return 0;
}

int ui_progress_open(struct ui *ui, const char *const *names, size_t n,
		     struct ui_progress **out, struct sc_err *err)
{
	struct ui_progress *p = calloc(1, sizeof(*p));

	if (!p)
		return sc_oom(err, "progress");
	pthread_cond_init(&p->wake, NULL);
	p->ui = ui;
	p->n = n;
	p->v = calloc(n ? n : 1, sizeof(*p->v));
	p->rows = calloc(n ? n : 1, sizeof(*p->rows));
	if (!p->v || !p->rows || copy_names(p, names) < 0) {
		progress_free(p);
		return sc_oom(err, "progress");
	}
	p->started = p->last_line = now(p);
	pthread_mutex_lock(&ui->lock);
	ui->shown = p;
	pthread_mutex_unlock(&ui->lock);
	*out = p;
	return 0;
}

int ui_progress_start(struct ui *ui, const char *const *names, size_t n,
		      struct ui_progress **out, struct sc_err *err)
{
	struct ui_progress *p;
	sigset_t all, old;
	int rc;

	if (ui_progress_open(ui, names, n, &p, err) < 0)
		return -1;
	if (ui->mode != UI_NONE) {
		/* Signals are for the threads that can be interrupted. */
		sigfillset(&all);
		pthread_sigmask(SIG_SETMASK, &all, &old);
		rc = pthread_create(&p->thread, NULL, render, p);
		pthread_sigmask(SIG_SETMASK, &old, NULL);
		if (rc) {
			ui_progress_end(p);
			return sc_fail(err, SC_EIO, rc, "start thread");
		}
		p->running = true;
	}
	*out = p;
	return 0;
}

struct ui_count *ui_progress_volume(struct ui_progress *p, size_t i)
{
	return &p->v[i].count;
}

void ui_progress_phase(struct ui_progress *p, const char *phase)
{
	auto_buf struct buf safe = { 0 };
	struct ui *ui = p->ui;

	ui_sanitise(&safe, phase, strlen(phase));
	pthread_mutex_lock(&ui->lock);
	/* Escaped once already; escaping again only to cut between letters
	 * would double its backslashes. */
	if (!buf_cstr(&safe) || safe.len >= sizeof(p->phase))
		text_escaped(p->phase, sizeof(p->phase), phase, strlen(phase));
	else
		memcpy(p->phase, safe.p, safe.len + 1);
	if (ui->mode == UI_PLAIN || ui->mode == UI_JSON) {
		uint64_t t = now(p);
		struct ui_frame f = look(p, t);

		draw_line(p, &f, t, false);
	}
	pthread_mutex_unlock(&ui->lock);
}

void ui_progress_restart(struct ui_progress *p)
{
	pthread_mutex_lock(&p->ui->lock);
	for (size_t i = 0; i < p->n; i++) {
		struct ui_count *c = &p->v[i].count;

		ui_count_set(c, 0, 0);
		ui_count_total(c, 0, 0);
		atomic_store_explicit(&c->done, false, memory_order_relaxed);
		forget_samples(&p->v[i]);
	}
	pthread_mutex_unlock(&p->ui->lock);
}

void ui_progress_down(struct ui_progress *p, bool down)
{
	pthread_mutex_lock(&p->ui->lock);
	if (down && !p->down_at) {
		p->down_at = now(p);
		p->was_down = true;
	} else if (!down && p->down_at) {
		p->down_ns += now(p) - p->down_at;
		p->down_at = 0;
	}
	pthread_mutex_unlock(&p->ui->lock);
}

void ui_progress_end(struct ui_progress *p)
{
	struct ui_frame f;
	struct ui *ui;
	uint64_t t;

	if (!p)
		return;
	ui = p->ui;
	pthread_mutex_lock(&ui->lock);
	p->stop = true;
	pthread_cond_signal(&p->wake);
	pthread_mutex_unlock(&ui->lock);
	if (p->running)
		pthread_join(p->thread, NULL);
	pthread_mutex_lock(&ui->lock);
	ui_flush(ui, false);
	t = now(p);
	f = look(p, t);
	f.last = true;
	if (ui->mode == UI_TTY)
		draw_tty(p, &f);
	else if (ui->mode == UI_JSON)
		draw_line(p, &f, t, true);
	ui->shown = NULL;
	pthread_mutex_unlock(&ui->lock);
	progress_free(p);
}
