/* SPDX-License-Identifier: Apache-2.0 */
/*
 * volume.h: snapshots of single extents at one instant. One node does it in
 * one call. With several, all of them hold the writes first, then each cuts
 * its own, then all let go; when every one says that it held all the time,
 * there was a moment between in which nothing was written anywhere.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "volume/extent_internal.h"
#include "volume/parallel.h"

#define AT_ONCE 64 /* nodes: while one waits, the others hold */

/* What one node has to do. */
struct part {
	const char *node; /* borrowed */
	struct node_client *client;
	struct node_snapshot_request requests[NODE_CUT_MAX];
	size_t places[NODE_CUT_MAX]; /* of each in the caller's order */
	size_t n;
	struct node_extent *made; /* owned; NULL: none, or not known */
	bool asked;               /* to cut */
	int r;                    /* of its last call */
	struct error err;
};

struct cut {
	char id[UUID_TEXT_SIZE]; /* of the cut, and of the hold */
	struct part *parts;      /* owned */
	size_t n_parts;
};

static struct part *part_of(struct cut *cut, const char *node)
{
	struct part *part = cut->parts;

	while (part < cut->parts + cut->n_parts &&
	       strcmp(part->node, node) != 0)
		part++;
	if (part == cut->parts + cut->n_parts) {
		cut->n_parts++;
		part->node = node;
	}
	return part;
}

static int add(struct volume_context *ctx, struct cut *cut,
	       const struct extent_snapshot_request *request, size_t place,
	       const struct labels *labels, struct error *err)
{
	struct part *part = part_of(cut, request->node);
	int r = name_check("snapshot", request->name, err);

	if (r == 0)
		r = extent_client(ctx, request->node, request->extent,
				  &part->client, err);
	if (r < 0)
		return r;
	if (part->n == NODE_CUT_MAX)
		return error_set(err, E2BIG,
				 "more than %d extents on node '%s' can't be "
				 "cut at one instant",
				 NODE_CUT_MAX, request->node);
	part->places[part->n] = place;
	part->requests[part->n++] = (struct node_snapshot_request){
		.extent = request->extent,
		.name = request->name,
		.labels = labels,
	};
	return 0;
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

/* ---- hold, cut, release ---- */

static void hold_part(void *cut_, size_t index)
{
	struct cut *cut = cut_;
	struct part *part = &cut->parts[index];
	const char *names[NODE_CUT_MAX];

	for (size_t i = 0; i < part->n; i++)
		names[i] = part->requests[i].extent;
	part->r = node_client_hold_writes(part->client, cut->id, names, part->n,
					  NODE_HOLD_MS_MAX, &part->err);
}

static void cut_part(void *cut_, size_t index)
{
	struct cut *cut = cut_;
	struct part *part = &cut->parts[index];

	part->asked = true;
	part->r = node_client_create_snapshots(
		part->client, cut->id, cut->n_parts > 1 ? cut->id : NULL,
		part->requests, part->n, &part->made, &part->err);
}

static void release_part(void *cut_, size_t index)
{
	struct cut *cut = cut_;
	struct part *part = &cut->parts[index];
	bool held = false;

	part->r = node_client_release_writes(part->client, cut->id, &held,
					     &part->err);
	if (part->r == 0 && !held)
		part->r = error_set(&part->err, ESTALE,
				    "node '%s' could not hold the writes for "
				    "as long as the others took",
				    part->node);
}

static int cut_all(struct cut *cut, struct error *err)
{
	struct error why = {0};
	int r = 0, e;

	if (cut->n_parts == 1)
		return parts_run(cut, cut_part, err);
	r = parts_run(cut, hold_part, err);
	if (r == 0)
		r = parts_run(cut, cut_part, err);
	e = parts_run(cut, release_part, &why);
	if (r < 0 || e == 0)
		return r;
	if (err)
		*err = why;
	return e;
}

/* ---- what it ends in ---- */

/* A snapshot that this cut made; one that was there before stays. */
static int undo_one(const struct part *part, const char *name, const char *id)
{
	struct node_extent extent = {0};
	int r = node_client_get_extent(part->client, name, &extent, NULL);

	if (r == 0 && strcmp(extent.origin.cut, id) == 0)
		r = node_client_delete_extent(part->client, name, extent.id,
					      NULL);
	node_extent_done(&extent);
	return r == -ENOENT ? 0 : r;
}

static void undo_part(void *cut_, size_t index)
{
	struct cut *cut = cut_;
	struct part *part = &cut->parts[index];

	part->r = 0;
	for (size_t i = 0; part->asked && i < part->n; i++) {
		int r = undo_one(part, part->requests[i].name, cut->id);

		if (r < 0)
			part->r = r;
	}
}

static void undo(struct cut *cut, struct error *err)
{
	if (parts_run(cut, undo_part, NULL) == 0)
		return;
	for (size_t i = 0; i < cut->n_parts; i++)
		if (cut->parts[i].r < 0)
			(void)error_prefix(err,
					   "snapshots may be left on node "
					   "'%s' (extent list): ",
					   cut->parts[i].node);
}

/* Into the caller's order. */
static int collect(struct cut *cut, size_t n, struct node_extent **ret,
		   struct error *err)
{
	struct node_extent *all = calloc(n + 1, sizeof(*all));

	if (!all)
		return error_set(err, ENOMEM, "out of memory");
	for (size_t i = 0; i < cut->n_parts; i++) {
		struct part *part = &cut->parts[i];

		for (size_t k = 0; k < part->n; k++)
			all[part->places[k]] = part->made[k];
		free(part->made); /* its members went along */
		part->made = NULL;
	}
	*ret = all;
	return 0;
}

int volume_extent_snapshot(struct volume_context *ctx,
			   const struct extent_snapshot_request *requests,
			   size_t n, const struct labels *labels,
			   struct node_extent **ret, struct error *err)
{
	struct cut cut = {.parts = calloc(n + 1, sizeof(*cut.parts))};
	int r = 0;

	if (!cut.parts)
		return error_set(err, ENOMEM, "out of memory");
	(void)uuid_make(cut.id);
	for (size_t i = 0; r == 0 && i < n; i++)
		r = add(ctx, &cut, &requests[i], i, labels, err);
	if (r == 0) {
		r = cut_all(&cut, err);
		if (r == 0)
			r = collect(&cut, n, ret, err);
		if (r < 0)
			undo(&cut, err);
	}
	for (size_t i = 0; i < cut.n_parts; i++)
		if (cut.parts[i].made)
			node_extents_free(cut.parts[i].made, cut.parts[i].n);
	free(cut.parts);
	return r;
}
