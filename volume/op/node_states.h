/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VOLUME_NODE_STATES_H
#define VOLUME_NODE_STATES_H

#include "volume/op/context.h"

/* All nodes, not asked, but for their heartbeats. node_states_free(). */
int node_states_load(struct volume_context *ctx, struct node_state **ret,
		     size_t *ret_count, struct error *err);
/*
 * What volume_node_list() returns, for somebody who can do without a node that
 * does not answer at once (node_client_get_soon()).
 */
int node_states_ask(struct volume_context *ctx, struct node_state **ret,
		    size_t *ret_count, struct error *err);

/* A certificate of ours that ends soon is a warning, where there is none. */
void node_state_warn(struct node_state *state);

#endif
