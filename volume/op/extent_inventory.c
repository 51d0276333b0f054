/* SPDX-License-Identifier: Apache-2.0 */
#include "volume/op/extent_inventory.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/parallel.h"

#define ASKED_AT_ONCE 32

struct asking {
	struct volume_context *ctx;
	struct node_inventory *inventory;
};

/* Check the node's name: a server that answers by another is another node. */
static int inventory_check_node(struct node_client *client)
{
	struct node_state state = {0};
	int r = node_client_get(client, &state, NULL);

	free(state.pools);
	return r;
}

static void inventory_ask_node(void *asking_, size_t index)
{
	struct asking *asking = asking_;
	struct node_inventory *inventory = &asking->inventory[index];
	struct node_client *client = NULL;

	if (inventory->has_none)
		return;
	inventory->asked =
		context_client(asking->ctx, inventory->node, &client, NULL) ==
			0 &&
		inventory_check_node(client) == 0 &&
		node_client_list_extents(client, "", &inventory->extents,
					 &inventory->n_extents, NULL) == 0;
}

static bool has_no_blockd(const struct store_object *object)
{
	struct node_record node = {0};
	bool none;

	if (node_record_decode(object->json, object->length, &node, NULL) < 0)
		return false;
	none = !node.control_address[0];
	node_record_done(&node);
	return none;
}

int inventory_ask(struct volume_context *ctx, struct node_inventory **ret,
		  size_t *ret_count, struct error *err)
{
	struct store_object *objects = NULL;
	struct asking asking = {.ctx = ctx};
	size_t n = 0;
	int r = ctx->store->ops->list(ctx->store, RECORD_KIND_NODE, &objects,
				      &n, err);

	if (r < 0)
		return r;
	asking.inventory = calloc(n + 1, sizeof(*asking.inventory));
	for (size_t i = 0; asking.inventory && i < n; i++) {
		(void)snprintf(asking.inventory[i].node, RECORD_NAME_SIZE, "%s",
			       objects[i].name);
		asking.inventory[i].has_none = has_no_blockd(&objects[i]);
	}
	store_objects_free(objects, n);
	if (!asking.inventory)
		return error_set(err, ENOMEM, "out of memory");
	parallel_run(n, ASKED_AT_ONCE, inventory_ask_node, &asking);
	*ret = asking.inventory;
	*ret_count = n;
	return 0;
}

void inventory_free(struct node_inventory *inventory, size_t count)
{
	for (size_t i = 0; i < count; i++)
		node_extents_free(inventory[i].extents, inventory[i].n_extents);
	free(inventory);
}

size_t inventory_unreachable(const struct node_inventory *inventory,
			     size_t count)
{
	size_t n = 0;

	for (size_t i = 0; i < count; i++)
		n += !inventory[i].asked && !inventory[i].has_none;
	return n;
}

const struct node_extent *inventory_find(const struct node_inventory *inventory,
					 size_t count, const char *uid,
					 const char *id, const char *not_on)
{
	for (size_t i = 0; i < count; i++) {
		if (strcmp(inventory[i].node, not_on) == 0)
			continue;
		for (size_t k = 0; k < inventory[i].n_extents; k++) {
			const struct node_extent *e = &inventory[i].extents[k];
			const char *has = labels_get(&e->labels,
						     VOLUME_LABEL_UID);

			if (strcmp(e->id, id) == 0 && has &&
			    strcmp(has, uid) == 0)
				return e;
		}
	}
	return NULL;
}
