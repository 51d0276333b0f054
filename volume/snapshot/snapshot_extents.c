/* SPDX-License-Identifier: Apache-2.0 */
/* The extents of a snapshot: planned, deleted, looked at. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/parallel.h"
#include "volume/plan/volume_plan.h"
#include "volume/snapshot/snapshot_op.h"

#define AT_ONCE 16 /* threads; most of their time they wait for a node */

bool snapshot_split_is(const struct snapshot_record *record,
		       const struct snapshot_split *split,
		       const struct node_extent *extent)
{
	const char *uid = labels_get(&extent->labels, SNAPSHOT_LABEL_UID);

	if (!extent->snapshot || !uid || strcmp(uid, record->uid) != 0)
		return false;
	return !split->extent_id[0] ||
	       strcmp(split->extent_id, extent->id) == 0;
}

int snapshot_check_whole(const struct snapshot_record *record,
			 struct error *err)
{
	size_t lost = snapshot_record_lost(record);

	if (lost == 0)
		return 0;
	return error_set(err, EBUSY,
			 "snapshot '%s' has lost %zu of %zu extents with their "
			 "nodes; `trib snapshot delete %s` deletes the rest",
			 record->name, lost, record->n_splits, record->name);
}

/* ---- plan ---- */

static int check_source(const struct operation *op, struct error *err)
{
	const struct volume_record *record = op->record;
	int r = operation_check_ready(op, err);

	if (r < 0)
		return r;
	if (volume_plan_is_open(record))
		return error_set(err, EBUSY,
				 "volume '%s' is half way through a resize; "
				 "finish that by `trib volume resize` first",
				 op->name);
	return 0;
}

static void plan_split(const struct snapshot_record *record,
		       const struct volume_split *from,
		       struct snapshot_split *to)
{
	*to = (struct snapshot_split){
		.index = from->index,
		.size = from->size,
		.state = SNAPSHOT_SPLIT_PLANNED,
		.content = from->state,
		.fs_behind = from->fs_behind,
	};
	memcpy(to->node, from->node, sizeof(to->node));
	memcpy(to->pool, from->pool, sizeof(to->pool));
	memcpy(to->origin, from->extent, sizeof(to->origin));
	memcpy(to->origin_id, from->extent_id, sizeof(to->origin_id));
	memcpy(to->fs_uuid, from->fs_uuid, sizeof(to->fs_uuid));
	(void)snprintf(to->extent, sizeof(to->extent),
		       SNAPSHOT_EXTENT_PREFIX "%s-%hhu", record->uid,
		       (unsigned char)from->index);
}

int snapshot_plan(const struct operation *op, struct snapshot_record *record,
		  struct error *err)
{
	const struct volume_record *volume = op->record;
	struct snapshot_split *splits;
	int r = check_source(op, err);

	if (r == 0)
		r = volume_spec_copy(&volume->spec, &record->spec, err);
	if (r < 0)
		return r;
	splits = calloc(volume->n_splits + 1, sizeof(*splits));
	if (!splits)
		return error_set(err, ENOMEM, "out of memory");
	for (size_t i = 0; i < volume->n_splits; i++)
		plan_split(record, &volume->splits[i], &splits[i]);
	free(record->splits);
	record->splits = splits;
	record->n_splits = volume->n_splits;
	memcpy(record->volume, volume->name, sizeof(record->volume));
	memcpy(record->volume_uid, volume->uid, sizeof(record->volume_uid));
	return 0;
}

/* ---- all of them, side by side ---- */

struct batch {
	struct operation *op;
	struct snapshot_record *record;
	int (*each)(struct batch *batch, struct snapshot_split *split,
		    struct error *err);
	enum snapshot_split_state state; /* of extents_each() */
	struct name_list silent;         /* under op->lock, with the rest */
	int r;                           /* of the first problem */
	struct error err;
};

static bool is_wanted(struct batch *batch, const struct snapshot_split *split)
{
	bool wanted;

	operation_lock(batch->op);
	wanted = batch->r != -ECANCELED && !split->lost &&
		 !name_list_has(&batch->silent, split->node);
	operation_unlock(batch->op);
	return wanted;
}

static void extents_each(void *batch_, size_t index)
{
	struct batch *batch = batch_;
	struct snapshot_split *split = &batch->record->splits[index];
	struct error err = {0};
	int r;

	if (!is_wanted(batch, split))
		return;
	r = batch->each(batch, split, &err);
	if (r == 0)
		return;
	operation_lock(batch->op);
	/* Without memory for the list it is asked again, that is all. */
	if (r == -EHOSTUNREACH || r == -ETIMEDOUT)
		(void)name_list_add(&batch->silent, split->node, NULL);
	if (batch->r == 0) {
		batch->r = r;
		batch->err = err;
	}
	operation_unlock(batch->op);
}

static int extents_run(struct batch *batch, struct error *err)
{
	parallel_run(batch->record->n_splits, AT_ONCE, extents_each, batch);
	name_list_done(&batch->silent);
	if (batch->r < 0 && err)
		*err = batch->err;
	return batch->r;
}

/* ---- delete ---- */

static int delete_one(struct batch *batch, struct snapshot_split *split,
		      struct error *err)
{
	struct node_extent extent = {0};
	struct node_client *client = NULL;
	int r;

	if (split->state == SNAPSHOT_SPLIT_DELETED)
		return 0;
	r = operation_step(batch->op, err, "delete",
			   "deleting extent %u of %zu of snapshot %s on node "
			   "%s",
			   split->index + 1, batch->record->n_splits,
			   batch->record->name, split->node);
	if (r == 0)
		r = context_client(batch->op->ctx, split->node, &client, err);
	if (r == 0)
		r = node_client_get_extent(client, split->extent, &extent, err);
	if (r == 0 && snapshot_split_is(batch->record, split, &extent))
		r = node_client_delete_extent(client, split->extent, extent.id,
					      err);
	node_extent_done(&extent);
	if (r < 0 && r != -ENOENT)
		return r;
	operation_lock(batch->op);
	split->state = batch->state;
	if (batch->state == SNAPSHOT_SPLIT_PLANNED) {
		split->extent_id[0] = '\0';
		split->copied = 0;
	}
	operation_unlock(batch->op);
	return 0;
}

int snapshot_extents_delete(struct operation *op,
			    struct snapshot_record *record,
			    enum snapshot_split_state state, struct error *err)
{
	struct batch batch = {
		.op = op,
		.record = record,
		.each = delete_one,
		.state = state,
	};

	return extents_run(&batch, err);
}

/* ---- look ---- */

static int look_one(struct batch *batch, struct snapshot_split *split,
		    struct error *err)
{
	struct node_extent extent = {0};
	struct node_client *client = NULL;
	int r;

	if (split->state != SNAPSHOT_SPLIT_COPYING)
		return 0;
	r = context_client(batch->op->ctx, split->node, &client, err);
	if (r == 0)
		r = node_client_get_extent(client, split->extent, &extent, err);
	if (r == 0 && !snapshot_split_is(batch->record, split, &extent))
		r = error_set(err, EUCLEAN,
			      "extent '%s' on node '%s' is not the one in the "
			      "record of snapshot '%s'",
			      split->extent, split->node, batch->record->name);
	if (r == 0) {
		operation_lock(batch->op);
		if (strcmp(extent.state, NODE_COPYING) == 0) {
			split->copied = extent.copied < split->size
						? extent.copied
						: split->size;
		} else {
			split->state = SNAPSHOT_SPLIT_READY;
			split->copied = 0;
		}
		operation_unlock(batch->op);
	}
	node_extent_done(&extent);
	return r;
}

int snapshot_extents_look(struct operation *op, struct snapshot_record *record,
			  struct error *err)
{
	struct batch batch = {.op = op, .record = record, .each = look_one};
	int r = extents_run(&batch, err);

	if (r < 0)
		return r;
	for (size_t i = 0; i < record->n_splits; i++) {
		if (record->splits[i].state != SNAPSHOT_SPLIT_READY)
			return 0;
	}
	record->phase = SNAPSHOT_READY;
	return 0;
}
