/* SPDX-License-Identifier: Apache-2.0 */
/* Any text in a store: a record that is read is written and read the same. */
#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "volume/record/snapshot_record.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void one_snapshot(const char *json, size_t length)
{
	struct snapshot_record *record, *again;
	char *first, *second;

	if (snapshot_record_decode(json, length, &record, NULL) < 0)
		return;
	assert(snapshot_record_copied(record) <= record->spec.capacity);
	if (snapshot_record_encode(record, &first, NULL) == 0) {
		assert(snapshot_record_decode(first, strlen(first), &again,
					      NULL) == 0);
		assert(snapshot_record_encode(again, &second, NULL) == 0);
		assert(strcmp(first, second) == 0);
		free(first);
		free(second);
		snapshot_record_free(again);
	} /* else too large when all is said */
	snapshot_record_free(record);
}

static void one_group(const char *json, size_t length)
{
	struct group_record *record, *again;
	char *first, *second;

	if (group_record_decode(json, length, &record, NULL) < 0)
		return;
	assert(record->n_members > 0);
	if (group_record_encode(record, &first, NULL) == 0) {
		assert(group_record_decode(first, strlen(first), &again,
					   NULL) == 0);
		assert(group_record_encode(again, &second, NULL) == 0);
		assert(strcmp(first, second) == 0);
		free(first);
		free(second);
		group_record_free(again);
	}
	group_record_free(record);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	one_snapshot((const char *)data, size);
	one_group((const char *)data, size);
	return 0;
}
