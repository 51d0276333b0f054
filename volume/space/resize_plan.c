/* SPDX-License-Identifier: Apache-2.0 */
#include "volume/space/resize_plan.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "volume/space/capacity.h"

static int pool_of(const struct capacity *offered,
		   const struct volume_split *split, size_t *ret,
		   struct error *err)
{
	const struct node_state *node = capacity_node(offered, split->node);

	if (!node)
		return error_set(err, ENOENT, "no node '%s' is known any more",
				 split->node);
	if (!node->reachable)
		return error_set(err, EHOSTUNREACH, "%s", node->problem);
	for (size_t i = 0; i < offered->n_pools; i++) {
		if (strcmp(offered->pools[i].node, split->node) == 0 &&
		    strcmp(offered->pools[i].pool, split->pool) == 0) {
			*ret = i;
			return 0;
		}
	}
	return error_set(err, ENOENT, "node '%s' has no pool '%s' any more",
			 split->node, split->pool);
}

/* The splits the planner has added come after those there are. */
static int add_splits(struct volume_record *record,
		      const struct capacity *offered,
		      const struct planner_growth *growth, struct error *err)
{
	size_t n = record->n_splits;
	struct volume_split *splits = reallocarray(
		record->splits, n + growth->n_extra + 1, sizeof(*splits));
	int r = 0;

	if (!splits)
		return error_set(err, ENOMEM, "out of memory");
	record->splits = splits;
	for (size_t i = 0; r == 0 && i < growth->n_extra; i++)
		r = capacity_split(record, n + i,
				   &offered->pools[growth->extra[i].pool],
				   growth->extra[i].size, &splits[n + i], err);
	if (r == 0)
		record->n_splits += growth->n_extra;
	return r;
}

static int plan_with(struct volume_record *record,
		     const struct capacity *offered, uint64_t capacity,
		     struct error *err)
{
	size_t n = record->n_splits;
	auto_free struct planner_split *splits = calloc(n + 1, sizeof(*splits));
	struct planner_growth growth = {0};
	int r = 0;

	if (!splits)
		return error_set(err, ENOMEM, "out of memory");
	for (size_t i = 0; r == 0 && i < n; i++) {
		splits[i].size = record->splits[i].size;
		r = pool_of(offered, &record->splits[i], &splits[i].pool, err);
	}
	if (r == 0) {
		r = planner_grow(&record->spec, splits, n, offered->pools,
				 offered->n_pools, capacity, &growth, err);
		if (r == -ENOSPC)
			capacity_name_silent(offered, err);
	}
	if (r == 0)
		r = add_splits(record, offered, &growth, err);
	for (size_t i = 0; r == 0 && i < n; i++) {
		if (growth.sizes[i] > record->splits[i].size)
			record->splits[i].grow_to = growth.sizes[i];
	}
	planner_growth_done(&growth);
	return r;
}

int resize_plan(struct operation *op, uint64_t capacity, struct error *err)
{
	struct capacity offered = {0};
	int r = operation_step(op, err, "plan",
			       "asking the nodes for their room");

	if (r == 0)
		r = capacity_ask(op->ctx, &offered, err);
	if (r == 0)
		r = plan_with(op->record, &offered, capacity, err);
	if (r == 0)
		r = operation_save(op, err);
	capacity_done(&offered);
	return r;
}

bool resize_planned(const struct volume_record *record)
{
	return volume_record_target(record) > record->spec.capacity;
}
