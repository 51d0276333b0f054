/* SPDX-License-Identifier: Apache-2.0 */
/* How a node goes, in good order (volume.h) or lost for good. */
#include "volume/cluster/node_remove.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "volume/op/context.h"
#include "volume/snapshot/snapshot_op.h"

/* ---- what there is ---- */

struct records {
	struct volume_record **volumes; /* owned, as are the snapshots */
	size_t n_volumes;
	struct snapshot_record **snapshots;
	size_t n_snapshots;
};

static void records_done(struct records *records)
{
	volume_records_free(records->volumes, records->n_volumes);
	snapshot_records_free(records->snapshots, records->n_snapshots);
}

/* -EUCLEAN: one cannot be read, and may have an extent on node @name. */
static int records_read(struct volume_context *ctx, const char *name,
			struct records *ret, struct error *err)
{
	const struct snapshot_filter filter = {.temporary = true};
	char problem[RECORD_TEXT_SIZE] = "";
	int r = volume_list(ctx, &ret->volumes, &ret->n_volumes, problem, err);

	if (r == 0 && !problem[0])
		r = volume_snapshot_list(ctx, &filter, &ret->snapshots,
					 &ret->n_snapshots, NULL, problem, err);
	if (r == 0 && problem[0])
		r = error_set(err, EUCLEAN,
			      "%s; it may have an extent on node '%s'", problem,
			      name);
	return r;
}

/* ---- is it needed? ---- */

/* -EBUSY when @record needs the node. */
static int node_unused(const struct volume_record *record, const char *name,
		       struct error *err)
{
	for (size_t i = 0; i < record->n_splits; i++) {
		if (strcmp(record->splits[i].node, name) == 0 &&
		    !record->splits[i].lost)
			return error_set(err, EBUSY,
					 "node '%s' has split %zu of volume "
					 "'%s'; `trib node drain %s` moves it, "
					 "or delete the volume first",
					 name, i, record->name, name);
	}
	for (size_t i = 0; i < record->n_splits; i++) {
		if (strcmp(record->splits[i].move.node, name) == 0)
			return error_set(err, EBUSY,
					 "split %zu of volume '%s' moves to or "
					 "from node '%s'; finish that by `trib "
					 "volume move` first",
					 i, record->name, name);
	}
	if (volume_record_attachment(record, name))
		return error_set(err, EBUSY,
				 "volume '%s' is attached on node '%s'; "
				 "unmount it first",
				 record->name, name);
	return 0;
}

/* -EBUSY when an extent of the snapshot lies on it. */
static int snapshot_elsewhere(const struct snapshot_record *record,
			      const char *name, struct error *err)
{
	for (size_t k = 0; k < record->n_splits; k++) {
		if (strcmp(record->splits[k].node, name) == 0 &&
		    !record->splits[k].lost)
			return error_set(err, EBUSY,
					 "node '%s' has extent %zu of snapshot "
					 "'%s'; delete the snapshot first",
					 name, k, record->name);
	}
	return 0;
}

/* -EBUSY when a volume or a snapshot needs it. */
static int check_not_needed(struct volume_context *ctx, const char *name,
			    struct error *err)
{
	struct records records = {0};
	int r = records_read(ctx, name, &records, err);

	for (size_t i = 0; r == 0 && i < records.n_volumes; i++)
		r = node_unused(records.volumes[i], name, err);
	for (size_t i = 0; r == 0 && i < records.n_snapshots; i++)
		r = snapshot_elsewhere(records.snapshots[i], name, err);
	records_done(&records);
	return r;
}

/* ---- is it silent? ---- */

/*
 * Find out how long ago its last heartbeat was, by the store's clock. What its
 * record says of times does not count: it is by a clock that may be wrong.
 *
 * @ret  seconds; -1: it has no heartbeat
 *
 * -EBUSY: its keeper would bring it back at once.
 */
static int heard_of(struct volume_context *ctx, const char *name, int64_t *ret,
		    struct error *err)
{
	struct store_beat *beats = NULL;
	size_t n = 0;
	int r = ctx->store->ops->beats(ctx->store, &beats, &n, err);

	*ret = -1;
	for (size_t i = 0; r == 0 && i < n; i++) {
		if (strcmp(beats[i].name, name) != 0)
			continue;
		*ret = beats[i].age_s;
		if (*ret <= STORE_BEAT_LOST_S)
			r = error_set(
				err, EBUSY,
				"node '%s' keeps itself known: stop `trib "
				"node register --keep` there first",
				name);
	}
	free(beats);
	return r;
}

/* A server that answers by another name has taken the node's place. */
static int check_silent(struct volume_context *ctx,
			const struct node_record *node, struct error *err)
{
	struct node_state state = {0};
	struct node_client *client = NULL;
	int r = context_client_of(ctx, node, &client, err);

	if (r < 0)
		return r;
	r = node_client_get(client, &state, NULL);
	free(state.pools);
	return r < 0 ? 0
		     : error_set(err, EBUSY,
				 "node '%s' answers: it is not lost",
				 node->name);
}

/*
 * Check that the node is gone for good, as far as anybody can tell. That it is
 * silent now is not enough: all that it has is given up.
 */
static int check_lost(struct volume_context *ctx,
		      const struct node_record *node, int64_t age_s,
		      uint64_t grace_s, struct error *err)
{
	int r = check_silent(ctx, node, err);

	if (r < 0 || (age_s >= 0 ? (uint64_t)age_s : 0) >= grace_s)
		return r;
	if (age_s < 0)
		return error_set(err, EBUSY,
				 "node '%s' does not answer, and nothing tells "
				 "since when: it has no heartbeat. If it will "
				 "not come back, say --grace 0",
				 node->name);
	return error_set(err, EBUSY,
			 "node '%s' was heard of %" PRId64 " s ago: it counts "
			 "as lost for good after %" PRIu64 " s (--grace)",
			 node->name, age_s, grace_s);
}

/* ---- what it had ---- */

static int tell_split(struct operation *op, const struct volume_split *split,
		      const char *node, struct error *err)
{
	return store_tell(op->ctx->store, RECORD_KIND_VOLUME, op->name, true,
			  "SplitGivenUp", err,
			  "split %u is lost for good: node %s was removed",
			  split->index, node);
}

/*
 * Its splits are lost, and its attachment is forgotten. The next epoch fences
 * users that are there after all.
 */
static int lose_of(struct operation *op, const char *node,
		   struct volume_node_lost *sum, struct error *err)
{
	struct volume_attachment *a = volume_record_attachment(op->record,
							       node);
	const size_t before = volume_record_lost(op->record);
	size_t n = volume_record_lose(op->record, node);
	int r = 0;

	if (a && a->state != ATTACHMENT_PUBLISHED) {
		operation_unattach(op, a);
		n++;
	}
	if (n == 0)
		return 0;
	r = operation_step(op, err, "record",
			   "writing that splits of %s are lost", op->name);
	if (r == 0)
		r = operation_save(op, err);
	if (r < 0)
		return r;
	n = volume_record_lost(op->record) - before;
	sum->splits += n;
	sum->volumes += n > 0;
	for (size_t i = 0; n > 0 && i < op->record->n_splits; i++) {
		const struct volume_split *split = &op->record->splits[i];

		/* The error of an event is no reason to stop half way. */
		if (split->lost && strcmp(split->node, node) == 0)
			(void)tell_split(op, split, node, NULL);
	}
	return 0;
}

static bool has_anything(struct volume_record *record, const char *node)
{
	const struct volume_attachment *a = volume_record_attachment(record,
								     node);

	return (a && a->state != ATTACHMENT_PUBLISHED) ||
	       volume_record_lose(record, node) > 0;
}

static int lose_volume(struct volume_context *ctx, struct volume_record *record,
		       const char *node, struct volume_node_lost *sum,
		       struct error *err)
{
	struct operation op;
	int r;

	if (!has_anything(record, node))
		return 0;
	r = operation_begin(&op, ctx, record->name,
			    "giving up lost splits of volume", err);
	if (r < 0)
		return r;
	r = op.record ? lose_of(&op, node, sum, err) : 0;
	operation_end(&op);
	return r;
}

static int lose_of_snapshot(struct snapshot_op *s, const char *node,
			    struct volume_node_lost *sum, struct error *err)
{
	struct operation op;
	size_t n = snapshot_record_lose(s->record, node);
	int r;

	if (n == 0)
		return 0;
	operation_init(&op, s->ctx, s->name);
	r = operation_step(&op, err, "record",
			   "writing that extents of snapshot %s are lost",
			   s->name);
	operation_done(&op);
	if (r == 0)
		r = snapshot_op_save(s, err);
	if (r < 0)
		return r;
	sum->snapshots++;
	/* The error of an event is no reason to stop half way. */
	(void)store_tell(s->ctx->store, RECORD_KIND_SNAPSHOT, s->name, true,
			 "SplitGivenUp", NULL,
			 "%zu of %zu extents are lost for good: node %s was "
			 "removed",
			 n, s->record->n_splits, node);
	return 0;
}

static int lose_snapshot(struct volume_context *ctx,
			 struct snapshot_record *record, const char *node,
			 struct volume_node_lost *sum, struct error *err)
{
	struct snapshot_op s;
	int r;

	if (snapshot_record_lose(record, node) == 0)
		return 0;
	r = snapshot_op_begin(&s, ctx, record->name,
			      "giving up lost extents of snapshot", err);
	if (r < 0)
		return r;
	r = s.record ? lose_of_snapshot(&s, node, sum, err) : 0;
	snapshot_op_end(&s);
	return r;
}

static int lose_all(struct volume_context *ctx, const char *node,
		    struct volume_node_lost *sum, struct error *err)
{
	struct records records = {0};
	int r = records_read(ctx, node, &records, err);

	for (size_t i = 0; r == 0 && i < records.n_volumes; i++)
		r = lose_volume(ctx, records.volumes[i], node, sum, err);
	for (size_t i = 0; r == 0 && i < records.n_snapshots; i++)
		r = lose_snapshot(ctx, records.snapshots[i], node, sum, err);
	records_done(&records);
	return r;
}

/* ---- the calls ---- */

static int node_load(struct volume_context *ctx, const char *name,
		     struct node_record *ret, int64_t *ret_age_s,
		     struct error *err)
{
	int r = name_check("node", name, err);

	if (r == 0)
		r = context_node_load(ctx, name, ret, err);
	return r < 0 ? r : heard_of(ctx, name, ret_age_s, err);
}

static int node_drop(struct volume_context *ctx, const char *name,
		     struct error *err)
{
	int r = ctx->store->ops->remove(ctx->store, RECORD_KIND_NODE, name,
					NULL, err);

	if (r == -ENOENT)
		return error_set(err, ENOENT, "no node '%s' is known", name);
	return r < 0 ? r : ctx->store->ops->beat_end(ctx->store, name, err);
}

int volume_node_remove(struct volume_context *ctx, const char *name,
		       struct error *err)
{
	struct node_record node = {0};
	int64_t age_s = -1;
	int r = node_load(ctx, name, &node, &age_s, err);

	node_record_done(&node);
	if (r == 0)
		r = check_not_needed(ctx, name, err);
	return r < 0 ? r : node_drop(ctx, name, err);
}

int volume_node_give_up(struct volume_context *ctx, const char *name,
			uint64_t grace_s, struct volume_node_lost *ret,
			struct error *err)
{
	struct volume_node_lost sum = {0};
	struct node_record node = {0};
	int64_t age_s = -1;
	int r = node_load(ctx, name, &node, &age_s, err);

	/* A node that only uses volumes has nothing that could be lost. */
	if (r == 0 && node.control_address[0])
		r = check_lost(ctx, &node, age_s, grace_s, err);
	node_record_done(&node);
	if (r == 0)
		r = lose_all(ctx, name, &sum, err);
	if (ret)
		*ret = sum;
	/* Last: until then the same call goes on. */
	return r < 0 ? r : node_drop(ctx, name, err);
}
