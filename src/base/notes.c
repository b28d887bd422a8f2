/* SPDX-License-Identifier: MIT */
#include <snapctl/base/notes.h>

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <snapctl/base/mem.h>

void notes_init(struct notes *n)
{
	*n = (struct notes){ 0 };
	pthread_mutex_init(&n->lock, NULL);
}

void notes_free(struct notes *n)
{
	for (size_t i = 0; i < n->n; i++)
		free(n->v[i].text);
	free(n->v);
	pthread_mutex_destroy(&n->lock);
	*n = (struct notes){ 0 };
}

void notes_add(struct notes *n, enum note_kind kind, const char *fmt, ...)
{
	va_list ap;
	char *text = NULL;
	const char *shown = NULL;

	if (!n)
		return;
	va_start(ap, fmt);
	if (vasprintf(&text, fmt, ap) < 0)
		text = NULL;
	va_end(ap);
	pthread_mutex_lock(&n->lock);
	n->warnings += kind == NOTE_WARN;
	if (text && n->n < NOTES_MAX &&
	    mem_grow(&n->v, &n->cap, n->n + 1, sizeof(*n->v)) == 0) {
		n->v[n->n++] = (struct note){ kind, text };
		shown = text;
	} else {
		n->lost++;
		free(text);
	}
	pthread_mutex_unlock(&n->lock);
	if (shown && n->sink)
		n->sink(n->sink_arg, kind, shown);
}
