/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stream of a watch, decoded: a line of JSON for each event
 * (Kubernetes, API concepts, "Efficient detection of changes"). No I/O.
 */
#ifndef VOLUME_KUBE_WATCH_EVENT_H
#define VOLUME_KUBE_WATCH_EVENT_H

#include <json-c/json.h>
#include <stddef.h>

#include "base/error.h"

#define KUBE_WATCH_EVENT_MAX \
	(4u << 20) /* bytes of a line; etcd takes 1.5 MiB */

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

/* Zero-initialise; kube_watch_events_done() frees. */
struct kube_watch_events {
	char *line; /* owned: the beginning of an unfinished line */
	size_t length, room;
};

/*
 * The next bytes: call @handler for each event that they complete. Events of
 * types unknown here are skipped, and so are empty lines.
 *
 * -EPROTO: no event, or one over KUBE_WATCH_EVENT_MAX: the stream is not to be
 * trusted any further. -ENOMEM; and what @handler returns.
 */
int kube_watch_events_feed(struct kube_watch_events *events, const char *bytes,
			   size_t length, kube_watch_event_handler handler,
			   void *context, struct error *err);
void kube_watch_events_done(struct kube_watch_events *events);

#endif
