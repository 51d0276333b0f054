/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the records tell of all nodes, in few bytes: for placement
 * (volume/plan/capacity.h), which needs no more of nodes that it does not
 * choose.
 */
#ifndef VOLUME_KNOWN_NODES_H
#define VOLUME_KNOWN_NODES_H

#include <stdatomic.h>

#include "volume/record/node.h"

/* A plan that asked the node changes the atomic members, in any thread. */
struct known_pool {
	char name[RECORD_NAME_SIZE];
	_Atomic uint64_t available; /* bytes */
	atomic_bool online;
	bool cordoned;
};

struct known_node {
	char name[RECORD_NAME_SIZE];
	struct labels labels; /* owned */
	/*
	 * Only an answer tells its room: there is no heartbeat, or the report
	 * calls the node not ready, or has no number.
	 */
	bool unreported;
	bool reported;
	char version[64];         /* by its report */
	char *problem;            /* owned; why not to ask it; NULL: none */
	struct known_pool *pools; /* owned; by its report */
	size_t n_pools;
};

struct known_nodes {
	atomic_uint refs;
	int64_t loaded_ms;        /* clock_ms() */
	struct known_node *items; /* owned; by name */
	size_t count;
};

void known_nodes_unref(struct known_nodes *known); /* NULL is fine */

#endif
