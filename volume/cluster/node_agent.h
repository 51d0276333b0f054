/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The agent of a node registers it and keeps its record up to date: `trib node
 * register`, beside each blockd, and on machines that only use volumes.
 *
 * An agent asks its blockd for its state, sends heartbeats to the store
 * (STORE_BEAT_S), and writes the state into the node's record when it changes.
 * A node without heartbeats for STORE_BEAT_LOST_S is lost.
 */
#ifndef VOLUME_NODE_AGENT_H
#define VOLUME_NODE_AGENT_H

#include <stdbool.h>

#include "volume/volume.h"

struct node_agent_request {
	/*
	 * Record of the node. Without labels the present ones stay.
	 * control_address "": it has no blockd.
	 */
	const struct node_record *node;
	/* Address of its blockd from here; NULL: node->control_address. */
	const char *local_control;
	int stop_fd; /* readable: stop; -1: none */
	/*
	 * Called with lines for a log: @problem true for a problem, false when
	 * all is well (again). Never the same twice in a row. NULL: not wanted.
	 */
	void (*told)(void *context, bool problem, const char *text);
	void *context;
};

/*
 * Register the node once, after its blockd answered to that name. -EINVAL;
 * -EHOSTUNREACH: no answer, of blockd or of the store.
 */
int volume_node_register(struct volume_context *ctx,
			 const struct node_agent_request *request,
			 struct error *err);

/*
 * Run the agent until stop_fd is readable. The record then says that the node
 * was stopped, so it is not called lost. Failures are reported and tried again.
 * -EINVAL: the request; other errors: the stop could not be recorded.
 */
int volume_node_agent_run(struct volume_context *ctx,
			  const struct node_agent_request *request,
			  struct error *err);

/*
 * Mark each lost node in its record (Ready unknown, HeartbeatLost). Called by
 * the leader (leader_election.h) about every STORE_BEAT_S. Two requests to the
 * store while nothing changes.
 */
int volume_node_observe(struct volume_context *ctx, struct error *err);

#endif
