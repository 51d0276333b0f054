/* SPDX-License-Identifier: Apache-2.0 */
/* The store of a cluster, inside; store_kube.c says what it is. */
#ifndef VOLUME_STORE_KUBE_H
#define VOLUME_STORE_KUBE_H

#include <json-c/json.h>
#include <stdbool.h>

#include "base/cleanup.h"
#include "volume/store/kube/api/kube_call.h"
#include "volume/store/kube/kube_events.h"
#include "volume/store/kube/kube_heartbeat.h"
#include "volume/store/kube/kube_lease.h"
#include "volume/store/kube/kube_object.h"
#include "volume/store/store.h"

struct kube {
	struct store store;
	struct kube_http *http;
	struct kube_leases *leases;
	struct kube_heartbeats *beats;
	struct kube_events *notices;
};

static inline struct kube *kube_of(struct store *store)
{
	return container_of(store, struct kube, store);
}

static inline void kube_cleanup_object(struct json_object **object)
{
	json_object_put(*object);
}
#define auto_object auto_cleanup(kube_cleanup_object)

/* NULL, with @err set to -EINVAL: no such kind. */
const struct kube_resource *kube_resource_find(const char *kind,
					       struct error *err);
/* Being deleted and none of our business any more. */
bool kube_is_gone(struct json_object *object,
		  const struct kube_resource *resource);
/*
 * Get an object; -ENOENT also for one that is gone.
 *
 * @ret_path  KUBE_PATH_SIZE bytes: where it is
 * @ret       owned
 */
int kube_object_get(struct kube *kube, const char *kind, const char *name,
		    const struct kube_resource **ret_resource, char *ret_path,
		    struct json_object **ret, struct error *err);

/* ---- store_kube_write.c: members of store_kube_ops ---- */

int kube_create(struct store *store, const char *kind, const char *name,
		const char *json, char *ret_version, struct error *err);
int kube_swap(struct store *store, const char *kind, const char *name,
	      const char *version, const char *json, char *ret_version,
	      struct error *err);
int kube_remove(struct store *store, const char *kind, const char *name,
		const char *version, struct error *err);

extern const struct store_ops store_kube_ops; /* location: kube_config.h */

#endif
