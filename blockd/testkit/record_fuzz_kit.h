/* SPDX-License-Identifier: Apache-2.0 */
/* What the fuzzers of records that are text share. */
#ifndef BLOCKD_RECORD_FUZZ_KIT_H
#define BLOCKD_RECORD_FUZZ_KIT_H

#include <stddef.h>
#include <stdint.h>

/*
 * Call @check with the input, and with a checksum behind it that fits; not at
 * all with more than RECORD_TEXT_MAX bytes. The text ends without a NUL.
 */
void record_fuzz(const uint8_t *data, size_t length,
		 void (*check)(const char *text, size_t length));

#endif
