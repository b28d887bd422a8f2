/* SPDX-License-Identifier: MIT */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <snapctl/base/mem.h>
#include <snapctl/base/text.h>
#include <snapctl/ui/width.h>

#include "private.h"

/* The parts of a volume's line after its name, in the order in which they
 * are given up when the terminal is narrow (last first). Each has a fixed
 * width, so that columns stand still and a line never wraps. */
enum part { BYTES, PERCENT, RATE, ETA, BAR, FILES, PARTS };

#define GAP	2
#define BAR_MIN 12
#define BAR_MAX 42

static const unsigned part_width[PARTS] = {
	[BYTES] = 17, [PERCENT] = 4,   [RATE] = 10,
	[ETA] = 12,   [BAR] = BAR_MIN, [FILES] = 14,
};

struct layout {
	size_t name, bar; /* columns */
	bool has[PARTS];
};

static struct layout lay_out(const struct ui_frame *f, size_t cols)
{
	struct layout l = { 0 };
	size_t most = cols / 3 < 8 ? 8 : cols / 3, used;

	for (size_t i = 0; i < f->n; i++) {
		size_t w = ui_width(f->rows[i].name, f->rows[i].name_len);

		if (w > l.name)
			l.name = w;
	}
	if (l.name > most)
		l.name = most;
	if (l.name > cols)
		l.name = cols;
	used = l.name;
	for (size_t i = 0; i < PARTS; i++) {
		if (used + GAP + part_width[i] > cols)
			break;
		used += GAP + part_width[i];
		l.has[i] = true;
	}
	l.bar = BAR_MIN + (cols - used);
	if (l.bar > BAR_MAX)
		l.bar = BAR_MAX;
	return l;
}

/* 0 to 1, or below 0 while the total is unknown. */
static double fraction(const struct ui_row *r)
{
	if (r->done)
		return 1;
	if (!r->bytes_total)
		return -1;
	if (r->bytes >= r->bytes_total)
		return 1;
	return (double)r->bytes / (double)r->bytes_total;
}

static void put_bar(struct buf *out, double part, size_t width)
{
	size_t inner = width - 2;
	size_t full = part < 0 ? 0 : (size_t)(part * (double)inner);

	buf_put(out, "[", 1);
	for (size_t i = 0; i < inner; i++) {
		const char *c = i < full ? "=" : " ";

		if (i == full && part > 0)
			c = ">";
		buf_put(out, c, 1);
	}
	buf_put(out, "]", 1);
}

/* "7:05", "1:02:03"; "" while unknown. */
static const char *eta(char out[16], const struct ui_row *r)
{
	double left;
	unsigned s;

	out[0] = 0;
	if (r->done || !r->bytes_total || r->rate <= 0 ||
	    r->bytes >= r->bytes_total)
		return out;
	left = (double)(r->bytes_total - r->bytes) / r->rate;
	if (left >= 99 * 3600)
		return out;
	s = (unsigned)(left + 0.5);
	if (s < 3600)
		snprintf(out, 16, "%u:%02u", s / 60, s % 60);
	else
		snprintf(out, 16, "%u:%02u:%02u", s / 3600, s / 60 % 60,
			 s % 60);
	return out;
}

static void put_files(struct buf *out, uint64_t files)
{
	uint64_t millions = files / 1000000;

	if (millions < 100)
		buf_printf(out, "%8u files", (unsigned)files);
	else
		buf_printf(out, "%7uM files",
			   millions < 9999999 ? (unsigned)millions : 9999999);
}

static uint64_t whole(double rate)
{
	return rate <= 0 ? 0 : rate >= 1e18 ? (uint64_t)1e18 : (uint64_t)rate;
}

static void put_part(struct buf *out, const struct ui_row *r, enum part part,
		     const struct layout *l)
{
	char a[16], b[16];
	double done = fraction(r);

	switch (part) {
	case BAR:
		put_bar(out, done, l->bar);
		break;
	case PERCENT:
		if (done < 0)
			buf_printf(out, "%4s", "");
		else
			buf_printf(out, "%3u%%", (unsigned)(done * 100));
		break;
	case BYTES:
		buf_printf(out, "%8s%s%-8s", text_size(a, r->bytes),
			   r->bytes_total ? "/" : " ",
			   r->bytes_total ? text_size(b, r->bytes_total) : "");
		break;
	case FILES:
		put_files(out, r->files);
		break;
	case RATE:
		buf_printf(out, r->rate > 0 ? "%8s/s" : "%8s  ",
			   r->rate > 0 ? text_size(a, whole(r->rate)) : "");
		break;
	case ETA:
		buf_printf(out, *eta(a, r) ? "ETA %-8s" : "%12s", a);
		break;
	case PARTS:
		break;
	}
}

static void end_line(struct buf *out)
{
	while (!out->failed && out->len && out->p[out->len - 1] == ' ')
		out->len--;
	buf_printf(out, "\033[K\n");
}

static void put_row(struct buf *out, const struct ui_row *r,
		    const struct layout *l)
{
	static const enum part order[] = {
		BAR, PERCENT, BYTES, FILES, RATE, ETA
	};

	ui_fit(out, r->name, r->name_len, l->name);
	for (size_t i = 0; i < ARRAY_LEN(order); i++)
		if (l->has[order[i]]) {
			buf_put(out, "  ", GAP);
			put_part(out, r, order[i], l);
		}
	end_line(out);
}

/* Which rows fit: those at work before those that wait before those done. */
static int importance(const struct ui_row *r)
{
	return r->done ? 2 : r->bytes || r->files ? 0 : 1;
}

static size_t put_rows(struct buf *out, const struct ui_frame *f,
		       const struct layout *l, size_t room)
{
	size_t left[3], shown = 0;

	if (f->n > room && room)
		room--; /* for the line that counts the others */
	for (int k = 0, used = 0; k < 3; k++) {
		size_t n = 0;

		for (size_t i = 0; i < f->n; i++)
			n += importance(&f->rows[i]) == k;
		left[k] = n < room - (size_t)used ? n : room - (size_t)used;
		used += (int)left[k];
	}
	for (size_t i = 0; i < f->n; i++) {
		int k = importance(&f->rows[i]);

		if (!left[k])
			continue;
		left[k]--;
		put_row(out, &f->rows[i], l);
		shown++;
	}
	if (shown == f->n)
		return shown;
	buf_printf(out, "(%zu more)", f->n - shown);
	end_line(out);
	return shown + 1;
}

static void put_status(struct buf *out, const struct ui_frame *f)
{
	char t[32];

	buf_printf(out, "%s%s%s", f->phase, *f->phase ? "  " : "",
		   text_duration(t, f->elapsed));
	if (f->down >= 0)
		buf_printf(out, "  stack down %s", text_duration(t, f->down));
}

unsigned ui_frame_tty(struct buf *out, const struct ui_frame *f, unsigned cols,
		      unsigned rows)
{
	size_t width = cols > 1 ? cols - 1 : 1;
	/* The status line and the one the cursor rests on. */
	size_t room = f->last ? f->n : rows > 3 ? rows - 2 : 1;
	struct layout l = lay_out(f, width);
	size_t lines = put_rows(out, f, &l, room);
	auto_buf struct buf status = { 0 };

	if (f->last)
		return (unsigned)lines;
	put_status(&status, f);
	ui_fit(out, buf_cstr(&status) ? (const char *)status.p : "",
	       status.failed ? 0 : status.len, width);
	end_line(out);
	return (unsigned)lines + 1;
}

static struct ui_row sum(const struct ui_frame *f)
{
	struct ui_row s = { .done = f->n > 0 };

	for (size_t i = 0; i < f->n; i++) {
		const struct ui_row *r = &f->rows[i];

		s.bytes += r->bytes;
		s.bytes_total += r->bytes_total;
		s.files += r->files;
		s.files_total += r->files_total;
		if (!r->done)
			s.rate += r->rate;
		s.done = s.done && r->done;
	}
	return s;
}

void ui_frame_plain(struct buf *out, const struct ui_frame *f, bool counts)
{
	struct ui_row s = sum(f);
	char a[32];

	buf_printf(out, "snapctl: %s", *f->phase ? f->phase : "working");
	if (counts) {
		buf_printf(out, ": %s", text_size(a, s.bytes));
		if (s.bytes_total) {
			buf_printf(out, " of %s", text_size(a, s.bytes_total));
			buf_printf(out, " (%u%%)",
				   (unsigned)(fraction(&s) * 100));
		}
		buf_printf(out, ", %llu files", (unsigned long long)s.files);
		if (s.rate > 0)
			buf_printf(out, ", %s/s", text_size(a, whole(s.rate)));
		if (*eta(a, &s))
			buf_printf(out, ", ETA %s", a);
	}
	if (f->down >= 0)
		buf_printf(out, ", stack down %s", text_duration(a, f->down));
	buf_put(out, "\n", 1);
}

static json_t *row_json(const struct ui_row *r, bool named)
{
	json_t *o = json_pack("{s:I, s:I, s:I, s:I, s:I, s:b}", "bytes",
			      (json_int_t)r->bytes, "bytes_total",
			      (json_int_t)r->bytes_total, "files",
			      (json_int_t)r->files, "files_total",
			      (json_int_t)r->files_total, "bytes_per_second",
			      (json_int_t)whole(r->rate), "done", (int)r->done);

	if (o && named &&
	    json_object_set_new(o, "name", json_stringn(r->name, r->name_len)) <
		    0) {
		json_decref(o);
		return NULL;
	}
	return o;
}

static json_t *frame_json(const struct ui_frame *f)
{
	struct ui_row s = sum(f);
	json_t *o = row_json(&s, false), *a = json_array();
	int bad = !o || !a;

	for (size_t i = 0; i < f->n && !bad; i++)
		bad = json_array_append_new(a, row_json(&f->rows[i], true));
	/* json_object_set_new consumes the value also when it fails. */
	bad |= json_object_set_new(o, "type", json_string("progress"));
	bad |= json_object_set_new(o, "phase", json_string(f->phase));
	bad |= json_object_set_new(o, "seconds", json_real(f->elapsed));
	bad |= json_object_set_new(o, "down_seconds",
				   f->down < 0 ? json_null()
					       : json_real(f->down));
	bad |= json_object_set_new(o, "volumes", a);
	if (bad) {
		json_decref(o);
		return NULL;
	}
	return o;
}

void ui_frame_json(struct buf *out, const struct ui_frame *f)
{
	json_t *o = frame_json(f);
	char *s =
		o ? json_dumps(o, JSON_COMPACT | JSON_REAL_PRECISION(6)) : NULL;

	if (s)
		buf_printf(out, "%s\n", s);
	else
		out->failed = true;
	free(s);
	json_decref(o);
}
