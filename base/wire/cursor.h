/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A bounded reader over bytes a peer sent. A read past the end returns
 * zeroes and makes the cursor bad for good, so a decoder reads everything
 * and asks once at the end:
 *
 *	struct cursor c = cursor_make(data, length);
 *	uint32_t n = cursor_be32(&c);
 *	const char *name = cursor_bytes(&c, n);
 *	if (!cursor_ended(&c))
 *		return -EPROTO;
 */
#ifndef BASE_CURSOR_H
#define BASE_CURSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cursor {
	const uint8_t *at;  /* borrowed */
	const uint8_t *end; /* one past the last byte */
	bool bad;           /* a read went past the end */
};

struct cursor cursor_make(const void *data, size_t length);
uint8_t cursor_u8(struct cursor *c);
uint16_t cursor_be16(struct cursor *c);
uint32_t cursor_be32(struct cursor *c);
uint64_t cursor_be64(struct cursor *c);

/* @length bytes, borrowed from the input; NULL (and bad) past the end. */
const void *cursor_bytes(struct cursor *c, size_t length);

/* Bytes not yet read; 0 when bad. */
size_t cursor_left(const struct cursor *c);

/* All reads were inside, whatever is left. */
bool cursor_ok(const struct cursor *c);

/* All reads were inside and nothing is left. */
bool cursor_ended(const struct cursor *c);

#endif
