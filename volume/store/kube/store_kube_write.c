/* SPDX-License-Identifier: Apache-2.0 */
/* store_kube.h: what changes records. */
#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "volume/record/json_scan.h"
#include "volume/store/kube/store_kube.h"

#define TRIES_MAX 5 /* to take a finalizer away */

static int version_copy(struct json_object *object, char *ret,
			struct error *err)
{
	const char *version = kube_object_version(object);
	size_t length = strlen(version);

	if (length == 0 || length >= RECORD_VERSION_SIZE)
		return error_set(err, EPROTO,
				 "the API server gave no resourceVersion");
	if (ret)
		memcpy(ret, version, length + 1);
	return 0;
}

/*
 * @object, as the server has it now, carries its new status along: write
 * that, then take the annotation away. What fails here is done by the next
 * write; the record is whole already.
 */
static void settle(struct kube *kube, const struct kube_resource *resource,
		   const char *name, struct json_object **object)
{
	struct json_object *written = NULL;
	char path[KUBE_PATH_SIZE];

	if (!kube_object_settle(*object))
		return;
	(void)kube_path(kube->http, resource, name, "status", path, NULL);
	if (kube_call(kube->http, "PUT", path, *object, false, &written, NULL) <
	    0)
		return;
	json_object_put(*object);
	*object = written;
	(void)kube_object_settle(*object);
	(void)kube_path(kube->http, resource, name, NULL, path, NULL);
	if (kube_call(kube->http, "PUT", path, *object, false, &written, NULL) <
	    0)
		return;
	json_object_put(*object);
	*object = written;
}

/*
 * Check an object that is there already: did an earlier request of ours make
 * it, to which no answer came?
 */
static int created_before(struct kube *kube,
			  const struct kube_resource *resource,
			  const char *name, struct json_object *wanted,
			  struct json_object **ret, struct error *err)
{
	auto_object struct json_object *object = NULL;
	char path[KUBE_PATH_SIZE];
	int r = kube_path(kube->http, resource, name, NULL, path, err);

	if (r == 0)
		r = kube_call(kube->http, "GET", path, NULL, true, &object,
			      err);
	if (r == -ENOENT)
		return error_set(err, EHOSTUNREACH,
				 "%s '%s' was there and is gone; repeat the "
				 "command",
				 resource->kind, name);
	if (r < 0)
		return r;
	if (kube_is_gone(object, resource))
		return error_set(err, EEXIST,
				 "%s '%s' is being deleted and waits for a "
				 "finalizer that is not ours: kubectl describe",
				 resource->kind, name);
	/* A record's uid is made for one create. */
	if (!kube_object_same_uid(object, wanted))
		return error_set(err, EEXIST, "%s '%s' is there already",
				 resource->kind, name);
	*ret = take_ptr(object);
	return 0;
}

int kube_create(struct store *store, const char *kind, const char *name,
		const char *json, char *ret_version, struct error *err)
{
	struct kube *kube = kube_of(store);
	auto_object struct json_object *wanted = NULL;
	auto_object struct json_object *object = NULL;
	const struct kube_resource *resource = kube_resource_find(kind, err);
	char path[KUBE_PATH_SIZE];
	int r;

	if (!resource)
		return -EINVAL;
	r = kube_name_check(kind, name, err);
	if (r == 0)
		r = kube_lease_check(kube->leases, resource, name, err);
	if (r == 0)
		r = kube_object_new(resource, name, json, &wanted, err);
	if (r == 0)
		r = kube_path(kube->http, resource, NULL, NULL, path, err);
	if (r == 0)
		r = kube_call(kube->http, "POST", path, wanted, true, &object,
			      err);
	if (r == -EEXIST)
		r = created_before(kube, resource, name, wanted, &object, err);
	if (r < 0)
		return r;
	settle(kube, resource, name, &object);
	return version_copy(object, ret_version, err);
}

static int version_check(struct json_object *object, const char *version,
			 const char *kind, const char *name, struct error *err)
{
	if (!version || strcmp(kube_object_version(object), version) == 0)
		return 0;
	return error_set(
		err, ESTALE,
		"%s '%s' was changed by another process (version %s, not "
		"%s)",
		kind, name, kube_object_version(object), version);
}

/* Write the changed parts. @object becomes the server's object. */
static int change_write(struct kube *kube, const struct kube_resource *resource,
			const char *name, const struct kube_change *change,
			struct json_object **object, struct error *err)
{
	struct json_object *written = NULL;
	char path[KUBE_PATH_SIZE];
	int r = kube_path(kube->http, resource, name,
			  change->main ? NULL : "status", path, err);

	if (r < 0 || (!change->main && !change->status))
		return r;
	r = kube_call(kube->http, "PUT", path, *object, false, &written, err);
	if (r < 0)
		return r;
	json_object_put(*object);
	*object = written;
	settle(kube, resource, name, object);
	return 0;
}

int kube_swap(struct store *store, const char *kind, const char *name,
	      const char *version, const char *json, char *ret_version,
	      struct error *err)
{
	struct kube *kube = kube_of(store);
	auto_object struct json_object *object = NULL;
	const struct kube_resource *resource;
	struct kube_change change;
	char path[KUBE_PATH_SIZE];
	int r = kube_object_get(kube, kind, name, &resource, path, &object,
				err);

	if (r == 0)
		r = version_check(object, version, kind, name, err);
	if (r == 0)
		r = kube_object_change(object, resource, name, json, &change,
				       err);
	if (r == 0)
		r = kube_lease_check(kube->leases, resource, name, err);
	if (r == 0)
		r = change_write(kube, resource, name, &change, &object, err);
	return r < 0 ? r : version_copy(object, ret_version, err);
}

/* ---- removing ---- */

static int object_delete(struct kube *kube, const char *path,
			 struct json_object *object, struct error *err)
{
	auto_object struct json_object *options = kube_object_deletion(object);

	return kube_call(kube->http, "DELETE", path, options, false, NULL, err);
}

/*
 * Drop our finalizer. The removal is decided: writes of others meanwhile do not
 * stop it.
 */
static int finalizer_drop(struct kube *kube,
			  const struct kube_resource *resource,
			  const char *path, struct error *err)
{
	int r = 0;

	for (int i = 0; i < TRIES_MAX; i++) {
		auto_object struct json_object *object = NULL;

		r = kube_call(kube->http, "GET", path, NULL, true, &object,
			      err);
		if (r == 0 && kube_is_gone(object, resource))
			return 0;
		if (r == 0) {
			kube_object_drop_finalizer(object, resource->finalizer);
			r = kube_call(kube->http, "PUT", path, object, false,
				      NULL, err);
		}
		if (r != -ESTALE)
			break;
	}
	return r == -ENOENT ? 0 : r;
}

int kube_remove(struct store *store, const char *kind, const char *name,
		const char *version, struct error *err)
{
	struct kube *kube = kube_of(store);
	auto_object struct json_object *object = NULL;
	const struct kube_resource *resource;
	char path[KUBE_PATH_SIZE];
	int r = kube_object_get(kube, kind, name, &resource, path, &object,
				err);

	if (r == 0)
		r = version_check(object, version, kind, name, err);
	if (r == 0)
		r = kube_lease_check(kube->leases, resource, name, err);
	if (r == 0 && !kube_object_deleting(object))
		r = object_delete(kube, path, object, err);
	if (r < 0)
		return r;
	if (!kube_object_has_finalizer(object, resource->finalizer))
		return 0;
	return finalizer_drop(kube, resource, path, err);
}
