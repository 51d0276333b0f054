/* SPDX-License-Identifier: Apache-2.0 */
#include "target/iscsi/iscsi_text.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- texts ---- */

int iscsi_text_append(struct iscsi_text *text, const void *data, size_t length)
{
	if (length == 0)
		return 0;
	if (length > ISCSI_TEXT_MAX - text->length)
		return -E2BIG;
	if (!text->data)
		text->data = malloc(ISCSI_TEXT_MAX + 1);
	if (!text->data)
		return -ENOMEM;
	memcpy(text->data + text->length, data, length);
	text->length += length;
	return 0;
}

void iscsi_text_done(struct iscsi_text *text)
{
	free(text->data);
	*text = (struct iscsi_text){0};
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool is_letter(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* RFC 7143 6.1: standard-label */
static bool key_ok(const char *key, size_t length)
{
	if (length == 0 || length > ISCSI_KEY_MAX || !is_letter(key[0]))
		return false;
	for (size_t i = 0; i < length; i++)
		if (!is_letter(key[i]) && !is_digit(key[i]) &&
		    !strchr(".-+@_#", key[i]))
			return false;
	return true;
}

int iscsi_text_next(struct iscsi_text *text, size_t *at, struct iscsi_pair *ret)
{
	char *pair, *equals, *end;

	/* Some pad with NULs inside the data. */
	while (*at < text->length && text->data[*at] == '\0')
		(*at)++;
	if (*at >= text->length)
		return 0;
	pair = text->data + *at;
	end = memchr(pair, '\0', text->length - *at);
	if (!end)
		return -EPROTO;
	equals = memchr(pair, '=', (size_t)(end - pair));
	if (!equals || !key_ok(pair, (size_t)(equals - pair)) ||
	    end - equals - 1 > ISCSI_VALUE_MAX)
		return -EPROTO;
	*equals = '\0';
	*at = (size_t)(end - text->data) + 1;
	ret->key = pair;
	ret->value = equals + 1;
	return 1;
}

/* ---- values ---- */

static int hex_digit(char c)
{
	if (is_digit(c))
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

static bool has_prefix(const char *value, char letter)
{
	return value[0] == '0' && (value[1] | 0x20) == letter;
}

int iscsi_number_parse(const char *value, uint64_t *ret)
{
	uint64_t base = has_prefix(value, 'x') ? 16 : 10, number = 0;

	if (base == 16)
		value += 2;
	if (*value == '\0')
		return -EINVAL;
	for (; *value; value++) {
		int digit = hex_digit(*value);

		if (digit < 0 || (uint64_t)digit >= base ||
		    __builtin_mul_overflow(number, base, &number) ||
		    __builtin_add_overflow(number, (uint64_t)digit, &number))
			return -EINVAL;
	}
	*ret = number;
	return 0;
}

static int hex_parse(const char *text, uint8_t *ret, size_t max)
{
	size_t digits = strlen(text), n = (digits + 1) / 2;
	bool high = digits % 2 == 0;
	uint8_t *to = ret;

	if (n == 0 || n > max)
		return -EINVAL;
	*to = 0;
	for (; *text; text++, high = !high) {
		int digit = hex_digit(*text);

		if (digit < 0)
			return -EINVAL;
		if (high)
			*to = (uint8_t)(digit << 4);
		else
			*to++ |= (uint8_t)digit;
		if (!high && text[1])
			*to = 0;
	}
	return (int)n;
}

static int base64_digit(char c)
{
	if (c >= 'A' && c <= 'Z')
		return c - 'A';
	if (c >= 'a' && c <= 'z')
		return c - 'a' + 26;
	if (is_digit(c))
		return c - '0' + 52;
	if (c == '+')
		return 62;
	return c == '/' ? 63 : -1;
}

/* RFC 4648 4: groups of four, the last one padded with '='. */
static int base64_parse(const char *text, uint8_t *ret, size_t max)
{
	size_t length = strlen(text), pad = 0, n = 0;
	uint32_t bits = 0;

	if (length == 0 || length % 4 != 0)
		return -EINVAL;
	while (pad < 2 && text[length - 1 - pad] == '=')
		pad++;
	if (length / 4 * 3 - pad > max)
		return -EINVAL;
	for (size_t i = 0; i < length; i++) {
		int digit = i < length - pad ? base64_digit(text[i]) : 0;

		if (digit < 0)
			return -EINVAL;
		bits = bits << 6 | (uint32_t)digit;
		if (i % 4 != 3)
			continue;
		for (int shift = 16; shift >= 0; shift -= 8)
			if (n < length / 4 * 3 - pad)
				ret[n++] = (uint8_t)(bits >> shift);
		bits = 0;
	}
	return (int)n;
}

int iscsi_binary_parse(const char *value, uint8_t *ret, size_t max)
{
	if (has_prefix(value, 'x'))
		return hex_parse(value + 2, ret, max);
	if (has_prefix(value, 'b'))
		return base64_parse(value + 2, ret, max);
	return -EINVAL;
}

char *iscsi_binary_format(char *to, const uint8_t *data, size_t length)
{
	static const char digits[] = "0123456789abcdef";
	char *at = to;

	*at++ = '0';
	*at++ = 'x';
	for (size_t i = 0; i < length; i++) {
		*at++ = digits[data[i] >> 4];
		*at++ = digits[data[i] & 15];
	}
	*at = '\0';
	return to;
}

bool iscsi_list_has(const char *list, const char *word)
{
	size_t length = strlen(word);

	for (;;) {
		size_t n = strcspn(list, ",");

		if (n == length && memcmp(list, word, n) == 0)
			return true;
		if (list[n] == '\0')
			return false;
		list += n + 1;
	}
}

const char *iscsi_list_choose(const char *offer, const char *const *known)
{
	for (;;) {
		size_t n = strcspn(offer, ",");

		for (const char *const *k = known; *k; k++)
			if (strlen(*k) == n && memcmp(offer, *k, n) == 0)
				return *k;
		if (offer[n] == '\0')
			return NULL;
		offer += n + 1;
	}
}

/* ---- our own ---- */

static bool answer_room(struct iscsi_answer *answer, size_t more)
{
	size_t size = answer->size ?: 512;
	char *data;

	if (answer->failed || more > ISCSI_ANSWER_MAX - answer->length)
		return false;
	while (size < answer->length + more)
		size *= 2;
	if (size == answer->size)
		return true;
	data = realloc(answer->data, size);
	if (!data)
		return false;
	answer->data = data;
	answer->size = size;
	return true;
}

void iscsi_answer_add(struct iscsi_answer *answer, const char *key,
		      const char *value)
{
	size_t n = strlen(key) + strlen(value) + 2;

	if (!answer_room(answer, n)) {
		answer->failed = true;
		return;
	}
	(void)snprintf(answer->data + answer->length, n, "%s=%s", key, value);
	answer->length += n;
}

void iscsi_answer_add_number(struct iscsi_answer *answer, const char *key,
			     uint64_t value)
{
	char text[24];

	(void)snprintf(text, sizeof(text), "%" PRIu64, value);
	iscsi_answer_add(answer, key, text);
}

void iscsi_answer_done(struct iscsi_answer *answer)
{
	free(answer->data);
	*answer = (struct iscsi_answer){0};
}
