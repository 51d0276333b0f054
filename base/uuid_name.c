/* SPDX-License-Identifier: Apache-2.0 */
#include "base/uuid_name.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/log.h"

#define NAME_MAX_LENGTH 63 /* bytes; a DNS label, RFC 1035 2.3.4 */

static bool is_hex(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
}

static bool is_letter_or_digit(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z');
}

char *uuid_make(char *buf)
{
	uint8_t b[16];
	ssize_t n = getrandom(b, sizeof(b), 0);

	assert(n == sizeof(b)); /* getrandom(2): 256 bytes or less never fail */
	(void)n;
	b[6] = (b[6] & 0x0f) | 0x40; /* version 4; RFC 9562 5.4 */
	b[8] = (b[8] & 0x3f) | 0x80; /* variant; RFC 9562 4.1 */
	(void)snprintf(buf, UUID_TEXT_SIZE,
		       "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-"
		       "%02x%02x%02x%02x%02x%02x",
		       b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7], b[8],
		       b[9], b[10], b[11], b[12], b[13], b[14],
		       b[15]); /* always fits */
	return buf;
}

int boot_id_read(char *buf)
{
	auto_free char *text = NULL;
	size_t length, i;
	int r;

	r = file_read(AT_FDCWD, "/proc/sys/kernel/random/boot_id", 64, &text,
		      &length, NULL);
	if (r < 0)
		return r;
	if (length < UUID_TEXT_SIZE - 1)
		return -EPROTO;
	for (i = 0; i < UUID_TEXT_SIZE - 1; i++) {
		bool dash = i == 8 || i == 13 || i == 18 || i == 23;

		if (dash ? text[i] != '-' : !is_hex(text[i]))
			return -EPROTO;
	}
	memcpy(buf, text, UUID_TEXT_SIZE - 1);
	buf[UUID_TEXT_SIZE - 1] = '\0';
	return 0;
}

int name_check(const char *what, const char *name, struct error *err)
{
	size_t length = strnlen(name, NAME_MAX_LENGTH + 1), i;
	char quoted[4 * NAME_MAX_LENGTH + 8];

	if (length == 0)
		return error_set(err, EINVAL, "the %s name is empty", what);
	log_quote(quoted, sizeof(quoted), name, (unsigned)length);
	if (length > NAME_MAX_LENGTH)
		return error_set(err, EINVAL,
				 "the %s name %s... is longer than %d bytes",
				 what, quoted, NAME_MAX_LENGTH);
	for (i = 0; i < length; i++) {
		if (!is_letter_or_digit(name[i]) && !strchr("._-", name[i]))
			return error_set(err, EINVAL,
					 "the %s name %s has a character other "
					 "than a-z 0-9 . _ -",
					 what, quoted);
	}
	if (!is_letter_or_digit(name[0]) ||
	    !is_letter_or_digit(name[length - 1]))
		return error_set(err, EINVAL,
				 "the %s name %s does not start and end with "
				 "a letter or digit (a-z 0-9)",
				 what, quoted);
	if (strstr(name, ".."))
		return error_set(err, EINVAL, "the %s name %s has \"..\"", what,
				 quoted);
	return 0;
}
