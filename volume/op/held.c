/* SPDX-License-Identifier: Apache-2.0 */
#include "volume/op/held.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/parallel.h"

#define ASKED_AT_ONCE 32

struct asking {
	struct volume_context *ctx;
	struct held *held;
};

/* Whoever answers there by another name is another node. */
static int check_name(struct node_client *client)
{
	struct node_state state = {0};
	int r = node_client_get(client, &state, NULL);

	free(state.pools);
	return r;
}

static void ask_one(void *asking_, size_t index)
{
	struct asking *asking = asking_;
	struct held *held = &asking->held[index];
	struct node_client *client = NULL;

	if (held->has_none)
		return;
	held->asked = context_client(asking->ctx, held->node, &client, NULL) ==
			      0 &&
		      check_name(client) == 0 &&
		      node_client_list_extents(client, "", &held->extents,
					       &held->n_extents, NULL) == 0;
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

int held_ask(struct volume_context *ctx, struct held **ret, size_t *ret_count,
	     struct error *err)
{
	struct store_object *objects = NULL;
	struct asking asking = {.ctx = ctx};
	size_t n = 0;
	int r = ctx->store->ops->list(ctx->store, RECORD_KIND_NODE, &objects,
				      &n, err);

	if (r < 0)
		return r;
	asking.held = calloc(n + 1, sizeof(*asking.held));
	for (size_t i = 0; asking.held && i < n; i++) {
		(void)snprintf(asking.held[i].node, RECORD_NAME_SIZE, "%s",
			       objects[i].name);
		asking.held[i].has_none = has_no_blockd(&objects[i]);
	}
	store_objects_free(objects, n);
	if (!asking.held)
		return error_set(err, ENOMEM, "out of memory");
	parallel_run(n, ASKED_AT_ONCE, ask_one, &asking);
	*ret = asking.held;
	*ret_count = n;
	return 0;
}

void held_free(struct held *held, size_t count)
{
	for (size_t i = 0; i < count; i++)
		node_extents_free(held[i].extents, held[i].n_extents);
	free(held);
}

size_t held_unreachable(const struct held *held, size_t count)
{
	size_t n = 0;

	for (size_t i = 0; i < count; i++)
		n += !held[i].asked && !held[i].has_none;
	return n;
}

const struct node_extent *held_find(const struct held *held, size_t count,
				    const char *uid, const char *id,
				    const char *not_on)
{
	for (size_t i = 0; i < count; i++) {
		if (strcmp(held[i].node, not_on) == 0)
			continue;
		for (size_t k = 0; k < held[i].n_extents; k++) {
			const struct node_extent *e = &held[i].extents[k];
			const char *has = labels_get(&e->labels,
						     VOLUME_LABEL_UID);

			if (strcmp(e->id, id) == 0 && has &&
			    strcmp(has, uid) == 0)
				return e;
		}
	}
	return NULL;
}
