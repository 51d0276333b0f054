/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An event of a watch, decoded: an object of the stream (json_lines.h;
 * Kubernetes, API concepts, "Efficient detection of changes"). No I/O.
 */
#ifndef VOLUME_KUBE_WATCH_EVENT_H
#define VOLUME_KUBE_WATCH_EVENT_H

#include <json-c/json.h>

#include "base/error.h"

enum kube_watch_event_type {
	KUBE_WATCH_EVENT_ADDED,
	KUBE_WATCH_EVENT_MODIFIED,
	KUBE_WATCH_EVENT_DELETED,
	KUBE_WATCH_EVENT_BOOKMARK, /* of its object only the version says
				      something */
	KUBE_WATCH_EVENT_ERROR, /* its object is a Status; the watch is over */
};

/* @object is borrowed. Other than 0: no more, return that. */
typedef int (*kube_watch_event_handler)(void *context,
					enum kube_watch_event_type type,
					struct json_object *object,
					struct error *err);

/*
 * Call @handler for @event, an object of the stream. One of a type unknown here
 * is skipped.
 *
 * -EPROTO: no event; and what @handler returns.
 */
int kube_watch_event_tell(struct json_object *event,
			  kube_watch_event_handler handler, void *context,
			  struct error *err);

#endif
