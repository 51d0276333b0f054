/* SPDX-License-Identifier: Apache-2.0 */
#include "volume/store/http/base64.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
			     "abcdefghijklmnopqrstuvwxyz0123456789+/";

char *base64_encode(const void *data, size_t length)
{
	const uint8_t *in = data;
	char *out = malloc((length + 2) / 3 * 4 + 1), *at = out;

	if (!out)
		return NULL;
	for (size_t i = 0; i < length; i += 3) {
		size_t have = length - i < 3 ? length - i : 3;
		unsigned bits = (unsigned)in[i] << 16;

		if (have > 1)
			bits |= (unsigned)in[i + 1] << 8;
		if (have > 2)
			bits |= in[i + 2];
		for (size_t j = 0; j < 4; j++)
			*at++ = j <= have ? digits[bits >> (18 - 6 * j) & 63]
					  : '=';
	}
	*at = '\0';
	return out;
}

static int base64_digit(char c)
{
	const char *found = c ? strchr(digits, c) : NULL;

	return found ? (int)(found - digits) : -1;
}

char *base64_decode(const char *text, size_t *ret_length)
{
	size_t length = strlen(text), used = 0;
	char *out = malloc(length / 4 * 3 + 1);
	unsigned bits = 0, have = 0;
	size_t i;

	if (!out || length % 4 != 0)
		goto bad;
	for (i = 0; i < length && text[i] != '='; i++) {
		int digit = base64_digit(text[i]);

		if (digit < 0)
			goto bad;
		bits = bits << 6 | (unsigned)digit;
		have += 6;
		if (have >= 8) {
			have -= 8;
			out[used++] = (char)(bits >> have & 0xff);
		}
	}
	if (strspn(text + i, "=") != length - i || length - i > 2)
		goto bad;
	out[used] = '\0';
	*ret_length = used;
	return out;
bad:
	free(out);
	return NULL;
}
