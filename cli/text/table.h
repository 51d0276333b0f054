/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A table for people: a line of headings, then rows, columns as wide as
 * their widest cell.
 *
 *	struct table *t = table_new("NAME", "SIZE>", NULL);
 *	table_cell(t, "%s", name);
 *	table_cell(t, "%s", size_format(buf, size));
 *	table_print(t, stdout);
 *
 * Out of memory ends the program: it is a command, not a daemon.
 */
#ifndef CLI_TABLE_H
#define CLI_TABLE_H

#include <stdio.h>

#define TABLE_COLUMNS_MAX 16

struct table;

/* Headings up to NULL; one that ends in '>' is a column set to the right. */
struct table *table_new(const char *heading, ...) __attribute__((sentinel));

/* The next cell; after the last column comes the next row. */
void table_cell(struct table *table, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* Print it and free it. */
void table_print(struct table *table, FILE *out);

/* Free it unprinted. */
void table_free(struct table *table);

#endif
