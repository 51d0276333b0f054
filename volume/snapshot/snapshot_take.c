/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The extents of snapshots' records, cut at one instant (volume/op/cut.h), and
 * the results put into the records.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "volume/op/cut.h"
#include "volume/snapshot/snapshot_op.h"

#define CUTS_MAX 3 /* tries, when nodes could not hold for long enough */

/* An extent to be cut, and of which record. */
struct item {
	struct snapshot_record *record;
	struct snapshot_split *split;
	struct labels labels; /* owned */
};

struct items {
	struct item *all; /* owned */
	size_t n;
};

static int item_label(struct item *item, struct error *err)
{
	const struct snapshot_record *record = item->record;
	int r = labels_set(&item->labels, SNAPSHOT_LABEL_UID, record->uid, err);

	if (r == 0)
		r = labels_set(&item->labels, SNAPSHOT_LABEL_NAME, record->name,
			       err);
	if (r == 0)
		r = labels_set(&item->labels, VOLUME_LABEL_UID,
			       record->volume_uid, err);
	if (r == 0)
		r = labels_set(&item->labels, VOLUME_LABEL_NAME, record->volume,
			       err);
	return r;
}

static int items_new(struct items *items,
		     struct snapshot_record *const *records, size_t n,
		     struct error *err)
{
	size_t total = 0;
	int r = 0;

	for (size_t i = 0; i < n; i++)
		total += records[i]->n_splits;
	items->all = calloc(total + 1, sizeof(*items->all));
	if (!items->all)
		return error_set(err, ENOMEM, "out of memory");
	for (size_t i = 0; i < n; i++) {
		for (size_t k = 0; r == 0 && k < records[i]->n_splits; k++) {
			struct item *item = &items->all[items->n++];

			item->record = records[i];
			item->split = &records[i]->splits[k];
			r = item_label(item, err);
		}
	}
	return r;
}

static void items_done(struct items *items)
{
	for (size_t i = 0; i < items->n; i++)
		labels_done(&items->all[i].labels);
	free(items->all);
}

static int items_add(struct items *items, struct cut *cut, struct error *err)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < items->n; i++) {
		struct item *item = &items->all[i];
		const struct node_snapshot_request request = {
			.extent = item->split->origin,
			.extent_id = item->split->origin_id,
			.name = item->split->extent,
			.labels = &item->labels,
		};

		r = cut_add(cut, item->split->node, &request, item, err);
	}
	return r;
}

/* The devices of a volume, where it is written to. */
static int freezes_add(struct cut *cut, const struct volume_record *volume,
		       struct snapshot_record *record, struct error *err)
{
	const struct volume_attachment *writer = NULL;
	int r = 0;

	for (size_t i = 0; i < volume->n_attachments; i++)
		if (!volume->attachments[i].read_only &&
		    volume->attachments[i].state != ATTACHMENT_PUBLISHED)
			writer = &volume->attachments[i];
	for (size_t i = 0; writer && r == 0 && i < volume->n_splits; i++)
		if (volume->splits[i].device[0])
			r = cut_add_freeze(cut, writer->node,
					   volume->splits[i].device, record,
					   err);
	return r;
}

/* ---- before anything waits ---- */

static int take_check_split(const struct cut_part *part,
			    const struct item *item, struct error *err)
{
	const struct snapshot_split *split = item->split;
	struct node_extent extent = {0};
	int r = node_client_get_extent(part->client, split->origin, &extent,
				       err);

	if (r == -ENOENT)
		r = error_set(err, EIO,
			      "extent '%s' of volume '%s' is missing on node "
			      "'%s'",
			      split->origin, item->record->volume, split->node);
	else if (r == 0 && (strcmp(extent.id, split->origin_id) != 0 ||
			    extent.size != split->size))
		r = error_set(err, EUCLEAN,
			      "extent '%s' on node '%s' is not the one in the "
			      "record of volume '%s'",
			      split->origin, split->node, item->record->volume);
	else if (r == 0 && strcmp(extent.state, NODE_COPYING) == 0)
		r = error_set(err, EAGAIN,
			      "the content of extent '%s' on node '%s' is "
			      "still being copied",
			      split->origin, split->node);
	node_extent_done(&extent);
	return r;
}

static void check_part(void *cut_, size_t index)
{
	const struct cut *cut = cut_;
	struct cut_part *part = cut->parts[index];

	part->r = 0;
	for (size_t i = 0; part->r == 0 && i < part->n; i++)
		part->r = take_check_split(part, part->owners[i], &part->err);
}

/* ---- after it ---- */

static int take_made(struct item *item, const struct node_extent *made,
		     struct error *err)
{
	struct snapshot_split *split = item->split;
	bool copying = strcmp(made->state, NODE_COPYING) == 0;

	if (made->size != split->size)
		return error_set(err, EPROTO,
				 "node '%s': snapshot '%s' has another size "
				 "than its extent",
				 split->node, split->extent);
	memcpy(split->extent_id, made->id, sizeof(split->extent_id));
	split->state = copying ? SNAPSHOT_SPLIT_COPYING : SNAPSHOT_SPLIT_READY;
	split->copied = copying && made->copied <= split->size ? made->copied
							       : 0;
	return 0;
}

static int take_all(const struct cut *cut, struct error *err)
{
	int r = 0;

	for (size_t i = 0; i < cut->n_parts; i++) {
		const struct cut_part *part = cut->parts[i];

		for (size_t k = 0; r == 0 && k < part->n; k++)
			r = take_made(part->owners[k], &part->made[k], err);
	}
	return r;
}

static enum snapshot_left what_is_left(const struct cut *cut)
{
	enum snapshot_left left = SNAPSHOT_LEFT_NONE;

	for (size_t i = 0; i < cut->n_parts; i++) {
		if (!cut->parts[i]->asked)
			continue;
		if (error_is_open(cut->parts[i]->r))
			return SNAPSHOT_LEFT_COMING;
		left = SNAPSHOT_LEFT_SOME;
	}
	return left;
}

bool snapshot_cuts_again(int r, unsigned runs, enum snapshot_left left)
{
	return r == -ESTALE && runs < CUTS_MAX && left != SNAPSHOT_LEFT_COMING;
}

/* The first of a record's devices that was not frozen; NULL: all were. */
static const struct cut_freeze *find_not_frozen(const struct cut *cut,
						const void *record)
{
	for (size_t i = 0; i < cut->n_freezes; i++)
		if (cut->freezes[i].owner == record && cut->freezes[i].r < 0)
			return &cut->freezes[i];
	return NULL;
}

static int take_frozen(const struct cut *cut)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < cut->n_freezes; i++) {
		void *record = cut->freezes[i].owner;
		const struct cut_freeze *one = find_not_frozen(cut, record);
		char text[ERROR_TEXT_MAX];

		if (one)
			(void)snprintf(text, sizeof(text),
				       "as a power cut leaves it: the device "
				       "on node '%s' was not frozen: %.300s",
				       one->node, error_text(&one->err));
		r = snapshot_record_condition(record, "Frozen", !one,
					      one ? "NotFrozen" : "Frozen",
					      one ? text : "");
	}
	return r;
}

static int carry_out(struct operation *op, struct cut *cut, size_t extents,
		     struct error *err)
{
	const char *s = extents == 1 ? "" : "s";
	int r = operation_step(
		op, err, "check", "asking %zu node%s for %zu extent%s",
		cut->n_parts, cut->n_parts == 1 ? "" : "s", extents, s);

	if (r == 0)
		r = cut_each(cut, check_part, err);
	if (r == 0)
		r = operation_step(op, err, "cut",
				   "cutting %zu extent%s at one instant",
				   extents, s);
	if (r == 0)
		r = cut_run(cut, err);
	if (r == 0 && take_frozen(cut) < 0)
		r = error_set(err, ENOMEM, "out of memory");
	return r < 0 ? r : take_all(cut, err);
}

int snapshot_take(struct operation *op, const struct operation *volumes,
		  struct snapshot_record *const *records, size_t n,
		  enum snapshot_left *ret_left, struct error *err)
{
	struct items items = {0};
	struct cut cut;
	int r = items_new(&items, records, n, err);

	cut_init(&cut, op->ctx, records[0]->cut);
	if (r == 0)
		r = items_add(&items, &cut, err);
	for (size_t i = 0; r == 0 && i < n; i++)
		r = freezes_add(&cut, volumes[i].record, records[i], err);
	if (r == 0)
		r = carry_out(op, &cut, items.n, err);
	*ret_left = what_is_left(&cut);
	cut_done(&cut);
	items_done(&items);
	return r;
}
