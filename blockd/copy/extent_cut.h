/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Snapshots of several extents at one instant, and operations on one: revert to
 * it, see where it differs from another.
 */
#ifndef BLOCKD_EXTENT_CUT_H
#define BLOCKD_EXTENT_CUT_H

#include "blockd/extent/extent.h"
#include "blockd/extent/node_tables.h"

#define EXTENT_CUT_MAX 256 /* snapshots of one cut */

struct snapshot_request {
	const char *extent;
	const char *extent_id; /* that it has to have; "" or NULL: any */
	const char *name;      /* of the snapshot */
	const struct extent_label *labels;
	size_t n_labels;
};

struct cut_request {
	const char *cut; /* UUID of the instant */
	const char
		*hold; /* blockd/copy/quiesce.h; "" or NULL: one of its own */
	const struct snapshot_request *snapshots;
	size_t n;
};

/*
 * Make all snapshots of a cut or none. A cut that was made already returns its
 * snapshots. Where the pool copies byte by byte they are in state
 * EXTENT_COPYING at first.
 *
 * @ret  @n references, in the order of the request
 *
 * -EINVAL: the request. -ENOENT, -EIO, -EBUSY: an extent. -ESTALE: its id, or
 * the quiesce, or a cut that is there in part. -EEXIST: a name. -ENOSPC.
 * -EOPNOTSUPP: the pool can't.
 */
int extents_cut(struct node *node, const struct cut_request *request,
		struct extent **ret, struct error *err);

/*
 * Hold the writes of extents by name, and a mapper device, "": none
 * (blockd/copy/quiesce.h, enum quiesce_flags). -ENOENT and its like: one of
 * them; and the errors of quiesce_begin().
 */
int extents_quiesce(struct node *node, const char *id, const char *const *names,
		    size_t n, const char *device, unsigned timeout_ms,
		    unsigned flags, struct error *err);

/*
 * The content of an extent becomes that of a snapshot of it; where that is
 * shorter it is followed by zeroes. -EBUSY: exported or held by a local
 * device; -EINVAL: it is no snapshot of it; -ESTALE: another id.
 */
int extent_revert(struct node *node, const char *name, const char *id,
		  const char *snapshot, struct error *err);

/* Durably, and for what is open now. -EINVAL. */
int extent_set_limits(struct extent *extent, const struct extent_limits *limits,
		      struct error *err);

struct extent_range {
	uint64_t offset; /* bytes */
	uint64_t length; /* bytes, at least 1 */
};

/*
 * List the ranges that a snapshot has allocated, or an extent that nobody may
 * write to: from @start on, at most @max, in order. With an older snapshot of
 * the same extent: the ranges where the two may differ.
 *
 * @older    NULL: what is allocated
 * @ret_end  all before it is told; record.size: to the end
 *
 * -EBUSY: somebody may write to it. -EINVAL: with @older, not a snapshot, or
 * not of one extent; -ERANGE: @start is past the
 * end; -EOPNOTSUPP.
 */
int extent_ranges(struct extent *extent, struct extent *older, uint64_t start,
		  struct extent_range *ret, size_t max, size_t *ret_n,
		  uint64_t *ret_end, struct error *err);

#endif
