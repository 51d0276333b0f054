/* SPDX-License-Identifier: Apache-2.0 */
#include "volume/scrub/orphan_match.h"

#include <errno.h>
#include <string.h>

const struct volume_split *orphan_split_of(const struct volume_record *record,
					   const char *id, const char *name)
{
	for (size_t i = 0; i < record->n_splits; i++) {
		const struct volume_split *split = &record->splits[i];

		/* A split that is only planned has no id yet. */
		if (split->lost)
			continue;
		if (split->extent_id[0] ? strcmp(split->extent_id, id) == 0
					: strcmp(split->extent, name) == 0)
			return split;
	}
	return NULL;
}

/* Tell whether the extent is the other place of a split that moves. */
static bool is_moving(const struct volume_record *record, const char *id,
		      const char *name, const char *node)
{
	for (size_t i = 0; i < record->n_splits; i++) {
		const struct split_move *move = &record->splits[i].move;

		if (strcmp(move->node, node) == 0 &&
		    (move->extent_id[0] ? strcmp(move->extent_id, id) == 0
					: strcmp(move->extent, name) == 0))
			return true;
	}
	return false;
}

bool orphan_record_has(const struct volume_record *record, const char *id,
		       const char *name, const char *node)
{
	const struct volume_split *split = orphan_split_of(record, id, name);

	return (split && strcmp(split->node, node) == 0) ||
	       is_moving(record, id, name, node);
}

const struct snapshot_split *orphan_snapshot_split(
	const struct snapshot_record *record, const char *name)
{
	for (size_t k = 0; record && k < record->n_splits; k++) {
		if (!record->splits[k].lost &&
		    strcmp(record->splits[k].extent, name) == 0)
			return &record->splits[k];
	}
	return NULL;
}

/* The record looks for the split there still. */
static bool is_looked_for(const struct volume_record *record,
			  const struct orphan *o)
{
	const struct volume_split *split = orphan_split_of(record, o->extent_id,
							   o->name);

	return split && split->state != SPLIT_PLANNED &&
	       split->state != SPLIT_DELETED &&
	       strcmp(split->node, o->node) == 0;
}

/* Without an answer of the store it is as it was found. */
static bool volume_confirms(struct volume_context *ctx, const struct orphan *o)
{
	struct volume_record *record = NULL;
	int r = volume_get(ctx, o->volume, &record, NULL);
	bool yes;

	if (r < 0)
		return r != -ENOENT || o->kind == ORPHAN_EXTENT;
	if (strcmp(record->uid, o->uid) != 0)
		yes = o->kind == ORPHAN_EXTENT;
	else if (o->kind == ORPHAN_EXTENT)
		yes = !orphan_record_has(record, o->extent_id, o->name,
					 o->node);
	else
		yes = is_looked_for(record, o);
	volume_record_free(record);
	return yes;
}

static bool snapshot_confirms(struct volume_context *ctx,
			      const struct orphan *o)
{
	struct snapshot_record *record = NULL;
	const struct snapshot_split *split;
	int r = volume_snapshot_get(ctx, o->snapshot, &record, NULL);
	bool there;

	if (r < 0)
		return r != -ENOENT || o->kind == ORPHAN_EXTENT;
	split = strcmp(record->uid, o->uid) == 0
			? orphan_snapshot_split(record, o->name)
			: NULL;
	there = split && strcmp(split->node, o->node) == 0 &&
		(o->kind == ORPHAN_EXTENT ||
		 (split->state != SNAPSHOT_SPLIT_PLANNED &&
		  split->state != SNAPSHOT_SPLIT_DELETED));
	snapshot_record_free(record);
	return o->kind == ORPHAN_EXTENT ? !there : there;
}

bool orphan_is_confirmed(struct volume_context *ctx, const struct orphan *o)
{
	return o->snapshot[0] ? snapshot_confirms(ctx, o)
			      : volume_confirms(ctx, o);
}
