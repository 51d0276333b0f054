/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/rpc_text.h"

#include <stdint.h>
#include <string.h>

#define ERRNO_MAX 133 /* EHWPOISON; asm-generic/errno.h */

/* Count the bytes of the character at @s, 0 when it is none (RFC 3629 4). */
static size_t utf8_length(const uint8_t *s, size_t left)
{
	static const struct {
		uint8_t first, last, low, high; /* range of the second byte */
		uint8_t length;
	} rows[] = {
		{0xc2, 0xdf, 0x80, 0xbf, 2}, {0xe0, 0xe0, 0xa0, 0xbf, 3},
		{0xe1, 0xec, 0x80, 0xbf, 3}, {0xed, 0xed, 0x80, 0x9f, 3},
		{0xee, 0xef, 0x80, 0xbf, 3}, {0xf0, 0xf0, 0x90, 0xbf, 4},
		{0xf1, 0xf3, 0x80, 0xbf, 4}, {0xf4, 0xf4, 0x80, 0x8f, 4},
	};

	if (s[0] < 0x80)
		return 1;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		if (s[0] < rows[i].first || s[0] > rows[i].last)
			continue;
		if (left < rows[i].length || s[1] < rows[i].low ||
		    s[1] > rows[i].high)
			return 0;
		for (size_t n = 2; n < rows[i].length; n++)
			if ((s[n] & 0xc0) != 0x80)
				return 0;
		return rows[i].length;
	}
	return 0;
}

char *rpc_text_clean(char *buf, size_t size, const char *text, size_t length)
{
	const uint8_t *s = (const uint8_t *)text;
	size_t out = 0;

	for (size_t i = 0; i < length;) {
		size_t n = utf8_length(s + i, length - i);
		/* U+0080 to U+009F are control characters as well. */
		int control = (n == 1 && (s[i] < 0x20 || s[i] == 0x7f)) ||
			      (n == 2 && s[i] == 0xc2 && s[i + 1] < 0xa0);

		if (out + (n && !control ? n : 1) >= size)
			break;
		if (n && !control)
			memcpy(buf + out, s + i, n);
		else
			buf[out] = n ? ' ' : '?';
		out += n && !control ? n : 1;
		i += n ? n : 1;
	}
	buf[out] = '\0';
	return buf;
}

int rpc_errno_parse(const char *name, size_t length)
{
	for (int e = 1; e <= ERRNO_MAX; e++) {
		const char *known = strerrorname_np(e);

		if (known && strlen(known) == length &&
		    memcmp(known, name, length) == 0)
			return e;
	}
	return 0;
}
