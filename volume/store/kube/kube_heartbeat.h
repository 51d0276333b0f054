/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Heartbeats of nodes. Each is a Lease "heartbeat-NAME", labelled
 * union.io/heartbeat, and renewed by the node's keeper. So a beat is one small
 * write, and no change of the node's record.
 *
 * Time is the API server's. The holder is "HOST/BOOT-ID": one machine beats
 * for a node at a time.
 */
#ifndef VOLUME_KUBE_HEARTBEAT_H
#define VOLUME_KUBE_HEARTBEAT_H

#include "base/error.h"
#include "volume/store/kube/api/kube_call.h"
#include "volume/store/store.h"

struct kube_heartbeats;

/* @http: borrowed for its life. */
int kube_heartbeats_new(struct kube_http *http, struct kube_heartbeats **ret,
			struct error *err);
void kube_heartbeats_free(struct kube_heartbeats *beats); /* NULL is fine */

/* As struct store_ops has them. */
int kube_heartbeat_send(struct kube_heartbeats *beats, const char *name,
			struct error *err);
int kube_heartbeat_end(struct kube_heartbeats *beats, const char *name,
		       struct error *err);
int kube_heartbeat_list(struct kube_heartbeats *beats, struct store_beat **ret,
			size_t *ret_count, struct error *err);

#endif
