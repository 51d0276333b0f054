/* SPDX-License-Identifier: Apache-2.0 */
/* A node that will not come back, and what it had. */
#ifndef VOLUME_NODE_REMOVE_H
#define VOLUME_NODE_REMOVE_H

#include "volume/volume.h"

/*
 * Longer than a machine takes to restart and check large disks; chosen, not
 * measured.
 */
#define VOLUME_LOST_GRACE_S 3600

struct volume_node_lost {
	size_t volumes; /* with a split that was given up */
	size_t splits;
	size_t snapshots; /* with an extent that was given up */
};

/*
 * Remove a node that will not come back. Its splits are lost from then on: the
 * records say so, and nobody waits for them. Its volumes can be deleted, and
 * unions be used in part (volume/flow/forget_lost.h). Snapshots with extents
 * there can be deleted, and no more. When the node is
 * back after all, its extents are orphans. Volumes that are not finished are
 * left as they are.
 *
 * @grace_s  since its last heartbeat, by the store's clock; seconds
 * @ret      what this call gave up; may be NULL
 *
 * -EBUSY: it answers, or it was heard of less than @grace_s ago, or it has no
 * heartbeat and @grace_s is not 0. -EUCLEAN: a record cannot be read; nothing
 * was changed. -EAGAIN: another operation has one of the volumes. Some may be
 * given up then; repeat.
 */
int volume_node_give_up(struct volume_context *ctx, const char *name,
			uint64_t grace_s, struct volume_node_lost *ret,
			struct error *err);

#endif
