/* SPDX-License-Identifier: Apache-2.0 */
#include "blockd/pool/record_text.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/wire/crc32c.h"

#define CHECKSUM_KEY    "crc32c="
#define CHECKSUM_LENGTH (sizeof(CHECKSUM_KEY) - 1 + 8 + 1) /* line, newline */

static const char digits[] = "0123456789abcdef";

static void append(struct record_writer *w, const char *text, size_t length)
{
	if (w->failed)
		return;
	if (w->length + length + CHECKSUM_LENGTH > RECORD_TEXT_MAX) {
		w->failed = -EFBIG;
		return;
	}
	if (w->length + length + CHECKSUM_LENGTH + 1 > w->size) {
		size_t size = (w->length + length + CHECKSUM_LENGTH + 1) * 2;
		char *data = realloc(w->data, size);

		if (!data) {
			w->failed = -ENOMEM;
			return;
		}
		w->data = data;
		w->size = size;
	}
	memcpy(w->data + w->length, text, length);
	w->length += length;
}

static void append_text(struct record_writer *w, const char *text)
{
	append(w, text, strlen(text));
}

static bool is_plain(unsigned char c)
{
	return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
	       (c >= '0' && c <= '9') || (c && strchr("._-/:", c));
}

static void append_encoded(struct record_writer *w, const char *value)
{
	for (; *value; value++) {
		unsigned char c = (unsigned char)*value;
		char escaped[3] = {'%', digits[c >> 4], digits[c & 15]};

		if (is_plain(c))
			append(w, value, 1);
		else
			append(w, escaped, sizeof(escaped));
	}
}

void record_text_begin(struct record_writer *w, const char *kind,
		       unsigned version)
{
	char line[64];

	(void)snprintf(line, sizeof(line), "%s %u\n", kind, version);
	append_text(w, line);
}

void record_text_add(struct record_writer *w, const char *key,
		     const char *value)
{
	append_text(w, key);
	append_text(w, "=");
	append_encoded(w, value);
	append_text(w, "\n");
}

void record_text_add_number(struct record_writer *w, const char *key,
			    uint64_t value)
{
	char text[24];

	(void)snprintf(text, sizeof(text), "%" PRIu64, value);
	record_text_add(w, key, text);
}

void record_text_add_flag(struct record_writer *w, const char *key, bool value)
{
	record_text_add(w, key, value ? "yes" : "no");
}

void record_text_add_pair(struct record_writer *w, const char *key,
			  const char *name, const char *value)
{
	append_text(w, key);
	append_text(w, "=");
	append_encoded(w, name);
	append_text(w, "=");
	append_encoded(w, value);
	append_text(w, "\n");
}

int record_text_end(struct record_writer *w, char **ret, size_t *ret_length)
{
	int failed = w->failed;

	if (failed < 0) {
		free(w->data);
	} else {
		/* append() kept room for this line and a NUL */
		w->length += (size_t)snprintf(w->data + w->length,
					      CHECKSUM_LENGTH + 1,
					      CHECKSUM_KEY "%08" PRIx32 "\n",
					      crc32c(0, w->data, w->length));
		*ret = w->data;
		*ret_length = w->length;
	}
	*w = (struct record_writer){0};
	return failed;
}

/* The checksum line is the last; cut it off and compare. */
static int check_sum(struct record_reader *r, size_t length, struct error *err)
{
	char expected[CHECKSUM_LENGTH + 1];
	char *line;

	if (length < CHECKSUM_LENGTH || r->text[length - 1] != '\n')
		return error_set(err, EBADMSG, "it is truncated");
	line = r->text + length - CHECKSUM_LENGTH;
	(void)snprintf(expected, sizeof(expected),
		       CHECKSUM_KEY "%08" PRIx32 "\n",
		       crc32c(0, r->text, length - CHECKSUM_LENGTH));
	if (memcmp(line, CHECKSUM_KEY, sizeof(CHECKSUM_KEY) - 1) != 0)
		return error_set(err, EBADMSG,
				 "it does not end with a checksum");
	if (memcmp(line, expected, CHECKSUM_LENGTH) != 0)
		return error_set(err, EBADMSG, "its checksum does not match");
	*line = '\0';
	r->end = line;
	return 0;
}

/* Cut the next line off; NULL at the end or without a newline. */
static char *reader_take_line(struct record_reader *r)
{
	char *line = r->at;
	char *newline = memchr(line, '\n', (size_t)(r->end - line));

	if (!newline)
		return NULL;
	*newline = '\0';
	r->at = newline + 1;
	return line;
}

static int check_head(struct record_reader *r, const char *kind,
		      unsigned version_max, struct error *err)
{
	char *line = reader_take_line(r);
	char *space = line ? strchr(line, ' ') : NULL;
	uint64_t version;

	if (!space)
		return error_set(err, EBADMSG, "it has no first line");
	*space = '\0';
	if (strcmp(line, kind) != 0)
		return error_set(err, EBADMSG, "it is not a %s record", kind);
	if (record_text_number(space + 1, &version, NULL) < 0 || version == 0)
		return error_set(err, EBADMSG, "its version is no number");
	if (version > version_max)
		return error_set(err, EBADMSG,
				 "it is of version %" PRIu64
				 ", this program knows up to %u",
				 version, version_max);
	r->version = (unsigned)version;
	return 0;
}

int record_text_open(struct record_reader *r, const void *data, size_t length,
		     const char *kind, unsigned version_max, struct error *err)
{
	int rc;

	*r = (struct record_reader){0};
	if (length > RECORD_TEXT_MAX)
		return error_set(err, EBADMSG, "it is longer than %d bytes",
				 RECORD_TEXT_MAX);
	if (length == 0)
		return error_set(err, EBADMSG, "it is empty");
	if (memchr(data, '\0', length))
		return error_set(err, EBADMSG, "it has zero bytes in it");
	r->text = malloc(length + 1);
	if (!r->text)
		return error_set(err, ENOMEM, "out of memory");
	memcpy(r->text, data, length);
	r->text[length] = '\0';
	r->at = r->text;
	rc = check_sum(r, length, err);
	return rc < 0 ? rc : check_head(r, kind, version_max, err);
}

void record_text_close(struct record_reader *r)
{
	free(r->text);
	*r = (struct record_reader){0};
}

int record_text_next(struct record_reader *r, char **ret_key, char **ret_value,
		     struct error *err)
{
	char *line, *equals;

	if (r->at == r->end)
		return 0;
	line = reader_take_line(r);
	equals = line ? strchr(line, '=') : NULL;
	if (!equals || equals == line)
		return error_set(err, EBADMSG,
				 "it has a line that is not key=value");
	*equals = '\0';
	*ret_key = line;
	*ret_value = equals + 1;
	return 1;
}

static int hex_value(char c)
{
	const char *at = c ? strchr(digits, c) : NULL;

	return at ? (int)(at - digits) : -1;
}

int record_text_decode(char *value, size_t min, size_t max, struct error *err)
{
	const char *from = value;
	char *to = value;

	while (*from) {
		if (is_plain((unsigned char)*from)) {
			*to++ = *from++;
			continue;
		}
		int high = *from == '%' ? hex_value(from[1]) : -1;
		int low = high >= 0 ? hex_value(from[2]) : -1;

		if (low < 0 || (high == 0 && low == 0) ||
		    is_plain((unsigned char)(high << 4 | low)))
			return error_set(err, EBADMSG,
					 "a value is not properly escaped");
		*to++ = (char)(high << 4 | low);
		from += 3;
	}
	*to = '\0';
	if ((size_t)(to - value) < min || (size_t)(to - value) > max)
		return error_set(err, EBADMSG,
				 "a value is not %zu to %zu bytes long", min,
				 max);
	return 0;
}

int record_text_number(const char *value, uint64_t *ret, struct error *err)
{
	uint64_t number = 0;

	if (!isdigit((unsigned char)*value) || (*value == '0' && value[1]))
		return error_set(err, EBADMSG, "a number is none");
	for (; *value; value++) {
		if (!isdigit((unsigned char)*value) ||
		    __builtin_mul_overflow(number, UINT64_C(10), &number) ||
		    __builtin_add_overflow(number, (uint64_t)(*value - '0'),
					   &number))
			return error_set(err, EBADMSG, "a number is none");
	}
	*ret = number;
	return 0;
}

int record_text_flag(const char *value, bool *ret, struct error *err)
{
	bool yes = strcmp(value, "yes") == 0;

	if (!yes && strcmp(value, "no") != 0)
		return error_set(err, EBADMSG, "a flag is neither yes nor no");
	*ret = yes;
	return 0;
}

int record_text_pair(char *value, char **ret_name, char **ret_value,
		     struct error *err)
{
	char *equals = strchr(value, '=');

	if (!equals)
		return error_set(err, EBADMSG, "a pair has no '='");
	*equals = '\0';
	*ret_name = value;
	*ret_value = equals + 1;
	return 0;
}
