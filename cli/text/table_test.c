/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>

#include "cli/text/table.h"

static void columns_are_as_wide_as_their_widest_cell(void **state)
{
	struct table *table = table_new("NAME", "SIZE>", "STATE", NULL);
	char *text = NULL;
	size_t length;
	FILE *out = open_memstream(&text, &length);

	(void)state;
	table_cell(table, "a-long-name");
	table_cell(table, "%d", 5);
	table_cell(table, "ok");
	table_cell(table, "b");
	table_cell(table, "%d", 12345);
	table_cell(table, "-");
	table_print(table, out);
	(void)fclose(out);
	assert_string_equal(text, "NAME          SIZE  STATE\n"
				  "a-long-name      5  ok\n"
				  "b            12345  -\n");
	free(text);
}

static void many_rows_fit(void **state)
{
	struct table *table = table_new("N>", NULL);
	char *text = NULL;
	size_t length;
	FILE *out = open_memstream(&text, &length);

	(void)state;
	for (int i = 0; i < 1000; i++)
		table_cell(table, "%d", i);
	table_print(table, out);
	(void)fclose(out);
	assert_int_equal(length, 1001 * 4);
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(columns_are_as_wide_as_their_widest_cell),
		cmocka_unit_test(many_rows_fit),
	};

	return cmocka_run_group_tests_name("table", tests, NULL, NULL);
}
