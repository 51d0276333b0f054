/* SPDX-License-Identifier: Apache-2.0 */
#include "blockd/testkit/record_fuzz_kit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/wire/crc32c.h"
#include "blockd/pool/record_text.h"

#define SUM_MAX 32 /* bytes, of the line with the checksum */

void record_fuzz(const uint8_t *data, size_t length,
		 void (*check)(const char *text, size_t length))
{
	char *text;

	if (length > RECORD_TEXT_MAX)
		return;
	check((const char *)data, length);
	text = malloc(length + SUM_MAX);
	if (!text)
		return;
	if (length)
		memcpy(text, data, length);
	length += (size_t)snprintf(text + length, SUM_MAX, "crc32c=%08x\n",
				   crc32c(0, text, length));
	check(text, length);
	free(text);
}
