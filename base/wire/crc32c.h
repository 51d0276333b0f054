/* SPDX-License-Identifier: Apache-2.0 */
/* CRC32C (Castagnoli, RFC 3720 appendix B.4), by ISA-L. */
#ifndef BASE_CRC32C_H
#define BASE_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/*
 * @crc   0 for the first piece, the last result for the next ones
 * Check value: "123456789" gives 0xe3069283.
 */
uint32_t crc32c(uint32_t crc, const void *data, size_t length);

#endif
