/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The scrub compares all records with the extents of all nodes, both ways, as
 * volume_orphans() does. It keeps the result in the record of each node
 * (volume/record/node_scrub.h), and as events of nodes. The CSI controller that
 * leads runs it, or `trib volume scrub` by a timer.
 *
 * An orphan is reclaimed on request, after a grace since the first scrub that
 * saw it. A record has to say by its id that it is nobody's for good. Such a
 * word is never taken back, so it holds in a store that was restored from an
 * old copy, too. An extent whose record is not there is never reclaimed: it may
 * be newer than the records.
 */
#ifndef VOLUME_SCRUB_H
#define VOLUME_SCRUB_H

#include "volume/volume.h"

/*
 * Since the first scrub that saw it, seconds: time for a person to see the list
 * and to object. Chosen, not measured.
 */
#define VOLUME_RECLAIM_GRACE_S 604800

struct volume_scrubbed {
	bool ran;              /* else what the last one found is told */
	int64_t at_s;          /* seconds since 1970; of the oldest result */
	uint64_t orphans;      /* extents without a record */
	uint64_t orphan_bytes; /* their sizes */
	uint64_t missing;      /* extents that records look for in vain */
	size_t silent; /* nodes that do not answer; 0 if it did not run */
};

/*
 * Run a scrub, one at a time in the whole cluster.
 *
 * @every_s  only if a node has no result so new; seconds. 0: in any case
 *
 * -EAGAIN: another process runs one. -EUCLEAN: a record cannot be read.
 */
int volume_scrub(struct volume_context *ctx, uint64_t every_s,
		 struct volume_scrubbed *ret, struct error *err);

/*
 * Tell whether @orphan may be reclaimed now. -EPERM: no record gave it up.
 * -EAGAIN: its grace of @grace_s (seconds) is not over, by this machine's
 * clock, or no scrub has seen it.
 */
int volume_orphan_is_due(const struct orphan *orphan, uint64_t grace_s,
			 struct error *err);

/*
 * Delete an extent for which volume_orphan_is_due() returns 0. Under the lease
 * of its volume or snapshot the record is read again. Not there: 0.
 *
 * -ESTALE: the record does not give it up any more. -EBUSY: it is used.
 * -EAGAIN: another operation has the volume. -EHOSTUNREACH: repeat.
 */
int volume_orphan_reclaim(struct volume_context *ctx,
			  const struct orphan *orphan, uint64_t grace_s,
			  struct error *err);

#endif
