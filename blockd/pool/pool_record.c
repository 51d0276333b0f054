/* SPDX-License-Identifier: Apache-2.0 */
#include "blockd/pool/pool_record.h"

#include <string.h>

#include "base/cleanup.h"
#include "blockd/pool/record_text.h"
#include "blockd/pool/space.h"

#define POOL_KIND    "tributary-pool"
#define KNOWN_KIND   "tributary-known-pool"
#define POOL_VERSION 1

/* One field of either record: exactly one of the three is set. */
struct field {
	const char *name;
	char *text;
	size_t text_size; /* bytes with NUL */
	uint64_t *number;
	bool *flag;
};

static int decode_value(const struct field *field, char *value,
			struct error *err)
{
	int r;

	if (field->number)
		return record_text_number(value, field->number, err);
	if (field->flag)
		return record_text_flag(value, field->flag, err);
	r = record_text_decode(value, 1, field->text_size - 1, err);
	if (r == 0)
		memcpy(field->text, value, strlen(value) + 1);
	return r;
}

static int pool_decode_lines(struct record_reader *reader,
			     const struct field *fields, size_t n,
			     struct error *err)
{
	unsigned seen = 0;
	char *key, *value;
	int r;

	while ((r = record_text_next(reader, &key, &value, err)) == 1) {
		size_t i = 0;

		while (i < n && strcmp(fields[i].name, key) != 0)
			i++;
		if (i == n || seen & (1u << i))
			return error_set(err, EBADMSG,
					 "a line comes twice or is unknown");
		seen |= 1u << i;
		r = decode_value(&fields[i], value, err);
		if (r < 0)
			return r;
	}
	if (r == 0 && seen != (1u << n) - 1)
		return error_set(err, EBADMSG, "a line is missing");
	return r;
}

static int decode(const void *data, size_t length, const char *kind,
		  const struct field *fields, size_t n, struct error *err)
{
	struct record_reader reader;
	int r;

	r = record_text_open(&reader, data, length, kind, POOL_VERSION, err);
	if (r == 0)
		r = pool_decode_lines(&reader, fields, n, err);
	record_text_close(&reader);
	return r;
}

static int pool_record_encode_fields(const char *kind,
				     const struct field *fields, size_t n,
				     char **ret, size_t *ret_length,
				     struct error *err)
{
	struct record_writer w = {0};
	int r;

	record_text_begin(&w, kind, POOL_VERSION);
	for (size_t i = 0; i < n; i++) {
		if (fields[i].number)
			record_text_add_number(&w, fields[i].name,
					       *fields[i].number);
		else if (fields[i].flag)
			record_text_add_flag(&w, fields[i].name,
					     *fields[i].flag);
		else
			record_text_add(&w, fields[i].name, fields[i].text);
	}
	r = record_text_end(&w, ret, ret_length);
	return r < 0 ? error_set(err, -r, "encode a %s record", kind) : 0;
}

#define TEXT(name, member)                                               \
	{                                                                \
		name, record->member, sizeof(record->member), NULL, NULL \
	}
#define NUMBER(name, member)                         \
	{                                            \
		name, NULL, 0, &record->member, NULL \
	}
#define FLAG(name, member)                           \
	{                                            \
		name, NULL, 0, NULL, &record->member \
	}
#define POOL_FIELDS                                                     \
	{                                                               \
		TEXT("name", name), TEXT("id", id), TEXT("kind", kind), \
			TEXT("incarnation", incarnation),               \
			NUMBER("capacity", capacity),                   \
			NUMBER("overcommit", overcommit_percent),       \
			NUMBER("created", created_s),                   \
	}
#define KNOWN_FIELDS                                                    \
	{                                                               \
		TEXT("name", name), TEXT("path", path), TEXT("id", id), \
			FLAG("deleting", deleting),                     \
	}

int pool_record_encode(const struct pool_record *in, char **ret,
		       size_t *ret_length, struct error *err)
{
	struct pool_record copy = *in, *record = &copy;
	const struct field fields[] = POOL_FIELDS;

	return pool_record_encode_fields(POOL_KIND, fields, array_size(fields),
					 ret, ret_length, err);
}

int pool_record_decode(const void *data, size_t length, struct pool_record *ret,
		       struct error *err)
{
	struct pool_record found = {0}, *record = &found;
	const struct field fields[] = POOL_FIELDS;
	struct error rule = {0};
	int r = decode(data, length, POOL_KIND, fields, array_size(fields),
		       err);

	if (r < 0)
		return r;
	if (name_check("pool", found.name, &rule) < 0)
		return error_set(err, EBADMSG, "%s", error_text(&rule));
	if (found.overcommit_percent < SPACE_OVERCOMMIT_MIN ||
	    found.overcommit_percent > SPACE_OVERCOMMIT_MAX)
		return error_set(err, EBADMSG,
				 "its overcommit is not possible");
	*ret = found;
	return 0;
}

int known_pool_encode(const struct known_pool *known, char **ret,
		      size_t *ret_length, struct error *err)
{
	struct known_pool copy = *known, *record = &copy;
	const struct field fields[] = KNOWN_FIELDS;

	return pool_record_encode_fields(KNOWN_KIND, fields, array_size(fields),
					 ret, ret_length, err);
}

int known_pool_decode(const void *data, size_t length, struct known_pool *ret,
		      struct error *err)
{
	struct known_pool found = {0}, *record = &found;
	const struct field fields[] = KNOWN_FIELDS;
	struct error rule = {0};
	int r = decode(data, length, KNOWN_KIND, fields, array_size(fields),
		       err);

	if (r < 0)
		return r;
	if (name_check("pool", found.name, &rule) < 0)
		return error_set(err, EBADMSG, "%s", error_text(&rule));
	if (found.path[0] != '/')
		return error_set(err, EBADMSG, "its path is not absolute");
	*ret = found;
	return 0;
}
