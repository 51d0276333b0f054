/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Differences of the strategies: the order in which pools are taken, the choice
 * among those that would do, and how much each gets.
 */
#include <stdlib.h>
#include <string.h>

#include "volume/plan/planner_plan.h"

enum plan_strategy plan_strategy_of(const struct volume_spec *spec)
{
	if (strcmp(spec->placement, "packed") == 0)
		return PLAN_PACKED;
	if (strcmp(spec->placement, "local") == 0 && spec->local_node[0])
		return PLAN_LOCAL;
	return PLAN_BALANCED;
}

/* ---- the order ---- */

static int compare_places(const struct candidate *a, const struct candidate *b,
			  const struct planner_pool *pools)
{
	int r = strcmp(pools[a->pool].node, pools[b->pool].node);

	return r ? r : strcmp(pools[a->pool].pool, pools[b->pool].pool);
}

static int compare_largest(const void *a_, const void *b_, void *pools)
{
	const struct candidate *a = a_, *b = b_;

	if (a->near != b->near)
		return a->near ? -1 : 1;
	if (a->bytes != b->bytes)
		return a->bytes > b->bytes ? -1 : 1;
	return compare_places(a, b, pools);
}

static int compare_smallest(const void *a_, const void *b_, void *pools)
{
	const struct candidate *a = a_, *b = b_;

	if (a->bytes != b->bytes)
		return a->bytes < b->bytes ? -1 : 1;
	return compare_places(a, b, pools);
}

void plan_sort(struct plan *plan)
{
	qsort_r(plan->items, plan->n_items, sizeof(*plan->items),
		compare_largest, (void *)plan->pools);
}

/* ---- packed: the fullest that do ---- */

/* Add up the room of the used pools, without the one at @slot. */
static void sum_without(const struct plan *plan, size_t slot,
			uint64_t *ret_units, uint64_t *ret_tail)
{
	uint64_t units = 0, tail = 0;

	for (size_t i = 0; i < plan->n_used; i++) {
		const struct candidate *c = &plan->items[i];

		if (i == slot)
			continue;
		units += c->units;
		if (c->bytes % PLANNER_UNIT > tail)
			tail = c->bytes % PLANNER_UNIT;
	}
	*ret_units = units;
	*ret_tail = tail;
}

/* Take the smallest that does in place of the one at @slot. */
static bool pack_slot(struct plan *plan, size_t slot)
{
	uint64_t units, tail, wanted = plan->capacity / PLANNER_UNIT;
	struct candidate *best = &plan->items[slot], was = *best;

	sum_without(plan, slot, &units, &tail);
	for (size_t i = plan->n_used; i < plan->n_items; i++) {
		struct candidate *c = &plan->items[i];
		uint64_t rest = c->bytes % PLANNER_UNIT;
		uint64_t all = units + c->units;

		if (rest < tail)
			rest = tail;
		if (c->bytes < best->bytes &&
		    (all > wanted ||
		     (all == wanted && rest >= plan->capacity % PLANNER_UNIT)))
			best = c;
	}
	if (best == &plan->items[slot])
		return false;
	plan->items[slot] = *best;
	*best = was;
	return true;
}

/* Each time a smaller pool is taken, so this ends. */
static void pack(struct plan *plan)
{
	bool moved;

	do {
		moved = false;
		for (size_t slot = plan->n_used; slot-- > 0;)
			moved |= pack_slot(plan, slot);
	} while (moved);
	qsort_r(plan->items, plan->n_used, sizeof(*plan->items),
		compare_smallest, (void *)plan->pools);
}

void plan_choose(struct plan *plan)
{
	if (plan->strategy == PLAN_PACKED)
		pack(plan);
}

/* ---- stripes ---- */

/* The better place for a piece: the near one, the one with fewer pieces... */
static bool stripe_prefers(const struct plan *plan, const struct candidate *a,
			   const struct candidate *b)
{
	if (a->near != b->near)
		return a->near;
	if (a->pieces != b->pieces)
		return a->pieces < b->pieces;
	return plan->strategy == PLAN_PACKED ? a->bytes < b->bytes
					     : a->bytes > b->bytes;
}

size_t plan_stripe(const struct plan *plan, uint64_t piece,
		   struct planner_split *ret)
{
	const struct volume_spec *spec = plan->spec;
	size_t n = 0;

	/* The room and the pieces of each candidate are as they become. */
	while (n < spec->stripe_width) {
		struct candidate *best = NULL;

		for (size_t i = 0; i < plan->n_items; i++) {
			struct candidate *c = &plan->items[i];

			if (c->bytes < piece ||
			    (c->pieces > 0 && !spec->share_pools))
				continue;
			if (!best || stripe_prefers(plan, c, best))
				best = c;
		}
		if (!best)
			break;
		best->pieces++;
		best->bytes -= piece;
		ret[n++] = (struct planner_split){best->pool, piece};
	}
	return n;
}

/* ---- how much in each ---- */

/* Rounding and the smallest extent left some over, or took too many. */
static void even_out(struct candidate *items, size_t n, uint64_t least,
		     uint64_t units, uint64_t given)
{
	while (given != units) {
		for (size_t i = 0; i < n && given != units; i++) {
			struct candidate *c = &items[i];

			if (given < units && c->given < c->units) {
				c->given++;
				given++;
			} else if (given > units && c->given > least) {
				c->given--;
				given--;
			}
		}
	}
}

/* Share to each in proportion to its room, within its limit. */
static void share_evenly(struct candidate *items, size_t n, uint64_t least,
			 uint64_t units)
{
	uint64_t all = 0, given = 0;

	for (size_t i = 0; i < n; i++)
		all += items[i].units;
	for (size_t i = 0; i < n; i++) {
		struct candidate *c = &items[i];

		c->given = (uint64_t)((unsigned __int128)units * c->units /
				      all);
		if (c->given < least)
			c->given = least;
		given += c->given;
	}
	even_out(items, n, least, units, given);
}

/* Share to the first ones all they take, to those after them the rest. */
static void share_in_order(struct candidate *items, size_t n, uint64_t least,
			   uint64_t units)
{
	for (size_t i = 0; i < n; i++) {
		uint64_t others = least * (n - i - 1);
		struct candidate *c = &items[i];

		c->given = units - others;
		if (c->given > c->units)
			c->given = c->units;
		units -= c->given;
	}
}

/* To the near ones as much as they hold, to the others the rest. */
static void share_near_first(struct plan *plan, uint64_t units)
{
	uint64_t near_units = 0, most;
	size_t near = 0;

	while (near < plan->n_used && plan->items[near].near)
		near_units += plan->items[near++].units;
	most = units - plan->least * (plan->n_used - near);
	if (near_units > most)
		near_units = most;
	share_evenly(plan->items, near, plan->least, near_units);
	share_evenly(plan->items + near, plan->n_used - near, plan->least,
		     units - near_units);
}

void plan_share(struct plan *plan)
{
	uint64_t units = plan->capacity / PLANNER_UNIT;

	switch (plan->strategy) {
	case PLAN_BALANCED:
		share_evenly(plan->items, plan->n_used, plan->least, units);
		break;
	case PLAN_PACKED:
		share_in_order(plan->items, plan->n_used, plan->least, units);
		break;
	case PLAN_LOCAL: share_near_first(plan, units); break;
	}
}
