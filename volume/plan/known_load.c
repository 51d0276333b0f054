/* SPDX-License-Identifier: Apache-2.0 */
#include "volume/plan/known_load.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "volume/op/node_states.h"

#define ROOM_FIRST 16 /* nodes; doubled as needed */

static int known_pools_take(const struct node_state *state,
			    struct known_node *node, struct error *err)
{
	const struct node_report *report = state->record.report;

	node->pools = calloc(report->n_pools + 1, sizeof(*node->pools));
	if (!node->pools)
		return error_set(err, ENOMEM, "out of memory");
	for (size_t i = 0; i < report->n_pools; i++) {
		const struct node_pool_report *from = &report->pools[i];
		struct known_pool *pool = &node->pools[i];

		memcpy(pool->name, from->name, sizeof(pool->name));
		atomic_init(&pool->available, from->available);
		atomic_init(&pool->online,
			    strcmp(from->state, NODE_POOL_ONLINE) == 0);
		pool->cordoned = node_record_cordons(&state->record,
						     from->name);
	}
	node->n_pools = report->n_pools;
	memcpy(node->version, report->version, sizeof(node->version));
	return 0;
}

struct loading {
	struct known_nodes *known;
	size_t room; /* items allocated */
};

static int known_reserve(struct loading *loading, struct error *err)
{
	size_t room = loading->room ? 2 * loading->room : ROOM_FIRST;
	struct known_node *items;

	if (loading->known->count < loading->room)
		return 0;
	items = reallocarray(loading->known->items, room, sizeof(*items));
	if (!items)
		return error_set(err, ENOMEM, "out of memory");
	loading->known->items = items;
	loading->room = room;
	return 0;
}

static int known_add(void *loading_, struct node_state *state,
		     struct error *err)
{
	struct loading *loading = loading_;
	struct known_node *node;
	int r = known_reserve(loading, err);

	if (r < 0)
		return r;
	node = &loading->known->items[loading->known->count++];
	*node = (struct known_node){.labels = state->record.labels};
	state->record.labels = (struct labels){0};
	memcpy(node->name, state->record.name, sizeof(node->name));
	if (state->problem[0]) {
		node->problem = strdup(state->problem);
		return node->problem ? 0
				     : error_set(err, ENOMEM, "out of memory");
	}
	node->reported = node_state_is_reported(state);
	node->unreported = !node->reported && state->record.control_address[0];
	return node->reported ? known_pools_take(state, node, err) : 0;
}

static int known_read(struct volume_context *ctx, struct known_nodes **ret,
		      struct error *err)
{
	struct loading loading = {.known = calloc(1, sizeof(*loading.known))};
	int r;

	if (!loading.known)
		return error_set(err, ENOMEM, "out of memory");
	atomic_init(&loading.known->refs, 1);
	loading.known->loaded_ms = clock_ms();
	r = node_states_foreach(ctx, known_add, &loading, err);
	if (r < 0)
		known_nodes_unref(loading.known);
	else
		*ret = loading.known;
	return r;
}

static bool known_can_be_kept(const struct known_nodes *known)
{
	for (size_t i = 0; i < known->count; i++) {
		if (known->items[i].unreported)
			return false;
	}
	return true;
}

/* Keep @known in the place of what is kept. */
static void known_keep(struct volume_context *ctx, struct known_nodes *known)
{
	struct known_nodes *old;

	if (!known_can_be_kept(known))
		known = NULL;
	else
		atomic_fetch_add(&known->refs, 1);
	(void)pthread_mutex_lock(&ctx->lock);
	old = ctx->known_nodes;
	ctx->known_nodes = known;
	(void)pthread_mutex_unlock(&ctx->lock);
	known_nodes_unref(old);
}

/* Returns NULL where there is none, or it is too old. */
static struct known_nodes *known_kept(struct volume_context *ctx)
{
	struct known_nodes *known;

	(void)pthread_mutex_lock(&ctx->lock);
	known = ctx->known_nodes;
	if (known && clock_ms() - known->loaded_ms < KNOWN_NODES_MS)
		atomic_fetch_add(&known->refs, 1);
	else
		known = NULL;
	(void)pthread_mutex_unlock(&ctx->lock);
	return known;
}

int known_load(struct volume_context *ctx, bool fresh, struct known_nodes **ret,
	       struct error *err)
{
	struct known_nodes *known = fresh ? NULL : known_kept(ctx);
	int r;

	if (!known) {
		r = known_read(ctx, &known, err);
		if (r < 0)
			return r;
		known_keep(ctx, known);
	}
	*ret = known;
	return 0;
}
