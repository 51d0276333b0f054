/* SPDX-License-Identifier: Apache-2.0 */
/* volume_node_drain(): cordon, then one move after the other. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "volume/move/move.h"
#include "volume/op/context.h"
#include "volume/plan/capacity.h"
#include "volume/snapshot/snapshot.h"

struct drain {
	struct volume_context *ctx;
	const char *node, *pool; /* @pool NULL: all of them */
	volume_drain_told told;
	void *context;
	struct volume_drained sum;
	int r; /* of the last split that stays; its text is told */
};

static bool is_here(const struct drain *d, const char *node, const char *pool)
{
	return strcmp(node, d->node) == 0 &&
	       (!d->pool || strcmp(pool, d->pool) == 0);
}

/* Check that there is another place, before anything is changed. */
static int drain_check(const struct drain *d, struct error *err)
{
	struct capacity capacity = {0};
	bool other = false;
	int r = capacity_load(d->ctx, &capacity, err);

	if (r < 0)
		return r;
	if (!capacity_node(&capacity, d->node))
		r = error_set(err, ENOENT, "no node '%s' is known", d->node);
	for (size_t i = 0; i < capacity.n_pools; i++) {
		const struct planner_pool *pool = &capacity.pools[i];

		other = other || (pool->online && !pool->cordoned &&
				  !is_here(d, pool->node, pool->pool));
	}
	capacity_done(&capacity);
	if (r == 0 && !other)
		r = error_set(err, ENOSPC,
			      "there is no other pool that may get anything "
			      "new: add a node or a pool, or uncordon one");
	return r;
}

static int drain_split(struct drain *d, const char *volume, unsigned index,
		       struct volume_split *ret, struct error *err)
{
	const struct volume_move_request request = {.name = volume,
						    .split = index};
	int r = volume_move(d->ctx, &request, ret, err);

	/* The first call may only have finished an earlier move. */
	if (r == 0 && is_here(d, ret->node, ret->pool))
		r = volume_move(d->ctx, &request, ret, err);
	return r;
}

/* -ECANCELED alone ends the drain: another volume may move. */
static int drain_volume(struct drain *d, const struct volume_record *record,
			struct error *err)
{
	for (unsigned i = 0; i < record->n_splits; i++) {
		struct volume_split split = record->splits[i];
		struct error why = {0};
		int r;

		if (split.lost || !is_here(d, split.node, split.pool))
			continue;
		r = drain_split(d, record->name, i, &split, &why);
		if (r == -ECANCELED)
			return error_set(err, ECANCELED, "%s",
					 error_text(&why));
		d->sum.moved += r == 0;
		d->sum.left += r < 0;
		if (r < 0)
			d->r = r;
		if (d->told)
			d->told(d->context, record->name, &split,
				r < 0 ? error_text(&why) : NULL);
	}
	return 0;
}

static int drain_volumes(struct drain *d, struct error *err)
{
	struct volume_record **records = NULL;
	char problem[RECORD_TEXT_SIZE] = "";
	size_t n = 0;
	int r = volume_list(d->ctx, &records, &n, problem, err);

	if (r == 0 && problem[0])
		r = error_set(err, EUCLEAN, "%s", problem);
	for (size_t i = 0; r == 0 && i < n; i++)
		r = drain_volume(d, records[i], err);
	volume_records_free(records, n);
	return r;
}

/* Extents of snapshots do not move: their space is their volumes'. */
static int drain_snapshots(struct drain *d, size_t *ret, struct error *err)
{
	const struct snapshot_filter filter = {.temporary = true};
	struct snapshot_record **records = NULL;
	size_t n = 0;
	int r = volume_snapshot_list(d->ctx, &filter, &records, &n, NULL, NULL,
				     err);

	*ret = 0;
	for (size_t i = 0; r == 0 && i < n; i++) {
		for (size_t k = 0; k < records[i]->n_splits; k++)
			*ret += !records[i]->splits[k].lost &&
				is_here(d, records[i]->splits[k].node,
					records[i]->splits[k].pool);
	}
	snapshot_records_free(records, n);
	return r;
}

static int drain_run(struct drain *d, struct error *err)
{
	const char *slash = d->pool ? "/" : "", *pool = d->pool ?: "";
	size_t splits, snapshots = 0;
	int r = drain_check(d, err);

	if (r == 0)
		r = volume_node_cordon(d->ctx, d->node, d->pool, true, err);
	if (r == 0)
		r = drain_volumes(d, err);
	splits = d->sum.left;
	if (r == 0)
		r = drain_snapshots(d, &snapshots, err);
	d->sum.left += snapshots;
	if (r < 0 || d->sum.left == 0)
		return r;
	return error_set(
		err, error_is_open(d->r) ? EAGAIN : EBUSY,
		"%s%s%s is cordoned, %zu splits have moved, and %zu splits and "
		"%zu extents of snapshots are there still: unmount their "
		"volumes, delete the snapshots, and repeat",
		d->node, slash, pool, d->sum.moved, splits, snapshots);
}

int volume_node_drain(struct volume_context *ctx, const char *node,
		      const char *pool, volume_drain_told told, void *context,
		      struct volume_drained *ret, struct error *err)
{
	struct drain d = {
		.ctx = ctx,
		.node = node,
		.pool = pool,
		.told = told,
		.context = context,
	};
	int r = name_check("node", node, err);

	if (r == 0)
		r = drain_run(&d, err);
	*ret = d.sum;
	return r;
}
