/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Objects of the API server, watched: list, then the stream of changes from
 * there on. A stream that is cut is resumed there. Objects are listed again
 * when the server forgot that moment (410). A server that stumbles, or says to
 * slow down, is given the time.
 */
#ifndef VOLUME_KUBE_WATCH_H
#define VOLUME_KUBE_WATCH_H

#include "volume/store/kube/api/kube_call.h"
#include "volume/store/store.h"

#define KUBE_WATCH_S 300 /* of one stream; the server ends it then */

/*
 * As struct store_ops has it. @record: an object as it comes from the server
 * becomes @ret (store_object_done()), or -ENOENT: it counts as removed.
 */
int kube_watch(struct kube_http *http, const struct kube_resource *resource,
	       int (*record)(const struct kube_resource *resource,
			     struct json_object *object,
			     struct store_object *ret, struct error *err),
	       int stop_fd, store_watcher watcher, void *context,
	       struct error *err);

#endif
