/* SPDX-License-Identifier: Apache-2.0 */
#include "base/wire/crc32c.h"

#include <isa-l/crc.h>

#define PIECE_MAX ((size_t)1 << 30) /* bytes; crc32_iscsi() takes an int */

uint32_t crc32c(uint32_t crc, const void *data, size_t length)
{
	/* ISA-L reads only, but does not say const. */
	unsigned char *at = (unsigned char *)data;

	/* ISA-L leaves both inversions of the CRC to its caller. */
	crc = ~crc;
	while (length) {
		size_t piece = length < PIECE_MAX ? length : PIECE_MAX;

		crc = crc32_iscsi(at, (int)piece, crc);
		at += piece;
		length -= piece;
	}
	return ~crc;
}
