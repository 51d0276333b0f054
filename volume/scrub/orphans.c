/* SPDX-License-Identifier: Apache-2.0 */
/* volume_orphans(): data without a record, and records without data. */
#include "volume/scrub/orphans.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "volume/scrub/orphan_match.h"
#include "volume/scrub/orphan_search.h"

/* Devices here whose volume is not attached here. */
static void find_attachments(struct orphan_search *search)
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

/* ---- as the records are by now ---- */

/*
 * Drop what was made, moved or deleted while the nodes were asked. Its record
 * is written before an extent is made, and after one is deleted.
 */
static void orphans_confirm(struct orphan_search *search)
{
	size_t kept = 0;

	/* Without any record there is none to ask. */
	for (size_t i = 0; i < search->n_orphans && !search->lost; i++) {
		const struct orphan *o = &search->orphans[i];

		if (orphan_is_confirmed(search->ctx, o))
			search->orphans[kept++] = *o;
	}
	if (!search->lost)
		search->n_orphans = kept;
}

/* Fill in since when each is known. Those of a node are in a row. */
static void orphans_age(struct orphan_search *search)
{
	struct node_record node = {0};

	for (size_t i = 0; i < search->n_orphans; i++) {
		struct orphan *o = &search->orphans[i];

		if (o->kind != ORPHAN_EXTENT)
			continue;
		if (strcmp(node.name, o->node) != 0) {
			node_record_done(&node);
			node = (struct node_record){0};
			if (context_node_load(search->ctx, o->node, &node,
					      NULL) < 0)
				continue;
		}
		o->since_s = node_scrub_since(node.scrub, o->extent_id);
	}
	node_record_done(&node);
}

/* ---- all ---- */

static int asked_add(struct orphan_search *search, struct orphans_found *ret,
		     struct error *err)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < search->n_nodes; i++)
		if (search->inventory[i].asked)
			r = name_list_add(&ret->asked,
					  search->inventory[i].node, err);
	return r;
}

static int orphan_compare(struct orphan_search *search,
			  struct orphans_found *ret, struct error *err)
{
	int r = inventory_ask(search->ctx, &search->inventory, &search->n_nodes,
			      err);

	if (r < 0)
		return r;
	ret->unreachable = inventory_unreachable(search->inventory,
						 search->n_nodes);
	orphan_search_all(search);
	r = asked_add(search, ret, err);
	inventory_free(search->inventory, search->n_nodes);
	return r;
}

static int orphans_look(struct orphan_search *search, struct orphans_found *ret,
			struct error *err)
{
	int r = orphan_compare(search, ret, err);

	if (r < 0)
		return r;
	orphans_confirm(search);
	orphans_age(search);
	find_attachments(search);
	return search->r < 0 ? error_set(err, ENOMEM, "out of memory") : 0;
}

static int records_load(struct orphan_search *search, struct error *err)
{
	const struct snapshot_filter all = {.temporary = true};
	char problem[RECORD_TEXT_SIZE], other[RECORD_TEXT_SIZE] = "";
	int r = volume_list(search->ctx, &search->records, &search->n_records,
			    problem, err);

	if (r == 0)
		r = volume_snapshot_list(search->ctx, &all, &search->snapshots,
					 &search->n_snapshots, NULL, other,
					 err);
	/* Without all records, extents in use would be called orphans. */
	if (r == 0 && (problem[0] || other[0]))
		r = error_set(err, EUCLEAN, "%s", problem[0] ? problem : other);
	if (search->n_records > 0)
		qsort(search->records, search->n_records,
		      sizeof(struct volume_record *), orphan_by_uid);
	if (search->n_snapshots > 0)
		qsort(search->snapshots, search->n_snapshots,
		      sizeof(struct snapshot_record *), orphan_snapshot_by_uid);
	return r;
}

int orphans_find(struct volume_context *ctx, struct orphans_found *ret,
		 struct error *err)
{
	struct orphan_search search = {.ctx = ctx};
	int r;

	*ret = (struct orphans_found){0};
	r = records_load(&search, err);
	if (r == 0)
		r = orphans_look(&search, ret, err);
	volume_records_free(search.records, search.n_records);
	snapshot_records_free(search.snapshots, search.n_snapshots);
	ret->orphans = search.orphans;
	ret->n = search.n_orphans;
	if (r < 0)
		orphans_found_done(ret);
	return r;
}

void orphans_found_done(struct orphans_found *found)
{
	name_list_done(&found->asked);
	free(found->orphans);
	*found = (struct orphans_found){0};
}

int volume_orphans(struct volume_context *ctx, struct orphan **ret,
		   size_t *ret_count, size_t *ret_unreachable,
		   struct error *err)
{
	struct orphans_found found;
	int r = orphans_find(ctx, &found, err);

	if (r < 0)
		return r;
	*ret = found.orphans;
	*ret_count = found.n;
	*ret_unreachable = found.unreachable;
	found.orphans = NULL;
	orphans_found_done(&found);
	return 0;
}
