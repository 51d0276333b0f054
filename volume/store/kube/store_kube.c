/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The store of a cluster: custom resources behind the Kubernetes API server
 * (deploy/crd), in one namespace; the name of a record is the name of its
 * object, a version is its resourceVersion. kube_object.h says how a record
 * becomes an object, kube_lease.h how leases work, kube_config.h what a
 * location is: "kube:[NAMESPACE][,kubeconfig=PATH][,context=NAME]".
 *
 * A write is sent once, unless the server says that it did nothing with it:
 * -EHOSTUNREACH of a write means that nobody knows. (Over a kept connection
 * that turns out to be dead curl sends it again; then -ESTALE may be about a
 * write of our own. The caller reads again in both cases.)
 */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "volume/record/json_scan.h"
#include "volume/store/kube/api/kube_config.h"
#include "volume/store/kube/api/kube_http.h"
#include "volume/store/kube/api/kube_list.h"
#include "volume/store/kube/kube_capacity.h"
#include "volume/store/kube/kube_watch.h"
#include "volume/store/kube/store_kube.h"

#define LISTS_MAX 5 /* times a list is begun again */

static const struct kube_resource resources[] = {
	{RECORD_KIND_VOLUME, "union.io", "v1alpha1", "volumesplits",
	 "volumesplit", "union.io/extents"},
	{RECORD_KIND_NODE, "union.io", "v1alpha1", "storagenodes",
	 "storagenode", NULL},
	{RECORD_KIND_SNAPSHOT, "union.io", "v1alpha1", "volumesplitsnapshots",
	 "volumesplitsnapshot", "union.io/extents"},
	{RECORD_KIND_GROUP, "union.io", "v1alpha1", "volumesplitgroupsnapshots",
	 "volumesplitgroupsnapshot", "union.io/extents"},
};

const struct kube_resource *kube_resource_find(const char *kind,
					       struct error *err)
{
	for (size_t i = 0; i < array_size(resources); i++) {
		if (strcmp(resources[i].kind, kind) == 0)
			return &resources[i];
	}
	(void)error_set(err, EINVAL, "the store keeps no '%s'", kind);
	return NULL;
}

bool kube_is_gone(struct json_object *object,
		  const struct kube_resource *resource)
{
	return kube_object_deleting(object) &&
	       !kube_object_has_finalizer(object, resource->finalizer);
}

int kube_object_get(struct kube *kube, const char *kind, const char *name,
		    const struct kube_resource **ret_resource, char *ret_path,
		    struct json_object **ret, struct error *err)
{
	const struct kube_resource *resource = kube_resource_find(kind, err);
	int r;

	if (!resource)
		return -EINVAL;
	*ret_resource = resource;
	r = kube_path(kube->http, resource, name, NULL, ret_path, err);
	if (r == 0)
		r = kube_call(kube->http, "GET", ret_path, NULL, true, ret,
			      err);
	if (r == 0 && kube_is_gone(*ret, resource)) {
		json_object_put(*ret);
		*ret = NULL;
		r = -ENOENT;
	}
	if (r == -ENOENT)
		return error_set(err, ENOENT, "there is no %s '%s'",
				 resource->kind, name);
	return r;
}

/* ---- reading ---- */

static int kube_get(struct store *store, const char *kind, const char *name,
		    struct store_object *ret, struct error *err)
{
	struct kube *kube = kube_of(store);
	auto_object struct json_object *object = NULL;
	const struct kube_resource *resource;
	char path[KUBE_PATH_SIZE];
	int r = kube_object_get(kube, kind, name, &resource, path, &object,
				err);

	return r < 0 ? r : kube_object_record(object, ret, err);
}

struct reading {
	const struct kube_resource *resource;
	const char *after; /* borrowed */
	size_t room;       /* of @page.objects */
	struct store_page page;
};

static int reading_item(void *reading_, struct json_object *item,
			struct error *err)
{
	struct reading *reading = reading_;
	struct store_page *page = &reading->page;
	int r;

	if (kube_is_gone(item, reading->resource))
		return 0;
	json_add_text(item, "apiVersion", RECORD_API_VERSION);
	json_add_text(item, "kind", reading->resource->kind);
	if (page->count == reading->room)
		return error_set(err, EPROTO,
				 "the API server lists more objects than were "
				 "asked for");
	r = kube_object_record(item, &page->objects[page->count], err);
	if (r < 0)
		return r;
	if (strcmp(page->objects[page->count].name, reading->after) <= 0)
		store_object_done(&page->objects[page->count]);
	else
		page->count++;
	return 0;
}

/* A token that is too long for a mark is none. */
static void mark_set(char *mark, const char *token)
{
	size_t length = strlen(token);

	if (length >= RECORD_MARK_SIZE)
		length = 0;
	memcpy(mark, token, length);
	mark[length] = '\0';
}

/*
 * Read from @token on until there is an object after @place, or the end.
 * -ESTALE, -EINVAL: a token of the server's is of no use any more.
 */
static int reading_run(struct reading *reading, struct kube *kube,
		       const char *path, size_t max, char *token,
		       struct error *err)
{
	struct store_page *page = &reading->page;
	int r = 0;

	while (page->count > 0)
		store_object_done(&page->objects[--page->count]);
	do {
		mark_set(page->mark, token);
		r = kube_list_page(kube->http, path, 0, (unsigned)max, token,
				   reading_item, reading, NULL, err);
	} while (r == 0 && page->count == 0 && token[0]);
	page->more = token[0];
	return r;
}

/*
 * The server lists by name. Its continue token is the mark of a page, of the
 * moment at which the first page was read; it forgets that after minutes. Then
 * the list begins again, and leaves out what is before the place.
 */
static int objects_list(struct store *store, const char *kind,
			struct record_place *place, size_t max,
			struct store_page *ret, struct error *err)
{
	struct kube *kube = kube_of(store);
	struct reading reading = {.resource = kube_resource_find(kind, err),
				  .after = place->after,
				  .room = max};
	char path[KUBE_PATH_SIZE], token[KUBE_TOKEN_SIZE];
	int r, stale, tries = 0;

	if (!reading.resource)
		return -EINVAL;
	r = kube_path(kube->http, reading.resource, NULL, NULL, path, err);
	if (r < 0)
		return r;
	reading.page.objects = calloc(max, sizeof(*reading.page.objects));
	if (!reading.page.objects)
		return error_set(err, ENOMEM, "out of memory");
	(void)snprintf(token, sizeof(token), "%s", place->mark);
	do {
		stale = token[0] ? -EINVAL : -ESTALE;
		r = reading_run(&reading, kube, path, max, token, err);
		if (r < 0)
			token[0] = '\0';
	} while ((r == -ESTALE || r == stale) && ++tries < LISTS_MAX);
	if (r == -ESTALE)
		r = error_set(err, EHOSTUNREACH,
			      "the list of %s could not be read to its end; "
			      "try again later",
			      reading.resource->plural);
	if (r < 0) {
		store_page_done(&reading.page);
		return r;
	}
	if (reading.page.count > 0)
		memcpy(place->after,
		       reading.page.objects[reading.page.count - 1].name,
		       sizeof(place->after));
	mark_set(place->mark, token);
	*ret = reading.page;
	return 0;
}

/* ---- leases ---- */

static const struct kube_resource *lease_find(const char *kind,
					      struct error *err)
{
	static const struct kube_resource leader = {.kind = STORE_LEASE_LEADER,
						    .singular = "leader"};

	return strcmp(kind, STORE_LEASE_LEADER) == 0
		       ? &leader
		       : kube_resource_find(kind, err);
}

static int kube_lease(struct store *store, const char *kind, const char *name,
		      const char *doing, struct error *err)
{
	const struct kube_resource *resource = lease_find(kind, err);

	if (!resource)
		return -EINVAL;
	return kube_lease_take(kube_of(store)->leases, resource, name, doing,
			       err);
}

static int kube_holds(struct store *store, const char *kind, const char *name,
		      struct error *err)
{
	const struct kube_resource *resource = lease_find(kind, err);

	if (!resource)
		return -EINVAL;
	return kube_lease_holds(kube_of(store)->leases, resource, name, err);
}

static void kube_release(struct store *store, const char *kind,
			 const char *name)
{
	const struct kube_resource *resource = lease_find(kind, NULL);

	if (resource)
		kube_lease_release(kube_of(store)->leases, resource, name);
}

/* ---- heartbeats ---- */

static int store_beat(struct store *store, const char *name, struct error *err)
{
	return kube_heartbeat_send(kube_of(store)->beats, name, err);
}

static int store_beat_end(struct store *store, const char *name,
			  struct error *err)
{
	return kube_heartbeat_end(kube_of(store)->beats, name, err);
}

static int store_beats(struct store *store, struct store_beat **ret,
		       size_t *ret_count, struct error *err)
{
	return kube_heartbeat_list(kube_of(store)->beats, ret, ret_count, err);
}

/* ---- watching ---- */

static int kube_object_read(const struct kube_resource *resource,
			    struct json_object *object,
			    struct store_object *ret, struct error *err)
{
	return kube_is_gone(object, resource)
		       ? -ENOENT
		       : kube_object_record(object, ret, err);
}

static int store_watch(struct store *store, const char *kind, int stop_fd,
		       store_watcher watcher, void *context, struct error *err)
{
	const struct kube_resource *resource = kube_resource_find(kind, err);

	if (!resource)
		return -EINVAL;
	return kube_watch(kube_of(store)->http, resource, kube_object_read,
			  stop_fd, watcher, context, err);
}

/* ---- telling ---- */

static int store_notice(struct store *store, const struct store_notice *notice,
			struct error *err)
{
	const struct kube_resource *about = kube_resource_find(notice->kind,
							       err);

	return about ? kube_event_send(kube_of(store)->notices, about, notice,
				       err)
		     : -EINVAL;
}

/* ---- room for a scheduler ---- */

static int store_classes(struct store *store, const char *driver,
			 struct store_class **ret, size_t *ret_count,
			 struct error *err)
{
	return kube_classes_list(kube_of(store)->http, driver, ret, ret_count,
				 err);
}

static int store_rooms_publish(struct store *store, const char *driver,
			       const struct store_class *classes, size_t count,
			       struct error *err)
{
	return kube_rooms_publish(kube_of(store)->http, driver, classes, count,
				  err);
}

/* ---- open and close ---- */

static void kube_close(struct store *store)
{
	struct kube *kube = kube_of(store);

	kube_events_free(kube->notices);
	kube_heartbeats_free(kube->beats);
	kube_leases_free(kube->leases);
	kube_http_free(kube->http);
	free(kube);
}

/* Asks the server nothing: it may be down now and up later. */
static int kube_open(const char *where, struct store **ret, struct error *err)
{
	struct kube_config config;
	struct kube *kube;
	int r = kube_config_load(where, &config, err);

	if (r < 0)
		return r;
	kube = calloc(1, sizeof(*kube));
	if (!kube) {
		kube_config_done(&config);
		return error_set(err, ENOMEM, "out of memory");
	}
	kube->store.ops = &store_kube_ops;
	r = kube_http_new(&config, &kube->http, err);
	if (r == 0)
		r = kube_leases_new(kube->http, &kube->leases, err);
	if (r == 0)
		r = kube_heartbeats_new(kube->http, &kube->beats, err);
	if (r == 0)
		r = kube_events_new(kube->http, &kube->notices, err);
	if (r < 0) {
		kube_close(&kube->store);
		return r;
	}
	*ret = &kube->store;
	return 0;
}

const struct store_ops store_kube_ops = {
	.name = "kube",
	.open = kube_open,
	.close = kube_close,
	.create = kube_create,
	.get = kube_get,
	.list = objects_list,
	.compare_and_swap = kube_swap,
	.remove = kube_remove,
	.lease = kube_lease,
	.holds = kube_holds,
	.release = kube_release,
	.beat = store_beat,
	.beat_end = store_beat_end,
	.beats = store_beats,
	.watch = store_watch,
	.notice = store_notice,
	.classes = store_classes,
	.rooms_publish = store_rooms_publish,
};
