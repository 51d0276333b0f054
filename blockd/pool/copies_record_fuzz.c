/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The decoder with any bytes, with and without a checksum that fits them.
 * What decodes has names that may be files', and encodes to the same again.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "blockd/pool/copies_record.h"
#include "blockd/testkit/record_fuzz_kit.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length);

static void check(const char *text, size_t length)
{
	struct copies_record record, again;
	size_t again_length;
	char *encoded;

	if (copies_record_decode(text, length, &record, NULL) < 0)
		return;
	assert(record.n >= 1 && record.n <= COPIES_MAX);
	for (size_t i = 0; i < record.n; i++)
		assert(name_check("extent", record.names[i], NULL) == 0);
	assert(!strchr(record.cut, '/') && record.cut[0] != '.');
	assert(copies_record_encode(&record, &encoded, &again_length, NULL) ==
	       0);
	assert(copies_record_decode(encoded, again_length, &again, NULL) == 0);
	assert(again.n == record.n && strcmp(again.cut, record.cut) == 0);
	for (size_t i = 0; i < record.n; i++)
		assert(strcmp(record.names[i], again.names[i]) == 0);
	copies_record_done(&record);
	copies_record_done(&again);
	free(encoded);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length)
{
	record_fuzz(data, length, check);
	return 0;
}
