/* SPDX-License-Identifier: Apache-2.0 */
#include "volume/store/kube/kube_watch.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "volume/record/json_scan.h"
#include "volume/store/follow.h"
#include "volume/store/http/http_stream.h"
#include "volume/store/http/json_lines.h"
#include "volume/store/kube/api/kube_list.h"
#include "volume/store/kube/api/kube_watch_event.h"

#define LIST_MS   10000 /* for a page; stop_fd waits for it */
#define STREAM_MS ((KUBE_WATCH_S + 30) * 1000)

struct watch {
	struct follow follow;
	struct kube_http *http;
	const struct kube_resource *resource;
	int (*record)(const struct kube_resource *resource,
		      struct json_object *object, struct store_object *ret,
		      struct error *err);
	struct json_lines lines;
	char path[KUBE_PATH_SIZE];
};

/* ---- objects ---- */

/* Remember the object's version, a moment to go on from. */
static void watch_remember(struct watch *watch, struct json_object *object)
{
	const char *version = kube_text(object, "metadata", "resourceVersion");

	if (version[0] && strlen(version) < sizeof(watch->follow.version))
		(void)strcpy(watch->follow.version, version);
	follow_well(&watch->follow);
}

static int object_gone(struct watch *watch, struct json_object *object)
{
	return follow_drop(&watch->follow,
			   kube_text(object, "metadata", "name"));
}

static int object_there(struct watch *watch, struct json_object *object,
			struct error *err)
{
	struct store_object read;
	int r = watch->record(watch->resource, object, &read, err);

	if (r == -ENOENT)
		return object_gone(watch, object);
	if (r < 0)
		return r;
	r = follow_set(&watch->follow, &read, err);
	store_object_done(&read);
	return r;
}

static int list_item(void *watch_, struct json_object *item, struct error *err)
{
	struct watch *watch = watch_;

	json_add_text(item, "apiVersion", RECORD_API_VERSION);
	json_add_text(item, "kind", watch->resource->kind);
	return object_there(watch, item, err);
}

static int watch_list(struct follow *follow, struct error *err)
{
	struct watch *watch = container_of(follow, struct watch, follow);

	return kube_list(watch->http, watch->path, LIST_MS, list_item, watch,
			 follow->version, err);
}

/* ---- the stream ---- */

static int watch_event(void *watch_, enum kube_watch_event_type type,
		       struct json_object *object, struct error *err)
{
	struct watch *watch = watch_;
	int r = 0;

	switch (type) {
	case KUBE_WATCH_EVENT_ADDED:
	case KUBE_WATCH_EVENT_MODIFIED:
		r = object_there(watch, object, err);
		break;
	case KUBE_WATCH_EVENT_DELETED: r = object_gone(watch, object); break;
	case KUBE_WATCH_EVENT_BOOKMARK: break;
	case KUBE_WATCH_EVENT_ERROR:
		return error_set(err, ESTALE,
				 "the API server ends the watch: "
				 "%.200s",
				 kube_text(object, NULL, "message"));
	}
	if (r == 0)
		watch_remember(watch, object);
	return r;
}

static int watch_line(void *watch, struct json_object *object,
		      struct error *err)
{
	return kube_watch_event_tell(object, watch_event, watch, err);
}

static int stream_data(void *watch_, const char *bytes, size_t length,
		       struct error *err)
{
	struct watch *watch = watch_;

	return json_lines_feed(&watch->lines, bytes, length, watch_line, watch,
			       err);
}

static int watch_stream(struct follow *follow, struct error *err)
{
	struct watch *watch = container_of(follow, struct watch, follow);
	char path[KUBE_PATH_SIZE + RECORD_VERSION_SIZE + 128];
	struct http_stream_request request = {.path = path,
					      .timeout_ms = STREAM_MS,
					      .stop_fd = follow->stop_fd};
	struct http_answer answer;
	int r;

	(void)snprintf(path, sizeof(path),
		       "%s?watch=1&allowWatchBookmarks=true&timeoutSeconds=%d"
		       "&resourceVersion=%s",
		       watch->path, KUBE_WATCH_S, follow->version);
	r = http_stream(watch->http->client, &request, stream_data, watch,
			&answer, &follow->after_s, err);
	json_lines_done(&watch->lines); /* half a line is no event */
	if (r == 0 && answer.status != 0)
		r = kube_refused(watch->http, &answer, path, err);
	http_answer_done(&answer);
	return r;
}

int kube_watch(struct kube_http *http, const struct kube_resource *resource,
	       int (*record)(const struct kube_resource *resource,
			     struct json_object *object,
			     struct store_object *ret, struct error *err),
	       int stop_fd, store_watcher watcher, void *context,
	       struct error *err)
{
	struct watch watch = {
		.follow = {.list = watch_list,
			   .stream = watch_stream,
			   .stop_fd = stop_fd,
			   .known = {.watcher = watcher, .context = context}},
		.http = http,
		.resource = resource,
		.record = record,
	};
	int r = kube_path(http, resource, NULL, NULL, watch.path, err);

	return r < 0 ? r : follow_run(&watch.follow, err);
}
