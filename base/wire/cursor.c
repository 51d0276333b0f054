/* SPDX-License-Identifier: Apache-2.0 */
#include "base/wire/cursor.h"

#include <string.h>

#include "base/wire/wire.h"

struct cursor cursor_make(const void *data, size_t length)
{
	static const uint8_t nothing[1];
	const uint8_t *at = length ? data : nothing;

	return (struct cursor){.at = at, .end = at + length};
}

const void *cursor_bytes(struct cursor *c, size_t length)
{
	const uint8_t *at = c->at;

	if (c->bad || length > (size_t)(c->end - c->at)) {
		c->bad = true;
		return NULL;
	}
	c->at += length;
	return at;
}

uint8_t cursor_u8(struct cursor *c)
{
	const uint8_t *p = cursor_bytes(c, 1);

	return p ? *p : 0;
}

/* One reader for each integer of wire.h. */
#define CURSOR_INTEGER(name, type)                             \
	type cursor_##name(struct cursor *c)                   \
	{                                                      \
		const void *p = cursor_bytes(c, sizeof(name)); \
		name wire;                                     \
                                                               \
		if (!p)                                        \
			return 0;                              \
		memcpy(&wire, p, sizeof(wire));                \
		return name##_get(wire);                       \
	}

CURSOR_INTEGER(be16, uint16_t)
CURSOR_INTEGER(be32, uint32_t)
CURSOR_INTEGER(be64, uint64_t)

size_t cursor_left(const struct cursor *c)
{
	return c->bad ? 0 : (size_t)(c->end - c->at);
}

bool cursor_ok(const struct cursor *c)
{
	return !c->bad;
}

bool cursor_ended(const struct cursor *c)
{
	return !c->bad && c->at == c->end;
}
