/* SPDX-License-Identifier: Apache-2.0 */
#include "volume/op/split.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "volume/op/extent_labels.h"
#include "volume/op/extent_pull.h"

/*
 * The part of @limit that @size is of @whole, rounded up: at least 1, and
 * together no more than one above it for each part. 0 stays 0.
 */
static uint64_t limit_part(uint64_t limit, uint64_t size, uint64_t whole)
{
	unsigned __int128 part = (unsigned __int128)limit * size;

	if (limit == 0 || whole == 0 || size >= whole)
		return limit;
	return (uint64_t)((part + whole - 1) / whole);
}

struct node_limits split_limits(const struct volume_record *record,
				const struct volume_split *split)
{
	const struct volume_limits *limits = &record->spec.limits;
	uint64_t size = split->grow_to ? split->grow_to : split->size;
	uint64_t whole = volume_record_target(record);

	return (struct node_limits){
		.iops = limit_part(limits->iops, size, whole),
		.bytes_per_second = limit_part(limits->bytes_per_second, size,
					       whole),
	};
}

/* The extent that has the split's name: is it the split's? */
static bool is_ours(const struct operation *op,
		    const struct volume_split *split,
		    const struct node_extent *extent)
{
	const char *uid = labels_get(&extent->labels, VOLUME_LABEL_UID);

	if (!uid || strcmp(uid, op->record->uid) != 0)
		return false;
	return !split->extent_id[0] ||
	       strcmp(split->extent_id, extent->id) == 0;
}

/* Note the extent that was made for the split. */
static int split_take(struct operation *op, struct volume_split *split,
		      const struct node_extent *extent, struct error *err)
{
	if (extent->size != split->size || strlen(extent->id) != 36)
		return error_set(err, EPROTO,
				 "node '%s': made another extent than was "
				 "asked for",
				 split->node);
	operation_lock(op);
	memcpy(split->extent_id, extent->id, sizeof(split->extent_id));
	split->state = split->source[0] ? split->source_state : SPLIT_CREATED;
	operation_unlock(op);
	return 0;
}

int split_create(struct operation *op, struct volume_split *split,
		 struct error *err)
{
	struct labels labels = {0};
	/* Else it is of zeroes, and pulls its content later. */
	const bool shares = split->source[0] && !split->source_node[0];
	const struct node_extent_request wanted = {
		.pool = split->pool,
		.name = split->extent,
		.size = split->size,
		.labels = &labels,
		.source = shares ? split->source : NULL,
		.source_id = shares ? split->source_id : NULL,
		.limits = split_limits(op->record, split),
	};
	struct node_extent extent = {0};
	struct node_client *client = NULL;
	int r = operation_step(
		op, err, "extent", "making extent %u of %zu on node %s",
		split->index + 1, op->record->n_splits, split->node);

	if (r == 0)
		r = context_client(op->ctx, split->node, &client, err);
	if (r == 0)
		r = extent_labels_make(op->record, split, &labels, err);
	if (r == 0)
		r = node_client_create_extent(client, &wanted, &extent, err);
	/* An older version of us may have made it, with fewer labels. */
	if (r == -EEXIST &&
	    node_client_get_extent(client, split->extent, &extent, NULL) == 0) {
		if (is_ours(op, split, &extent) && extent.size == split->size)
			r = 0;
		else
			node_extent_done(&extent);
	}
	labels_done(&labels);
	if (r < 0)
		return r;
	r = split_take(op, split, &extent, err);
	node_extent_done(&extent);
	return r;
}

void split_pull_of(const struct volume_split *split, struct extent_pull *ret)
{
	ret->from_node = split->source_node;
	ret->from = split->source;
	ret->from_id = split->source_id;
	ret->to_node = split->node;
	ret->to = split->extent;
	ret->to_id = split->extent_id;
	ret->position = split->pulled;
}

/* The source of a copy that is not whole may still let its node in. */
static int split_end_pull(struct operation *op,
			  const struct volume_split *split, struct error *err)
{
	struct extent_pull pull = {0};

	if (!split->copying)
		return 0;
	split_pull_of(split, &pull);
	return extent_pull_end(op->ctx, &pull, err);
}

int split_delete(struct operation *op, struct volume_split *split,
		 struct error *err)
{
	struct node_extent extent = {0};
	struct node_client *client = NULL;
	struct split_grants grants;
	int r = operation_step(
		op, err, "delete", "deleting extent %u of %zu on node %s",
		split->index + 1, op->record->n_splits, split->node);

	if (r == 0)
		r = context_client(op->ctx, split->node, &client, err);
	if (r == 0)
		r = node_client_get_extent(client, split->extent, &extent, err);
	split_grants_of(op->record, &grants);
	if (r == 0 && is_ours(op, split, &extent))
		r = split_check_known(op, split, &extent, err);
	if (r == 0 && is_ours(op, split, &extent)) {
		/*
		 * By the record nobody has the extent; users that the export
		 * knows go.
		 */
		if (extent.has_export && extent.active)
			r = node_client_remove_export(client, split->extent, 0,
						      grants.items, grants.n,
						      err);
		if (r == 0)
			r = node_client_delete_extent(client, split->extent,
						      extent.id, err);
	}
	node_extent_done(&extent);
	if (r == 0 || r == -ENOENT)
		r = split_end_pull(op, split, err);
	if (r < 0)
		return r;
	operation_lock(op);
	split->state = SPLIT_DELETED;
	split->fs_behind = false; /* nothing is */
	operation_unlock(op);
	return 0;
}

/* ---- grow ---- */

int split_adopt(struct operation *op, struct volume_split *split,
		const struct node_extent *extent, struct error *err)
{
	int r = -EUCLEAN;

	operation_lock(op);
	if (is_ours(op, split, extent))
		r = volume_record_grown(op->record, split, extent->size);
	operation_unlock(op);
	if (r == 0)
		return 0;
	if (r == -ERANGE && volume_spec_is_device(&op->record->spec))
		return error_set(err, EUCLEAN,
				 "extent '%s' on node '%s' has %llu bytes, "
				 "%llu in the record: another size would move "
				 "what lies behind it in the device",
				 split->extent, split->node,
				 (unsigned long long)extent->size,
				 (unsigned long long)split->size);
	return error_set(err, EUCLEAN,
			 "extent '%s' on node '%s' is not the one in the "
			 "record of volume '%s'",
			 split->extent, split->node, op->name);
}

static int split_look(struct operation *op, struct volume_split *split,
		      struct node_client **ret, struct error *err)
{
	struct node_extent extent = {0};
	int r = context_client(op->ctx, split->node, ret, err);

	if (r == 0)
		r = node_client_get_extent(*ret, split->extent, &extent, err);
	if (r == 0)
		r = split_adopt(op, split, &extent, err);
	node_extent_done(&extent);
	return r;
}

int split_grow(struct operation *op, struct volume_split *split,
	       struct error *err)
{
	struct node_client *client = NULL;
	struct node_extent extent = {0};
	uint64_t before = split->size;
	int r = operation_step(
		op, err, "extent", "growing extent %u of %zu on node %s",
		split->index + 1, op->record->n_splits, split->node);

	if (r == 0)
		r = split_look(op, split, &client, err);
	if (r == 0 && split->grow_to) {
		r = node_client_resize_extent(client, split->extent,
					      split->grow_to, &extent, err);
		if (r == 0)
			r = split_adopt(op, split, &extent, err);
		if (r == 0 && split->grow_to)
			r = error_set(
				err, EPROTO,
				"node '%s' reported that extent '%s' is larger, but it is "
				"not",
				split->node, split->extent);
		node_extent_done(&extent);
	}
	return r == 0 && split->size != before ? operation_save(op, err) : r;
}

int split_settle(struct operation *op, struct volume_split *split,
		 struct error *err)
{
	struct node_client *client = NULL;
	int r = split_look(op, split, &client, err);

	if (r == 0)
		split->grow_to = 0;
	return r;
}

int split_set_behind(struct operation *op, struct volume_split *split,
		     bool behind, struct error *err)
{
	int r;

	operation_lock(op);
	split->fs_behind = behind;
	r = operation_save(op, err);
	operation_unlock(op);
	return r;
}
