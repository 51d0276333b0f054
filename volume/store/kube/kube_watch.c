/* SPDX-License-Identifier: Apache-2.0 */
#include "volume/store/kube/kube_watch.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "base/clock.h"
#include "volume/record/json_scan.h"
#include "volume/store/kube/api/kube_list.h"
#include "volume/store/kube/api/kube_stream.h"
#include "volume/store/kube/api/kube_watch_event.h"
#include "volume/store/watch_diff.h"

#define LIST_MS        10000 /* for a page; stop_fd waits for it */
#define PAUSE_FIRST_MS 500   /* after trouble; doubled while it lasts */
#define PAUSE_MAX_MS   30000
#define GOOD_MS        10000 /* a stream that lasted so long was good */
#define STREAM_MS      ((KUBE_WATCH_S + 30) * 1000)

struct watch {
	struct kube_http *http;
	const struct kube_resource *resource;
	int (*record)(const struct kube_resource *resource,
		      struct json_object *object, struct store_object *ret,
		      struct error *err);
	int stop_fd;
	struct watch_diff known;
	struct kube_watch_events events;
	char path[KUBE_PATH_SIZE];
	char version[RECORD_VERSION_SIZE]; /* to go on from; "": list first */
	unsigned failures;                 /* since a stream was good */
	bool listed;                       /* at least once */
	bool cut;                          /* we told that we have nothing */
	int verdict; /* of the watcher; not 0: it ends with that */
	int64_t pause_ms;
	int64_t after_s; /* the server's Retry-After; -1: none */
};

/* ---- objects ---- */

static void all_well(struct watch *watch)
{
	watch->failures = 0;
	watch->pause_ms = PAUSE_FIRST_MS;
}

/* Remember the object's version, a moment to go on from. */
static void watch_remember(struct watch *watch, struct json_object *object)
{
	const char *version = kube_text(object, "metadata", "resourceVersion");

	if (version[0] && strlen(version) < sizeof(watch->version))
		(void)strcpy(watch->version, version);
	all_well(watch);
}

static int object_gone(struct watch *watch, struct json_object *object)
{
	watch->verdict = watch_diff_drop(&watch->known,
					 kube_text(object, "metadata", "name"));
	return watch->verdict;
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
	r = watch_diff_set(&watch->known, &read, err);
	store_object_done(&read);
	watch->verdict = r;
	return r;
}

static int list_item(void *watch_, struct json_object *item, struct error *err)
{
	struct watch *watch = watch_;

	json_add_text(item, "apiVersion", RECORD_API_VERSION);
	json_add_text(item, "kind", watch->resource->kind);
	return object_there(watch, item, err);
}

static int watch_list(struct watch *watch, struct error *err)
{
	int r;

	watch_diff_begin(&watch->known);
	r = kube_list(watch->http, watch->path, LIST_MS, list_item, watch,
		      watch->version, err);
	if (r != 0)
		return r;
	if (!watch->version[0])
		return error_set(err, EPROTO, "a list without a version");
	watch->cut = false;
	watch->listed = true;
	watch->verdict = watch_diff_end(&watch->known);
	return watch->verdict;
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

static int stream_data(void *watch_, const char *bytes, size_t length,
		       struct error *err)
{
	struct watch *watch = watch_;

	return kube_watch_events_feed(&watch->events, bytes, length,
				      watch_event, watch, err);
}

static int watch_stream(struct watch *watch, struct error *err)
{
	char path[KUBE_PATH_SIZE + RECORD_VERSION_SIZE + 128];
	int64_t start_ms = clock_ms();
	struct kube_answer answer;
	bool lasted;
	int r;

	(void)snprintf(path, sizeof(path),
		       "%s?watch=1&allowWatchBookmarks=true&timeoutSeconds=%d"
		       "&resourceVersion=%s",
		       watch->path, KUBE_WATCH_S, watch->version);
	r = kube_stream(watch->http, path, STREAM_MS, watch->stop_fd,
			stream_data, watch, &answer, &watch->after_s, err);
	kube_watch_events_done(&watch->events); /* half a line is no event */
	if (r == 0 && answer.status != 0)
		r = kube_refused(watch->http, &answer, path, err);
	kube_answer_done(&answer);
	lasted = clock_ms() - start_ms >= GOOD_MS;
	if (lasted)
		all_well(watch);
	/* A server may end one at any time, but not each at once. */
	if (r == 0 && !lasted)
		r = error_set(err, EHOSTUNREACH,
			      "the API server ends the watch at once");
	return r;
}

/* ---- trouble ---- */

static bool watch_stopped(const struct watch *watch, int64_t wait_ms)
{
	struct pollfd stop = {.fd = watch->stop_fd, .events = POLLIN};

	return poll(&stop, 1, (int)wait_ms) > 0;
}

/* Up to half of it is by chance, so that a crowd does not come back as one. */
static int64_t pause_next(struct watch *watch)
{
	int64_t ms = watch->pause_ms;
	unsigned chance = 0;

	(void)getrandom(&chance, sizeof(chance), 0); /* or no chance */
	watch->pause_ms = 2 * ms < PAUSE_MAX_MS ? 2 * ms : PAUSE_MAX_MS;
	if (watch->after_s >= 0)
		ms = watch->after_s * 1000;
	watch->after_s = -1;
	return ms + chance % (ms / 2 + 1);
}

/*
 * Tell whether trying again may help. A server that starts forbids for a moment
 * what it allowed before.
 */
static bool may_pass(const struct watch *watch, int r)
{
	return (r == -EACCES && watch->listed) || r == -EHOSTUNREACH ||
	       r == -EPROTO || r == -EMSGSIZE || r == -ESTALE ||
	       r == -ETIMEDOUT;
}

/*
 * Decide how to go on after trouble. The first time is nobody's business: the
 * stream goes on where it was, or a list has the missed changes. 1: go on; else
 * the watch's end.
 */
static int after_trouble(struct watch *watch, int r, struct error *err)
{
	if (r == -ECANCELED)
		return 0;
	if (!may_pass(watch, r))
		return r;
	watch->failures++;
	/* The server forgot that moment, or talks nonsense. */
	if (r != -EHOSTUNREACH)
		watch->version[0] = '\0';
	if (r == -ESTALE && watch->failures == 1)
		return 1;
	if (watch->failures > 1) {
		watch->version[0] = '\0';
		if (!watch->cut)
			watch->verdict = watch->known.watcher(
				watch->known.context, STORE_CHANGE_CUT, NULL,
				NULL, error_text(err));
		watch->cut = true;
		if (watch->verdict != 0)
			return watch->verdict;
	}
	return watch_stopped(watch, pause_next(watch)) ? 0 : 1;
}

static int watch_follow(struct watch *watch, struct error *err)
{
	int r;

	for (;;) {
		struct error why = {0};

		r = watch->version[0] ? watch_stream(watch, &why)
				      : watch_list(watch, &why);
		if (watch->verdict != 0)
			return watch->verdict;
		if (r < 0)
			r = after_trouble(watch, r, &why);
		else
			r = watch_stopped(watch, 0) ? 0 : 1;
		if (r == 1)
			continue;
		return r < 0 && watch->verdict == 0
			       ? error_set(err, -r, "%s", error_text(&why))
			       : r;
	}
}

int kube_watch(struct kube_http *http, const struct kube_resource *resource,
	       int (*record)(const struct kube_resource *resource,
			     struct json_object *object,
			     struct store_object *ret, struct error *err),
	       int stop_fd, store_watcher watcher, void *context,
	       struct error *err)
{
	struct watch watch = {
		.http = http,
		.resource = resource,
		.record = record,
		.stop_fd = stop_fd,
		.known = {.watcher = watcher, .context = context},
		.pause_ms = PAUSE_FIRST_MS,
		.after_s = -1,
	};
	int r = kube_path(http, resource, NULL, NULL, watch.path, err);

	if (r == 0)
		r = watch_follow(&watch, err);
	kube_watch_events_done(&watch.events);
	watch_diff_done(&watch.known);
	return r;
}
