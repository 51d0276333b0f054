/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state of nodes, from their records, their heartbeats and their own
 * answers. A node whose heartbeat is older than STORE_BEAT_LOST_S is lost.
 */
#ifndef VOLUME_NODE_STATES_H
#define VOLUME_NODE_STATES_H

#include "volume/op/context.h"

/* Load all nodes from the store, with their heartbeats. node_states_free(). */
int node_states_load(struct volume_context *ctx, struct node_state **ret,
		     size_t *ret_count, struct error *err);
/*
 * Ask all nodes as volume_node_list() does, but briefly, for callers that can
 * do without silent nodes (node_client_get_soon()).
 */
int node_states_ask(struct volume_context *ctx, struct node_state **ret,
		    size_t *ret_count, struct error *err);

/*
 * Add a warning to @state, if it has none, when a certificate of ours ends
 * soon.
 */
void node_state_warn(struct node_state *state);

#endif
