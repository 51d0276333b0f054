/* SPDX-License-Identifier: Apache-2.0 */
#include "volume/plan/volume_plan.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "volume/plan/capacity.h"

/* ---- a new volume ---- */

/* The nodes that are asked for have to be known. */
static int plan_check_nodes(const struct volume_spec *spec,
			    const struct capacity *capacity, struct error *err)
{
	if (capacity->n_nodes == 0)
		return error_set(err, ENOSPC,
				 "no nodes are known; `trib node add` makes "
				 "them known");
	for (size_t i = 0; i < spec->nodes.count; i++) {
		if (!capacity_node(capacity, spec->nodes.items[i]))
			return error_set(err, ENOENT,
					 "no node '%s' is known; `trib node "
					 "list` shows those that are",
					 spec->nodes.items[i]);
	}
	return 0;
}

/* Add the splits of @plan after those the record has. */
static int plan_add_splits(struct volume_record *record,
			   const struct capacity *capacity,
			   const struct planner_split *plan, size_t n_plan,
			   struct error *err)
{
	size_t n = record->n_splits;
	struct volume_split *splits = reallocarray(
		record->splits, n + n_plan + 1, sizeof(*splits));
	int r = 0;

	if (!splits)
		return error_set(err, ENOMEM, "out of memory");
	record->splits = splits;
	for (size_t i = 0; r == 0 && i < n_plan; i++)
		r = capacity_split(record, n + i,
				   &capacity->pools[plan[i].pool], plan[i].size,
				   &splits[n + i], err);
	if (r == 0)
		record->n_splits += n_plan;
	return r;
}

struct placing {
	const struct volume_spec *spec;
	struct planner_split *splits; /* owned */
	size_t count;
};

static int place_new(void *placing_, struct capacity *capacity,
		     struct error *err)
{
	struct placing *placing = placing_;
	int r = plan_check_nodes(placing->spec, capacity, err);

	free(placing->splits);
	placing->splits = NULL;
	if (r == 0)
		r = planner_place(placing->spec, capacity->pools,
				  capacity->n_pools, &placing->splits,
				  &placing->count, err);
	if (r == -ENOSPC)
		(void)capacity_name_silent(capacity, err);
	for (size_t i = 0; r == 0 && i < placing->count; i++)
		capacity_take(capacity, placing->splits[i].pool,
			      placing->splits[i].size);
	return r;
}

int volume_plan_new(struct operation *op, struct error *err)
{
	struct placing placing = {.spec = &op->record->spec};
	struct capacity capacity = {0};
	int r = capacity_load(op->ctx, &capacity, err);

	if (r == 0)
		r = capacity_settle(op->ctx, &capacity, place_new, &placing,
				    err);
	if (r == 0) {
		op->record->n_splits = 0; /* all are deleted */
		r = plan_add_splits(op->record, &capacity, placing.splits,
				    placing.count, err);
	}
	free(placing.splits);
	capacity_done(&capacity);
	return r;
}

/* ---- a larger one ---- */

static int pool_of(const struct capacity *offered,
		   const struct volume_split *split, size_t *ret,
		   struct error *err)
{
	const struct capacity_node *node = capacity_node(offered, split->node);
	const struct planner_pool *pool;

	if (!node)
		return error_set(err, ENOENT, "no node '%s' is known any more",
				 split->node);
	if (!node->reachable)
		return error_set(err, EHOSTUNREACH, "%s",
				 node->problem ?: node->name);
	pool = capacity_pool(offered, split->node, split->pool);
	if (pool) {
		*ret = (size_t)(pool - offered->pools);
		return 0;
	}
	return error_set(err, ENOENT, "node '%s' has no pool '%s' any more",
			 split->node, split->pool);
}

/* A final error would tell that the size can never be. */
static int growth_is_unknown(struct error *err)
{
	if (err)
		err->code = EHOSTUNREACH;
	return -EHOSTUNREACH;
}

struct growing {
	const struct volume_record *record;
	uint64_t capacity;
	struct planner_growth growth;
};

static int grow_splits(struct growing *growing, struct capacity *offered,
		       struct error *err)
{
	const struct volume_record *record = growing->record;
	size_t n = record->n_splits;
	auto_free struct planner_split *splits = calloc(n + 1, sizeof(*splits));
	int r = 0;

	if (!splits)
		return error_set(err, ENOMEM, "out of memory");
	for (size_t i = 0; r == 0 && i < n; i++) {
		splits[i].size = record->splits[i].size;
		r = pool_of(offered, &record->splits[i], &splits[i].pool, err);
	}
	if (r == 0)
		r = planner_grow(&record->spec, splits, n, offered->pools,
				 offered->n_pools, growing->capacity,
				 &growing->growth, err);
	for (size_t i = 0; r == 0 && i < n; i++)
		capacity_take(offered, splits[i].pool,
			      growing->growth.sizes[i] - splits[i].size);
	return r;
}

static int plan_growth(void *growing_, struct capacity *offered,
		       struct error *err)
{
	struct growing *growing = growing_;
	int r;

	planner_growth_done(&growing->growth);
	r = grow_splits(growing, offered, err);
	/* Nobody knows what a silent node has room for. */
	if (r == -ENOSPC && capacity_name_silent(offered, err) > 0)
		r = growth_is_unknown(err);
	for (size_t i = 0; r == 0 && i < growing->growth.n_extra; i++)
		capacity_take(offered, growing->growth.extra[i].pool,
			      growing->growth.extra[i].size);
	return r;
}

/* The splits there are grow by what their nodes say themselves. */
static int growth_load(struct operation *op, struct capacity *offered,
		       struct error *err)
{
	int r = capacity_load(op->ctx, offered, err);

	for (size_t i = 0; r == 0 && i < op->record->n_splits; i++)
		capacity_want(offered, op->record->splits[i].node);
	return r < 0 ? r : capacity_ask_wanted(op->ctx, offered, err);
}

static int growth_record(struct volume_record *record,
			 const struct capacity *offered,
			 const struct planner_growth *growth, struct error *err)
{
	size_t n = record->n_splits;
	int r = plan_add_splits(record, offered, growth->extra, growth->n_extra,
				err);

	for (size_t i = 0; r == 0 && i < n; i++) {
		if (growth->sizes[i] > record->splits[i].size)
			record->splits[i].grow_to = growth->sizes[i];
	}
	return r;
}

int volume_plan_grow(struct operation *op, uint64_t capacity, struct error *err)
{
	struct growing growing = {.record = op->record, .capacity = capacity};
	struct capacity offered = {0};
	int r = operation_step(op, err, "plan", "choosing pools");

	if (r == 0)
		r = growth_load(op, &offered, err);
	if (r == 0)
		r = capacity_settle(op->ctx, &offered, plan_growth, &growing,
				    err);
	if (r == 0)
		r = growth_record(op->record, &offered, &growing.growth, err);
	if (r == 0)
		r = operation_save(op, err);
	planner_growth_done(&growing.growth);
	capacity_done(&offered);
	return r;
}

/* ---- a split that moves ---- */

struct moving {
	const struct volume_record *record;
	size_t index;
	const struct volume_place *to;
	size_t pool; /* the choice: an index */
};

/*
 * Find the pool that the split takes. A lost one has none, but for the planned
 * one of the split in its place.
 */
static const struct planner_pool *pool_taken(const struct capacity *offered,
					     const struct volume_split *split)
{
	if (!split->lost)
		return capacity_pool(offered, split->node, split->pool);
	return split->move.node[0] ? capacity_pool(offered, split->move.node,
						   split->move.pool)
				   : NULL;
}

/* Find the only pool that may be chosen; PLANNER_NO_POOL: any may. */
static int pool_only(const struct capacity *offered,
		     const struct volume_split *split,
		     const struct volume_place *to, size_t *ret,
		     struct error *err)
{
	struct volume_split at = {0};

	*ret = PLANNER_NO_POOL;
	if (!to->node)
		return 0;
	if (strcmp(to->node, split->node) == 0 &&
	    strcmp(to->pool, split->pool) == 0)
		return error_set(
			err, EINVAL,
			"split %u is in pool '%s' of node '%s' already",
			split->index, to->pool, to->node);
	(void)snprintf(at.node, sizeof(at.node), "%s", to->node);
	(void)snprintf(at.pool, sizeof(at.pool), "%s", to->pool);
	return pool_of(offered, &at, ret, err);
}

static int pool_choose(void *moving_, struct capacity *offered,
		       struct error *err)
{
	struct moving *moving = moving_;
	const struct volume_record *record = moving->record;
	size_t n = record->n_splits, only = PLANNER_NO_POOL, chosen = 0;
	auto_free struct planner_split *splits = calloc(n + 1, sizeof(*splits));
	int r;

	if (!splits)
		return error_set(err, ENOMEM, "out of memory");
	r = pool_only(offered, &record->splits[moving->index], moving->to,
		      &only, err);
	if (r < 0)
		return r;
	for (size_t i = 0; i < n; i++) {
		const struct planner_pool *pool = pool_taken(
			offered, &record->splits[i]);
		size_t at = pool ? (size_t)(pool - offered->pools)
				 : PLANNER_NO_POOL;

		if (only != PLANNER_NO_POOL)
			at = at == only ? 0 : PLANNER_NO_POOL;
		splits[i] = (struct planner_split){
			.pool = at,
			.size = record->splits[i].size,
		};
	}
	if (only == PLANNER_NO_POOL)
		r = planner_move(&record->spec, splits, n, moving->index,
				 offered->pools, offered->n_pools, &chosen,
				 err);
	else
		r = planner_move(&record->spec, splits, n, moving->index,
				 &offered->pools[only], 1, &chosen, err);
	if (r == -ENOSPC)
		(void)capacity_name_silent(offered, err);
	if (r < 0)
		return r;
	moving->pool = only == PLANNER_NO_POOL ? chosen : only;
	capacity_take(offered, moving->pool,
		      record->splits[moving->index].size);
	return 0;
}

static void move_name(const struct volume_record *record,
		      struct volume_split *split, unsigned above)
{
	const unsigned number = split->index % VOLUME_SPLITS_MAX + above;

	(void)snprintf(split->move.extent, sizeof(split->move.extent),
		       "%.59s-%u", record->name, number % 1000u);
}

void volume_plan_move_apart(const struct volume_record *record,
			    struct volume_split *split)
{
	if (strcmp(split->move.extent, split->extent) == 0)
		move_name(record, split, VOLUME_SPLITS_MAX);
}

/*
 * Name the extent as a new split's is. On a node that has an extent of that
 * name it is the name of a split that cannot be: its number is higher by
 * VOLUME_SPLITS_MAX. What a machine has attached is known by such names.
 */
static void move_set(const struct volume_record *record,
		     const struct planner_pool *pool,
		     struct volume_split *split)
{
	struct split_move *move = &split->move;

	*move = (struct split_move){0};
	(void)snprintf(move->node, sizeof(move->node), "%s", pool->node);
	(void)snprintf(move->pool, sizeof(move->pool), "%s", pool->pool);
	move_name(record, split, 0);
	if (strcmp(move->node, split->node) == 0)
		volume_plan_move_apart(record, split);
}

int volume_plan_move(struct operation *op, size_t index,
		     const struct volume_place *to, struct error *err)
{
	struct moving moving = {.record = op->record, .index = index, .to = to};
	struct capacity offered = {0};
	int r = operation_step(op, err, "plan", "choosing a pool");

	if (r == 0)
		r = capacity_load(op->ctx, &offered, err);
	if (r == 0 && to->node) {
		capacity_want(&offered, to->node);
		r = capacity_ask_wanted(op->ctx, &offered, err);
	}
	if (r == 0)
		r = capacity_settle(op->ctx, &offered, pool_choose, &moving,
				    err);
	if (r == 0)
		move_set(op->record, &offered.pools[moving.pool],
			 &op->record->splits[index]);
	capacity_done(&offered);
	return r;
}

bool volume_plan_is_open(const struct volume_record *record)
{
	return volume_record_target(record) > record->spec.capacity;
}
