/* SPDX-License-Identifier: Apache-2.0 */
#include "volume/store/kube/kube_events.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "volume/record/json_scan.h"

#define COMPONENT  "tributary"
#define ANSWER_MS  5000 /* nobody waits long to event_send something */
#define NOTES_SIZE 1024 /* bytes of a message; Kubernetes, Event */
#define FULL_SIZE  (RECORD_NAME_SIZE + 18)

static const struct kube_resource events = {
	.kind = "Event", .group = "", .version = "v1", .plural = "events"};

struct kube_events {
	struct kube_http *http;
	pthread_mutex_t lock; /* guards what follows */
	int64_t free_ms;      /* of clock_ms(): when all may be told again */
};

int kube_events_new(struct kube_http *http, struct kube_events **ret,
		    struct error *err)
{
	struct kube_events *notices = calloc(1, sizeof(*notices));

	if (!notices)
		return error_set(err, ENOMEM, "out of memory");
	notices->http = http;
	(void)pthread_mutex_init(&notices->lock, NULL);
	*ret = notices;
	return 0;
}

void kube_events_free(struct kube_events *notices)
{
	if (!notices)
		return;
	(void)pthread_mutex_destroy(&notices->lock);
	free(notices);
}

/* Each costs some rest; as much as is left may be used at once. */
static bool may_tell(struct kube_events *notices)
{
	const int64_t one_ms = KUBE_EVENT_REST_S * 1000;
	int64_t now = clock_ms();
	bool may;

	(void)pthread_mutex_lock(&notices->lock);
	if (notices->free_ms < now)
		notices->free_ms = now;
	may = notices->free_ms - now <= (KUBE_EVENTS_MAX - 1) * one_ms;
	if (may)
		notices->free_ms += one_ms;
	(void)pthread_mutex_unlock(&notices->lock);
	return may;
}

/* FNV-1a (draft-eastlake-fnv, 64 bits): the same name in every process. */
static uint64_t event_hash(uint64_t seed, const char *text)
{
	for (; *text; text++)
		seed = (seed ^ (uint8_t)*text) * 0x100000001b3;
	return (seed ^ 0xff) * 0x100000001b3;
}

static void full_name(const struct store_notice *notice, char *ret)
{
	uint64_t of = event_hash(0xcbf29ce484222325, notice->kind);

	of = event_hash(event_hash(of, notice->name), notice->reason);
	(void)snprintf(ret, FULL_SIZE, "%s.%016" PRIx64, notice->name, of);
}

static struct json_object *about_new(struct kube_events *notices,
				     const struct kube_resource *about,
				     struct json_object *object)
{
	struct json_object *ref = json_object_new_object();
	char version[64];

	(void)snprintf(version, sizeof(version), "%s/%s", about->group,
		       about->version);
	json_add_text(ref, "apiVersion", version);
	json_add_text(ref, "kind", about->kind);
	json_add_text(ref, "namespace", kube_http_namespace(notices->http));
	json_add_text(ref, "name", kube_text(object, "metadata", "name"));
	json_add_text(ref, "uid", kube_text(object, "metadata", "uid"));
	return ref;
}

/* Fill in the fields that the first Event and each later one have alike. */
static void event_fill(struct kube_events *notices, struct json_object *event,
		       const struct store_notice *notice, uint64_t count)
{
	char message[NOTES_SIZE];

	(void)snprintf(message, sizeof(message), "%s", notice->message);
	json_add_text(event, "type", notice->warning ? "Warning" : "Normal");
	json_add_text(event, "message", message);
	json_add_number(event, "count", count);
	json_add(event, "lastTimestamp",
		 json_from_time(kube_http_now(notices->http)));
}

static struct json_object *event_new(struct kube_events *notices,
				     const struct store_notice *notice,
				     const char *name,
				     struct json_object *about)
{
	struct json_object *event = json_object_new_object();
	struct json_object *meta = json_object_new_object();
	struct json_object *source = json_object_new_object();

	json_add_text(event, "apiVersion", "v1");
	json_add_text(event, "kind", "Event");
	json_add_text(meta, "name", name);
	json_add_text(meta, "namespace", kube_http_namespace(notices->http));
	json_add(event, "metadata", meta);
	json_add_text(event, "reason", notice->reason);
	json_add_text(source, "component", COMPONENT);
	json_add(event, "source", source);
	json_add(event, "firstTimestamp",
		 json_from_time(kube_http_now(notices->http)));
	json_add(event, "involvedObject", about);
	event_fill(notices, event, notice, 1);
	return event;
}

/*
 * Tell whether the Event is of this very object. After an object was deleted
 * and made again, its Events begin anew.
 */
static bool event_is_of(struct json_object *event, struct json_object *about)
{
	struct json_object *was = NULL;

	return json_object_object_get_ex(event, "involvedObject", &was) &&
	       strcmp(kube_text(was, NULL, "uid"),
		      kube_text(about, NULL, "uid")) == 0;
}

static uint64_t event_count(struct json_object *event)
{
	struct json_object *count = NULL;
	int64_t n = 0;

	if (json_object_object_get_ex(event, "count", &count))
		n = json_object_get_int64(count);
	return n > 0 && n < INT32_MAX ? (uint64_t)n : 0;
}

/* @about is borrowed. -ESTALE, -ENOENT: somebody else counted, or it ended. */
static int count_again(struct kube_events *notices,
		       const struct store_notice *notice, const char *path,
		       struct json_object *about, struct error *err)
{
	struct json_object *event = NULL;
	int r = kube_call_within(notices->http, "GET", path, NULL, true,
				 ANSWER_MS, &event, err);

	if (r < 0)
		return r;
	if (event_is_of(event, about)) {
		event_fill(notices, event, notice, event_count(event) + 1);
	} else {
		json_add(event, "firstTimestamp",
			 json_from_time(kube_http_now(notices->http)));
		json_add(event, "involvedObject", json_object_get(about));
		event_fill(notices, event, notice, 1);
	}
	r = kube_call_within(notices->http, "PUT", path, event, false,
			     ANSWER_MS, NULL, err);
	json_object_put(event);
	return r;
}

static int event_send(struct kube_events *notices,
		      const struct store_notice *notice,
		      struct json_object *about, struct error *err)
{
	char path[KUBE_PATH_SIZE], name[FULL_SIZE];
	struct json_object *event;
	int r;

	full_name(notice, name);
	r = kube_path(notices->http, &events, NULL, NULL, path, err);
	if (r < 0)
		return r;
	event = event_new(notices, notice, name, json_object_get(about));
	r = kube_call_within(notices->http, "POST", path, event, false,
			     ANSWER_MS, NULL, err);
	json_object_put(event);
	if (r != -EEXIST)
		return r;
	r = kube_path(notices->http, &events, name, NULL, path, err);
	if (r == 0)
		r = count_again(notices, notice, path, about, err);
	return r == -ESTALE || r == -ENOENT ? 0 : r;
}

int kube_event_send(struct kube_events *notices,
		    const struct kube_resource *about,
		    const struct store_notice *notice, struct error *err)
{
	struct json_object *object = NULL, *ref;
	char path[KUBE_PATH_SIZE];
	int r = kube_path(notices->http, about, notice->name, NULL, path, err);

	if (r < 0 || !may_tell(notices))
		return r;
	r = kube_call_within(notices->http, "GET", path, NULL, true, ANSWER_MS,
			     &object, err);
	if (r < 0)
		return r == -ENOENT ? 0 : r;
	ref = about_new(notices, about, object);
	r = event_send(notices, notice, ref, err);
	json_object_put(ref);
	json_object_put(object);
	return r;
}
