/* SPDX-License-Identifier: Apache-2.0 */
/* The text of a table: what is taken is whole, and its own text reads back. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/dm/mapper_table.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_whole(const struct mapper_table *table)
{
	uint64_t at = 0;

	for (size_t i = 0; i < table->count; i++) {
		if (table->segments[i].start != at ||
		    mapper_table_find(table, at) != &table->segments[i])
			abort();
		at += table->segments[i].length;
	}
	if (at != table->size)
		abort();
}

static bool has_other(const struct mapper_table *table)
{
	for (size_t i = 0; i < table->count; i++)
		if (table->segments[i].kind == MAPPER_OTHER)
			return true;
	return false;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	auto_free char *text = strndup((const char *)data, size);
	auto_free char *again = NULL;
	struct mapper_table table = {.count = 0}, back = {.count = 0};

	if (!text || mapper_table_decode(text, &table, NULL) < 0)
		return 0;
	check_whole(&table);
	again = mapper_table_encode(&table);
	if (again && !has_other(&table) &&
	    (mapper_table_decode(again, &back, NULL) < 0 ||
	     !mapper_table_equal(&table, &back)))
		abort();
	mapper_table_done(&table);
	mapper_table_done(&back);
	return 0;
}
