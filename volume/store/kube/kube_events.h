/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Notices about a record, for people, as Events (core/v1) about the record's
 * object, so that `kubectl describe` and `kubectl get events` show them.
 *
 * An Event's name is made of its object and reason. A repeated notice is
 * counted in the Event that is there, also when another process made that. The
 * API server forgets an Event an hour after it happened last.
 */
#ifndef VOLUME_KUBE_EVENTS_H
#define VOLUME_KUBE_EVENTS_H

#include "volume/store/kube/api/kube_call.h"
#include "volume/store/store.h"

#define KUBE_EVENTS_MAX   20 /* at once, of one process; then */
#define KUBE_EVENT_REST_S 5  /* seconds for each more */

struct kube_events;

/* @http: borrowed for its life. */
int kube_events_new(struct kube_http *http, struct kube_events **ret,
		    struct error *err);
void kube_events_free(struct kube_events *notices); /* NULL is fine */

/* As struct store_ops has it; of an object of @about. */
int kube_event_send(struct kube_events *notices,
		    const struct kube_resource *about,
		    const struct store_notice *notice, struct error *err);

#endif
