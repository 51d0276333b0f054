/* SPDX-License-Identifier: Apache-2.0 */
#include "volume/plan/capacity.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "volume/op/node_states.h"

static int pools_collect(struct capacity *capacity, struct error *err)
{
	size_t n = 0;

	for (size_t i = 0; i < capacity->n_states; i++)
		n += capacity->states[i].n_pools;
	capacity->pools = calloc(n + 1, sizeof(*capacity->pools));
	if (!capacity->pools)
		return error_set(err, ENOMEM, "out of memory");
	for (size_t i = 0; i < capacity->n_states; i++) {
		const struct node_state *state = &capacity->states[i];

		for (size_t k = 0; state->pools && k < state->n_pools; k++) {
			const struct node_pool *pool = &state->pools[k];

			capacity->pools[capacity->n_pools++] =
				(struct planner_pool){
					.node = state->record.name,
					.pool = pool->name,
					.labels = &state->record.labels,
					.available = pool->available,
					.online = node_pool_is_online(pool),
					.cordoned = pool->cordoned,
				};
		}
	}
	return 0;
}

int capacity_ask(struct volume_context *ctx, struct capacity *ret,
		 struct error *err)
{
	struct capacity capacity = {0};
	int r = node_states_ask(ctx, &capacity.states, &capacity.n_states, err);

	if (r == 0)
		r = pools_collect(&capacity, err);
	if (r < 0)
		capacity_done(&capacity);
	else
		*ret = capacity;
	return r;
}

void capacity_done(struct capacity *capacity)
{
	node_states_free(capacity->states, capacity->n_states);
	free(capacity->pools);
	*capacity = (struct capacity){0};
}

const struct node_state *capacity_node(const struct capacity *capacity,
				       const char *name)
{
	for (size_t i = 0; i < capacity->n_states; i++) {
		if (strcmp(capacity->states[i].record.name, name) == 0)
			return &capacity->states[i];
	}
	return NULL;
}

struct planner_pool *capacity_pool(const struct capacity *capacity,
				   const char *node, const char *pool)
{
	for (size_t i = 0; i < capacity->n_pools; i++) {
		struct planner_pool *p = &capacity->pools[i];

		if (strcmp(p->node, node) == 0 && strcmp(p->pool, pool) == 0)
			return p;
	}
	return NULL;
}

size_t capacity_name_silent(const struct capacity *capacity, struct error *err)
{
	size_t silent = 0;
	const char *first = "";

	for (size_t i = 0; i < capacity->n_states; i++) {
		if (capacity->states[i].reachable)
			continue;
		if (silent++ == 0)
			first = capacity->states[i].record.name;
	}
	if (silent > 0)
		(void)error_prefix(err, -ENOSPC,
				   "%zu of %zu nodes did not answer (first "
				   "'%s'); of the others: ",
				   silent, capacity->n_states, first);
	return silent;
}

int capacity_split(const struct volume_record *record, size_t index,
		   const struct planner_pool *pool, uint64_t size,
		   struct volume_split *ret, struct error *err)
{
	if (index >= VOLUME_SPLITS_MAX)
		return error_set(err, E2BIG, "a volume has at most %d splits",
				 VOLUME_SPLITS_MAX);
	*ret = (struct volume_split){
		.index = (unsigned)index,
		.size = size,
		.state = SPLIT_PLANNED,
	};
	(void)snprintf(ret->node, sizeof(ret->node), "%s", pool->node);
	(void)snprintf(ret->pool, sizeof(ret->pool), "%s", pool->pool);
	(void)snprintf(ret->extent, sizeof(ret->extent), "%.59s-%hhu",
		       record->name, (unsigned char)index);
	(void)uuid_make(ret->fs_uuid);
	return 0;
}
