/* SPDX-License-Identifier: Apache-2.0 */
#include "volume/scrub/orphan_search.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "volume/scrub/orphan_match.h"

#define RECLAIM "`trib volume orphans --reclaim` frees it"
#define LOST    "no extent here has a record: the records are lost; "

struct orphan *orphan_add(struct orphan_search *search, enum orphan_kind kind,
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

/* Fill in which extent it is. */
static void orphan_is(struct orphan *o, const struct node_extent *extent,
		      const char *uid)
{
	o->size = extent->size;
	(void)snprintf(o->uid, sizeof(o->uid), "%.36s", uid);
	memcpy(o->extent_id, extent->id, sizeof(o->extent_id));
}

int orphan_by_uid(const void *a, const void *b)
{
	return strcmp((*(struct volume_record *const *)a)->uid,
		      (*(struct volume_record *const *)b)->uid);
}

int orphan_snapshot_by_uid(const void *a, const void *b)
{
	return strcmp((*(struct snapshot_record *const *)a)->uid,
		      (*(struct snapshot_record *const *)b)->uid);
}

static const struct volume_record *record_of(const struct orphan_search *search,
					     const char *uid)
{
	struct volume_record key = {0}, *const one = &key, **found = NULL;

	(void)snprintf(key.uid, sizeof(key.uid), "%s", uid);
	if (search->n_records > 0)
		found = bsearch(&one, search->records, search->n_records,
				sizeof(one), orphan_by_uid);
	return found ? *found : NULL;
}

static const struct snapshot_record *snapshot_by_uid(
	const struct orphan_search *search, const char *uid)
{
	struct snapshot_record key = {0}, *const one = &key, **found = NULL;

	(void)snprintf(key.uid, sizeof(key.uid), "%s", uid);
	if (search->n_snapshots > 0)
		found = bsearch(&one, search->snapshots, search->n_snapshots,
				sizeof(one), orphan_snapshot_by_uid);
	return found ? *found : NULL;
}

/*
 * Tell whether no extent of a volume has a record. Then the extents are not
 * left over: the records are gone, or this is the wrong store.
 */
static bool records_are_lost(const struct orphan_search *search)
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
static void find_snapshot_extent(struct orphan_search *search, const char *node,
				 const struct node_extent *extent,
				 const char *uid)
{
	const char *name = labels_get(&extent->labels, SNAPSHOT_LABEL_NAME);
	const char *volume = labels_get(&extent->labels, VOLUME_LABEL_NAME);
	const struct snapshot_record *record = snapshot_by_uid(search, uid);
	const struct snapshot_split *split = orphan_snapshot_split(
		record, extent->name);
	struct orphan *o;

	if (split && strcmp(split->node, node) == 0)
		return;
	o = orphan_add(search, ORPHAN_EXTENT, node, volume ? volume : "",
		       extent->name, "no snapshot has it");
	if (!o)
		return;
	orphan_is(o, extent, uid);
	(void)snprintf(o->snapshot, sizeof(o->snapshot), "%.63s",
		       name ? name : "");
	o->given_up = record && snapshot_record_gave_up(record, extent->id);
	if (o->given_up)
		orphan_say(o,
			   "snapshot '%s' can only be deleted since its node "
			   "was removed as lost. " RECLAIM,
			   record->name);
	else if (split)
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

/* Extents that orphan_say they are of a volume which does not have them. */
static void tell_of_extent(struct orphan *o, const struct orphan_search *search,
			   const struct volume_record *record,
			   const struct node_extent *extent)
{
	const struct volume_split *split =
		record ? orphan_split_of(record, extent->id, extent->name)
		       : NULL;

	if (o->given_up)
		orphan_say(o,
			   "volume '%s' goes on without it: its node was "
			   "removed as lost. " RECLAIM,
			   record->name);
	else if (split)
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

static void find_extents(struct orphan_search *search,
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
		struct orphan *o;

		if (cut)
			find_snapshot_extent(search, inventory->node, extent,
					     cut);
		if (cut || !uid)
			continue;
		record = record_of(search, uid);
		if (record && orphan_record_has(record, extent->id,
						extent->name, inventory->node))
			continue;
		o = orphan_add(search, ORPHAN_EXTENT, inventory->node,
			       name ? name : "", extent->name,
			       "no volume has it");
		if (!o)
			continue;
		orphan_is(o, extent, uid);
		o->given_up = record &&
			      volume_record_gave_up(record, extent->id);
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
static void find_splits(struct orphan_search *search,
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
			if (!o)
				continue;
			o->size = split->size;
			memcpy(o->uid, record->uid, sizeof(o->uid));
			memcpy(o->extent_id, split->extent_id,
			       sizeof(o->extent_id));
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
static void find_snapshot_splits(struct orphan_search *search,
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
			memcpy(o->uid, record->uid, sizeof(o->uid));
			memcpy(o->extent_id, split->extent_id,
			       sizeof(o->extent_id));
			memcpy(o->snapshot, record->name, sizeof(o->snapshot));
		}
	}
}

void orphan_search_all(struct orphan_search *search)
{
	search->lost = records_are_lost(search);
	for (size_t i = 0; i < search->n_nodes; i++)
		find_extents(search, &search->inventory[i]);
	for (size_t i = 0; i < search->n_records; i++)
		find_splits(search, search->records[i]);
	for (size_t i = 0; i < search->n_snapshots; i++)
		find_snapshot_splits(search, search->snapshots[i]);
}
