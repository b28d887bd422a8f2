/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include <snapctl/base/notes.h>

struct heard {
	pthread_mutex_t lock;
	int n;
	char last[64];
	enum note_kind kind;
};

static void hear(void *arg, enum note_kind kind, const char *text)
{
	struct heard *h = arg;

	pthread_mutex_lock(&h->lock);
	h->n++;
	h->kind = kind;
	strncpy(h->last, text, sizeof(h->last) - 1);
	pthread_mutex_unlock(&h->lock);
}

static void kept_counted_and_told(void **state)
{
	struct heard h = { .lock = PTHREAD_MUTEX_INITIALIZER };
	struct notes n;

	(void)state;
	notes_init(&n);
	notes_add(&n, NOTE_INFO, "socket %s skipped", "s");
	n.sink = hear;
	n.sink_arg = &h;
	notes_add(&n, NOTE_WARN, "%d not healthy", 2);
	assert_int_equal(n.n, 2);
	assert_int_equal(n.warnings, 1);
	assert_int_equal(n.lost, 0);
	assert_string_equal(n.v[0].text, "socket s skipped");
	assert_int_equal(n.v[0].kind, NOTE_INFO);
	assert_string_equal(n.v[1].text, "2 not healthy");
	assert_int_equal(h.n, 1);
	assert_int_equal(h.kind, NOTE_WARN);
	assert_string_equal(h.last, "2 not healthy");
	notes_free(&n);
	notes_add(NULL, NOTE_WARN, "to nobody");
}

static void too_many_are_counted(void **state)
{
	struct notes n;

	(void)state;
	notes_init(&n);
	for (int i = 0; i < NOTES_MAX + 3; i++)
		notes_add(&n, NOTE_WARN, "%d", i);
	assert_int_equal(n.n, NOTES_MAX);
	assert_int_equal(n.lost, 3);
	assert_int_equal(n.warnings, NOTES_MAX + 3);
	assert_string_equal(n.v[NOTES_MAX - 1].text, "9999");
	notes_free(&n);
}

static void *add_hundred(void *arg)
{
	for (int i = 0; i < 100; i++)
		notes_add(arg, NOTE_WARN, "n");
	return NULL;
}

static void threads_lose_none(void **state)
{
	struct heard h = { .lock = PTHREAD_MUTEX_INITIALIZER };
	struct notes n;
	pthread_t t[4];

	(void)state;
	notes_init(&n);
	n.sink = hear;
	n.sink_arg = &h;
	for (int i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&t[i], NULL, add_hundred, &n),
				 0);
	for (int i = 0; i < 4; i++)
		assert_int_equal(pthread_join(t[i], NULL), 0);
	assert_int_equal(n.n, 400);
	assert_int_equal(n.warnings, 400);
	assert_int_equal(h.n, 400);
	notes_free(&n);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(kept_counted_and_told),
		cmocka_unit_test(too_many_are_counted),
		cmocka_unit_test(threads_lose_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
