/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One instant on several nodes: the writes of all extents are held on all
 * nodes, then every node cuts its own, then all are released. A node says at
 * the release whether it held without a break; when all did, there was a
 * moment at which nothing was written anywhere, and all cuts were made in it.
 *
 * One node does it in one call of its own.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "volume/parallel.h"
#include "volume/snapshot_op.h"

#define AT_ONCE 64 /* nodes: while one waits, the others hold */

/* An extent to be cut, and of which record. */
struct item {
	struct snapshot_record *record;
	struct snapshot_split *split;
	struct labels labels; /* owned */
};

/* What one node has to do. */
struct part {
	const char *node; /* borrowed */
	struct node_client *client;
	struct item **items; /* into cut.items */
	size_t n;
	bool held;  /* or may be */
	bool asked; /* to cut */
	int r;      /* of its last call */
	struct error err;
};

struct cut {
	struct volume_context *ctx;
	const char *id;     /* of the cut, and of the hold */
	struct item *items; /* owned, ordered by node */
	size_t n_items;
	struct item **order; /* owned; the same, for the parts */
	struct part *parts;  /* owned */
	size_t n_parts;
};

/* ---- who does what ---- */

static int by_node(const void *a, const void *b)
{
	return strcmp((*(struct item *const *)a)->split->node,
		      (*(struct item *const *)b)->split->node);
}

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

static int items_collect(struct cut *cut,
			 struct snapshot_record *const *records, size_t n,
			 struct error *err)
{
	int r = 0;

	for (size_t i = 0; i < n; i++)
		cut->n_items += records[i]->n_splits;
	cut->items = calloc(cut->n_items + 1, sizeof(*cut->items));
	cut->order = calloc(cut->n_items + 1, sizeof(*cut->order));
	cut->parts = calloc(cut->n_items + 1, sizeof(*cut->parts));
	if (!cut->items || !cut->order || !cut->parts)
		return error_set(err, ENOMEM, "out of memory");
	cut->n_items = 0;
	for (size_t i = 0; i < n; i++) {
		for (size_t k = 0; r == 0 && k < records[i]->n_splits; k++) {
			struct item *item = &cut->items[cut->n_items];

			item->record = records[i];
			item->split = &records[i]->splits[k];
			cut->order[cut->n_items++] = item;
			r = item_label(item, err);
		}
	}
	return r;
}

static int parts_make(struct cut *cut, struct error *err)
{
	struct part *part = NULL;
	int r = 0;

	qsort(cut->order, cut->n_items, sizeof(struct item *), by_node);
	for (size_t i = 0; r == 0 && i < cut->n_items; i++) {
		const char *node = cut->order[i]->split->node;

		if (!part || strcmp(part->node, node) != 0) {
			part = &cut->parts[cut->n_parts++];
			part->node = node;
			part->items = &cut->order[i];
			r = context_client(cut->ctx, node, &part->client, err);
		}
		if (++part->n > NODE_CUT_MAX)
			r = error_set(err, E2BIG,
				      "more than %d extents on node '%s' "
				      "can't be cut at one instant",
				      NODE_CUT_MAX, node);
	}
	return r;
}

static void cut_done(struct cut *cut)
{
	for (size_t i = 0; cut->items && i < cut->n_items; i++)
		labels_done(&cut->items[i].labels);
	free(cut->items);
	free(cut->order);
	free(cut->parts);
}

/* Every part, side by side; the first problem is returned. */
static int parts_run(struct cut *cut, void (*each)(void *cut, size_t index),
		     struct error *err)
{
	parallel_run(cut->n_parts, AT_ONCE, each, cut);
	for (size_t i = 0; i < cut->n_parts; i++) {
		if (cut->parts[i].r < 0) {
			if (err)
				*err = cut->parts[i].err;
			return cut->parts[i].r;
		}
	}
	return 0;
}

/* ---- before anything waits ---- */

static int check_one(const struct part *part, const struct item *item,
		     struct error *err)
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
	struct cut *cut = cut_;
	struct part *part = &cut->parts[index];

	part->r = 0;
	for (size_t i = 0; part->r == 0 && i < part->n; i++)
		part->r = check_one(part, part->items[i], &part->err);
}

/* ---- hold, cut, release ---- */

static void hold_part(void *cut_, size_t index)
{
	struct cut *cut = cut_;
	struct part *part = &cut->parts[index];
	const char *names[NODE_CUT_MAX];

	for (size_t i = 0; i < part->n; i++)
		names[i] = part->items[i]->split->origin;
	part->held = true;
	part->r = node_client_hold_writes(part->client, cut->id, names, part->n,
					  NODE_HOLD_MS_MAX, &part->err);
}

static int check_made(const struct part *part, const struct node_extent *made,
		      struct error *err)
{
	for (size_t i = 0; i < part->n; i++) {
		const struct snapshot_split *split = part->items[i]->split;

		if (!made[i].snapshot || made[i].size != split->size ||
		    strlen(made[i].id) != UUID_TEXT_SIZE - 1 ||
		    strcmp(made[i].name, split->extent) != 0)
			return error_set(err, EPROTO,
					 "node '%s': made another snapshot "
					 "than was asked for",
					 part->node);
	}
	return 0;
}

/* Each part has splits of its own: no lock is needed. */
static void take_made(const struct part *part, const struct node_extent *made)
{
	for (size_t i = 0; i < part->n; i++) {
		struct snapshot_split *split = part->items[i]->split;
		bool copying = strcmp(made[i].state, NODE_COPYING) == 0;

		memcpy(split->extent_id, made[i].id, sizeof(split->extent_id));
		split->state = copying ? SNAPSHOT_SPLIT_COPYING
				       : SNAPSHOT_SPLIT_READY;
		split->copied = copying && made[i].copied <= split->size
					? made[i].copied
					: 0;
	}
}

static void cut_part(void *cut_, size_t index)
{
	struct cut *cut = cut_;
	struct part *part = &cut->parts[index];
	struct node_snapshot_request requests[NODE_CUT_MAX];
	struct node_extent *made = NULL;

	for (size_t i = 0; i < part->n; i++) {
		const struct item *item = part->items[i];

		requests[i] = (struct node_snapshot_request){
			.extent = item->split->origin,
			.extent_id = item->split->origin_id,
			.name = item->split->extent,
			.labels = &item->labels,
		};
	}
	part->asked = true;
	part->r = node_client_create_snapshots(
		part->client, cut->id, part->held ? cut->id : NULL, requests,
		part->n, &made, &part->err);
	if (part->r < 0)
		return;
	part->r = check_made(part, made, &part->err);
	if (part->r == 0)
		take_made(part, made);
	node_extents_free(made, part->n);
}

static void release_part(void *cut_, size_t index)
{
	struct cut *cut = cut_;
	struct part *part = &cut->parts[index];
	bool held = false;

	part->r = 0;
	if (!part->held)
		return;
	part->r = node_client_release_writes(part->client, cut->id, &held,
					     &part->err);
	if (part->r == 0 && !held)
		part->r = error_set(&part->err, ESTALE,
				    "node '%s' could not hold the writes for "
				    "as long as the others took",
				    part->node);
	if (part->r == 0 || part->r == -ESTALE)
		part->held = false;
}

static enum snapshot_left what_is_left(const struct cut *cut)
{
	enum snapshot_left left = SNAPSHOT_LEFT_NONE;

	for (size_t i = 0; i < cut->n_parts; i++) {
		if (!cut->parts[i].asked)
			continue;
		if (error_is_open(cut->parts[i].r))
			return SNAPSHOT_LEFT_COMING;
		left = SNAPSHOT_LEFT_SOME;
	}
	return left;
}

/* On one node: its own call is one instant. */
static int cut_alone(struct cut *cut, struct error *err)
{
	return parts_run(cut, cut_part, err);
}

/*
 * What a node is asked late, after it let go, it refuses: only one that does
 * not answer to the release may yet cut.
 */
static int cut_together(struct cut *cut, struct error *err)
{
	struct error why = {0};
	int e, r = parts_run(cut, hold_part, err);

	if (r == 0)
		r = parts_run(cut, cut_part, err);
	e = parts_run(cut, release_part, &why);
	if (r == 0 && e < 0) {
		r = e;
		if (err)
			*err = why;
	}
	return r;
}

int snapshot_cut(struct operation *op, struct snapshot_record *const *records,
		 size_t n, enum snapshot_left *ret_left, struct error *err)
{
	struct cut cut = {.ctx = op->ctx, .id = records[0]->cut};
	int r = items_collect(&cut, records, n, err);

	if (r == 0)
		r = parts_make(&cut, err);
	if (r == 0)
		r = operation_step(op, err, "check",
				   "asking %zu node%s for %zu extent%s",
				   cut.n_parts, cut.n_parts == 1 ? "" : "s",
				   cut.n_items, cut.n_items == 1 ? "" : "s");
	if (r == 0)
		r = parts_run(&cut, check_part, err);
	if (r == 0)
		r = operation_step(op, err, "cut",
				   "cutting %zu extent%s at one instant",
				   cut.n_items, cut.n_items == 1 ? "" : "s");
	if (r == 0)
		r = cut.n_parts > 1 ? cut_together(&cut, err)
				    : cut_alone(&cut, err);
	*ret_left = what_is_left(&cut);
	cut_done(&cut);
	return r;
}
