/* SPDX-License-Identifier: Apache-2.0 */
/* What all nodes of the store have, asked at the same time. */
#ifndef VOLUME_EXTENT_INVENTORY_H
#define VOLUME_EXTENT_INVENTORY_H

#include "volume/op/context.h"

/* What one node has. */
struct node_inventory {
	char node[RECORD_NAME_SIZE];
	bool has_none; /* it only uses volumes: there is nothing to ask */
	/* It answered, by that name. */
	bool asked;
	struct node_extent *extents; /* owned */
	size_t n_extents;
};

/* @ret: owned, inventory_free(). One that does not answer is no error. */
int inventory_ask(struct volume_context *ctx, struct node_inventory **ret,
		  size_t *ret_count, struct error *err);
void inventory_free(struct node_inventory *inventory, size_t count);

/* Those that could not be asked. */
size_t inventory_unreachable(const struct node_inventory *inventory,
			     size_t count);

/* The extent @id of volume @uid, on whichever node but @not_on; or NULL. */
const struct node_extent *inventory_find(const struct node_inventory *inventory,
					 size_t count, const char *uid,
					 const char *id, const char *not_on);

#endif
