/* SPDX-License-Identifier: Apache-2.0 */
#include "volume/move/rebalance.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "volume/move/move.h"
#include "volume/op/context.h"
#include "volume/plan/capacity.h"
#include "volume/plan/planner_rebalance.h"

struct planning {
	struct capacity capacity;
	struct planner_fill *fills;      /* owned */
	struct volume_record **records;  /* owned */
	const struct volume_record **go; /* owned; NULL: its splits stay */
	size_t n_records;
	struct planner_shift *shifts; /* owned */
	size_t n_shifts;
	struct rebalance_plan *plan;
};

static void planning_done(struct planning *p)
{
	capacity_done(&p->capacity);
	free(p->fills);
	free(p->go);
	volume_records_free(p->records, p->n_records);
	free(p->shifts);
}

static bool is_attached(const struct volume_record *record)
{
	for (size_t i = 0; i < record->n_attachments; i++)
		if (record->attachments[i].state != ATTACHMENT_PUBLISHED)
			return true;
	return false;
}

/* Choose the volumes whose splits may move. */
static int load_volumes(struct planning *p, struct volume_context *ctx,
			struct error *err)
{
	char problem[RECORD_TEXT_SIZE] = "";
	int r = volume_list(ctx, &p->records, &p->n_records, problem, err);

	if (r == 0 && problem[0])
		r = error_set(err, EUCLEAN, "%s", problem);
	if (r < 0)
		return r;
	p->go = calloc(p->n_records + 1, sizeof(*p->go));
	if (!p->go)
		return error_set(err, ENOMEM, "out of memory");
	for (size_t i = 0; i < p->n_records; i++) {
		const struct volume_record *record = p->records[i];

		if (is_attached(record) && !move_may_be_live(ctx, record))
			p->plan->attached++;
		else if (record->phase != VOLUME_READY ||
			 volume_record_lost(record))
			p->plan->other++;
		else
			p->go[i] = record;
	}
	return 0;
}

/* Ask every node: how full its pools are is more than its report tells. */
static int load_pools(struct planning *p, struct volume_context *ctx,
		      struct error *err)
{
	size_t n = 0;
	int r = capacity_load(ctx, &p->capacity, err);

	if (r == 0)
		r = capacity_ask_rest(ctx, &p->capacity, err);
	if (r < 0)
		return r;
	p->fills = calloc(p->capacity.n_pools + 1, sizeof(*p->fills));
	p->plan->pools = calloc(p->capacity.n_pools + 1,
				sizeof(*p->plan->pools));
	if (!p->fills || !p->plan->pools)
		return error_set(err, ENOMEM, "out of memory");
	for (size_t i = 0; i < p->capacity.n_pools; i++) {
		const struct capacity_room *room = &p->capacity.rooms[i];

		if (!p->capacity.nodes[room->node].reachable)
			continue;
		p->fills[n].pool = p->capacity.pools[i];
		p->fills[n++].reserved = room->reserved;
	}
	for (size_t i = 0; i < n; i++) {
		struct rebalance_pool *pool = &p->plan->pools[i];

		(void)snprintf(pool->node, sizeof(pool->node), "%s",
			       p->fills[i].pool.node);
		(void)snprintf(pool->name, sizeof(pool->name), "%s",
			       p->fills[i].pool.pool);
		pool->before = planner_fullness(&p->fills[i]);
	}
	p->plan->n_pools = n;
	return 0;
}

static int keep_plan(struct planning *p, struct error *err)
{
	struct rebalance_plan *plan = p->plan;

	plan->moves = calloc(p->n_shifts + 1, sizeof(*plan->moves));
	if (!plan->moves)
		return error_set(err, ENOMEM, "out of memory");
	for (size_t i = 0; i < p->n_shifts; i++) {
		const struct planner_shift *shift = &p->shifts[i];
		const struct volume_record *record = p->go[shift->record];
		struct rebalance_move *move = &plan->moves[plan->n_moves++];

		memcpy(move->volume, record->name, sizeof(move->volume));
		move->split = record->splits[shift->split];
		memcpy(move->node, plan->pools[shift->to].node,
		       sizeof(move->node));
		memcpy(move->pool, plan->pools[shift->to].name,
		       sizeof(move->pool));
	}
	for (size_t i = 0; i < plan->n_pools; i++)
		plan->pools[i].after = planner_fullness(&p->fills[i]);
	return 0;
}

int volume_rebalance_plan(struct volume_context *ctx,
			  struct rebalance_plan *ret, struct error *err)
{
	struct rebalance_plan plan = {0};
	struct planning p = {.plan = &plan};
	int r = load_volumes(&p, ctx, err);

	if (r == 0)
		r = load_pools(&p, ctx, err);
	if (r == 0)
		r = planner_rebalance(p.fills, plan.n_pools, p.go, p.n_records,
				      &p.shifts, &p.n_shifts, err);
	if (r == 0)
		r = keep_plan(&p, err);
	planning_done(&p);
	if (r < 0)
		rebalance_plan_done(&plan);
	else
		*ret = plan;
	return r;
}

void rebalance_plan_done(struct rebalance_plan *plan)
{
	free(plan->moves);
	free(plan->pools);
	*plan = (struct rebalance_plan){0};
}

int volume_rebalance(struct volume_context *ctx,
		     const struct rebalance_plan *plan, rebalance_told told,
		     void *context, struct error *err)
{
	size_t moved = 0;
	int left = 0; /* the error of the last split that stays */

	for (size_t i = 0; i < plan->n_moves; i++) {
		const struct rebalance_move *move = &plan->moves[i];
		const struct volume_move_request request = {
			.name = move->volume,
			.split = move->split.index,
			.to = {move->node, move->pool},
		};
		struct error why = {0};
		int r = volume_move(ctx, &request, NULL, &why);

		if (r == -ECANCELED)
			return error_set(err, ECANCELED, "%s",
					 error_text(&why));
		moved += r == 0;
		if (r < 0)
			left = r;
		if (told)
			told(context, move, r < 0 ? error_text(&why) : NULL);
	}
	return left ? error_set(err, error_is_open(left) ? EAGAIN : EBUSY,
				"%zu of %zu splits have moved; repeat", moved,
				plan->n_moves)
		    : 0;
}
