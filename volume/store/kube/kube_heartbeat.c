/* SPDX-License-Identifier: Apache-2.0 */
#include "volume/store/kube/kube_heartbeat.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "volume/record/json_scan.h"
#include "volume/store/kube/api/kube_list.h"
#include "volume/store/kube/api/kube_time.h"
#include "volume/store/lease_who.h"

#define LABEL     "union.io/heartbeat"
#define SELECTOR  "labelSelector=union.io%2Fheartbeat" /* it exists */
#define PREFIX    "heartbeat-"
#define GROUP     "coordination.k8s.io"
#define BEAT_MS   5000 /* for the answer; the next beat comes soon */
#define TRIES_MAX 3    /* somebody else writes it meanwhile */
#define FULL_SIZE (sizeof(PREFIX) + RECORD_NAME_SIZE)

static const struct kube_resource resource = {.kind = "Lease",
					      .group = GROUP,
					      .version = "v1",
					      .plural = "leases",
					      .singular = "lease"};

struct kube_heartbeats {
	struct kube_http *http;
	char identity[LEASE_MACHINE_SIZE];
	pthread_mutex_t lock; /* guards what follows, and one beat at a time */
	struct json_object *last; /* as last written; NULL: none */
};

int kube_heartbeats_new(struct kube_http *http, struct kube_heartbeats **ret,
			struct error *err)
{
	struct kube_heartbeats *beats = calloc(1, sizeof(*beats));
	int r;

	if (!beats)
		return error_set(err, ENOMEM, "out of memory");
	r = lease_machine_make(beats->identity, err);
	if (r < 0) {
		free(beats);
		return r;
	}
	beats->http = http;
	(void)pthread_mutex_init(&beats->lock, NULL);
	*ret = beats;
	return 0;
}

void kube_heartbeats_free(struct kube_heartbeats *beats)
{
	if (!beats)
		return;
	json_object_put(beats->last);
	(void)pthread_mutex_destroy(&beats->lock);
	free(beats);
}

/* The name of its Lease, and the path of that; @full: FULL_SIZE bytes. */
static int heartbeat_path(struct kube_heartbeats *beats, const char *name,
			  char *full, char *path, struct error *err)
{
	int r = kube_name_check(RECORD_KIND_NODE, name, err);

	if (r < 0)
		return r;
	(void)snprintf(full, FULL_SIZE, PREFIX "%s", name);
	return kube_path(beats->http, &resource, full, NULL, path, err);
}

/* ---- beating ---- */

static void lease_fill(struct kube_heartbeats *beats,
		       struct json_object *object)
{
	struct json_object *spec = json_object_new_object();

	json_add_text(spec, "holderIdentity", beats->identity);
	json_add_number(spec, "leaseDurationSeconds", STORE_BEAT_LOST_S);
	json_add(spec, "renewTime", kube_time_new(kube_http_now(beats->http)));
	json_add(object, "spec", spec);
}

static struct json_object *lease_new(struct kube_heartbeats *beats,
				     const char *full)
{
	struct json_object *object = json_object_new_object();
	struct json_object *meta = json_object_new_object();
	struct json_object *labels = json_object_new_object();

	json_add_text(object, "apiVersion", GROUP "/v1");
	json_add_text(object, "kind", "Lease");
	json_add_text(labels, LABEL, "node");
	json_add_text(meta, "name", full);
	json_add(meta, "labels", labels);
	json_add(object, "metadata", meta);
	lease_fill(beats, object);
	return object;
}

/* -1: it says nothing. */
static int64_t heartbeat_age(struct kube_heartbeats *beats,
			     struct json_object *object)
{
	int64_t at = kube_time_of(object, "spec", "renewTime");
	int64_t age = kube_http_now(beats->http) - at;

	return at == 0 ? -1 : age > 0 ? age : 0;
}

/* Another machine that is alive beats for this node. */
static int holder_check(struct kube_heartbeats *beats,
			struct json_object *object, const char *name,
			struct error *err)
{
	const char *holder = kube_text(object, "spec", "holderIdentity");
	int64_t age = heartbeat_age(beats, object);

	if (!holder[0] || strcmp(holder, beats->identity) == 0 || age < 0 ||
	    age > STORE_BEAT_LOST_S)
		return 0;
	return error_set(err, EBUSY,
			 "another machine, %.100s, says that it is node '%s', "
			 "%" PRId64 " s ago: two machines of one name?",
			 holder, name, age);
}

/* Write the lease that is there, at @version as read. */
static int beat_again(struct kube_heartbeats *beats, const char *path,
		      struct json_object *object, struct json_object **ret,
		      struct error *err)
{
	lease_fill(beats, object);
	return kube_call_within(beats->http, "PUT", path, object, true, BEAT_MS,
				ret, err);
}

static int beat_first(struct kube_heartbeats *beats, const char *name,
		      const char *full, const char *path,
		      struct json_object **ret, struct error *err)
{
	struct json_object *object = NULL;
	char all[KUBE_PATH_SIZE];
	int r = kube_call_within(beats->http, "GET", path, NULL, true, BEAT_MS,
				 &object, err);

	if (r == 0)
		r = holder_check(beats, object, name, err);
	if (r == 0)
		r = beat_again(beats, path, object, ret, err);
	if (r == -ENOENT) {
		object = lease_new(beats, full);
		r = kube_path(beats->http, &resource, NULL, NULL, all, err);
		if (r == 0)
			r = kube_call_within(beats->http, "POST", all, object,
					     true, BEAT_MS, ret, err);
	}
	json_object_put(object);
	return r;
}

static int beat_locked(struct kube_heartbeats *beats, const char *name,
		       const char *full, const char *path, struct error *err)
{
	struct json_object *last = beats->last, *next = NULL;
	int r = -ENOENT;

	beats->last = NULL;
	if (last && strcmp(kube_text(last, "metadata", "name"), full) == 0)
		r = beat_again(beats, path, last, &next, err);
	json_object_put(last);
	/* Written or removed by another, or our own answer was lost. */
	for (int i = 0; i < TRIES_MAX; i++) {
		if (r != -ENOENT && r != -ESTALE && r != -EEXIST)
			break;
		r = beat_first(beats, name, full, path, &next, err);
	}
	beats->last = next;
	return r;
}

int kube_heartbeat_send(struct kube_heartbeats *beats, const char *name,
			struct error *err)
{
	char path[KUBE_PATH_SIZE], full[FULL_SIZE];
	int r = heartbeat_path(beats, name, full, path, err);

	if (r < 0)
		return r;
	(void)pthread_mutex_lock(&beats->lock);
	r = beat_locked(beats, name, full, path, err);
	(void)pthread_mutex_unlock(&beats->lock);
	return r;
}

int kube_heartbeat_end(struct kube_heartbeats *beats, const char *name,
		       struct error *err)
{
	char path[KUBE_PATH_SIZE], full[FULL_SIZE];
	int r = heartbeat_path(beats, name, full, path, err);

	if (r < 0)
		return r;
	(void)pthread_mutex_lock(&beats->lock);
	json_object_put(beats->last);
	beats->last = NULL;
	r = kube_call_within(beats->http, "DELETE", path, NULL, true, BEAT_MS,
			     NULL, err);
	(void)pthread_mutex_unlock(&beats->lock);
	return r == -ENOENT ? 0 : r;
}

/* ---- looking ---- */

struct reading {
	struct kube_heartbeats *beats;
	struct store_beat *items; /* owned */
	size_t count, room;
};

static int beat_item(void *context, struct json_object *item, struct error *err)
{
	struct reading *reading = context;
	const char *name = kube_text(item, "metadata", "name");
	struct store_beat *more;

	if (strncmp(name, PREFIX, strlen(PREFIX)) != 0 ||
	    strlen(name) >= FULL_SIZE - 1)
		return 0; /* somebody else's, labelled as ours */
	if (reading->count == reading->room) {
		reading->room = reading->room ? 2 * reading->room : 64;
		more = reallocarray(reading->items, reading->room,
				    sizeof(*more));
		if (!more)
			return error_set(err, ENOMEM, "out of memory");
		reading->items = more;
	}
	more = &reading->items[reading->count++];
	(void)strcpy(more->name, name + strlen(PREFIX)); /* checked above */
	more->age_s = heartbeat_age(reading->beats, item);
	return 0;
}

int kube_heartbeat_list(struct kube_heartbeats *beats, struct store_beat **ret,
			size_t *ret_count, struct error *err)
{
	struct reading reading = {.beats = beats};
	char path[KUBE_PATH_SIZE];
	int r = kube_path(beats->http, &resource, NULL, NULL, path, err);

	if (r < 0)
		return r;
	(void)strncat(path, "?" SELECTOR, sizeof(path) - strlen(path) - 1);
	r = kube_list(beats->http, path, 0, beat_item, &reading, NULL, err);
	if (r < 0) {
		free(reading.items);
		return r;
	}
	*ret = reading.items;
	*ret_count = reading.count;
	return 0;
}
