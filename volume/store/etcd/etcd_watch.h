/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keys of etcd, watched (follow.h). A stream lasts ETCD_WATCH_S, then the next
 * begins where it ended: so a member that became silent is left for another.
 */
#ifndef VOLUME_ETCD_WATCH_H
#define VOLUME_ETCD_WATCH_H

#include "volume/store/etcd/etcd_call.h"
#include "volume/store/store.h"

#define ETCD_WATCH_S 20

/*
 * As struct store_ops has it, of all keys that begin with @key.
 *
 * @read  makes the object of an item, store_object_done()
 */
int etcd_watch(struct etcd_api *api, const char *key,
	       int (*read)(const struct etcd_item *item, const char *name,
			   struct store_object *ret, struct error *err),
	       int stop_fd, store_watcher watcher, void *context,
	       struct error *err);

#endif
