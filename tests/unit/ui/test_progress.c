/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <jansson.h>
#include <pthread.h>

#include <snapctl/ui/progress.h>

#include "ui/screen.h"

#define MIB ((uint64_t)1 << 20)

struct fixture {
	struct screen *s;
	struct ui *ui;
	struct ui_progress *p;
};

static struct fixture begin(enum ui_mode mode, unsigned cols, unsigned rows,
			    const char *const *names, size_t n)
{
	struct fixture f = { .s = screen_new(cols, rows) };
	struct ui_term t = screen_term(f.s, mode == UI_TTY);

	assert_int_equal(ui_new(&t, mode, 0, &f.ui, NULL), 0);
	assert_int_equal(ui_progress_open(f.ui, names, n, &f.p, NULL), 0);
	return f;
}

static void finish(struct fixture *f)
{
	ui_progress_end(f->p);
	ui_free(f->ui);
	screen_free(f->s);
}

/* Half a second at 20 MiB/s, three times, a frame each. */
static void work(struct fixture *f)
{
	struct ui_count *c = ui_progress_volume(f->p, 0);

	ui_count_total(c, 100 * MIB, 200);
	for (int i = 0; i < 3; i++) {
		ui_progress_tick(f->p);
		screen_seconds(f->s, 0.5);
		ui_count_add(c, 10 * MIB, 20);
	}
	ui_progress_tick(f->p);
}

static const char *const two[] = { "shop_db", "shop_web" };

static void bars_are_redrawn_in_place(void **state)
{
	struct fixture f = begin(UI_TTY, 100, 24, two, 2);

	(void)state;
	ui_progress_phase(f.p, "read");
	work(&f);
	assert_string_equal(
		f.s->cell[0],
		"shop_db   [======>             ]   30%  30.0 MiB/100 MiB"
		"         60 files  20.0 MiB/s  ETA 0:04");
	assert_string_equal(f.s->cell[1],
			    "shop_web  [                    ]             0 B"
			    "                  0 files");
	assert_string_equal(f.s->cell[2], "read  1.50 s");
	assert_string_equal(f.s->cell[3], "");
	assert_int_equal(f.s->y, 3);
	assert_false(f.s->wrapped);
	finish(&f);
}

static void message_stands_above_the_bars(void **state)
{
	struct fixture f = begin(UI_TTY, 100, 24, two, 2);

	(void)state;
	ui_progress_phase(f.p, "read");
	ui_note(f.ui, "before");
	work(&f);
	ui_warn(f.ui, "socket skipped");
	assert_string_equal(f.s->cell[0], "snapctl: before");
	assert_string_equal(f.s->cell[1], "warning: socket skipped");
	assert_memory_equal(f.s->cell[2], "shop_db   [======>", 18);
	assert_memory_equal(f.s->cell[3], "shop_web  [", 11);
	assert_string_equal(f.s->cell[4], "read  1.50 s");
	assert_string_equal(f.s->cell[5], "");
	screen_seconds(f.s, 0.5);
	ui_progress_tick(f.p);
	assert_string_equal(f.s->cell[4], "read  2.00 s");
	assert_string_equal(f.s->cell[5], "");
	finish(&f);
}

static void last_frame_stays(void **state)
{
	struct screen *s = screen_new(100, 24);
	struct ui_term t = screen_term(s, true);
	struct fixture f = { .s = s };

	(void)state;
	assert_int_equal(ui_new(&t, UI_TTY, 0, &f.ui, NULL), 0);
	assert_int_equal(ui_progress_open(f.ui, two, 1, &f.p, NULL), 0);
	ui_progress_phase(f.p, "read");
	work(&f);
	ui_count_add(ui_progress_volume(f.p, 0), 70 * MIB, 140);
	ui_count_done(ui_progress_volume(f.p, 0));
	screen_seconds(s, 0.5);
	s->stuck = true; /* the last one is not dropped */
	ui_progress_end(f.p);
	s->stuck = false;
	ui_note(f.ui, "done");
	assert_string_equal(
		s->cell[0],
		"shop_db  [=====================]  100%   100 MiB/100 MiB"
		"        200 files  50.0 MiB/s");
	assert_string_equal(s->cell[1], "snapctl: done");
	assert_string_equal(s->cell[2], "");
	ui_free(f.ui);
	screen_free(s);
}

static void no_width_wraps(void **state)
{
	static const char *const names[] = {
		"a",
		"project_with_a_very_long_name_indeed_db-data",
		"esc\033[2J\xff",
		"gro\xc3\x9fz",
	};

	(void)state;
	for (unsigned cols = 1; cols < 140; cols++) {
		struct fixture f = begin(UI_TTY, cols, 24, names, 4);
		struct ui_count *c = ui_progress_volume(f.p, 0);

		ui_progress_phase(f.p, "a phase with a rather long text");
		ui_progress_down(f.p, true);
		ui_count_total(c, UINT64_MAX, UINT64_MAX);
		for (int i = 0; i < 3; i++) {
			ui_count_set(c, UINT64_MAX / 8 * (uint64_t)i,
				     UINT64_MAX / 8 * (uint64_t)i);
			ui_progress_tick(f.p);
			screen_seconds(f.s, 0.5);
		}
		/* The screen counts bytes: only the last row has more of
		 * them than columns. */
		assert_true(strlen(f.s->cell[0]) < cols || cols == 1);
		assert_true(strlen(f.s->cell[1]) < cols || cols == 1);
		assert_true(strlen(f.s->cell[2]) < cols || cols == 1);
		assert_true(strlen(f.s->cell[4]) < cols || cols == 1);
		assert_int_equal(f.s->y, 5);
		finish(&f);
	}
}

static void long_name_keeps_its_end(void **state)
{
	static const char *const names[] = { "my-long-project_db-data" };
	struct fixture f = begin(UI_TTY, 40, 24, names, 1);

	(void)state;
	ui_progress_tick(f.p);
	assert_memory_equal(f.s->cell[0], "...ct_db-data  ", 15);
	finish(&f);
}

static void low_terminal_shows_what_works(void **state)
{
	static const char *const names[] = { "v0", "v1", "v2", "v3",
					     "v4", "v5", "v6" };
	struct fixture f = begin(UI_TTY, 80, 6, names, 7);

	(void)state;
	ui_count_done(ui_progress_volume(f.p, 0));
	ui_count_add(ui_progress_volume(f.p, 5), 1, 1);
	ui_progress_tick(f.p);
	assert_memory_equal(f.s->cell[0], "v1 ", 3);
	assert_memory_equal(f.s->cell[1], "v2 ", 3);
	assert_memory_equal(f.s->cell[2], "v5 ", 3);
	assert_string_equal(f.s->cell[3], "(4 more)");
	assert_int_equal(f.s->y, 5); /* the cursor stays on the screen */
	finish(&f);
}

static void stuck_terminal_drops_frames(void **state)
{
	struct fixture f = begin(UI_TTY, 100, 24, two, 2);
	size_t len;

	(void)state;
	ui_progress_phase(f.p, "read");
	work(&f);
	len = f.s->raw.len;
	f.s->stuck = true;
	screen_seconds(f.s, 0.5);
	ui_progress_tick(f.p);
	assert_int_equal(f.s->raw.len, len);
	f.s->stuck = false;
	screen_seconds(f.s, 0.5);
	ui_progress_tick(f.p);
	assert_string_equal(f.s->cell[2], "read  2.50 s");
	assert_string_equal(f.s->cell[3], "");
	finish(&f);
}

static void stuck_terminal_gets_messages_later(void **state)
{
	struct fixture f = begin(UI_TTY, 100, 24, two, 2);
	size_t len;

	(void)state;
	ui_progress_phase(f.p, "read");
	work(&f);
	len = f.s->raw.len;
	f.s->stuck = true;
	ui_warn(f.ui, "one");
	ui_warn(f.ui, "two");
	ui_progress_tick(f.p);
	assert_int_equal(f.s->raw.len, len);
	f.s->stuck = false;
	ui_progress_tick(f.p);
	assert_string_equal(f.s->cell[0], "warning: one");
	assert_string_equal(f.s->cell[1], "warning: two");
	assert_memory_equal(f.s->cell[2], "shop_db ", 8);
	assert_string_equal(f.s->cell[4], "read  1.50 s");
	assert_string_equal(f.s->cell[5], "");
	finish(&f);
}

static void downtime_is_counted(void **state)
{
	struct fixture f = begin(UI_TTY, 100, 24, two, 2);

	(void)state;
	ui_progress_phase(f.p, "read");
	ui_progress_down(f.p, true);
	screen_seconds(f.s, 2);
	ui_progress_down(f.p, true); /* is down already */
	screen_seconds(f.s, 1.5);
	ui_progress_tick(f.p);
	assert_string_equal(f.s->cell[2], "read  3.50 s  stack down 3.50 s");
	ui_progress_down(f.p, false);
	screen_seconds(f.s, 10);
	ui_progress_tick(f.p);
	assert_string_equal(f.s->cell[2], "read  13.5 s  stack down 3.50 s");
	finish(&f);
}

static void plain_lines(void **state)
{
	struct fixture f = begin(UI_PLAIN, 80, 24, two, 2);
	struct ui_count *a = ui_progress_volume(f.p, 0);
	struct ui_count *b = ui_progress_volume(f.p, 1);

	(void)state;
	ui_progress_phase(f.p, "stop web\n\033[2J");
	ui_count_total(a, 300 * MIB, 5);
	ui_count_total(b, 100 * MIB, 5);
	for (int i = 0; i < 60; i++) { /* 10 s at 6 Hz */
		ui_progress_tick(f.p);
		f.s->ns += 166666667;
		ui_count_add(a, MIB, 0);
		ui_count_add(b, MIB, 1);
	}
	ui_progress_tick(f.p);
	ui_warn(f.ui, "late");
	ui_progress_phase(f.p, "start");
	ui_progress_end(f.p);
	assert_string_equal(
		buf_cstr(&f.s->raw),
		"snapctl: stop web\\n\\x1b[2J\n"
		"snapctl: stop web\\n\\x1b[2J: 120 MiB of 400 MiB (30%), "
		"60 files, 12.0 MiB/s, ETA 0:23\n"
		"warning: late\n"
		"snapctl: start\n");
	ui_free(f.ui);
	screen_free(f.s);
}

static void json_lines_parse(void **state)
{
	static const char *const names[] = { "bad\xff\"\n" };
	struct fixture f = begin(UI_JSON, 80, 24, names, 1);
	const char *at;
	json_t *o = NULL, *v;

	(void)state;
	ui_progress_phase(f.p, "read");
	work(&f);
	ui_progress_down(f.p, true);
	screen_seconds(f.s, 0.25);
	ui_count_done(ui_progress_volume(f.p, 0));
	ui_progress_end(f.p);
	at = buf_cstr(&f.s->raw);
	/* the phase, one after 1 s, the last */
	for (int i = 0; i < 3; i++) {
		json_decref(o);
		o = json_loads(at, JSON_DISABLE_EOF_CHECK, NULL);
		assert_non_null(o);
		at = strchr(at, '\n') + 1;
	}
	assert_string_equal(at, "");
	assert_string_equal(json_string_value(json_object_get(o, "type")),
			    "progress");
	assert_string_equal(json_string_value(json_object_get(o, "phase")),
			    "read");
	assert_int_equal(json_integer_value(json_object_get(o, "bytes")),
			 30 * MIB);
	assert_true(json_is_true(json_object_get(o, "done")));
	assert_float_equal(json_real_value(json_object_get(o, "down_seconds")),
			   0.25, 0.0001);
	v = json_array_get(json_object_get(o, "volumes"), 0);
	assert_string_equal(json_string_value(json_object_get(v, "name")),
			    "bad\\xff\"\\n");
	assert_int_equal(json_integer_value(json_object_get(v, "files_total")),
			 200);
	json_decref(o);
	ui_free(f.ui);
	screen_free(f.s);
}

static void restart_starts_over(void **state)
{
	struct fixture f = begin(UI_TTY, 100, 24, two, 1);

	(void)state;
	work(&f);
	ui_count_done(ui_progress_volume(f.p, 0));
	ui_progress_tick(f.p);
	ui_progress_restart(f.p);
	ui_progress_tick(f.p);
	assert_string_equal(f.s->cell[0],
			    "shop_db  [                     ]             0 B"
			    "                  0 files");
	finish(&f);
}

static void none_is_silent(void **state)
{
	struct fixture f = begin(UI_NONE, 80, 24, two, 2);

	(void)state;
	ui_progress_phase(f.p, "read");
	work(&f);
	assert_int_equal(f.s->raw.len, 0);
	finish(&f);
}

static void *count(void *arg)
{
	for (int i = 0; i < 20000; i++)
		ui_count_add(arg, 1, 1);
	return NULL;
}

/* The real thread, counters filled from two, messages between. */
static void threads_agree(void **state)
{
	struct screen *s = screen_new(100, 24);
	struct ui_term t = screen_term(s, true);
	struct ui_progress *p;
	struct ui *ui;
	pthread_t th[2];
	unsigned y;

	(void)state;
	assert_int_equal(ui_new(&t, UI_TTY, 0, &ui, NULL), 0);
	assert_int_equal(ui_progress_start(ui, two, 2, &p, NULL), 0);
	for (int i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&th[i], NULL, count,
						ui_progress_volume(p, 0)),
				 0);
	for (int i = 0; i < 50; i++)
		ui_warn(ui, "message %d", i);
	for (int i = 0; i < 2; i++)
		assert_int_equal(pthread_join(th[i], NULL), 0);
	ui_progress_end(p);
	for (y = 0; y < 50; y++) {
		char want[32];

		snprintf(want, sizeof(want), "warning: message %u", y);
		assert_string_equal(s->cell[y], want);
	}
	assert_non_null(strstr(s->cell[50], "39.1 KiB"));
	assert_non_null(strstr(s->cell[50], "40000 files"));
	assert_memory_equal(s->cell[51], "shop_web", 8);
	assert_string_equal(s->cell[52], "");
	ui_free(ui);
	screen_free(s);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(bars_are_redrawn_in_place),
		cmocka_unit_test(message_stands_above_the_bars),
		cmocka_unit_test(last_frame_stays),
		cmocka_unit_test(no_width_wraps),
		cmocka_unit_test(long_name_keeps_its_end),
		cmocka_unit_test(low_terminal_shows_what_works),
		cmocka_unit_test(stuck_terminal_drops_frames),
		cmocka_unit_test(stuck_terminal_gets_messages_later),
		cmocka_unit_test(downtime_is_counted),
		cmocka_unit_test(plain_lines),
		cmocka_unit_test(json_lines_parse),
		cmocka_unit_test(restart_starts_over),
		cmocka_unit_test(none_is_silent),
		cmocka_unit_test(threads_agree),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
