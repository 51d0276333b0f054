/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A record of ours as an object of the API server, and back. No I/O.
 *
 * The server owns metadata.uid and checks labels by rules of its own, so:
 *
 *	annotation union.io/uid             the record's metadata.uid
 *	annotation union.io/labels          those labels that Kubernetes would
 *	                                    refuse, a JSON object
 *	annotation union.io/pending-status  see below
 *
 * The server writes spec and status in two requests. So that a record is never
 * half new, the first carries the new status along in an annotation. As long as
 * the annotation is there, it is the status. The second request writes the
 * status, a third takes the annotation away. Either may be missing.
 *
 * Everything else in the object (other annotations, finalizers, owners) is
 * kept as it is.
 */
#ifndef VOLUME_KUBE_OBJECT_H
#define VOLUME_KUBE_OBJECT_H

#include <json-c/json.h>
#include <stdbool.h>

#include "base/error.h"
#include "volume/store/kube/api/kube_call.h"
#include "volume/store/store.h"

/* bytes; all annotations together may have 256 KiB */
#define KUBE_PENDING_MAX (192u << 10)

/* The object to create for @json. -EINVAL: no record of @kind and @name. */
int kube_object_new(const struct kube_resource *resource, const char *name,
		    const char *json, struct json_object **ret,
		    struct error *err);

/* The parts of an object to write after kube_object_change(). */
struct kube_change {
	bool main;   /* the object */
	bool status; /* then its status */
};

/* Make @object, as it was read, say what @json says. -E2BIG, -EINVAL. */
int kube_object_change(struct json_object *object,
		       const struct kube_resource *resource, const char *name,
		       const char *json, struct kube_change *ret,
		       struct error *err);

/* Put the pending status in its place; false when there is none. */
bool kube_object_settle(struct json_object *object);

/* The record in @object. -EUCLEAN: it is not even an object with a name. */
int kube_object_record(struct json_object *object, struct store_object *ret,
		       struct error *err);

/* Both are of one record: its uid is known and the same. */
bool kube_object_same_uid(struct json_object *a, struct json_object *b);

const char *kube_object_version(struct json_object *object); /* borrowed */
bool kube_object_deleting(struct json_object *object);
bool kube_object_has_finalizer(struct json_object *object, const char *name);
void kube_object_drop_finalizer(struct json_object *object, const char *name);
/*
 * Make the body of a DELETE, so that it is of @object as it is known, never of
 * a later version by others. Returned owned.
 */
struct json_object *kube_object_deletion(struct json_object *object);

#endif
