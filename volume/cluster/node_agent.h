/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A node makes itself known, and keeps being known: `trib node register`,
 * beside each blockd, and on machines that only use volumes.
 *
 * A keeper asks its blockd, says to the store that the node is alive
 * (STORE_BEAT_S), and writes what it has into the node's record when that
 * changes. A node whose keeper was not heard for STORE_BEAT_LOST_S is lost.
 */
#ifndef VOLUME_NODE_AGENT_H
#define VOLUME_NODE_AGENT_H

#include <stdbool.h>

#include "volume/volume.h"

struct node_agent_request {
	/*
	 * What others shall know. Without labels those known already stay.
	 * control_address "": it has no blockd.
	 */
	const struct node_record *node;
	/* Where its blockd is from here; NULL: node->control_address. */
	const char *local_control;
	int stop_fd; /* readable: stop; -1: none */
	/*
	 * What a log should have: @problem true when something is wrong,
	 * false when all is well (again). Never the same twice in a row. May
	 * be NULL.
	 */
	void (*told)(void *context, bool problem, const char *text);
	void *context;
};

/*
 * Once: its blockd, which has to answer to that name, is made known.
 * -EINVAL; -EHOSTUNREACH: no answer, of blockd or of the store.
 */
int volume_node_register(struct volume_context *ctx,
			 const struct node_agent_request *request,
			 struct error *err);

/*
 * Until stop_fd is readable; then the record says that it was stopped, and
 * the node is not called lost. What fails is told and tried again.
 * -EINVAL: the request; anything else: it could not be said that it stops.
 */
int volume_node_agent_run(struct volume_context *ctx,
			  const struct node_agent_request *request,
			  struct error *err);

/*
 * Once, by whoever leads (leader_election.h), every STORE_BEAT_S or so: the
 * record of each lost node shall say that it is (Ready unknown, HeartbeatLost).
 * Two requests to the store while nothing changes.
 */
int volume_node_observe(struct volume_context *ctx, struct error *err);

#endif
