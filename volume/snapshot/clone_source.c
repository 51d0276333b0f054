/* SPDX-License-Identifier: Apache-2.0 */
#include "volume/snapshot/clone_source.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/size.h"
#include "volume/op/split.h"
#include "volume/plan/capacity.h"
#include "volume/snapshot/snapshot_op.h"

/* ---- open properties of the request ---- */

static const char *word_of(const struct volume_source *source)
{
	return source->kind == VOLUME_SOURCE_SNAPSHOT ? "snapshot" : "volume";
}

static int clone_word_take(char *word, size_t size, const char *what,
			   const char *from, const struct volume_source *source,
			   struct error *err)
{
	if (!word[0]) {
		(void)snprintf(word, size, "%s", from);
		return 0;
	}
	if (strcmp(word, from) == 0)
		return 0;
	return error_set(err, EINVAL, "the %s of %s '%s' is '%s', not '%s'",
			 what, word_of(source), source->name, from, word);
}

static int stripe_take(struct volume_spec *spec, const struct volume_spec *from,
		       struct error *err)
{
	if (!spec->stripe_width)
		spec->stripe_width = from->stripe_width;
	if (!spec->stripe_unit)
		spec->stripe_unit = from->stripe_unit;
	if (spec->stripe_width == from->stripe_width &&
	    spec->stripe_unit == from->stripe_unit)
		return 0;
	return error_set(
		err, EINVAL,
		"%s '%s' is %u extents wide in units of %llu bytes, "
		"not %u in units of %llu",
		word_of(&spec->source), spec->source.name, from->stripe_width,
		(unsigned long long)from->stripe_unit, spec->stripe_width,
		(unsigned long long)spec->stripe_unit);
}

/* Fill in @spec from @from, except for properties that it has itself. */
static int spec_take(struct volume_spec *spec, const struct volume_spec *from,
		     size_t n_splits, struct error *err)
{
	const struct volume_source *source = &spec->source;
	char text[2][SIZE_TEXT_MAX];
	int r = clone_word_take(spec->layout, sizeof(spec->layout), "layout",
				from->layout, source, err);

	if (r == 0)
		r = clone_word_take(spec->fs_type, sizeof(spec->fs_type),
				    "file system", from->fs_type, source, err);
	if (r == 0)
		r = stripe_take(spec, from, err);
	if (r < 0)
		return r;
	if (!spec->policy[0]) {
		memcpy(spec->policy, from->policy, sizeof(spec->policy));
		spec->any_policy = true;
	}
	if (spec->capacity == 0)
		spec->capacity = from->capacity;
	/* As the source's was: what was asked for then may be asked for again.
	 */
	if (size_round_up(spec->capacity, volume_spec_unit(from),
			  &spec->capacity) < 0 ||
	    spec->capacity < from->capacity)
		return error_set(
			err, ERANGE, "%s is smaller than %s '%s', which has %s",
			size_format(text[0], spec->capacity), word_of(source),
			source->name, size_format(text[1], from->capacity));
	if (spec->max_splits && !volume_spec_direct(from) &&
	    n_splits > spec->max_splits)
		return error_set(err, EINVAL,
				 "%s '%s' has %zu splits, more than the %u "
				 "allowed",
				 word_of(source), source->name, n_splits,
				 spec->max_splits);
	return 0;
}

static int check_uid(struct volume_source *source, const char *uid,
		     struct error *err)
{
	if (source->uid[0] && strcmp(source->uid, uid) != 0)
		return error_set(err, ENOENT,
				 "%s '%s' is another one than it was",
				 word_of(source), source->name);
	memcpy(source->uid, uid, sizeof(source->uid));
	return 0;
}

static int check_usable(const struct snapshot_record *record, struct error *err)
{
	int r = snapshot_check_whole(record, err);

	if (r < 0)
		return r;
	switch (record->phase) {
	case SNAPSHOT_READY: break;
	case SNAPSHOT_COPYING:
		return error_set(err, EAGAIN,
				 "the content of snapshot '%s' is still being "
				 "copied",
				 record->name);
	case SNAPSHOT_CREATING:
		return error_set(err, EAGAIN, "snapshot '%s' is not taken yet",
				 record->name);
	case SNAPSHOT_DELETING:
		return error_set(err, EBUSY, "snapshot '%s' is being deleted",
				 record->name);
	}
	return 0;
}

static int resolve_snapshot(struct volume_context *ctx,
			    struct volume_spec *spec, struct error *err)
{
	struct snapshot_record *record = NULL;
	int r = volume_snapshot_get(ctx, spec->source.name, &record, err);

	if (r == 0)
		r = check_uid(&spec->source, record->uid, err);
	if (r == 0)
		r = check_usable(record, err);
	if (r == 0)
		r = spec_take(spec, &record->spec, record->n_splits, err);
	snapshot_record_free(record);
	return r;
}

static int resolve_volume(struct volume_context *ctx, struct volume_spec *spec,
			  struct error *err)
{
	struct volume_record *record = NULL;
	int r = volume_get(ctx, spec->source.name, &record, err);

	if (r == 0)
		r = check_uid(&spec->source, record->uid, err);
	if (r == 0 && record->phase != VOLUME_READY)
		r = error_set(err, EBUSY, "volume '%s' is %s",
			      spec->source.name,
			      volume_phase_name(record->phase));
	if (r == 0)
		r = spec_take(spec, &record->spec, record->n_splits, err);
	volume_record_free(record);
	return r;
}

int clone_source_resolve(struct volume_context *ctx, struct volume_spec *spec,
			 const struct volume_record *there, struct error *err)
{
	int r;

	if (spec->source.kind == VOLUME_SOURCE_NONE)
		return 0;
	r = name_check(word_of(&spec->source), spec->source.name, err);
	if (r < 0)
		return r;
	if (there && volume_source_equal(&there->spec.source, &spec->source)) {
		memcpy(spec->source.uid, there->spec.source.uid,
		       sizeof(spec->source.uid));
		/* Differences are for the caller to tell. */
		(void)spec_take(spec, &there->spec, 0, NULL);
		return 0;
	}
	return spec->source.kind == VOLUME_SOURCE_SNAPSHOT
		       ? resolve_snapshot(ctx, spec, err)
		       : resolve_volume(ctx, spec, err);
}

/* ---- plan ---- */

struct plan {
	struct operation *op;
	const struct snapshot_record *source;
	struct capacity capacity;
	struct planner_split *now; /* owned; of the source's sizes */
	struct planner_growth growth;
};

static bool is_allowed(const struct volume_spec *spec,
		       const struct planner_pool *pool)
{
	static const struct labels none;

	return (spec->nodes.count == 0 ||
		name_list_has(&spec->nodes, pool->node)) &&
	       !name_list_has(&spec->exclude, pool->node) &&
	       (spec->pools.count == 0 ||
		name_list_has(&spec->pools, pool->pool)) &&
	       labels_match(&spec->node_labels,
			    pool->labels ? pool->labels : &none) &&
	       !pool->cordoned;
}

/*
 * Find the pool of a split of the source. A source on a silent node can't be
 * copied, either.
 */
static int pool_of_source(const struct plan *plan,
			  const struct snapshot_split *split,
			  struct planner_pool **ret, struct error *err)
{
	const struct capacity_node *node = capacity_node(&plan->capacity,
							 split->node);

	if (node && !node->reachable)
		return error_set(err, EHOSTUNREACH, "%s",
				 node->problem ?: node->name);
	*ret = capacity_pool(&plan->capacity, split->node, split->pool);
	if (!node || !*ret || !(*ret)->online)
		return error_set(err, EIO,
				 "pool '%s' of node '%s', which has split %u "
				 "of the source, is not there",
				 split->pool, split->node, split->index);
	return 0;
}

static void place_take(struct plan *plan, const struct snapshot_split *split,
		       size_t pool)
{
	plan->capacity.pools[pool].available -= split->size;
	capacity_take(&plan->capacity, pool, split->size);
	plan->now[split->index] = (struct planner_split){
		.pool = pool,
		.size = split->size,
	};
}

/* Share the content of a split where that is, if there is room. 1: there is. */
static int place_shared(struct plan *plan, const struct snapshot_split *split,
			struct error *err)
{
	struct planner_pool *pool = NULL;
	int r = pool_of_source(plan, split, &pool, err);

	if (r < 0)
		return r;
	if (!is_allowed(&plan->op->record->spec, pool) ||
	    pool->available < split->size)
		return 0;
	place_take(plan, split, (size_t)(pool - plan->capacity.pools));
	return 1;
}

/* Why a split is not shared, before @err, why it is not copied either. */
static int place_refused(const struct plan *plan,
			 const struct snapshot_split *split, struct error *err)
{
	struct planner_pool *pool = NULL;
	char text[SIZE_TEXT_MAX];

	if (pool_of_source(plan, split, &pool, NULL) < 0)
		return -ENOSPC; /* @err says why there is no copy */
	if (!is_allowed(&plan->op->record->spec, pool))
		return error_prefix(err, -ENOSPC,
				    "split %u of the source is in pool '%s' of "
				    "node '%s', where the placement allows "
				    "none; and a copy of it elsewhere: ",
				    split->index, split->pool, split->node);
	return error_prefix(err, -ENOSPC,
			    "split %u of the source is in pool '%s' of "
			    "node '%s', which has room for %s; and a "
			    "copy of it elsewhere: ",
			    split->index, split->pool, split->node,
			    size_format(text, pool->available));
}

/* Place a split by itself in another pool, as the planner places a volume. */
static int place_copied(struct plan *plan, const struct snapshot_split *split,
			const bool *used, struct error *err)
{
	const size_t n = plan->capacity.n_pools;
	auto_free struct planner_pool *pools = calloc(n + 1, sizeof(*pools));
	auto_free struct planner_split *place = NULL;
	struct volume_spec one = plan->op->record->spec; /* borrows */
	size_t count = 0;
	int r;

	if (!pools)
		return error_set(err, ENOMEM, "out of memory");
	for (size_t i = 0; i < n; i++) {
		pools[i] = plan->capacity.pools[i];
		if (used[i] && !one.share_pools)
			pools[i].available = 0;
	}
	(void)strcpy(one.layout, "linear"); /* one extent; the source's size */
	one.fs_type[0] = '\0';
	one.stripe_width = 0;
	one.stripe_unit = 0;
	one.min_splits = 0;
	one.max_splits = 1;
	one.max_extent = 0;
	one.capacity = split->size;
	r = planner_place(&one, pools, n, &place, &count, err);
	if (r == -ENOSPC)
		return place_refused(plan, split, err);
	if (r == 0)
		place_take(plan, split, place[0].pool);
	return r;
}

/* Share what can be shared; the rest goes to other pools. */
static int place_all(struct plan *plan, struct error *err)
{
	const struct snapshot_record *source = plan->source;
	auto_free bool *used = calloc(plan->capacity.n_pools + 1,
				      sizeof(*used));
	int r = 0;

	if (!used)
		return error_set(err, ENOMEM, "out of memory");
	for (size_t i = 0; r >= 0 && i < source->n_splits; i++) {
		r = place_shared(plan, &source->splits[i], err);
		if (r > 0)
			used[plan->now[i].pool] = true;
	}
	for (size_t i = 0; r >= 0 && i < source->n_splits; i++) {
		if (plan->now[i].size)
			continue;
		r = place_copied(plan, &source->splits[i], used, err);
		if (r == 0)
			used[plan->now[i].pool] = true;
	}
	return r < 0 ? r : 0;
}

static int split_from(struct plan *plan, const struct snapshot_split *from,
		      uint64_t size, struct volume_split *ret,
		      struct error *err)
{
	const struct planner_pool *pool =
		&plan->capacity.pools[plan->now[from->index].pool];
	int r = capacity_split(plan->op->record, from->index, pool, size, ret,
			       err);

	if (r < 0)
		return r;
	memcpy(ret->source, from->extent, sizeof(ret->source));
	memcpy(ret->source_id, from->extent_id, sizeof(ret->source_id));
	if (strcmp(ret->node, from->node) != 0 ||
	    strcmp(ret->pool, from->pool) != 0)
		memcpy(ret->source_node, from->node, sizeof(ret->source_node));
	ret->copying = ret->source_node[0];
	/* A split that is not formatted yet gets a file system of its own. */
	if (from->content == SPLIT_READY)
		memcpy(ret->fs_uuid, from->fs_uuid, sizeof(ret->fs_uuid));
	ret->source_state = from->content;
	ret->fs_behind = from->content == SPLIT_READY &&
			 (from->fs_behind || size > from->size);
	return 0;
}

static int clone_splits_set(struct plan *plan,
			    const struct planner_growth *growth,
			    struct error *err)
{
	struct volume_record *record = plan->op->record;
	size_t n = plan->source->n_splits, all = n + growth->n_extra;
	struct volume_split *splits = calloc(all + 1, sizeof(*splits));
	int r = 0;

	if (!splits)
		return error_set(err, ENOMEM, "out of memory");
	for (size_t i = 0; r == 0 && i < n; i++)
		r = split_from(plan, &plan->source->splits[i], growth->sizes[i],
			       &splits[i], err);
	for (size_t i = n; r == 0 && i < all; i++)
		r = capacity_split(
			record, i,
			&plan->capacity.pools[growth->extra[i - n].pool],
			growth->extra[i - n].size, &splits[i], err);
	if (r == 0 && all < record->spec.min_splits)
		r = error_set(err, EINVAL,
			      "the source has %zu splits: it can't be %u", n,
			      record->spec.min_splits);
	if (r < 0) {
		free(splits);
		return r;
	}
	free(record->splits);
	record->splits = splits;
	record->n_splits = all;
	return 0;
}

static int place_clone(void *plan_, struct capacity *capacity,
		       struct error *err)
{
	struct plan *plan = plan_;
	size_t n = plan->source->n_splits;
	int r;

	planner_growth_done(&plan->growth);
	memset(plan->now, 0, n * sizeof(*plan->now));
	r = place_all(plan, err);
	if (r == 0)
		r = planner_grow(&plan->op->record->spec, plan->now, n,
				 capacity->pools, capacity->n_pools,
				 plan->op->record->spec.capacity, &plan->growth,
				 err);
	if (r == -ENOSPC)
		capacity_name_silent(capacity, err);
	for (size_t i = 0; r == 0 && i < n; i++)
		capacity_take(capacity, plan->now[i].pool,
			      plan->growth.sizes[i] - plan->now[i].size);
	for (size_t i = 0; r == 0 && i < plan->growth.n_extra; i++)
		capacity_take(capacity, plan->growth.extra[i].pool,
			      plan->growth.extra[i].size);
	return r;
}

/* What the source's nodes say themselves decides what is shared. */
static int clone_capacity(struct plan *plan, struct error *err)
{
	struct volume_context *ctx = plan->op->ctx;
	int r = capacity_load(ctx, &plan->capacity, err);

	for (size_t i = 0; r == 0 && i < plan->source->n_splits; i++)
		capacity_want(&plan->capacity, plan->source->splits[i].node);
	return r < 0 ? r : capacity_ask_wanted(ctx, &plan->capacity, err);
}

static int plan_from(struct plan *plan, struct error *err)
{
	int r;

	plan->now = calloc(plan->source->n_splits + 1, sizeof(*plan->now));
	if (!plan->now)
		return error_set(err, ENOMEM, "out of memory");
	r = clone_capacity(plan, err);
	if (r == 0)
		r = capacity_settle(plan->op->ctx, &plan->capacity, place_clone,
				    plan, err);
	if (r == 0)
		r = clone_splits_set(plan, &plan->growth, err);
	/* The last set of a stripe may be more than was asked for. */
	if (r == 0)
		plan->op->record->spec.capacity = volume_record_target(
			plan->op->record);
	return r;
}

static int source_get(struct operation *op, struct snapshot_record **ret,
		      struct error *err)
{
	struct volume_source *source = &op->record->spec.source;
	int r;

	if (source->kind == VOLUME_SOURCE_VOLUME)
		return snapshot_temporary(op, source, ret, err);
	r = volume_snapshot_get(op->ctx, source->name, ret, err);
	if (r == 0)
		r = check_uid(source, (*ret)->uid, err);
	return r < 0 ? r : check_usable(*ret, err);
}

int clone_source_plan(struct operation *op, struct error *err)
{
	struct snapshot_record *source = NULL;
	struct plan plan = {.op = op};
	int r = source_get(op, &source, err);

	if (r == 0)
		r = spec_take(&op->record->spec, &source->spec,
			      source->n_splits, err);
	if (r == 0) {
		plan.source = source;
		r = plan_from(&plan, err);
	}
	planner_growth_done(&plan.growth);
	capacity_done(&plan.capacity);
	free(plan.now);
	snapshot_record_free(source);
	return r;
}

int clone_source_drop(struct operation *op, struct error *err)
{
	if (op->record->spec.source.kind != VOLUME_SOURCE_VOLUME)
		return 0;
	return snapshot_temporary_delete(op, err);
}
