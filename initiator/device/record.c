/* SPDX-License-Identifier: Apache-2.0 */
#include "initiator/device/record.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/file.h"

enum field_type { FIELD_TEXT, FIELD_U64, FIELD_UINT, FIELD_BOOL };

struct field {
	const char *key;
	enum field_type type;
	size_t offset;
	size_t size; /* of a text, with NUL */
};

#define TEXT(key, member)                                         \
	{                                                         \
		key, FIELD_TEXT, offsetof(struct record, member), \
			sizeof(((struct record *)0)->member)      \
	}
#define OTHER(key, type, member)                              \
	{                                                     \
		key, type, offsetof(struct record, member), 0 \
	}

static const struct field fields[] = {
	TEXT("id", id),
	TEXT("transport", transport),
	TEXT("why", why),
	TEXT("local_path", local_path),
	TEXT("address", address),
	TEXT("export", export_name),
	TEXT("identity", identity),
	TEXT("chap_file", chap_file),
	OTHER("parts", FIELD_UINT, parts),
	OTHER("size", FIELD_U64, size),
	OTHER("read_only", FIELD_BOOL, read_only),
	OTHER("connections", FIELD_UINT, connections),
	OTHER("dead_timeout_ms", FIELD_UINT, dead_timeout_ms),
	TEXT("boot", boot),
	TEXT("device", device),
	TEXT("top", top),
	OTHER("pid", FIELD_UINT, pid),
	OTHER("pid_start", FIELD_U64, pid_start),
	TEXT("incarnation", incarnation),
	OTHER("ready", FIELD_BOOL, ready),
};

static_assert(sizeof(unsigned long long) == sizeof(uint64_t), "pid_start");
static_assert(sizeof(pid_t) == sizeof(int), "pid");

bool record_text_ok(const char *text)
{
	for (; *text; text++)
		if ((unsigned char)*text < 0x20 || *text == 0x7f)
			return false;
	return true;
}

static void encode_field(FILE *out, const struct field *f,
			 const struct record *record)
{
	const char *at = (const char *)record + f->offset;
	uint64_t number;
	unsigned small;

	switch (f->type) {
	case FIELD_TEXT:
		if (*at)
			(void)fprintf(out, "%s=%s\n", f->key, at);
		break;
	case FIELD_U64:
		memcpy(&number, at, sizeof(number));
		(void)fprintf(out, "%s=%llu\n", f->key,
			      (unsigned long long)number);
		break;
	case FIELD_UINT:
		memcpy(&small, at, sizeof(small));
		(void)fprintf(out, "%s=%u\n", f->key, small);
		break;
	case FIELD_BOOL:
		(void)fprintf(out, "%s=%d\n", f->key, *(const bool *)at);
		break;
	}
}

char *record_encode(const struct record *record)
{
	char *text = NULL;
	size_t length = 0;
	FILE *out = open_memstream(&text, &length);

	if (!out)
		return NULL;
	(void)fputs("version=1\n", out);
	for (size_t i = 0; i < array_size(fields); i++)
		encode_field(out, &fields[i], record);
	if (fclose(out)) { /* the only check needed: it keeps the error */
		free(text);
		return NULL;
	}
	return text;
}

static int decode_number(const char *value, uint64_t max, uint64_t *ret)
{
	uint64_t n = 0;

	if (!*value)
		return -EINVAL;
	for (; *value; value++) {
		if (*value < '0' || *value > '9' ||
		    __builtin_mul_overflow(n, 10, &n) ||
		    __builtin_add_overflow(n, *value - '0', &n))
			return -EINVAL;
	}
	if (n > max)
		return -EINVAL;
	*ret = n;
	return 0;
}

static int decode_field(const struct field *f, const char *value,
			struct record *record)
{
	char *at = (char *)record + f->offset;
	uint64_t n;
	unsigned small;

	switch (f->type) {
	case FIELD_TEXT:
		if (strlen(value) >= f->size || !record_text_ok(value))
			return -EINVAL;
		memcpy(at, value, strlen(value) + 1);
		return 0;
	case FIELD_U64:
		if (decode_number(value, UINT64_MAX, &n) < 0)
			return -EINVAL;
		memcpy(at, &n, sizeof(n));
		return 0;
	case FIELD_UINT:
		if (decode_number(value, INT_MAX, &n) < 0)
			return -EINVAL;
		small = (unsigned)n;
		memcpy(at, &small, sizeof(small));
		return 0;
	case FIELD_BOOL:
		if (decode_number(value, 1, &n) < 0)
			return -EINVAL;
		*(bool *)at = n;
		return 0;
	}
	return -EINVAL;
}

static int decode_line(char *line, struct record *record)
{
	char *value = strchr(line, '=');

	if (!value)
		return -EINVAL;
	*value++ = 0;
	for (size_t i = 0; i < array_size(fields); i++)
		if (!strcmp(line, fields[i].key))
			return decode_field(&fields[i], value, record);
	return 0;
}

int record_decode(const char *text, size_t length, struct record *ret,
		  struct error *err)
{
	auto_free char *copy = NULL;
	struct record record = {.ready = false};
	unsigned number = 0;
	char *next, *line;

	memset(&record, 0, sizeof(record));
	if (length > RECORD_SIZE_MAX || memchr(text, 0, length))
		return error_set(err, EINVAL, "the record is not text");
	copy = strndup(text, length);
	if (!copy)
		return error_set(err, ENOMEM, "no memory for a record");
	next = copy;
	while ((line = strsep(&next, "\n"))) {
		if (!number++) {
			if (!strcmp(line, "version=1"))
				continue;
			return error_set(err, EINVAL,
					 "the record does not begin with "
					 "version=1");
		}
		if (*line && decode_line(line, &record) < 0)
			return error_set(err, EINVAL,
					 "line %u of the record is damaged",
					 number);
	}
	if (name_check("attachment", record.id, NULL) < 0)
		return error_set(err, EINVAL, "the record has no id");
	*ret = record;
	return 0;
}

static void file_name(char *name, size_t size, const char *id)
{
	(void)snprintf(name, size, "%s" RECORD_SUFFIX, id);
}

int record_load(int dirfd, const char *id, struct record *ret,
		struct error *err)
{
	auto_free char *text = NULL;
	char name[128];
	size_t length;
	int r;

	file_name(name, sizeof(name), id);
	r = file_read(dirfd, name, RECORD_SIZE_MAX, &text, &length, err);
	if (r < 0)
		return r;
	r = record_decode(text, length, ret, err);
	if (r < 0)
		return error_prefix(err, r, "%s: ", name);
	if (strcmp(ret->id, id) != 0)
		return error_set(err, EINVAL, "%s: the record of another id",
				 name);
	return 0;
}

void record_forget_other_boot(struct record *r)
{
	char boot[UUID_TEXT_SIZE];

	if (boot_id_read(boot) < 0 || !strcmp(boot, r->boot))
		return;
	r->device[0] = r->top[0] = 0;
	r->pid = 0;
	r->ready = false;
}

int record_save(int dirfd, const struct record *record, struct error *err)
{
	auto_free char *text = record_encode(record);
	char name[128];

	if (!text)
		return error_set(err, ENOMEM, "no memory for a record");
	file_name(name, sizeof(name), record->id);
	return file_replace(dirfd, name, text, strlen(text), 0600, err);
}

int record_remove(int dirfd, const char *id, struct error *err)
{
	char name[128];

	file_name(name, sizeof(name), id);
	return file_remove(dirfd, name, err);
}
