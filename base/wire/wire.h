/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Integers as they are on the wire: arrays of bytes, so alignment 1 and no
 * way to read one without converting it.
 */
#ifndef BASE_WIRE_H
#define BASE_WIRE_H

#include <assert.h>
#include <endian.h>
#include <stdint.h>
#include <string.h>

#define WIRE_INTEGER(name, type, to_host, to_wire)             \
	typedef struct {                                       \
		uint8_t bytes[sizeof(type)];                   \
	} name;                                                \
	static inline type name##_get(name wire)               \
	{                                                      \
		type value;                                    \
		memcpy(&value, wire.bytes, sizeof(value));     \
		return to_host(value);                         \
	}                                                      \
	static inline name name##_make(type value)             \
	{                                                      \
		name wire;                                     \
		type swapped = to_wire(value);                 \
		memcpy(wire.bytes, &swapped, sizeof(swapped)); \
		return wire;                                   \
	}                                                      \
	static_assert(sizeof(name) == sizeof(type), "wire size")

WIRE_INTEGER(be16, uint16_t, be16toh, htobe16);
WIRE_INTEGER(be32, uint32_t, be32toh, htobe32);
WIRE_INTEGER(be64, uint64_t, be64toh, htobe64);
WIRE_INTEGER(le16, uint16_t, le16toh, htole16);
WIRE_INTEGER(le32, uint32_t, le32toh, htole32);
WIRE_INTEGER(le64, uint64_t, le64toh, htole64);

#endif
