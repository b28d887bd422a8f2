/* SPDX-License-Identifier: MIT */
#include <snapctl/ui/ui.h>

#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <snapctl/base/mem.h>
#include <snapctl/base/text.h>

#include "private.h"

#define PENDING_MAX ((size_t)1 << 20)

struct kind {
	const char *prefix, *json, *colour;
	int level; /* the least at which it is shown */
};

static const struct kind error_kind = { "error", "error", "\033[1;31m",
					UI_QUIET };
static const struct kind warn_kind = { "warning", "warning", "\033[1;33m",
				       UI_QUIET };
static const struct kind note_kind = { "snapctl", "note", "", UI_NORMAL };
static const struct kind detail_kind = { "snapctl", "detail", "", UI_VERBOSE };

static const char *const mode_names[] = {
	[UI_AUTO] = "auto", [UI_TTY] = "tty",	[UI_PLAIN] = "plain",
	[UI_JSON] = "json", [UI_NONE] = "none",
};

bool ui_mode_parse(const char *s, enum ui_mode *out)
{
	for (size_t i = 0; i < ARRAY_LEN(mode_names); i++)
		if (strcmp(s, mode_names[i]) == 0) {
			*out = (enum ui_mode)i;
			return true;
		}
	return false;
}

int ui_new(const struct ui_term *term, enum ui_mode mode, int level,
	   struct ui **out, struct sc_err *err)
{
	struct ui *ui = calloc(1, sizeof(*ui));

	if (!ui)
		return sc_oom(err, "user interface");
	if (mode == UI_AUTO)
		mode = term->tty ? UI_TTY : UI_PLAIN;
	ui->term = *term;
	ui->json = mode == UI_JSON;
	ui->mode = level <= UI_QUIET ? UI_NONE : mode;
	ui->level = level;
	pthread_mutex_init(&ui->lock, NULL);
	*out = ui;
	return 0;
}

void ui_free(struct ui *ui)
{
	if (!ui)
		return;
	ui_flush(ui, false);
	buf_free(&ui->pending);
	pthread_mutex_destroy(&ui->lock);
	free(ui);
}

enum ui_mode ui_mode(const struct ui *ui)
{
	return ui->mode;
}

bool ui_put(struct ui *ui, const struct buf *b, bool droppable)
{
	int rc;

	if (ui->broken || b->failed)
		return false;
	rc = ui->term.write(ui->term.arg, (const char *)b->p, b->len,
			    droppable);
	if (rc < 0)
		ui->broken = true;
	return rc > 0;
}

void ui_sanitise(struct buf *out, const char *s, size_t n)
{
	while (n) {
		const char *bs = memchr(s, '\\', n);
		size_t k = bs ? (size_t)(bs - s) : n;

		text_escape(out, s, k);
		if (bs) {
			buf_put(out, "\\", 1);
			k++;
		}
		s += k;
		n -= k;
	}
}

static void json_line(struct buf *out, const struct kind *k, struct buf *text)
{
	json_t *o = json_pack("{s:s, s:s, s:s%}", "type", "message", "level",
			      k->json, "text", buf_cstr(text), text->len);
	char *s = o ? json_dumps(o, JSON_COMPACT) : NULL;

	if (s)
		buf_printf(out, "%s\n", s);
	else
		out->failed = true;
	free(s);
	json_decref(o);
}

static void text_line(struct buf *out, const struct kind *k, bool colour,
		      const struct buf *text)
{
	if (colour && *k->colour)
		buf_printf(out, "%s%s:\033[0m ", k->colour, k->prefix);
	else
		buf_printf(out, "%s: ", k->prefix);
	buf_put(out, text->p, text->len);
	buf_put(out, "\n", 1);
}

void ui_flush(struct ui *ui, bool droppable)
{
	auto_buf struct buf out = { 0 };

	if (!ui->pending.len)
		return;
	ui_progress_erase(ui->shown, &out);
	buf_put(&out, ui->pending.p, ui->pending.len);
	ui_progress_redraw(ui->shown, &out);
	/* Out of memory: the lines alone, the next frame mends the bars. */
	if (ui_put(ui, out.failed ? &ui->pending : &out, droppable) ||
	    ui->broken)
		buf_clear(&ui->pending);
}

/* Messages wait while a stopped terminal or a full pipe takes nothing: a
 * stack may be down, and its start must not wait for the reader. */
static void put_message(struct ui *ui, const struct kind *k, struct buf *text)
{
	static const char oom[] = "error: out of memory for a message\n";
	struct buf *to = &ui->pending;
	size_t before;

	pthread_mutex_lock(&ui->lock);
	before = to->len;
	if (ui->json)
		json_line(to, k, text);
	else
		text_line(to, k, ui->term.colour, text);
	if (to->failed || text->failed) {
		to->failed = false; /* what stood there before is whole */
		to->len = before;
		buf_put(to, oom, sizeof(oom) - 1);
		to->failed = false;
	}
	ui_flush(ui, to->len < PENDING_MAX);
	pthread_mutex_unlock(&ui->lock);
}

static void message(struct ui *ui, const struct kind *k, const char *fmt,
		    va_list ap) __attribute__((format(printf, 3, 0)));

static void message(struct ui *ui, const struct kind *k, const char *fmt,
		    va_list ap)
{
	auto_buf struct buf text = { 0 };
	auto_free char *raw = NULL;
	int n;

	if (ui->level < k->level)
		return;
	n = vasprintf(&raw, fmt, ap);
	if (n < 0) {
		raw = NULL;
		text.failed = true;
	} else {
		while (n && raw[n - 1] == '\n')
			n--;
		ui_sanitise(&text, raw, (size_t)n);
	}
	put_message(ui, k, &text);
}

#define MESSAGE(kind)                          \
	do {                                   \
		va_list ap;                    \
		va_start(ap, fmt);             \
		message(ui, &(kind), fmt, ap); \
		va_end(ap);                    \
	} while (0)

void ui_error(struct ui *ui, const char *fmt, ...)
{
	MESSAGE(error_kind);
}

void ui_warn(struct ui *ui, const char *fmt, ...)
{
	MESSAGE(warn_kind);
}

void ui_note(struct ui *ui, const char *fmt, ...)
{
	MESSAGE(note_kind);
}

void ui_detail(struct ui *ui, const char *fmt, ...)
{
	MESSAGE(detail_kind);
}
