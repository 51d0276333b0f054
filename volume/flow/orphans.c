/* SPDX-License-Identifier: Apache-2.0 */
/* volume_orphans(): data without a record, and records without data. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "volume/op/extent_inventory.h"
#include "volume/op/extent_labels.h"
#include "volume/snapshot/snapshot_op.h"

#define LOST "no extent here has a record: the records are lost; "

struct search {
	struct volume_context *ctx;
	struct volume_record **records;
	size_t n_records;
	struct snapshot_record **snapshots;
	size_t n_snapshots;
	struct node_inventory *inventory;
	size_t n_nodes;
	bool lost; /* there is no record for anything */
	struct orphan *orphans;
	size_t n_orphans;
	int r;
};

static struct orphan *orphan_add(struct search *search, enum orphan_kind kind,
				 const char *node, const char *volume,
				 const char *name, const char *fmt, ...)
	__attribute__((format(printf, 6, 7)));

static struct orphan *orphan_add(struct search *search, enum orphan_kind kind,
				 const char *node, const char *volume,
				 const char *name, const char *fmt, ...)
{
	struct orphan *o = reallocarray(search->orphans, search->n_orphans + 1,
					sizeof(*o));
	va_list ap;

	if (!o) {
		search->r = -ENOMEM;
		return NULL;
	}
	search->orphans = o;
	o += search->n_orphans++;
	*o = (struct orphan){.kind = kind};
	(void)snprintf(o->node, sizeof(o->node), "%s", node);
	(void)snprintf(o->volume, sizeof(o->volume), "%.63s", volume);
	(void)snprintf(o->name, sizeof(o->name), "%.63s", name);
	va_start(ap, fmt);
	(void)vsnprintf(o->message, sizeof(o->message), fmt, ap);
	va_end(ap);
	return o;
}

static void orphan_say(struct orphan *o, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

static void orphan_say(struct orphan *o, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(o->message, sizeof(o->message), fmt, ap);
	va_end(ap);
}

static const struct volume_record *record_of(const struct search *search,
					     const char *uid)
{
	for (size_t i = 0; i < search->n_records; i++) {
		if (strcmp(search->records[i]->uid, uid) == 0)
			return search->records[i];
	}
	return NULL;
}

/* The split that @extent is, by its id: wherever the record looks for it. */
static const struct volume_split *split_of(const struct volume_record *record,
					   const struct node_extent *extent)
{
	for (size_t i = 0; i < record->n_splits; i++) {
		const struct volume_split *split = &record->splits[i];

		/* A split that is only planned has no id yet. */
		if (split->lost)
			continue;
		if (split->extent_id[0]
			    ? strcmp(split->extent_id, extent->id) == 0
			    : strcmp(split->extent, extent->name) == 0)
			return split;
	}
	return NULL;
}

/* Tell whether the extent is the other place of a split that moves. */
static bool is_moving(const struct volume_record *record,
		      const struct node_extent *extent, const char *node)
{
	for (size_t i = 0; i < record->n_splits; i++) {
		const struct split_move *move = &record->splits[i].move;

		if (strcmp(move->node, node) == 0 &&
		    (move->extent_id[0]
			     ? strcmp(move->extent_id, extent->id) == 0
			     : strcmp(move->extent, extent->name) == 0))
			return true;
	}
	return false;
}

static const struct snapshot_split *snapshot_split_of(
	const struct search *search, const struct node_extent *extent,
	const char *uid)
{
	for (size_t i = 0; i < search->n_snapshots; i++) {
		const struct snapshot_record *record = search->snapshots[i];

		if (strcmp(record->uid, uid) != 0)
			continue;
		for (size_t k = 0; k < record->n_splits; k++) {
			if (!record->splits[k].lost &&
			    strcmp(record->splits[k].extent, extent->name) == 0)
				return &record->splits[k];
		}
	}
	return NULL;
}

/*
 * Tell whether no extent of a volume has a record. Then the extents are not
 * left over: the records are gone, or this is the wrong store.
 */
static bool records_are_lost(const struct search *search)
{
	bool any = false;

	for (size_t i = 0; i < search->n_nodes; i++) {
		const struct node_inventory *inventory = &search->inventory[i];

		for (size_t k = 0; k < inventory->n_extents; k++) {
			const char *uid = labels_get(
				&inventory->extents[k].labels,
				VOLUME_LABEL_UID);

			if (uid && record_of(search, uid))
				return false;
			any |= uid && !inventory->extents[k].blank;
		}
	}
	return any;
}

/* An extent that says it is of a snapshot. */
static void find_snapshot_extent(struct search *search, const char *node,
				 const struct node_extent *extent,
				 const char *uid)
{
	const char *name = labels_get(&extent->labels, SNAPSHOT_LABEL_NAME);
	const char *volume = labels_get(&extent->labels, VOLUME_LABEL_NAME);
	const struct snapshot_split *split = snapshot_split_of(search, extent,
							       uid);
	struct orphan *o;

	if (split && strcmp(split->node, node) == 0)
		return;
	o = orphan_add(search, ORPHAN_EXTENT, node, volume ? volume : "",
		       extent->name, "no snapshot has it");
	if (!o)
		return;
	o->size = extent->size;
	(void)snprintf(o->snapshot, sizeof(o->snapshot), "%.63s",
		       name ? name : "");
	if (split)
		orphan_say(o,
			   "snapshot '%s' looks for it on node '%s'; keep it",
			   name, split->node);
	else if (search->lost)
		orphan_say(o, LOST "restore those from a backup");
	else
		orphan_say(
			o,
			"no snapshot has it; `trib extent delete --force %s/%s` "
			"frees it",
			node, extent->name);
}

/*
 * Tell whether the extent was the split of @record that now is elsewhere, or is
 * lost for good. One that is newer than the record has a higher epoch.
 */
static bool was_left(const struct search *search,
		     const struct volume_record *record,
		     const struct node_extent *extent)
{
	const struct volume_split *split;
	struct extent_labels labels;

	if (extent_labels_read(extent, &labels, NULL) < 0 ||
	    labels.index >= record->n_splits || extent->epoch > record->epoch)
		return false;
	split = &record->splits[labels.index];
	return split->lost || inventory_find(search->inventory, search->n_nodes,
					     record->uid, split->extent_id, "");
}

/* Extents that orphan_say they are of a volume which does not have them. */
static void tell_of_extent(struct orphan *o, const struct search *search,
			   const struct volume_record *record,
			   const struct node_extent *extent)
{
	const struct volume_split *split = record ? split_of(record, extent)
						  : NULL;

	if (split)
		orphan_say(
			o,
			"volume '%s' looks for it on node '%s'%s; `trib volume "
			"recover %s` has it look here",
			record->name, split->node,
			inventory_find(search->inventory, search->n_nodes,
				       record->uid, extent->id, o->node)
				? ", which has it, too (a copy?)"
				: "",
			record->name);
	else if (record && was_left(search, record, extent))
		orphan_say(
			o,
			"volume '%s' goes on without it: the split has moved, or "
			"was lost with this node. `trib extent delete --force "
			"%s/%s` frees it",
			record->name, o->node, extent->name);
	else if (extent->blank && !search->lost)
		orphan_say(
			o,
			"no volume has it, and it was never written to; `trib "
			"extent delete --force %s/%s` frees it",
			o->node, extent->name);
	else if (record)
		orphan_say(
			o,
			"volume '%s' does not have it, but it was written to: if "
			"that record is from an old backup, `trib volume recover "
			"%s` adds it",
			record->name, record->name);
	else
		orphan_say(
			o,
			"%s`trib volume recover %s` makes one of the extents; "
			"`trib volume delete` then deletes them",
			search->lost ? LOST : "no volume has it: ",
			o->volume[0] ? o->volume : "NAME");
}

static void find_extents(struct search *search,
			 const struct node_inventory *inventory)
{
	for (size_t i = 0; i < inventory->n_extents; i++) {
		const struct node_extent *extent = &inventory->extents[i];
		const char *uid = labels_get(&extent->labels, VOLUME_LABEL_UID);
		const char *name = labels_get(&extent->labels,
					      VOLUME_LABEL_NAME);
		const char *cut = labels_get(&extent->labels,
					     SNAPSHOT_LABEL_UID);
		const struct volume_record *record;
		const struct volume_split *split;
		struct orphan *o;

		if (cut)
			find_snapshot_extent(search, inventory->node, extent,
					     cut);
		if (cut || !uid)
			continue;
		record = record_of(search, uid);
		split = record ? split_of(record, extent) : NULL;
		if ((split && strcmp(split->node, inventory->node) == 0) ||
		    (record && is_moving(record, extent, inventory->node)))
			continue;
		o = orphan_add(search, ORPHAN_EXTENT, inventory->node,
			       name ? name : "", extent->name,
			       "no volume has it");
		if (!o)
			continue;
		o->size = extent->size;
		tell_of_extent(o, search, record, extent);
	}
}

static bool inventory_has(const struct node_inventory *inventory,
			  const struct volume_split *split, const char *uid)
{
	for (size_t i = 0; i < inventory->n_extents; i++) {
		const char *has = labels_get(&inventory->extents[i].labels,
					     VOLUME_LABEL_UID);

		if (strcmp(inventory->extents[i].name, split->extent) == 0 &&
		    has && strcmp(has, uid) == 0)
			return true;
	}
	return false;
}

/* Splits of records whose node answered, but has no such extent. */
static void find_splits(struct search *search,
			const struct volume_record *record)
{
	for (size_t i = 0; i < record->n_splits; i++) {
		const struct volume_split *split = &record->splits[i];
		struct orphan *o;

		if (split->state == SPLIT_PLANNED ||
		    split->state == SPLIT_DELETED || split->lost)
			continue;
		for (size_t k = 0; k < search->n_nodes; k++) {
			const struct node_inventory *inventory =
				&search->inventory[k];

			/* Found elsewhere it is named there. */
			if (strcmp(inventory->node, split->node) != 0 ||
			    !inventory->asked ||
			    inventory_has(inventory, split, record->uid) ||
			    inventory_find(search->inventory, search->n_nodes,
					   record->uid, split->extent_id,
					   split->node))
				continue;
			o = orphan_add(
				search, ORPHAN_SPLIT, split->node, record->name,
				split->extent,
				"the extent of split %zu of volume %s is "
				"gone, with its files",
				i, record->name);
			if (o)
				o->size = split->size;
		}
	}
}

static bool inventory_has_snapshot(const struct node_inventory *inventory,
				   const struct snapshot_record *record,
				   const struct snapshot_split *split)
{
	for (size_t i = 0; i < inventory->n_extents; i++) {
		if (strcmp(inventory->extents[i].name, split->extent) == 0 &&
		    snapshot_split_is(record, split, &inventory->extents[i]))
			return true;
	}
	return false;
}

/* Find the splits of a snapshot, in the same way. */
static void find_snapshot_splits(struct search *search,
				 const struct snapshot_record *record)
{
	for (size_t i = 0; i < record->n_splits; i++) {
		const struct snapshot_split *split = &record->splits[i];
		struct orphan *o;

		if (split->state == SNAPSHOT_SPLIT_PLANNED ||
		    split->state == SNAPSHOT_SPLIT_DELETED || split->lost)
			continue;
		for (size_t k = 0; k < search->n_nodes; k++) {
			const struct node_inventory *inventory =
				&search->inventory[k];

			if (strcmp(inventory->node, split->node) != 0 ||
			    !inventory->asked ||
			    inventory_has_snapshot(inventory, record, split))
				continue;
			o = orphan_add(
				search, ORPHAN_SPLIT, split->node,
				record->volume, split->extent,
				"extent %zu of snapshot %s is gone, with its "
				"files",
				i, record->name);
			if (!o)
				continue;
			o->size = split->size;
			memcpy(o->snapshot, record->name, sizeof(o->snapshot));
		}
	}
}

/* Devices here whose volume is not attached here. */
static void find_attachments(struct search *search)
{
	auto_free struct initiator_device *devices = NULL;
	char dir[PATH_MAX];
	size_t n = 0;

	context_initiator_dir(search->ctx, dir);
	if (initiator_list(dir, &devices, &n, NULL) < 0)
		return; /* no such directory: nothing was ever attached */
	for (size_t i = 0; i < n; i++) {
		const struct volume_record *owner = NULL;
		const struct volume_attachment *a;
		const struct initiator_device *d = &devices[i];

		if (strncmp(d->id, EXTENT_ATTACHMENT_PREFIX,
			    strlen(EXTENT_ATTACHMENT_PREFIX)) == 0)
			continue; /* a person's own: `trib attach` */
		for (size_t k = 0; k < search->n_records && !owner; k++) {
			const struct volume_record *record = search->records[k];

			for (size_t s = 0; s < record->n_splits; s++) {
				if (strcmp(record->splits[s].extent, d->id) ==
				    0)
					owner = record;
			}
		}
		a = owner ? volume_record_attachment(owner, search->ctx->node)
			  : NULL;
		if (a && a->state != ATTACHMENT_PUBLISHED)
			continue;
		(void)orphan_add(
			search, ORPHAN_ATTACHMENT, search->ctx->node,
			owner ? owner->name : "", d->id,
			"%s is a device of a volume that is not attached "
			"here; `trib umount %s` takes it down",
			d->device, owner ? owner->name : "VOLUME");
	}
}

static int orphan_compare(struct search *search, size_t *ret_unreachable,
			  struct error *err)
{
	int r = inventory_ask(search->ctx, &search->inventory, &search->n_nodes,
			      err);

	if (r < 0)
		return r;
	*ret_unreachable = inventory_unreachable(search->inventory,
						 search->n_nodes);
	search->lost = records_are_lost(search);
	for (size_t i = 0; i < search->n_nodes; i++)
		find_extents(search, &search->inventory[i]);
	for (size_t i = 0; i < search->n_records; i++)
		find_splits(search, search->records[i]);
	for (size_t i = 0; i < search->n_snapshots; i++)
		find_snapshot_splits(search, search->snapshots[i]);
	inventory_free(search->inventory, search->n_nodes);
	return 0;
}

int volume_orphans(struct volume_context *ctx, struct orphan **ret,
		   size_t *ret_count, size_t *ret_unreachable,
		   struct error *err)
{
	const struct snapshot_filter all = {.temporary = true};
	struct search search = {.ctx = ctx};
	char problem[RECORD_TEXT_SIZE], other[RECORD_TEXT_SIZE] = "";
	int r = volume_list(ctx, &search.records, &search.n_records, problem,
			    err);

	if (r < 0)
		return r;
	r = volume_snapshot_list(ctx, &all, &search.snapshots,
				 &search.n_snapshots, NULL, other, err);
	/* Without all records, extents in use would be called orphans. */
	if (r == 0 && (problem[0] || other[0]))
		r = error_set(err, EUCLEAN, "%s", problem[0] ? problem : other);
	if (r == 0)
		r = orphan_compare(&search, ret_unreachable, err);
	if (r == 0) {
		find_attachments(&search);
		if (search.r < 0)
			r = error_set(err, ENOMEM, "out of memory");
	}
	volume_records_free(search.records, search.n_records);
	snapshot_records_free(search.snapshots, search.n_snapshots);
	if (r < 0) {
		free(search.orphans);
		return r;
	}
	*ret = search.orphans;
	*ret_count = search.n_orphans;
	return 0;
}
