/* SPDX-License-Identifier: Apache-2.0 */
/* A damaged state file: what decodes must encode to the same again. */
#include "initiator/device/record.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct record record;
	char *first, *second;

	if (record_decode((const char *)data, size, &record, NULL) < 0)
		return 0;
	first = record_encode(&record);
	if (!first || record_decode(first, strlen(first), &record, NULL) < 0)
		abort();
	second = record_encode(&record);
	if (!second || strcmp(first, second) != 0)
		abort();
	free(first);
	free(second);
	return 0;
}
