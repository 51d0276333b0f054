/* SPDX-License-Identifier: Apache-2.0 */
/* Any text in a store: a record that is read is written and read the same. */
#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "volume/record/volume_record.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct volume_record *record, *again;
	char *first, *second;

	if (volume_record_decode((const char *)data, size, &record, NULL) < 0)
		return 0;
	if (volume_record_encode(record, &first, NULL) < 0) {
		volume_record_free(record); /* too large when all is said */
		return 0;
	}
	assert(volume_record_decode(first, strlen(first), &again, NULL) == 0);
	assert(volume_record_encode(again, &second, NULL) == 0);
	assert(strcmp(first, second) == 0);
	assert(volume_record_target(again) >= again->spec.capacity);
	free(first);
	free(second);
	volume_record_free(record);
	volume_record_free(again);
	return 0;
}
