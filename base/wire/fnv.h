/* SPDX-License-Identifier: Apache-2.0 */
/* FNV-1a (draft-eastlake-fnv), 64 bits: a hash that two programs agree on. */
#ifndef BASE_FNV_H
#define BASE_FNV_H

#include <stddef.h>
#include <stdint.h>

static inline uint64_t fnv1a(const void *data, size_t length)
{
	const uint8_t *at = data, *end = at + length;
	uint64_t hash = UINT64_C(0xcbf29ce484222325);

	for (; at < end; at++)
		hash = (hash ^ *at) * UINT64_C(0x100000001b3);
	return hash;
}

#endif
