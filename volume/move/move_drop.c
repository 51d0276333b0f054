/* SPDX-License-Identifier: Apache-2.0 */
/* The other place of a split that moves, and how that is given up. */
#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "volume/move/move_copy.h"

struct volume_split *move_split(struct operation *op)
{
	return &op->record->splits[container_of(op, struct move, op)->index];
}

struct volume_split move_other_place(const struct volume_split *split)
{
	struct volume_split other = *split;

	memcpy(other.node, split->move.node, sizeof(other.node));
	memcpy(other.pool, split->move.pool, sizeof(other.pool));
	memcpy(other.extent, split->move.extent, sizeof(other.extent));
	memcpy(other.extent_id, split->move.extent_id, sizeof(other.extent_id));
	other.source[0] = '\0';
	return other;
}

int move_drop_other(struct operation *op, struct volume_split *split,
		    struct error *err)
{
	struct volume_split other = move_other_place(split);
	struct node_client *client = NULL;
	struct node_extent extent = {0};
	bool made = true;
	int r = 0;

	if (!other.extent_id[0]) {
		r = context_client(op->ctx, other.node, &client, err);
		if (r == 0)
			r = node_client_get_extent(client, other.extent,
						   &extent, err);
		made = r == 0 && extent.blank;
		node_extent_done(&extent);
	}
	if (r == 0 && made)
		r = split_delete(op, &other, err);
	return r == -ENOENT ? 0 : r;
}

int move_drop_all(struct operation *op, struct error *err)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < op->record->n_splits; i++) {
		struct volume_split *split = &op->record->splits[i];

		if (!split->move.node[0])
			continue;
		r = move_drop_other(op, split, err);
		if (r == 0)
			split->move = (struct split_move){0};
	}
	return r;
}

int move_drop_left(struct operation *op, struct volume_split *split,
		   struct error *err)
{
	int r;

	if (!split->move.left)
		return 0;
	r = move_drop_other(op, split, err);
	if (r == 0) {
		split->move = (struct split_move){0};
		r = operation_save(op, err);
	}
	return r < 0 ? error_prefix(err, r,
				    "an extent that it has left on node '%s' "
				    "is not deleted yet (repeat the command): ",
				    split->move.node)
		     : 0;
}

void move_unexport(struct operation *op, const struct volume_split *split)
{
	struct node_client *client = NULL;
	struct split_grants grants;

	split_grants_of(op->record, &grants);
	if (context_client(op->ctx, split->node, &client, NULL) == 0)
		(void)node_client_remove_export(client, split->extent, 0,
						grants.items, grants.n, NULL);
}
