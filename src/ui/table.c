/* SPDX-License-Identifier: MIT */
#include <snapctl/ui/table.h>

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <snapctl/base/io.h>
#include <snapctl/base/mem.h>
#include <snapctl/base/text.h>
#include <snapctl/ui/width.h>

#define GAP 2

struct ui_table {
	struct ui_column *cols;
	size_t n_cols;
	char **cells; /* owned, row by row */
	size_t n, cap;
	bool failed;
};

int ui_table_new(const struct ui_column *cols, size_t n, struct ui_table **out,
		 struct sc_err *err)
{
	struct ui_table *t = calloc(1, sizeof(*t));

	if (t)
		t->cols = calloc(n ? n : 1, sizeof(*cols));
	if (!t || !t->cols) {
		free(t);
		return sc_oom(err, "table");
	}
	memcpy(t->cols, cols, n * sizeof(*cols));
	t->n_cols = n;
	*out = t;
	return 0;
}

void ui_table_free(struct ui_table *t)
{
	if (!t)
		return;
	for (size_t i = 0; i < t->n; i++)
		free(t->cells[i]);
	free(t->cells);
	free(t->cols);
	free(t);
}

void ui_table_freep(struct ui_table **t)
{
	ui_table_free(*t);
}

/* cell is consumed; NULL is a failed allocation. */
static void add(struct ui_table *t, char *cell)
{
	if (!cell || t->failed ||
	    mem_grow(&t->cells, &t->cap, t->n + 1, sizeof(*t->cells)) < 0) {
		t->failed = true;
		free(cell);
		return;
	}
	t->cells[t->n++] = cell;
}

void ui_table_name(struct ui_table *t, const char *s)
{
	struct buf b = { 0 };

	text_escape(&b, s, strlen(s));
	if (!buf_cstr(&b))
		buf_free(&b);
	add(t, (char *)b.p);
}

void ui_table_cell(struct ui_table *t, const char *fmt, ...)
{
	va_list ap;
	char *s;

	va_start(ap, fmt);
	if (vasprintf(&s, fmt, ap) < 0)
		s = NULL;
	va_end(ap);
	add(t, s);
}

static const char *title(const struct ui_table *t, size_t col)
{
	return t->cols[col].title ? t->cols[col].title : "";
}

static size_t column_width(const struct ui_table *t, size_t col)
{
	size_t most = ui_width(title(t, col), strlen(title(t, col)));

	for (size_t i = col; i < t->n; i += t->n_cols) {
		size_t w = ui_width(t->cells[i], strlen(t->cells[i]));

		if (w > most)
			most = w;
	}
	return most;
}

static void put_row(const struct ui_table *t, const size_t *width,
		    const char *const *cells, size_t n, struct buf *out)
{
	for (size_t i = 0; i < n; i++) {
		size_t len = strlen(cells[i]);
		int pad = (int)(width[i] - ui_width(cells[i], len));

		if (t->cols[i].right)
			buf_printf(out, "%*s", pad, "");
		buf_put(out, cells[i], len);
		if (!t->cols[i].right)
			buf_printf(out, "%*s", pad, "");
		buf_printf(out, "%*s", GAP, "");
	}
	while (!out->failed && out->len && out->p[out->len - 1] == ' ')
		out->len--;
	buf_put(out, "\n", 1);
}

int ui_table_format(const struct ui_table *t, struct buf *out,
		    struct sc_err *err)
{
	auto_free size_t *width = calloc(t->n_cols + 1, sizeof(*width));
	auto_free const char **titles = calloc(t->n_cols + 1, sizeof(*titles));
	bool titled = false;

	if (!width || !titles || t->failed)
		return sc_oom(err, "table");
	for (size_t i = 0; i < t->n_cols; i++) {
		width[i] = column_width(t, i);
		titles[i] = title(t, i);
		titled = titled || *titles[i];
	}
	if (titled)
		put_row(t, width, titles, t->n_cols, out);
	for (size_t i = 0; i < t->n; i += t->n_cols)
		put_row(t, width, (const char *const *)t->cells + i,
			t->n - i < t->n_cols ? t->n - i : t->n_cols, out);
	return out->failed ? sc_oom(err, "table") : 0;
}

int ui_table_print(const struct ui_table *t, int fd, struct sc_err *err)
{
	auto_buf struct buf out = { 0 };

	if (ui_table_format(t, &out, err) < 0)
		return -1;
	return io_write_all(fd, out.p, out.len,
			    fd == 1 ? "standard output" : "table", err);
}
