/* SPDX-License-Identifier: MIT */
/* Aligned columns for list and show. Failures of memory are latched and come
 * out of ui_table_print. */
#ifndef SNAPCTL_UI_TABLE_H
#define SNAPCTL_UI_TABLE_H

#include <stdbool.h>
#include <stddef.h>

#include <snapctl/base/buf.h>
#include <snapctl/base/err.h>

struct ui_column {
	const char *title; /* borrowed as long as the table lives */
	bool right;	   /* numbers and sizes */
};

struct ui_table;

int ui_table_new(const struct ui_column *cols, size_t n, struct ui_table **out,
		 struct sc_err *err);
void ui_table_free(struct ui_table *t);
void ui_table_freep(struct ui_table **t);
#define auto_table __attribute__((cleanup(ui_table_freep)))
/* The next cell, row by row. s: raw bytes of a name, escaped here. */
void ui_table_name(struct ui_table *t, const char *s);
/* The next cell from text of our own. */
void ui_table_cell(struct ui_table *t, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
/* Title line (if any column has a title) and rows, appended to out. */
int ui_table_format(const struct ui_table *t, struct buf *out,
		    struct sc_err *err);
/* The same to a descriptor, 1 for stdout. */
int ui_table_print(const struct ui_table *t, int fd, struct sc_err *err);

#endif
