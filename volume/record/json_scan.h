/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading the members of JSON objects with bounds. The first thing that is
 * wrong makes the scan fail for good, so a decoder reads everything and asks
 * once at the end:
 *
 *	struct json_scan scan = { .err = err };
 *	json_scan_at(&scan, "metadata");
 *	json_scan_text(&scan, meta, "name", name, sizeof(name), true);
 *	return scan.r;
 *
 * The objects given may be NULL: then a required member is missing.
 */
#ifndef VOLUME_JSON_SCAN_H
#define VOLUME_JSON_SCAN_H

#include <json-c/json.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "volume/record/label.h"

struct json_scan {
	int r;             /* 0, or the negative errno of the first problem */
	struct error *err; /* may be NULL */
	char path[96];     /* of the object now read, for messages */
};

/*
 * Parse @length bytes (at most @max, at most 32 levels, UTF-8, nothing after
 * it) into an object. Returned owned, json_object_put().
 */
int json_scan_parse(const char *json, size_t length, size_t max,
		    struct json_object **ret, struct error *err);

/*
 * The same for a document of this apiVersion and kind; -EPROTONOSUPPORT when
 * it is of another.
 */
int json_scan_document(const char *json, size_t length, size_t max,
		       const char *version, const char *kind,
		       struct json_object **ret, struct error *err);

void json_scan_at(struct json_scan *scan, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
/* -EINVAL at the path. */
void json_scan_fail(struct json_scan *scan, const char *key, const char *fmt,
		    ...) __attribute__((format(printf, 3, 4)));

/* A member that is an object or array; borrowed; NULL when it is missing. */
struct json_object *json_scan_object(struct json_scan *scan,
				     struct json_object *in, const char *key,
				     bool required);
struct json_object *json_scan_array(struct json_scan *scan,
				    struct json_object *in, const char *key,
				    size_t max, bool required);

/* Text that fits in @size bytes with its NUL. Missing: @ret is left alone. */
void json_scan_text(struct json_scan *scan, struct json_object *in,
		    const char *key, char *ret, size_t size, bool required);
/* A whole number within [min, max]. Missing: @ret is left alone. */
uint64_t json_scan_number(struct json_scan *scan, struct json_object *in,
			  const char *key, uint64_t min, uint64_t max,
			  bool required);
bool json_scan_flag(struct json_scan *scan, struct json_object *in,
		    const char *key);
/* Scan one of @n names; return its index. */
unsigned json_scan_enum(struct json_scan *scan, struct json_object *in,
			const char *key, const char *const *names, size_t n);
/* RFC 3339 in UTC ("2026-01-31T10:00:00Z") as seconds since 1970. */
int64_t json_scan_time(struct json_scan *scan, struct json_object *in,
		       const char *key);
void json_scan_labels(struct json_scan *scan, struct json_object *in,
		      const char *key, struct labels *ret);

/* The other way: members of an object being built. "" is left out. */
void json_add(struct json_object *in, const char *key,
	      struct json_object *value);
void json_add_text(struct json_object *in, const char *key, const char *text);
void json_add_number(struct json_object *in, const char *key, uint64_t n);
struct json_object *json_from_time(int64_t seconds);
struct json_object *json_from_labels(const struct labels *labels);

/* Takes @object; its compact text, returned owned. -E2BIG over @max bytes. */
int json_finish(struct json_object *object, size_t max, char **ret_json,
		struct error *err);

#endif
