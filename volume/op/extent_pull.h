/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The content of a snapshot's extent for an extent in another pool, of the same
 * node or another. The extent's blockd pulls it (proto/blockd.proto,
 * PullExtent); this is what a flow does meanwhile: let it in, name the ranges,
 * look how far it is. The flow keeps the position in its record, and goes on
 * there after a crash of anybody.
 */
#ifndef VOLUME_EXTENT_PULL_H
#define VOLUME_EXTENT_PULL_H

#include "volume/op/context.h"

struct extent_pull {
	/* All borrowed; ids may be "": any. */
	const char *from_node, *from, *from_id; /* a snapshot */
	/*
	 * A snapshot of the same extent that the content is of already: only
	 * ranges that differ are pulled. NULL: all that @from has allocated,
	 * into an extent of zeroes.
	 */
	const char *older, *older_id;
	const char *to_node, *to, *to_id;
	/*
	 * Bytes: all below is there, durably. 0 at first, then the caller's
	 * from its record.
	 */
	uint64_t position;
	bool done;
	unsigned failures; /* in a row; the function's own, 0 at first */
};

/*
 * Begin the pull, or look how far it is: @pull->position and @pull->done. To be
 * called again, after a while, until it is done. A few failures are passed
 * over, as a restart of a blockd is.
 *
 * -EHOSTUNREACH, -ETIMEDOUT: it goes on later; what is there stays. -EBUSY:
 * somebody else uses the snapshot. -ENOSPC, -EIO...: final.
 */
int extent_pull_step(struct volume_context *ctx, struct extent_pull *pull,
		     struct error *err);

/*
 * Do not let the extent's node in any more: the pull is done, or given up and
 * its extent deleted. Without the snapshot or its node: 0.
 */
int extent_pull_end(struct volume_context *ctx, const struct extent_pull *pull,
		    struct error *err);

#endif
