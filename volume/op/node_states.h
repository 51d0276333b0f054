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
 * Call @each for all nodes, one at a time, as node_states_load() has them. A
 * result other than 0 ends it and is returned.
 *
 * @state  borrowed, but for members that @each takes and empties
 */
typedef int (*node_state_each)(void *context, struct node_state *state,
			       struct error *err);
int node_states_foreach(struct volume_context *ctx, node_state_each each,
			void *context, struct error *err);

/*
 * Tell whether the report of the node's record tells its room now: it has a
 * number, says that the node is ready, and heartbeats arrive.
 */
bool node_state_is_reported(const struct node_state *state);

/*
 * Load the record of node @name, and ask the node briefly, for callers that can
 * do without silent nodes (node_client_get_soon()). What went wrong is in the
 * problem. @ret: node_states_free(ret, 1), or its members.
 */
void node_state_ask(struct volume_context *ctx, const char *name,
		    struct node_state *ret);

/*
 * Add a warning to @state, if it has none, when a certificate of ours ends
 * soon.
 */
void node_state_warn(struct node_state *state);

#endif
