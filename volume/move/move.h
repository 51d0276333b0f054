/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A split goes to another pool, in one of several ways (move_way.h).
 *
 * A volume that nobody has attached is copied by block. The split's extent is
 * served for reading only at a new epoch, and the new extent pulls it. Then one
 * write of the record makes the new extent the split's. So there is one owner
 * at each moment.
 *
 * A union that is mounted here moves the files of its branch, while it is used.
 */
#ifndef VOLUME_MOVE_H
#define VOLUME_MOVE_H

#include "volume/plan/volume_plan.h"
#include "volume/volume.h"

#define MOVE_ANY_SPLIT SIZE_MAX

struct volume_move_request {
	const char *name; /* NAME or NAME@UID, see volume_delete() */
	/* MOVE_ANY_SPLIT: the one that moves, or the only one. */
	size_t split;
	struct volume_place to; /* of a move that is begun */
	uint64_t rate; /* by union: bytes a second at most; 0: no limit */
};

/*
 * Move one split, and wait until it has moved. A move that was begun goes on,
 * to where it was begun.
 *
 * @ret_split  of the record, as it is then; its move.way is the way that it has
 *             gone; may be NULL
 *
 * -EBUSY: the volume is attached in a way that no split moves in, being resized
 * or deleted, or another split moves; the text says which. -ENOSPC: no pool
 * takes it, or the pool has filled up. The split is where it was, or, by union,
 * files are in both places, and the volume is Moving. -EBUSY, by union, too:
 * files are open for long. -EINVAL: no such split, or it is there.
 * After -EHOSTUNREACH, -ETIMEDOUT, -EAGAIN and -ECANCELED the volume is Moving,
 * until this call or volume_move_cancel(). Or the split has moved: the text
 * says that the old extent is not deleted yet.
 */
int volume_move(struct volume_context *ctx,
		const struct volume_move_request *request,
		struct volume_split *ret_split, struct error *err);

/*
 * Take back a move that was begun: the copy is deleted, the split stays where
 * it is. By union, the files that went come back before; errors are those of
 * volume_move(). 0: also when nothing moves, or the split has moved. A silent
 * node keeps the copy until the next move, or until the volume is deleted.
 */
int volume_move_cancel(struct volume_context *ctx, const char *name,
		       struct error *err);

/*
 * Tell whether splits of an attached volume may move by the union, which is
 * mounted here.
 */
bool move_may_be_live(const struct volume_context *ctx,
		      const struct volume_record *record);

/*
 * Delete the extents at the other places of splits that moved or are moving.
 * For a volume that is being deleted.
 */
int move_drop_all(struct operation *op, struct error *err);

/* ---- drain ---- */

struct volume_drained {
	size_t moved; /* splits */
	size_t left;  /* splits and extents of snapshots that are there still */
};

/* @problem  why this split stays; NULL: it has moved to @split. Borrowed. */
typedef void (*volume_drain_told)(void *context, const char *volume,
				  const struct volume_split *split,
				  const char *problem);

/*
 * Cordon a node, then move each split away from it.
 *
 * @pool  only this pool of it; NULL: all of the node
 * @told  called after each split; NULL: not wanted
 *
 * -EBUSY: some are there still (@ret says how many); repeat when they are not
 * in use. -ENOSPC: no other node or pool may get anything new; nothing was
 * changed then.
 */
int volume_node_drain(struct volume_context *ctx, const char *node,
		      const char *pool, volume_drain_told told, void *context,
		      struct volume_drained *ret, struct error *err);

#endif
