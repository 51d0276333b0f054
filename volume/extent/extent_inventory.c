/* SPDX-License-Identifier: Apache-2.0 */
#include "volume/extent/extent_inventory.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/parallel.h"

#define ASKED_AT_ONCE 32

struct asking {
	struct volume_context *ctx;
	struct node_inventory *inventory; /* owned */
	size_t count, room;
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

static int inventory_add(void *asking_, const struct store_object *object,
			 struct error *err)
{
	struct asking *asking = asking_;
	struct node_inventory *more;

	if (asking->count == asking->room) {
		asking->room = asking->room ? 2 * asking->room : 16;
		more = reallocarray(asking->inventory, asking->room,
				    sizeof(*more));
		if (!more)
			return error_set(err, ENOMEM, "out of memory");
		asking->inventory = more;
	}
	more = &asking->inventory[asking->count++];
	*more = (struct node_inventory){.has_none = has_no_blockd(object)};
	memcpy(more->node, object->name, sizeof(more->node));
	return 0;
}

int inventory_ask(struct volume_context *ctx, struct node_inventory **ret,
		  size_t *ret_count, struct error *err)
{
	struct asking asking = {.ctx = ctx};
	int r = store_walk(ctx->store, RECORD_KIND_NODE, NULL, inventory_add,
			   &asking, err);

	if (r < 0) {
		free(asking.inventory);
		return r;
	}
	parallel_run(asking.count, ASKED_AT_ONCE, inventory_ask_node, &asking);
	*ret = asking.inventory;
	*ret_count = asking.count;
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
