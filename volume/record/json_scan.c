/* SPDX-License-Identifier: Apache-2.0 */
#include "volume/record/json_scan.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define DEPTH_MAX 32

/*
 * json-c 0.18 (Debian 13) takes every byte past 0x7f for a control character,
 * but only where it is strict: such text it is to read like any other.
 */
static int tokener_flags(const char *json, size_t length)
{
	int flags = JSON_TOKENER_STRICT | JSON_TOKENER_VALIDATE_UTF8;

	if (json_c_version_num() >> 8 != 0x0012)
		return flags;
	for (size_t i = 0; i < length; i++)
		if ((unsigned char)json[i] > 0x7f)
			return flags & ~JSON_TOKENER_STRICT;
	return flags;
}

int json_scan_parse(const char *json, size_t length, size_t max,
		    struct json_object **ret, struct error *err)
{
	struct json_tokener *tokener;
	struct json_object *object;
	enum json_tokener_error e;
	size_t end;

	if (length > max)
		return error_set(err, EINVAL,
				 "JSON of %zu bytes; at most %zu are taken",
				 length, max);
	tokener = json_tokener_new_ex(DEPTH_MAX);
	if (!tokener)
		return error_set(err, ENOMEM, "out of memory");
	json_tokener_set_flags(tokener, tokener_flags(json, length));
	object = json_tokener_parse_ex(tokener, json, (int)length);
	e = json_tokener_get_error(tokener);
	end = json_tokener_get_parse_end(tokener);
	json_tokener_free(tokener);

	if (e != json_tokener_success || end != length ||
	    !json_object_is_type(object, json_type_object)) {
		json_object_put(object);
		return error_set(
			err, EINVAL, "not a JSON object: %s at byte %zu",
			e == json_tokener_success ? "unexpected content"
						  : json_tokener_error_desc(e),
			end);
	}
	*ret = object;
	return 0;
}

void json_scan_at(struct json_scan *scan, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(scan->path, sizeof(scan->path), fmt, ap);
	va_end(ap);
}

void json_scan_fail(struct json_scan *scan, const char *key, const char *fmt,
		    ...)
{
	char text[160];
	va_list ap;

	if (scan->r < 0)
		return;
	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	scan->r = error_set(scan->err, EINVAL, "%s%s%s %s", scan->path,
			    scan->path[0] ? "." : "", key, text);
}

/* The member, of @type; NULL when it is missing or null. */
static struct json_object *scan_member(struct json_scan *scan,
				       struct json_object *in, const char *key,
				       enum json_type type, bool required)
{
	struct json_object *found = NULL;

	if (scan->r < 0)
		return NULL;
	if (!in || !json_object_object_get_ex(in, key, &found) || !found) {
		if (required)
			json_scan_fail(scan, key, "is missing");
		return NULL;
	}
	if (!json_object_is_type(found, type)) {
		json_scan_fail(scan, key, "is not of type %s",
			       json_type_to_name(type));
		return NULL;
	}
	return found;
}

struct json_object *json_scan_object(struct json_scan *scan,
				     struct json_object *in, const char *key,
				     bool required)
{
	return scan_member(scan, in, key, json_type_object, required);
}

struct json_object *json_scan_array(struct json_scan *scan,
				    struct json_object *in, const char *key,
				    size_t max, bool required)
{
	struct json_object *found = scan_member(scan, in, key, json_type_array,
						required);

	if (found && json_object_array_length(found) > max) {
		json_scan_fail(scan, key, "has %zu items; at most %zu",
			       json_object_array_length(found), max);
		return NULL;
	}
	return found;
}

/* The text with its length; NULL when it holds a NUL or is too long. */
static const char *checked_text(struct json_scan *scan, const char *key,
				struct json_object *object, size_t size)
{
	const char *text = json_object_get_string(object);
	size_t length = (size_t)json_object_get_string_len(object);

	if (strlen(text) != length) {
		json_scan_fail(scan, key, "holds a NUL character");
		return NULL;
	}
	if (length >= size) {
		json_scan_fail(scan, key, "is longer than %zu bytes", size - 1);
		return NULL;
	}
	return text;
}

void json_scan_text(struct json_scan *scan, struct json_object *in,
		    const char *key, char *ret, size_t size, bool required)
{
	struct json_object *found = scan_member(scan, in, key, json_type_string,
						required);
	const char *text;

	if (!found)
		return;
	text = checked_text(scan, key, found, size);
	if (text)
		memcpy(ret, text, strlen(text) + 1);
}

uint64_t json_scan_number(struct json_scan *scan, struct json_object *in,
			  const char *key, uint64_t min, uint64_t max,
			  bool required)
{
	struct json_object *found = scan_member(scan, in, key, json_type_int,
						required);
	int64_t value;

	if (!found)
		return 0;
	value = json_object_get_int64(found); /* saturates */
	if (value < 0 || (uint64_t)value < min || (uint64_t)value > max) {
		json_scan_fail(scan, key, "is not within %ju..%ju",
			       (uintmax_t)min, (uintmax_t)max);
		return 0;
	}
	return (uint64_t)value;
}

bool json_scan_flag(struct json_scan *scan, struct json_object *in,
		    const char *key)
{
	struct json_object *found = scan_member(scan, in, key,
						json_type_boolean, false);

	return found && json_object_get_boolean(found);
}

unsigned json_scan_enum(struct json_scan *scan, struct json_object *in,
			const char *key, const char *const *names, size_t n)
{
	char text[64] = "";

	json_scan_text(scan, in, key, text, sizeof(text), true);
	for (unsigned i = 0; i < n; i++) {
		if (strcmp(text, names[i]) == 0)
			return i;
	}
	json_scan_fail(scan, key, "is '%s', which is not known", text);
	return 0;
}

int64_t json_scan_time(struct json_scan *scan, struct json_object *in,
		       const char *key)
{
	char text[64] = "";
	struct tm tm = {0};
	const char *end;

	json_scan_text(scan, in, key, text, sizeof(text), false);
	if (scan->r < 0 || !text[0])
		return 0;
	end = strptime(text, "%Y-%m-%dT%H:%M:%SZ", &tm);
	if (!end || *end) {
		json_scan_fail(scan, key, "is not a time in UTC");
		return 0;
	}
	return timegm(&tm);
}

void json_scan_labels(struct json_scan *scan, struct json_object *in,
		      const char *key, struct labels *ret)
{
	struct json_object *found = scan_member(scan, in, key, json_type_object,
						false);
	struct error err = {0};

	if (!found)
		return;
	json_object_object_foreach(found, name, value)
	{
		const char *text;

		if (!json_object_is_type(value, json_type_string)) {
			json_scan_fail(scan, key,
				       "has a value that is no text");
			return;
		}
		text = checked_text(scan, key, value, LABEL_TEXT_SIZE);
		if (!text)
			return;
		if (labels_set(ret, name, text, &err) < 0) {
			json_scan_fail(scan, key, "is bad: %s", err.msg);
			return;
		}
	}
}

struct json_object *json_from_time(int64_t seconds)
{
	char text[64];
	time_t t = (time_t)seconds;
	struct tm tm;

	if (!gmtime_r(&t, &tm) ||
	    strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &tm) == 0)
		return NULL;
	return json_object_new_string(text);
}

struct json_object *json_from_labels(const struct labels *labels)
{
	struct json_object *object = json_object_new_object();

	for (size_t i = 0; object && i < labels->count; i++)
		(void)json_object_object_add(
			object, labels->items[i].key,
			json_object_new_string(labels->items[i].value));
	return object;
}

static int check_kind(struct json_object *in, const char *version,
		      const char *kind, struct error *err)
{
	struct json_scan scan = {.err = err};
	char has_version[64] = "", has_kind[64] = "";

	json_scan_text(&scan, in, "apiVersion", has_version,
		       sizeof(has_version), true);
	json_scan_text(&scan, in, "kind", has_kind, sizeof(has_kind), true);
	if (scan.r < 0)
		return scan.r;
	if (strcmp(has_version, version) != 0 || strcmp(has_kind, kind) != 0)
		return error_set(err, EPROTONOSUPPORT,
				 "a record of %s %s; this program reads %s %s",
				 has_version, has_kind, version, kind);
	return 0;
}

int json_scan_document(const char *json, size_t length, size_t max,
		       const char *version, const char *kind,
		       struct json_object **ret, struct error *err)
{
	struct json_object *object;
	int r = json_scan_parse(json, length, max, &object, err);

	if (r < 0)
		return r;
	r = check_kind(object, version, kind, err);
	if (r < 0) {
		json_object_put(object);
		return r;
	}
	*ret = object;
	return 0;
}

void json_add(struct json_object *in, const char *key,
	      struct json_object *value)
{
	(void)json_object_object_add(in, key, value);
}

void json_add_text(struct json_object *in, const char *key, const char *text)
{
	if (text[0])
		json_add(in, key, json_object_new_string(text));
}

void json_add_number(struct json_object *in, const char *key, uint64_t n)
{
	json_add(in, key, json_object_new_int64((int64_t)n));
}

int json_finish(struct json_object *object, size_t max, char **ret_json,
		struct error *err)
{
	const char *text = json_object_to_json_string_ext(
		object,
		JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE);
	int r = 0;

	if (text && strlen(text) > max)
		r = error_set(err, E2BIG,
			      "the record has %zu bytes; at most %zu are kept",
			      strlen(text), max);
	else if (!text || !(*ret_json = strdup(text)))
		r = error_set(err, ENOMEM, "out of memory");
	json_object_put(object);
	return r;
}
