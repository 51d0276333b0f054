/* SPDX-License-Identifier: Apache-2.0 */
/* volume_orphan_reclaim(): what is nobody's for good is freed. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "volume/scrub/scrub.h"
#include "volume/snapshot/snapshot_op.h"

int volume_orphan_is_due(const struct orphan *orphan, uint64_t grace_s,
			 struct error *err)
{
	const int64_t age_s = clock_wall_s() - orphan->since_s;

	if (orphan->kind != ORPHAN_EXTENT || !orphan->given_up)
		return error_set(err, EPERM,
				 "no record says that it is nobody's for good");
	if (!orphan->since_s)
		return error_set(err, EAGAIN, "no scrub has seen it yet");
	if (age_s < 0 || (uint64_t)age_s < grace_s)
		return error_set(err, EAGAIN,
				 "it is known for %" PRId64 " s, and is freed "
				 "after %" PRIu64 " s (--grace)",
				 age_s, grace_s);
	return 0;
}

static int refuse_changed(struct error *err)
{
	return error_set(err, ESTALE,
			 "its record has changed, and does not give it up");
}

/* Delete the extent with that id, whatever else has its name by now. */
static int delete_by_id(struct volume_context *ctx, const struct orphan *orphan,
			struct error *err)
{
	struct node_client *client;
	struct node_extent extent = {0};
	int r = context_client(ctx, orphan->node, &client, err);

	if (r < 0)
		return r;
	r = node_client_get_extent(client, orphan->name, &extent, err);
	if (r == -ENOENT)
		return 0;
	if (r < 0)
		return r;
	if (strcmp(extent.id, orphan->extent_id) == 0)
		r = node_client_delete_extent(client, orphan->name, extent.id,
					      err);
	node_extent_done(&extent);
	return r;
}

static int reclaim_of_volume(struct volume_context *ctx,
			     const struct orphan *orphan, struct error *err)
{
	struct operation op;
	int r = operation_begin(&op, ctx, orphan->volume,
				"reclaiming an extent of volume", err);

	if (r < 0)
		return r;
	if (!op.record || strcmp(op.record->uid, orphan->uid) != 0 ||
	    !volume_record_gave_up(op.record, orphan->extent_id))
		r = refuse_changed(err);
	else
		r = operation_step(&op, err, "delete",
				   "deleting extent %s of node %s",
				   orphan->name, orphan->node);
	if (r == 0)
		r = delete_by_id(ctx, orphan, err);
	operation_end(&op);
	return r;
}

static int reclaim_of_snapshot(struct volume_context *ctx,
			       const struct orphan *orphan, struct error *err)
{
	struct snapshot_op s;
	int r = snapshot_op_begin(&s, ctx, orphan->snapshot,
				  "reclaiming an extent of snapshot", err);

	if (r < 0)
		return r;
	if (!s.record || strcmp(s.record->uid, orphan->uid) != 0 ||
	    !snapshot_record_gave_up(s.record, orphan->extent_id))
		r = refuse_changed(err);
	else
		r = delete_by_id(ctx, orphan, err);
	snapshot_op_end(&s);
	return r;
}

int volume_orphan_reclaim(struct volume_context *ctx,
			  const struct orphan *orphan, uint64_t grace_s,
			  struct error *err)
{
	int r = volume_orphan_is_due(orphan, grace_s, err);

	if (r < 0)
		return r;
	return orphan->snapshot[0] ? reclaim_of_snapshot(ctx, orphan, err)
				   : reclaim_of_volume(ctx, orphan, err);
}
