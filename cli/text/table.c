/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/text/table.h"

#include <assert.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

struct table {
	size_t columns;
	char *headings[TABLE_COLUMNS_MAX];
	bool right[TABLE_COLUMNS_MAX];
	char **cells; /* owned, row after row */
	size_t count;
	size_t room;
};

static void *must(void *p)
{
	if (!p) {
		(void)fputs("trib: out of memory\n", stderr);
		abort();
	}
	return p;
}

struct table *table_new(const char *heading, ...)
{
	struct table *table = must(calloc(1, sizeof(*table)));
	va_list args;

	va_start(args, heading);
	while (heading) {
		size_t i = table->columns++;
		size_t length = strlen(heading);

		assert(i < TABLE_COLUMNS_MAX);
		table->headings[i] = must(strdup(heading));
		if (length > 0 && heading[length - 1] == '>') {
			table->headings[i][length - 1] = '\0';
			table->right[i] = true;
		}
		heading = va_arg(args, const char *);
	}
	va_end(args);
	return table;
}

void table_cell(struct table *table, const char *fmt, ...)
{
	va_list args;
	char *text = NULL;

	va_start(args, fmt);
	if (vasprintf(&text, fmt, args) < 0)
		text = NULL;
	va_end(args);
	if (table->count == table->room) {
		table->room = table->room ? 2 * table->room : 64;
		table->cells = must(realloc(
			table->cells, table->room * sizeof(*table->cells)));
	}
	table->cells[table->count++] = must(text);
}

static size_t column_width(const struct table *table, size_t column)
{
	size_t width = strlen(table->headings[column]);

	for (size_t i = column; i < table->count; i += table->columns) {
		size_t length = strlen(table->cells[i]);

		if (length > width)
			width = length;
	}
	return width;
}

static void cell_print(const struct table *table, const char *text,
		       size_t column, size_t width, FILE *out)
{
	bool last = column + 1 == table->columns;

	if (table->right[column])
		(void)fprintf(out, "%*s%s", (int)width, text, last ? "" : "  ");
	else if (last)
		(void)fputs(text, out);
	else
		(void)fprintf(out, "%-*s  ", (int)width, text);
	if (last)
		(void)fputc('\n', out);
}

void table_print(struct table *table, FILE *out)
{
	size_t widths[TABLE_COLUMNS_MAX];

	assert(table->count % table->columns == 0);
	for (size_t c = 0; c < table->columns; c++)
		widths[c] = column_width(table, c);
	for (size_t c = 0; c < table->columns; c++)
		cell_print(table, table->headings[c], c, widths[c], out);
	for (size_t i = 0; i < table->count; i++)
		cell_print(table, table->cells[i], i % table->columns,
			   widths[i % table->columns], out);
	table_free(table);
}

void table_free(struct table *table)
{
	for (size_t c = 0; c < table->columns; c++)
		free(table->headings[c]);
	for (size_t i = 0; i < table->count; i++)
		free(table->cells[i]);
	free(table->cells);
	free(table);
}
