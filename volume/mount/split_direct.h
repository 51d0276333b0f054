/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Direct runs of a split's extent on its own node (proto/blockd.proto,
 * AttachDirect). While the device of an attachment has them, only blockd loads
 * its tables. So they end before anything else changes the device, and before
 * discards that are to reach blockd.
 */
#ifndef VOLUME_SPLIT_DIRECT_H
#define VOLUME_SPLIT_DIRECT_H

#include "volume/op/context.h"

/* Direct runs that were ended for a while. */
struct split_direct {
	struct node_client *client; /* borrowed; NULL: there were none */
	char device[128];           /* UUID of device mapper */
	uint64_t epoch;
};

/*
 * End them, if the extent is on this node and has any.
 *
 * -EAGAIN: a snapshot is being taken; repeat.
 */
int split_direct_pause(struct volume_context *ctx,
		       const struct volume_record *record,
		       const struct volume_split *split,
		       struct split_direct *ret, struct error *err);

/*
 * Let the device have them again, also when what was done meanwhile failed.
 * @r: its result, which is returned if it failed.
 */
int split_direct_go_on(const struct split_direct *direct,
		       const struct volume_record *record,
		       const struct volume_split *split, int r,
		       struct error *err);

#endif
