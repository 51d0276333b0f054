/* SPDX-License-Identifier: Apache-2.0 */
/* The plan in a volume's record: which splits, where, how large. */
#ifndef VOLUME_PLAN_H
#define VOLUME_PLAN_H

#include "volume/op/context.h"

/*
 * Plan in the record the splits of a new volume, whose splits, if any, are all
 * deleted. The nodes chosen are asked whether they have the room (capacity.h).
 * Not saved. -ENOSPC: nothing was changed, and all nodes were asked.
 */
int volume_plan_new(struct operation *op, struct error *err);

/*
 * Plan in the record, in the same way, how the volume becomes @capacity bytes:
 * grow_to of splits, and planned splits after them. The volume's nodes have to
 * answer; other nodes are counted in if they answer.
 *
 * Saved. -ENOSPC: nothing was changed. -EHOSTUNREACH: the nodes that answer
 * have too little room, or a node of the volume does not answer; nothing was
 * changed.
 */
int volume_plan_grow(struct operation *op, uint64_t capacity,
		     struct error *err);

struct volume_place {
	const char *node, *pool; /* borrowed; NULL: the planner chooses */
};

/*
 * Plan in the record, in the same way, where split @index moves: its member
 * move. Not saved.
 *
 * -ENOSPC: no pool takes it, or not that pool, the text says why. -ENOENT: no
 * such node or pool. -EHOSTUNREACH: the node asked for does not answer.
 */
int volume_plan_move(struct operation *op, size_t index,
		     const struct volume_place *to, struct error *err);

/*
 * Give the planned extent another name than the split's own, wherever it is:
 * one machine will have both attached.
 */
void volume_plan_move_apart(const struct volume_record *record,
			    struct volume_split *split);

/* Tell whether the record has a plan to grow that is not carried out. */
bool volume_plan_is_open(const struct volume_record *record);

#endif
