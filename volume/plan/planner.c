/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The order of the work: which pools may be used (candidates), largest
 * first; how many of them are needed, and which; how much each gets, in units
 * (planner_strategy.c); and, if pools may be shared, into how many extents a
 * pool's part is cut.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/size.h"
#include "volume/plan/planner_plan.h"

#define LISTED_MAX 4 /* pools named in the text of an error */

/* ---- candidates ---- */

static int compare_names(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* The names of a list in order, for bsearch. */
static int sort_names(const struct name_list *list, const char ***ret,
		      struct error *err)
{
	const char **names = calloc(list->count + 1, sizeof(*names));

	if (!names)
		return error_set(err, ENOMEM, "out of memory");
	for (size_t i = 0; i < list->count; i++)
		names[i] = list->items[i];
	qsort(names, list->count, sizeof(*names), compare_names);
	*ret = names;
	return 0;
}

static bool names_have(const char **names, size_t n, const char *name)
{
	return bsearch(&name, names, n, sizeof(*names), compare_names);
}

static bool pool_wanted(const struct volume_spec *spec, const char **nodes,
			const char **exclude, const struct planner_pool *pool)
{
	static const struct labels none;

	if (spec->nodes.count > 0 &&
	    !names_have(nodes, spec->nodes.count, pool->node))
		return false;
	if (names_have(exclude, spec->exclude.count, pool->node))
		return false;
	/* Clusters have few names of pools: not worth sorting. */
	if (spec->pools.count > 0 && !name_list_has(&spec->pools, pool->pool))
		return false;
	return labels_match(&spec->node_labels,
			    pool->labels ? pool->labels : &none);
}

static void candidate_add(struct plan *plan, size_t pool)
{
	uint64_t bytes = plan->pools[pool].available;
	uint64_t max = plan->spec->max_extent;

	if (max && !plan->spec->share_pools && bytes > max)
		bytes = max;
	bytes -= bytes % 4096; /* proto/blockd.proto, CreateExtentRequest */
	if (bytes / PLANNER_UNIT < plan->least) {
		plan->n_small++;
		return;
	}
	plan->items[plan->n_items++] = (struct candidate){
		.pool = pool,
		.bytes = bytes,
		.units = bytes / PLANNER_UNIT,
		.near = plan->strategy == PLAN_LOCAL &&
			strcmp(plan->pools[pool].node,
			       plan->spec->local_node) == 0,
	};
	if (__builtin_add_overflow(plan->free, bytes, &plan->free))
		plan->free = UINT64_MAX;
}

static int candidates_find(struct plan *plan, size_t n_pools, struct error *err)
{
	const struct volume_spec *spec = plan->spec;
	auto_free const char **nodes = NULL;
	auto_free const char **exclude = NULL;
	int r = sort_names(&spec->nodes, &nodes, err);

	if (r == 0)
		r = sort_names(&spec->exclude, &exclude, err);
	if (!nodes || !exclude)
		return r;
	plan->items = calloc(n_pools + 1, sizeof(*plan->items));
	if (!plan->items)
		return error_set(err, ENOMEM, "out of memory");
	for (size_t i = 0; i < n_pools; i++) {
		if (!pool_wanted(spec, nodes, exclude, &plan->pools[i]))
			plan->n_unwanted++;
		else if (!plan->pools[i].online)
			plan->n_offline++;
		else if (plan->pools[i].cordoned)
			plan->n_cordoned++;
		else
			candidate_add(plan, i);
	}
	plan_sort(plan);
	return 0;
}

/* ---- what to say when it can't be done ---- */

static int no_space(const struct plan *plan, const char *why, struct error *err)
{
	char text[ERROR_TEXT_MAX] = "", size[2][SIZE_TEXT_MAX];
	size_t at = 0;

	for (size_t i = 0; i < plan->n_items && i < LISTED_MAX; i++) {
		const struct candidate *c = &plan->items[i];
		const struct planner_pool *pool = &plan->pools[c->pool];

		at += (size_t)snprintf(text + at, sizeof(text) - at,
				       "%s %s in %.24s/%.24s", i ? "," : ":",
				       size_format(size[0], c->bytes),
				       pool->node, pool->pool);
	}
	if (plan->n_items > LISTED_MAX)
		at += (size_t)snprintf(text + at, sizeof(text) - at,
				       " and less in %zu more",
				       plan->n_items - LISTED_MAX);
	if (plan->n_small)
		at += (size_t)snprintf(text + at, sizeof(text) - at,
				       "; %zu too full", plan->n_small);
	if (plan->n_offline)
		at += (size_t)snprintf(text + at, sizeof(text) - at,
				       "; %zu offline", plan->n_offline);
	if (plan->n_cordoned)
		at += (size_t)snprintf(text + at, sizeof(text) - at,
				       "; %zu cordoned", plan->n_cordoned);
	if (plan->n_unwanted)
		(void)snprintf(text + at, sizeof(text) - at,
			       "; %zu not allowed by the placement",
			       plan->n_unwanted);
	return error_set(err, ENOSPC,
			 "%s asked for, %s free in %zu pool%s%s%s%s",
			 size_format(size[0], plan->capacity),
			 size_format(size[1], plan->free), plan->n_items,
			 plan->n_items == 1 ? "" : "s", why[0] ? ", but " : "",
			 why, text);
}

/* ---- how many pools ---- */

static unsigned splits_limit(const struct volume_spec *spec)
{
	return spec->max_splits ? spec->max_splits : VOLUME_SPLITS_MAX;
}

/* Into how many pools it has to go. Shared ones are cut later. */
static size_t pools_least(const struct plan *plan)
{
	const struct volume_spec *spec = plan->spec;
	size_t min = spec->min_splits;

	if (!spec->share_pools)
		return min;
	/* To keep it together is what these are for. */
	if (plan->strategy != PLAN_BALANCED)
		return 0;
	return min > plan->n_items ? plan->n_items : min;
}

/*
 * The fewest of the first candidates that hold everything: whole units in
 * each, and in one of them the bytes beyond its last whole unit too.
 */
static int pools_count(struct plan *plan, struct error *err)
{
	const struct volume_spec *spec = plan->spec;
	uint64_t units = 0, best_tail = 0;
	size_t n = 0, min = pools_least(plan);
	char why[96];

	while (n < plan->n_items &&
	       (n < min || units * PLANNER_UNIT + best_tail < plan->capacity)) {
		uint64_t tail = plan->items[n].bytes % PLANNER_UNIT;

		if (tail > best_tail)
			best_tail = tail;
		units += plan->items[n++].units;
	}
	if (n < min) {
		(void)snprintf(why, sizeof(why),
			       "%zu splits need as many pools", min);
		return no_space(plan, why, err);
	}
	if (n > 1 && volume_spec_direct(spec))
		return no_space(plan, "a direct volume lies in one pool", err);
	if (n == 0 || units * PLANNER_UNIT + best_tail < plan->capacity)
		return no_space(plan, "", err);
	if (n > splits_limit(spec)) {
		(void)snprintf(why, sizeof(why),
			       "it would take %zu splits, more than the %u "
			       "allowed",
			       n, splits_limit(spec));
		return no_space(plan, why, err);
	}
	if (n * plan->least > plan->capacity / PLANNER_UNIT) {
		uint64_t needed = n * plan->least * PLANNER_UNIT;

		if (needed - plan->capacity > plan->spare)
			return no_space(plan, "the parts would be too small",
					err);
		plan->capacity = needed;
	}
	plan->n_used = n;
	return 0;
}

/* The candidate with room for @tail bytes goes to the end of those used. */
static void place_tail(struct plan *plan, uint64_t tail)
{
	size_t last = plan->n_used - 1;

	for (size_t i = plan->n_used; i-- > 0;) {
		struct candidate c = plan->items[i];

		if (c.bytes - c.given * PLANNER_UNIT < tail)
			continue;
		c.tail = tail;
		memmove(&plan->items[i], &plan->items[i + 1],
			(last - i) * sizeof(c));
		plan->items[last] = c;
		return;
	}
}

/* ---- into how many extents, when pools are shared ---- */

static size_t cut_to_maximum(struct plan *plan)
{
	uint64_t max = plan->spec->max_extent / PLANNER_UNIT;
	size_t n = 0;

	for (size_t i = 0; i < plan->n_used; i++) {
		struct candidate *c = &plan->items[i];
		uint64_t units = c->given + (c->tail ? 1 : 0);

		c->pieces = 1;
		if (plan->spec->share_pools && max && units > max)
			c->pieces = units / max >= VOLUME_SPLITS_MAX
					    ? VOLUME_SPLITS_MAX + 1
					    : (unsigned)((units + max - 1) /
							 max);
		n += c->pieces;
	}
	return n;
}

static int split_cut(struct plan *plan, size_t *ret_count, struct error *err)
{
	const struct volume_spec *spec = plan->spec;
	size_t n = cut_to_maximum(plan);

	while (n < spec->min_splits) {
		struct candidate *best = NULL;

		for (size_t i = 0; i < plan->n_used; i++) {
			struct candidate *c = &plan->items[i];

			if (c->given / (c->pieces + 1) >= plan->least &&
			    (!best ||
			     c->given / c->pieces > best->given / best->pieces))
				best = c;
		}
		if (!best)
			return no_space(plan, "the parts would be too small",
					err);
		best->pieces++;
		n++;
	}
	for (size_t i = 0; i < plan->n_used; i++) {
		if (plan->items[i].given / plan->items[i].pieces < plan->least)
			return no_space(plan, "the parts would be too small",
					err);
	}
	if (n > splits_limit(spec))
		return no_space(plan, "it would take too many splits", err);
	*ret_count = n;
	return 0;
}

static void splits_fill(const struct plan *plan, struct planner_split *splits)
{
	for (size_t i = 0; i < plan->n_used; i++) {
		const struct candidate *c = &plan->items[i];
		uint64_t left = c->given;

		for (unsigned k = c->pieces; k > 0; k--) {
			uint64_t units = (left + k - 1) / k;

			splits->pool = c->pool;
			splits->size = units * PLANNER_UNIT;
			left -= units;
			if (k == 1)
				splits->size += c->tail;
			splits++;
		}
	}
}

/* Tell that only @n pools have room for a piece of a stripe. */
static int no_stripe(const struct plan *plan, uint64_t piece, size_t n,
		     struct error *err)
{
	char why[128], size[SIZE_TEXT_MAX];

	(void)snprintf(why, sizeof(why),
		       "a stripe of %u extents needs as many pools with %s "
		       "each, and there are %zu",
		       plan->spec->stripe_width, size_format(size, piece), n);
	return no_space(plan, why, err);
}

static int place_stripe(struct plan *plan, struct planner_split **ret,
			size_t *ret_count, struct error *err)
{
	const struct volume_spec *spec = plan->spec;
	uint64_t piece = plan->capacity / spec->stripe_width;
	struct planner_split *splits;

	if (size_round_up(piece + (piece * spec->stripe_width < plan->capacity),
			  spec->stripe_unit, &piece) < 0)
		return no_space(plan, "it is too large", err);
	if (plan->capacity < volume_spec_minimum(spec))
		return no_space(plan, "the parts would be too small", err);
	if (spec->max_extent && piece > spec->max_extent)
		return no_space(plan,
				"a piece of the stripe is larger than "
				"the largest extent allowed",
				err);
	if (spec->stripe_width > splits_limit(spec))
		return no_space(plan, "it may have no more splits", err);
	splits = calloc(spec->stripe_width, sizeof(*splits));
	if (!splits)
		return error_set(err, ENOMEM, "out of memory");
	*ret_count = plan_stripe(plan, piece, splits);
	if (*ret_count == spec->stripe_width) {
		*ret = splits;
		return 0;
	}
	free(splits);
	return no_stripe(plan, piece, *ret_count, err);
}

static int place_splits(const struct volume_spec *spec,
			enum plan_strategy strategy,
			const struct planner_pool *pools, size_t n_pools,
			const struct planner_beside *beside,
			struct planner_split **ret, size_t *ret_count,
			struct error *err)
{
	auto_free struct candidate *items = NULL;
	uint64_t least = volume_spec_split_minimum(spec);
	struct plan plan = {
		.spec = spec,
		.pools = pools,
		.strategy = strategy,
		.capacity = spec->capacity,
		.spare = beside->spare,
	};
	struct planner_split *splits;
	size_t count = 0;
	int r;

	if (least < beside->least)
		least = beside->least;
	plan.least = (least + PLANNER_UNIT - 1) / PLANNER_UNIT;
	r = candidates_find(&plan, n_pools, err);
	items = plan.items;
	if (r == 0 && volume_spec_stripe(spec))
		return place_stripe(&plan, ret, ret_count, err);
	if (r == 0)
		r = pools_count(&plan, err);
	if (r < 0)
		return r;
	plan_choose(&plan);
	plan_share(&plan);
	place_tail(&plan, plan.capacity % PLANNER_UNIT);
	r = split_cut(&plan, &count, err);
	if (r < 0)
		return r;
	splits = calloc(count + 1, sizeof(*splits));
	if (!splits)
		return error_set(err, ENOMEM, "out of memory");
	splits_fill(&plan, splits);
	*ret = splits;
	*ret_count = count;
	return 0;
}

/*
 * Place a volume. A strategy is a wish: a volume that it cannot place is placed
 * as if there were none.
 */
int planner_place_beside(const struct volume_spec *spec,
			 const struct planner_pool *pools, size_t n_pools,
			 const struct planner_beside *beside,
			 struct planner_split **ret, size_t *ret_count,
			 struct error *err)
{
	enum plan_strategy strategy = plan_strategy_of(spec);
	int r = place_splits(spec, strategy, pools, n_pools, beside, ret,
			     ret_count, err);

	if (r == -ENOSPC && strategy != PLAN_BALANCED)
		r = place_splits(spec, PLAN_BALANCED, pools, n_pools, beside,
				 ret, ret_count, err);
	return r;
}

int planner_place(const struct volume_spec *spec,
		  const struct planner_pool *pools, size_t n_pools,
		  struct planner_split **ret, size_t *ret_count,
		  struct error *err)
{
	static const struct planner_beside nothing;

	return planner_place_beside(spec, pools, n_pools, &nothing, ret,
				    ret_count, err);
}
