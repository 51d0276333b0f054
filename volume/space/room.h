/* SPDX-License-Identifier: Apache-2.0 */
/* What the nodes' pools offer now, as the planner takes it. */
#ifndef VOLUME_ROOM_H
#define VOLUME_ROOM_H

#include "volume/plan/planner.h"
#include "volume/volume.h"

struct room {
	struct node_state *states; /* owned; every node */
	size_t n_states;
	struct planner_pool *pools; /* owned; of those that answered */
	size_t n_pools;
};

/* Ask every node; one that does not answer is no error. room_done(). */
int room_ask(struct volume_context *ctx, struct room *ret, struct error *err);
void room_done(struct room *room);

/* The node of that name, NULL when there is none. Borrowed. */
const struct node_state *room_node(const struct room *room, const char *name);

/* Before @err, a refusal: which nodes could not be counted in. */
void room_tell_silent(const struct room *room, struct error *err);

/*
 * Fill in split number @index of @record, an extent of @size bytes to be made
 * in @pool. -E2BIG: VOLUME_SPLITS_MAX.
 */
int room_split(const struct volume_record *record, size_t index,
	       const struct planner_pool *pool, uint64_t size,
	       struct volume_split *ret, struct error *err);

#endif
