/* SPDX-License-Identifier: Apache-2.0 */
/* extents.h: snapshots of single extents at one instant (volume/op/cut.h). */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "volume/extent/extent_internal.h"
#include "volume/op/cut.h"

static int parts_add(struct volume_context *ctx, struct cut *cut,
		     const struct extent_snapshot_request *wanted,
		     struct node_extent *place, const struct labels *labels,
		     struct error *err)
{
	const struct node_snapshot_request request = {
		.extent = wanted->extent,
		.name = wanted->name,
		.labels = labels,
	};
	struct node_client *client;
	int r = name_check("snapshot", wanted->name, err);

	if (r == 0)
		r = extent_client(ctx, wanted->node, wanted->extent, &client,
				  err);
	return r < 0 ? r : cut_add(cut, wanted->node, &request, place, err);
}

/* A snapshot that this cut made; one that was there before stays. */
static int undo_one(const struct cut_part *part, const char *name,
		    const char *id)
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
	const struct cut *cut = cut_;
	struct cut_part *part = cut->parts[index];

	part->r = 0;
	for (size_t i = 0; part->asked && i < part->n; i++) {
		int r = undo_one(part, part->requests[i].name, cut->id);

		if (r < 0)
			part->r = r;
	}
}

static void parts_undo(struct cut *cut, struct error *err)
{
	if (cut_each(cut, undo_part, NULL) == 0)
		return;
	for (size_t i = 0; i < cut->n_parts; i++)
		if (cut->parts[i]->r < 0)
			(void)error_prefix(err, cut->parts[i]->r,
					   "snapshots may be left on node "
					   "'%s' (extent list): ",
					   cut->parts[i]->node);
}

/* Into the caller's order. */
static void parts_collect(struct cut *cut)
{
	for (size_t i = 0; i < cut->n_parts; i++) {
		struct cut_part *part = cut->parts[i];

		for (size_t k = 0; k < part->n; k++)
			*(struct node_extent *)part->owners[k] = part->made[k];
		free(part->made); /* its members went along */
		part->made = NULL;
	}
}

int volume_extent_snapshot(struct volume_context *ctx,
			   const struct extent_snapshot_request *requests,
			   size_t n, const struct labels *labels,
			   struct node_extent **ret, struct error *err)
{
	struct node_extent *all = calloc(n + 1, sizeof(*all));
	char id[UUID_TEXT_SIZE];
	struct cut cut;
	int r = 0;

	if (!all)
		return error_set(err, ENOMEM, "out of memory");
	cut_init(&cut, ctx, uuid_make(id));
	for (size_t i = 0; r == 0 && i < n; i++)
		r = parts_add(ctx, &cut, &requests[i], &all[i], labels, err);
	if (r == 0) {
		r = cut_run(&cut, err);
		if (r < 0)
			parts_undo(&cut, err);
	}
	if (r == 0) {
		parts_collect(&cut);
		*ret = all;
	} else {
		free(all);
	}
	cut_done(&cut);
	return r;
}
