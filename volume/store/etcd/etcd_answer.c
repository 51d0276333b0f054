/* SPDX-License-Identifier: Apache-2.0 */
#include "volume/store/etcd/etcd_answer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "volume/record/json_scan.h"
#include "volume/store/http/base64.h"

/* gRPC, status codes */
enum {
	GRPC_UNKNOWN = 2,
	GRPC_INVALID_ARGUMENT = 3,
	GRPC_NOT_FOUND = 5,
	GRPC_PERMISSION_DENIED = 7,
	GRPC_RESOURCE_EXHAUSTED = 8,
	GRPC_FAILED_PRECONDITION = 9,
	GRPC_OUT_OF_RANGE = 11,
	GRPC_UNIMPLEMENTED = 12,
	GRPC_UNAUTHENTICATED = 16,
};

/* ---- members ---- */

static struct json_object *member(struct json_object *in, const char *key)
{
	struct json_object *found = NULL;

	(void)json_object_object_get_ex(in, key, &found);
	return found;
}

static const char *member_string(struct json_object *in, const char *key)
{
	struct json_object *found = member(in, key);

	return json_object_is_type(found, json_type_string)
		       ? json_object_get_string(found)
		       : "";
}

/* A number as text, or as a number; missing: 0. */
static int64_t member_int64(struct json_scan *scan, struct json_object *in,
			    const char *key)
{
	struct json_object *found = member(in, key);
	const char *text;
	char *end = NULL;
	int64_t n;

	if (!found)
		return 0;
	if (json_object_is_type(found, json_type_int))
		return json_object_get_int64(found);
	if (!json_object_is_type(found, json_type_string)) {
		json_scan_fail(scan, key, "is no number");
		return 0;
	}
	text = json_object_get_string(found);
	errno = 0;
	n = strtoll(text, &end, 10);
	if (!text[0] || *end || errno) {
		json_scan_fail(scan, key, "is no number");
		return 0;
	}
	return n;
}

static bool member_flag(struct json_object *in, const char *key)
{
	return json_object_get_boolean(member(in, key));
}

/* Returned owned; it has no NUL but the last. */
static char *member_bytes(struct json_scan *scan, struct json_object *in,
			  const char *key, size_t *ret_length)
{
	char *bytes = base64_decode(member_string(in, key), ret_length);

	if (bytes && strlen(bytes) == *ret_length)
		return bytes;
	free(bytes);
	json_scan_fail(scan, key, "is no text in base64");
	return NULL;
}

/* ---- items ---- */

static void item_read(struct json_scan *scan, struct json_object *kv,
		      struct etcd_item *ret)
{
	size_t length = 0;
	char *key = member_bytes(scan, kv, "key", &length);

	if (key && (length == 0 || length >= sizeof(ret->key)))
		json_scan_fail(scan, "key", "has no bytes or too many");
	else if (key)
		memcpy(ret->key, key, length + 1);
	free(key);
	ret->mod_revision = member_int64(scan, kv, "mod_revision");
	if (scan->r == 0)
		ret->value = member_bytes(scan, kv, "value", &ret->length);
}

/*
 * Add the items of an array at @key. @inner: each is {"type": ..., @inner:
 * ITEM}, an event; NULL: an item.
 */
static void items_read(struct json_scan *scan, struct json_object *in,
		       const char *key, const char *inner,
		       struct etcd_answer *answer)
{
	struct json_object *array = json_scan_array(scan, in, key,
						    ETCD_ITEMS_MAX, false);
	size_t n = array ? json_object_array_length(array) : 0;
	struct etcd_item *more;

	if (n == 0 || scan->r < 0)
		return;
	more = reallocarray(answer->items, answer->count + n, sizeof(*more));
	if (!more) {
		scan->r = error_set(scan->err, ENOMEM, "out of memory");
		return;
	}
	answer->items = more;
	for (size_t i = 0; i < n && scan->r == 0; i++) {
		struct json_object *item = json_object_array_get_idx(array, i);
		struct etcd_item *at = &answer->items[answer->count];

		*at = (struct etcd_item){0};
		if (inner) {
			at->deleted = strcmp(member_string(item, "type"),
					     "DELETE") == 0;
			item = json_scan_object(scan, item, inner, true);
		}
		item_read(scan, item, at);
		answer->count++;
	}
}

/* The ranges among a transaction's results. */
static void responses_read(struct json_scan *scan, struct json_object *in,
			   struct etcd_answer *answer)
{
	struct json_object *array = json_scan_array(scan, in, "responses", 128,
						    false);
	size_t n = array ? json_object_array_length(array) : 0;

	for (size_t i = 0; i < n && scan->r == 0; i++) {
		struct json_object *range = json_scan_object(
			scan, json_object_array_get_idx(array, i),
			"response_range", false);

		if (range)
			items_read(scan, range, "kvs", NULL, answer);
	}
}

/* ---- answers ---- */

void etcd_answer_done(struct etcd_answer *answer)
{
	for (size_t i = 0; i < answer->count; i++)
		free(answer->items[i].value);
	free(answer->items);
	*answer = (struct etcd_answer){0};
}

int etcd_answer_decode(struct json_object *object, struct etcd_answer *ret,
		       struct error *err)
{
	struct error why = {0};
	struct json_scan scan = {.err = &why};
	struct etcd_answer answer = {0};
	const char *reason = member_string(object, "cancel_reason");

	answer.revision = member_int64(
		&scan, json_scan_object(&scan, object, "header", true),
		"revision");
	answer.succeeded = member_flag(object, "succeeded");
	answer.more = member_flag(object, "more");
	answer.lease = member_int64(&scan, object, "ID");
	answer.ttl_s = member_int64(&scan, object, "TTL");
	answer.created = member_flag(object, "created");
	answer.canceled = member_flag(object, "canceled");
	answer.compacted = member_int64(&scan, object, "compact_revision");
	(void)log_quote(answer.reason, sizeof(answer.reason), reason,
			(unsigned)strnlen(reason, ETCD_TEXT_SIZE));
	items_read(&scan, object, "kvs", NULL, &answer);
	items_read(&scan, object, "events", "kv", &answer);
	responses_read(&scan, object, &answer);
	if (answer.revision < 0)
		json_scan_fail(&scan, "revision", "is negative");
	if (scan.r < 0) {
		etcd_answer_done(&answer);
		return error_set(err, scan.r == -ENOMEM ? ENOMEM : EPROTO,
				 "no answer of etcd: %.200s", why.msg);
	}
	*ret = answer;
	return 0;
}

int etcd_answer_decode_stream(struct json_object *object,
			      struct etcd_answer *ret, struct error *err)
{
	struct json_object *failure = member(object, "error");

	return failure ? etcd_failure(failure, err)
		       : etcd_answer_decode(member(object, "result"), ret, err);
}

const struct etcd_item *etcd_answer_item(const struct etcd_answer *answer,
					 const char *key)
{
	for (size_t i = 0; i < answer->count; i++) {
		if (strcmp(answer->items[i].key, key) == 0)
			return &answer->items[i];
	}
	return NULL;
}

/* ---- errors ---- */

/* etcd, rpctypes/error.go: what it counts as bad arguments. */
static int argument_failure(const char *said, const char *text,
			    struct error *err)
{
	if (strstr(said, "auth store is old"))
		return error_set(err, EKEYEXPIRED, "etcd: %s", text);
	if (strstr(said, "authentication") || strstr(said, "user name"))
		return error_set(err, EACCES,
				 "etcd does not accept our user: %s; look at "
				 "user= and password-file=",
				 text);
	if (strstr(said, "too large"))
		return error_set(err, E2BIG, "etcd: %s", text);
	return error_set(err, EINVAL, "etcd refused it: %s", text);
}

int etcd_failure(struct json_object *object, struct error *err)
{
	struct json_object *code = member(object, "code");
	const char *said = member_string(object, "message");
	char text[ETCD_TEXT_SIZE];

	if (!code)
		code = member(object, "grpc_code");
	if (!json_object_is_type(code, json_type_int))
		return error_set(err, EPROTO,
				 "the address does not answer as etcd 3.4 or "
				 "later with its JSON gateway");
	if (!said[0])
		said = member_string(object, "error");
	(void)log_quote(text, sizeof(text), said,
			(unsigned)strnlen(said, ETCD_TEXT_SIZE));
	switch (json_object_get_int(code)) {
	case GRPC_UNAUTHENTICATED:
		return error_set(err, EKEYEXPIRED, "etcd: %s", text);
	case GRPC_PERMISSION_DENIED:
		return error_set(err, EACCES,
				 "etcd: %s; grant the user's role readwrite on "
				 "the prefix",
				 text);
	case GRPC_INVALID_ARGUMENT:
	case GRPC_FAILED_PRECONDITION: return argument_failure(said, text, err);
	case GRPC_NOT_FOUND: return error_set(err, ENOENT, "etcd: %s", text);
	case GRPC_OUT_OF_RANGE: return error_set(err, ESTALE, "etcd: %s", text);
	case GRPC_RESOURCE_EXHAUSTED:
		return error_set(
			err, strstr(said, "too large") ? E2BIG : EHOSTUNREACH,
			"etcd has no room: %s; try again later", text);
	case GRPC_UNIMPLEMENTED:
		return error_set(err, EPROTO,
				 "etcd is too old: 3.4 or later is needed");
	default:
		return error_set(err, EHOSTUNREACH,
				 "etcd failed: %s; try again later", text);
	}
}
