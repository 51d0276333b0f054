/* SPDX-License-Identifier: Apache-2.0 */
/* The extents of all nodes of the store, asked at the same time. */
#ifndef VOLUME_EXTENT_INVENTORY_H
#define VOLUME_EXTENT_INVENTORY_H

#include "volume/op/context.h"

/* Extents of one node. */
struct node_inventory {
	char node[RECORD_NAME_SIZE];
	bool has_none; /* the node only uses volumes, and is not asked */
	/* The node answered, by that name. */
	bool asked;
	struct node_extent *extents; /* owned */
	size_t n_extents;
};

/* @ret: owned, inventory_free(). A silent node is no error. */
int inventory_ask(struct volume_context *ctx, struct node_inventory **ret,
		  size_t *ret_count, struct error *err);
void inventory_free(struct node_inventory *inventory, size_t count);

/* Count the nodes that did not answer. */
size_t inventory_unreachable(const struct node_inventory *inventory,
			     size_t count);

/* Find the extent @id of volume @uid, on any node but @not_on; NULL: none. */
const struct node_extent *inventory_find(const struct node_inventory *inventory,
					 size_t count, const char *uid,
					 const char *id, const char *not_on);

#endif
