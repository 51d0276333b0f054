/* SPDX-License-Identifier: Apache-2.0 */
#include "volume/store/etcd/etcd_watch.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "volume/record/json_scan.h"
#include "volume/store/follow.h"
#include "volume/store/http/http_stream.h"
#include "volume/store/http/json_lines.h"

struct etcd_watching {
	struct follow follow;
	struct etcd_api *api;
	const char *key; /* borrowed */
	int (*read)(const struct etcd_item *item, const char *name,
		    struct store_object *ret, struct error *err);
	struct json_lines lines;
	bool behind; /* the last stream began at a moment yet to come */
};

static void version_set(struct etcd_watching *watch, int64_t revision)
{
	(void)snprintf(watch->follow.version, sizeof(watch->follow.version),
		       "%" PRId64, revision);
}

static int watched_item(void *watch_, const struct etcd_item *item,
			struct error *err)
{
	struct etcd_watching *watch = watch_;
	size_t length = strlen(watch->key);
	const char *name = item->key + length;
	struct store_object read;
	int r;

	if (strncmp(item->key, watch->key, length) != 0 ||
	    strlen(name) >= sizeof(read.name))
		return 0;
	if (item->deleted)
		return follow_drop(&watch->follow, name);
	r = watch->read(item, name, &read, err);
	if (r < 0)
		return r;
	r = follow_set(&watch->follow, &read, err);
	store_object_done(&read);
	return r;
}

static int watched_list(struct follow *follow, struct error *err)
{
	struct etcd_watching *watch = container_of(follow, struct etcd_watching,
						   follow);
	int64_t revision;
	int r = etcd_list(watch->api, watch->key, watched_item, watch,
			  &revision, err);

	if (r == 0)
		version_set(watch, revision + 1);
	watch->behind = false;
	return r;
}

/* ---- the stream ---- */

static int watch_canceled(const struct etcd_answer *answer, struct error *err)
{
	return error_set(err,
			 answer->compacted                      ? ESTALE
			 : strstr(answer->reason, "permission") ? EACCES
								: EHOSTUNREACH,
			 "etcd ends the watch: %s",
			 answer->compacted ? "compacted" : answer->reason);
}

/*
 * A member may be behind the one before it for a moment. If it stays so, etcd
 * was restored from a backup.
 */
static int watch_created(struct etcd_watching *watch,
			 const struct etcd_answer *answer, struct error *err)
{
	bool before = watch->behind;

	watch->behind = strtoll(watch->follow.version, NULL, 10) >
			answer->revision + 1;
	return before && watch->behind
		       ? error_set(err, ESTALE, "etcd went back in time")
		       : 0;
}

/*
 * Events of one revision may come in several answers: go on at the last one's,
 * and what comes again is not reported again.
 */
static int watched_answer(struct etcd_watching *watch,
			  const struct etcd_answer *answer, struct error *err)
{
	int r = 0;

	if (answer->canceled)
		return watch_canceled(answer, err);
	if (answer->created)
		r = watch_created(watch, answer, err);
	for (size_t i = 0; r == 0 && i < answer->count; i++) {
		r = watched_item(watch, &answer->items[i], err);
		if (r == 0)
			version_set(watch, answer->items[i].mod_revision);
	}
	if (r == 0 && answer->count == 0 && !answer->created)
		version_set(watch, answer->revision + 1); /* progress */
	if (r == 0)
		follow_well(&watch->follow);
	return r;
}

static int watched_line(void *watch, struct json_object *object,
			struct error *err)
{
	struct etcd_answer answer = {0};
	int r = etcd_answer_decode_stream(object, &answer, err);

	if (r < 0)
		return r;
	r = watched_answer(watch, &answer, err);
	etcd_answer_done(&answer);
	return r;
}

static int watched_data(void *watch_, const char *bytes, size_t length,
			struct error *err)
{
	struct etcd_watching *watch = watch_;

	return json_lines_feed(&watch->lines, bytes, length, watched_line,
			       watch, err);
}

static struct json_object *watch_body(const struct etcd_watching *watch)
{
	struct json_object *create = json_object_new_object();
	struct json_object *body = json_object_new_object();
	char end[ETCD_KEY_SIZE];

	etcd_key_end(watch->key, end);
	etcd_add_bytes(create, "key", watch->key);
	etcd_add_bytes(create, "range_end", end);
	json_add_text(create, "start_revision", watch->follow.version);
	json_add(create, "progress_notify", json_object_new_boolean(true));
	json_add(create, "fragment", json_object_new_boolean(true));
	json_add(body, "create_request", create);
	return body;
}

/* An answer that is no stream. */
static int watch_refused(const struct http_answer *answer, struct error *err)
{
	struct json_object *object = NULL, *inner = NULL;
	int r;

	if (answer->body)
		(void)json_scan_parse(answer->body, answer->length,
				      HTTP_BODY_MAX, &object, NULL);
	if (json_object_object_get_ex(object, "error", &inner) &&
	    json_object_is_type(inner, json_type_object))
		r = etcd_failure(inner, err);
	else
		r = etcd_failure(object, err);
	json_object_put(object);
	return r;
}

static int watched_stream(struct follow *follow, struct error *err)
{
	struct etcd_watching *watch = container_of(follow, struct etcd_watching,
						   follow);
	struct json_object *body = watch_body(watch);
	struct http_stream_request request = {
		.path = "/v3/watch",
		.body = json_object_to_json_string_ext(body,
						       JSON_C_TO_STRING_PLAIN),
		.timeout_ms = ETCD_WATCH_S * 1000,
		.first_ms = ETCD_ATTEMPT_MS,
		.stop_fd = follow->stop_fd,
	};
	struct http_answer answer = {0};
	int r = http_stream(watch->api->http, &request, watched_data, watch,
			    &answer, &follow->after_s, err);

	json_object_put(body);
	json_lines_done(&watch->lines); /* half a line is no event */
	if (r == 0 && answer.status != 0)
		r = watch_refused(&answer, err);
	http_answer_done(&answer);
	if (r == -EKEYEXPIRED) {
		etcd_api_forget(watch->api);
		r = -EHOSTUNREACH;
	}
	return r;
}

int etcd_watch(struct etcd_api *api, const char *key,
	       int (*read)(const struct etcd_item *item, const char *name,
			   struct store_object *ret, struct error *err),
	       int stop_fd, store_watcher watcher, void *context,
	       struct error *err)
{
	struct etcd_watching watch = {
		.follow = {.list = watched_list,
			   .stream = watched_stream,
			   .stop_fd = stop_fd,
			   .known = {.watcher = watcher, .context = context}},
		.api = api,
		.key = key,
		.read = read,
	};

	return follow_run(&watch.follow, err);
}
