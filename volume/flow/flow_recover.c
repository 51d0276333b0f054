/* SPDX-License-Identifier: Apache-2.0 */
/* volume_recover(): a volume's record, from what its extents say. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "volume/extent/extent_inventory.h"
#include "volume/op/extent_labels.h"
#include "volume/snapshot/snapshot.h"

struct part {
	const char *node;                 /* borrowed */
	const struct node_extent *extent; /* borrowed; NULL: not found */
	struct extent_labels labels;
};

struct recover {
	struct operation op;
	struct node_inventory *inventory;
	size_t n_nodes;
	char uid[UUID_TEXT_SIZE]; /* "": any, until one is found */
	struct part parts[VOLUME_SPLITS_MAX];
	size_t n_parts; /* the highest index, or count, that any part says */
};

static const char *label_of(const struct node_extent *extent, const char *key)
{
	return labels_get(&extent->labels, key) ?: "";
}

/* ---- what there is ---- */

static int add_part(struct recover *rc, const char *node,
		    const struct node_extent *extent, struct error *err)
{
	const char *uid = label_of(extent, VOLUME_LABEL_UID);
	struct extent_labels labels;
	struct part *part;
	int r;

	if (rc->uid[0] && strcmp(rc->uid, uid) != 0)
		return error_set(err, EINVAL,
				 "there are extents of two volumes '%s': say "
				 "which, '%s@%s' or '%s@%s'",
				 rc->op.name, rc->op.name, rc->uid, rc->op.name,
				 uid);
	r = extent_labels_read(extent, &labels, err);
	if (r < 0)
		return r;
	(void)snprintf(rc->uid, sizeof(rc->uid), "%s", uid);
	part = &rc->parts[labels.index];
	if (part->extent)
		return error_set(err, EEXIST,
				 "nodes '%s' and '%s' both have split %u (%s): "
				 "a copy of a pool, or one blockd by two "
				 "names; remove one of the nodes",
				 part->node, node, labels.index, extent->name);
	*part = (struct part){node, extent, labels};
	if (rc->n_parts < labels.count)
		rc->n_parts = labels.count;
	return 0;
}

/* @wanted: the uid it has to have; "": any */
static int find_parts(struct recover *rc, const char *wanted, struct error *err)
{
	int r = 0;

	for (size_t i = 0; i < rc->n_nodes; i++) {
		const struct node_inventory *inventory = &rc->inventory[i];

		for (size_t k = 0; r == 0 && k < inventory->n_extents; k++) {
			const struct node_extent *e = &inventory->extents[k];

			if (strcmp(label_of(e, VOLUME_LABEL_NAME),
				   rc->op.name) == 0 &&
			    !labels_get(&e->labels, SNAPSHOT_LABEL_UID) &&
			    (!wanted[0] || strcmp(label_of(e, VOLUME_LABEL_UID),
						  wanted) == 0))
				r = add_part(rc, inventory->node, e, err);
		}
	}
	if (r == 0 && rc->n_parts == 0)
		r = error_set(err, ENOENT,
			      "no node that answers has an extent of it");
	return r;
}

/*
 * Count the volume's splits. Splits at the end that were never written to, and
 * of which some are missing, are of a growing that was not finished.
 */
static int count_parts(struct recover *rc, size_t *ret, struct error *err)
{
	size_t silent = inventory_unreachable(rc->inventory, rc->n_nodes);
	size_t n = 0;
	bool known = false;

	while (n < rc->n_parts && rc->parts[n].extent)
		n++;
	*ret = n;
	if (n == rc->n_parts)
		return 0;
	for (size_t i = 0; i < n; i++)
		known |= rc->parts[i].labels.count == n;
	for (size_t i = n; i < rc->n_parts; i++)
		known &= !rc->parts[i].extent || rc->parts[i].extent->blank;
	if (known && silent == 0)
		return 0;
	return error_set(err, silent ? EHOSTUNREACH : EUCLEAN,
			 "split %zu of %zu is on no node that answers (%zu do "
			 "not)",
			 n, rc->n_parts, silent);
}

/* ---- a record that is not there ---- */

static void split_fill(const struct part *part, unsigned index,
		       struct volume_split *split)
{
	const struct node_extent *e = part->extent;

	*split = (struct volume_split){
		.index = index,
		.size = e->size,
		/* An extent that was never written to is known to be blank. */
		.state = e->blank ? SPLIT_CREATED : SPLIT_READY,
		.fs_behind = !e->blank && part->labels.fs_type[0],
	};
	memcpy(split->extent, e->name, sizeof(split->extent));
	memcpy(split->extent_id, e->id, sizeof(split->extent_id));
	memcpy(split->pool, e->pool, sizeof(split->pool));
	(void)snprintf(split->node, sizeof(split->node), "%s", part->node);
	(void)snprintf(split->fs_uuid, sizeof(split->fs_uuid), "%s",
		       part->labels.fs_uuid);
}

static bool is_one_file_system(const struct extent_labels *labels)
{
	return labels->fs_type[0] && strcmp(labels->layout, "union") != 0;
}

/* The file system of a device begins in its first split. */
static void share_state(struct volume_split *splits, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		splits[i].state = splits[0].state;
		splits[i].fs_behind = i == 0 && splits[0].state == SPLIT_READY;
	}
}

/* As many as @n. */
static int splits_add(struct volume_record *record, const struct recover *rc,
		      size_t n, struct error *err)
{
	struct volume_split *splits = reallocarray(record->splits, n + 1,
						   sizeof(*splits));

	if (!splits)
		return error_set(err, ENOMEM, "out of memory");
	record->splits = splits;
	while (record->n_splits < n) {
		size_t i = record->n_splits++;

		split_fill(&rc->parts[i], (unsigned)i, &splits[i]);
		record->spec.capacity += splits[i].size;
	}
	if (is_one_file_system(&rc->parts[0].labels))
		share_state(splits, n);
	return 0;
}

static int spec_fill(struct volume_spec *spec,
		     const struct extent_labels *labels, struct error *err)
{
	memcpy(spec->layout, labels->layout, sizeof(spec->layout));
	spec->stripe_width = labels->stripe_width;
	spec->stripe_unit = labels->stripe_unit;
	memcpy(spec->fs_type, labels->fs_type, sizeof(spec->fs_type));
	memcpy(spec->policy, labels->policy, sizeof(spec->policy));
	memcpy(spec->transport, labels->transport, sizeof(spec->transport));
	return volume_spec_check(spec, err);
}

static int make_record(struct recover *rc, struct error *err)
{
	struct volume_record *record = volume_record_new();
	size_t n = 0;
	int r = record ? count_parts(rc, &n, err)
		       : error_set(err, ENOMEM, "out of memory");

	if (r < 0) {
		volume_record_free(record);
		return r;
	}
	rc->op.record = record;
	memcpy(record->name, rc->op.name, sizeof(record->name));
	memcpy(record->uid, rc->uid, sizeof(record->uid));
	record->created_s = rc->parts[0].extent->created_s;
	record->phase = VOLUME_READY;
	for (size_t i = 0; i < n; i++) {
		if (record->epoch < rc->parts[i].extent->epoch)
			record->epoch = rc->parts[i].extent->epoch;
	}
	r = splits_add(record, rc, n, err);
	return r < 0 ? r : spec_fill(&record->spec, &rc->parts[0].labels, err);
}

/* ---- one that is there ---- */

static int check_nobody_has_it(const struct volume_record *record,
			       struct error *err)
{
	for (size_t i = 0; i < record->n_attachments; i++) {
		const struct volume_attachment *a = &record->attachments[i];

		if (a->state != ATTACHMENT_PUBLISHED)
			return error_set(err, EBUSY,
					 "it is attached on node '%s'; unmount "
					 "it there first",
					 a->node);
	}
	return 0;
}

/* The record looks for the split where its extent is. */
static int recover_look_here(struct recover *rc, struct volume_split *split,
			     bool *ret_changed, struct error *err)
{
	const struct part *part = &rc->parts[split->index];
	const struct node_extent *e = part->extent;

	if (!e || strcmp(e->id, split->extent_id) != 0)
		return error_set(
			err,
			inventory_unreachable(rc->inventory, rc->n_nodes)
				? EHOSTUNREACH
				: EUCLEAN,
			"extent '%s' of split %u is on no node that answers%s",
			split->extent, split->index,
			e ? ": another one has its place" : "");
	if (strcmp(split->node, part->node) == 0 &&
	    strcmp(split->pool, e->pool) == 0)
		return 0;
	(void)snprintf(split->node, sizeof(split->node), "%s", part->node);
	memcpy(split->pool, e->pool, sizeof(split->pool));
	*ret_changed = true;
	return 0;
}

static int mend_record(struct recover *rc, bool *ret_changed, struct error *err)
{
	struct volume_record *record = rc->op.record;
	size_t made = volume_record_made(record), n = 0;
	int r = operation_check_ready(&rc->op, err);

	if (r == 0)
		r = check_nobody_has_it(record, err);
	for (size_t i = 0; r == 0 && i < made; i++)
		r = recover_look_here(rc, &record->splits[i], ret_changed, err);
	if (r == 0 && made == record->n_splits)
		r = count_parts(rc, &n, err);
	/* The volume has grown since the record was saved. */
	if (r == 0 && n > record->n_splits) {
		*ret_changed = true;
		r = splits_add(record, rc, n, err);
	}
	return r;
}

/* ---- the whole ---- */

static int recover(struct recover *rc, const char *wanted, struct error *err)
{
	const bool had = rc->op.record != NULL;
	bool changed = !had;
	int r;

	if (had && wanted[0] && strcmp(wanted, rc->op.record->uid) != 0)
		return error_set(err, EEXIST,
				 "another volume has the name by now, with the "
				 "uid %s",
				 rc->op.record->uid);
	r = operation_step(&rc->op, err, "plan",
			   "asking the nodes for their extents");
	if (r == 0)
		r = inventory_ask(rc->op.ctx, &rc->inventory, &rc->n_nodes,
				  err);
	if (r == 0)
		r = find_parts(rc, had ? rc->op.record->uid : wanted, err);
	if (r == 0)
		r = had ? mend_record(rc, &changed, err) : make_record(rc, err);
	if (r == 0)
		r = operation_step(&rc->op, err, "record",
				   "writing the record");
	if (r == 0 && changed)
		r = operation_save(&rc->op, err);
	if (r == 0)
		operation_finish(&rc->op, "volume %s has its record",
				 rc->op.name);
	return r;
}

int volume_recover(struct volume_context *ctx, const char *id,
		   struct volume_record **ret, struct error *err)
{
	struct recover *rc = calloc(1, sizeof(*rc));
	char name[RECORD_NAME_SIZE];
	const char *wanted = id_split(id, name);
	int r = rc ? 0 : error_set(err, ENOMEM, "out of memory");

	if (r == 0)
		r = operation_begin(&rc->op, ctx, name, "recovering volume",
				    err);
	if (r < 0) {
		free(rc);
		return r;
	}
	r = recover(rc, wanted, err);
	if (r == 0 && ret) {
		*ret = rc->op.record;
		rc->op.record = NULL;
	}
	operation_end(&rc->op);
	inventory_free(rc->inventory, rc->n_nodes);
	free(rc);
	if (r < 0)
		(void)error_prefix(err, r, "recover volume '%s': ", name);
	return r;
}
