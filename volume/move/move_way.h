/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ways in which a split moves. The record has the way of a move that is
 * begun (volume/record/volume_record.h: split_move), and only that way goes on
 * with it, or takes it back. A new move goes the first way in the table of
 * flow_move.c that takes it.
 */
#ifndef VOLUME_MOVE_WAY_H
#define VOLUME_MOVE_WAY_H

#include "volume/move/move_copy.h"
#include "volume/op/flow.h"

struct move_way {
	enum split_move_way way;
	/*
	 * May the operation's split, in a volume that is ready, begin to move
	 * in this way now? 0; -EOPNOTSUPP: never in such a volume; another
	 * -errno: not now, and @err says why, as a person is to read it.
	 */
	int (*check)(struct operation *op, struct error *err);
	/* From the beginning, or from where the record is, to the end. */
	const struct flow *flow;
	/* Take back a move of this way that is begun, and not over. */
	int (*cancel)(struct operation *op, struct error *err);
	/*
	 * Wait without the lease, for some seconds at most, after the flow has
	 * ended with -EINPROGRESS. The flow is run again then. NULL: it never
	 * ends so. The operation has the record as it was, only to be read.
	 */
	int (*wait)(struct operation *op, struct error *err);
};

/* Copied by block, while nobody has the volume attached (move_copy.c). */
extern const struct move_way move_way_copy;
/* File by file, by the union that is mounted here (move_union.c). */
extern const struct move_way move_way_union;

#endif
