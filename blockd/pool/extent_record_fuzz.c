/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The decoder with any bytes, with and without a checksum that fits them.
 * What decodes encodes again, and that decodes to the same text.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "blockd/pool/extent_record.h"
#include "blockd/testkit/record_fuzz_kit.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length);

static void check(const char *text, size_t length)
{
	struct extent_record record, again;
	char *first, *second;
	size_t first_length, second_length;

	if (extent_record_decode(text, length, &record, NULL) < 0)
		return;
	assert(extent_record_encode(&record, &first, &first_length, NULL) == 0);
	assert(extent_record_decode(first, first_length, &again, NULL) == 0);
	assert(extent_record_encode(&again, &second, &second_length, NULL) ==
	       0);
	assert(first_length == second_length &&
	       memcmp(first, second, first_length) == 0);
	extent_record_done(&record);
	extent_record_done(&again);
	free(first);
	free(second);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length)
{
	record_fuzz(data, length, check);
	return 0;
}
