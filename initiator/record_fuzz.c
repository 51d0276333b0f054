/* SPDX-License-Identifier: Apache-2.0 */
/* A damaged state file: what decodes must encode to the same again. */
#include "initiator/record.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct record first, second;
	char *text;

	if (record_decode((const char *)data, size, &first, NULL) < 0)
		return 0;
	text = record_encode(&first);
	if (!text)
		abort();
	if (record_decode(text, strlen(text), &second, NULL) < 0 ||
	    memcmp(&first, &second, sizeof(first)) != 0)
		abort();
	free(text);
	return 0;
}
