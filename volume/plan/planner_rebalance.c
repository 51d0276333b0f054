/* SPDX-License-Identifier: Apache-2.0 */
#include "volume/plan/planner_rebalance.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

struct rebalance {
	struct planner_fill *fills;
	size_t n_fills;
	const struct volume_record *const *records;
	size_t n_records;
	struct planner_shift *shifts; /* owned; made so far ... */
	size_t n_shifts;
	size_t room;                /* ... and of how many there is room */
	size_t *order;              /* owned; pools, the fullest first */
	struct planner_pool *pools; /* owned; what planner_move() is asked */
};

double planner_fullness(const struct planner_fill *fill)
{
	const double all = (double)fill->reserved +
			   (double)fill->pool.available;

	return all > 0 ? (double)fill->reserved / all : 1;
}

/* How full it would be with @size bytes more; it has the room. */
static double fullness_with(const struct planner_fill *fill, uint64_t size)
{
	const struct planner_fill with = {
		.pool = {.available = fill->pool.available - size},
		.reserved = fill->reserved + size,
	};

	return planner_fullness(&with);
}

static bool fill_takes_part(const struct planner_fill *fill)
{
	return fill->pool.online && !fill->pool.cordoned;
}

static void sort_pools(struct rebalance *b)
{
	for (size_t i = 0; i < b->n_fills; i++) {
		const double mine = planner_fullness(&b->fills[i]);
		size_t k = i;

		for (; k > 0 &&
		       planner_fullness(&b->fills[b->order[k - 1]]) < mine;
		     k--)
			b->order[k] = b->order[k - 1];
		b->order[k] = i;
	}
}

/* The pool of a split after the moves so far; PLANNER_NO_POOL. */
static size_t pool_now(const struct rebalance *b, size_t record, size_t index,
		       bool *ret_moved)
{
	const struct volume_split *split = &b->records[record]->splits[index];

	*ret_moved = true;
	for (size_t i = 0; i < b->n_shifts; i++)
		if (b->shifts[i].record == record &&
		    b->shifts[i].split == index)
			return b->shifts[i].to;
	*ret_moved = false;
	for (size_t i = 0; i < b->n_fills; i++)
		if (strcmp(b->fills[i].pool.node, split->node) == 0 &&
		    strcmp(b->fills[i].pool.pool, split->pool) == 0)
			return i;
	return PLANNER_NO_POOL;
}

/* Tell whether the volume's spec allows the split there. */
static int shift_is_allowed(struct rebalance *b, size_t record, size_t index,
			    size_t to, bool *ret)
{
	const struct volume_record *of = b->records[record];
	auto_free struct planner_split *splits = calloc(of->n_splits + 1,
							sizeof(*splits));
	size_t chosen;
	bool moved;
	int r;

	if (!splits)
		return -ENOMEM;
	for (size_t i = 0; i < of->n_splits; i++)
		splits[i] = (struct planner_split){
			.pool = pool_now(b, record, i, &moved),
			.size = of->splits[i].size,
		};
	for (size_t i = 0; i < b->n_fills; i++) {
		b->pools[i] = b->fills[i].pool;
		if (i != to)
			b->pools[i].available = 0;
	}
	r = planner_move(&of->spec, splits, of->n_splits, index, b->pools,
			 b->n_fills, &chosen, NULL);
	*ret = r == 0 && chosen == to;
	return r == -ENOMEM ? r : 0;
}

/* Find where a split goes from @from: the emptiest that gains. 1: found. */
static int find_target(struct rebalance *b, size_t record, size_t index,
		       size_t from, size_t *ret)
{
	const uint64_t size = b->records[record]->splits[index].size;
	const double most = planner_fullness(&b->fills[from]) -
			    PLANNER_REBALANCE_GAIN;

	for (size_t i = b->n_fills; i-- > 0;) {
		const size_t to = b->order[i];
		const struct planner_fill *fill = &b->fills[to];
		bool allowed;
		int r;

		if (to == from || !fill_takes_part(fill) ||
		    fill->pool.available < size ||
		    fullness_with(fill, size) > most)
			continue;
		r = shift_is_allowed(b, record, index, to, &allowed);
		if (r < 0 || allowed) {
			*ret = to;
			return r < 0 ? r : 1;
		}
	}
	return 0;
}

/* Find the largest split that can leave @from. 1: found. */
static int find_split(struct rebalance *b, size_t from,
		      struct planner_shift *ret)
{
	uint64_t largest = 0;
	int found = 0;

	for (size_t i = 0; i < b->n_records; i++) {
		const struct volume_record *of = b->records[i];

		for (size_t k = 0; of && k < of->n_splits; k++) {
			bool moved;
			size_t to;
			int r;

			if (of->splits[k].size <= largest ||
			    pool_now(b, i, k, &moved) != from || moved)
				continue;
			r = find_target(b, i, k, from, &to);
			if (r < 0)
				return r;
			if (r == 0)
				continue;
			largest = of->splits[k].size;
			*ret = (struct planner_shift){i, k, from, to};
			found = 1;
		}
	}
	return found;
}

static int make_shift(struct rebalance *b, const struct planner_shift *shift)
{
	const uint64_t size =
		b->records[shift->record]->splits[shift->split].size;
	struct planner_fill *from = &b->fills[shift->from];
	struct planner_fill *to = &b->fills[shift->to];

	if (b->n_shifts == b->room) {
		const size_t room = b->room * 2 + 8;
		struct planner_shift *more = reallocarray(b->shifts, room,
							  sizeof(*more));

		if (!more)
			return -ENOMEM;
		b->shifts = more;
		b->room = room;
	}
	b->shifts[b->n_shifts++] = *shift;
	to->pool.available -= size;
	to->reserved += size;
	from->pool.available += size;
	from->reserved -= from->reserved < size ? from->reserved : size;
	return 0;
}

/* 1: one was made; 0: none gains. */
static int next_shift(struct rebalance *b)
{
	struct planner_shift shift;

	sort_pools(b);
	for (size_t i = 0; i < b->n_fills; i++) {
		int r;

		if (!fill_takes_part(&b->fills[b->order[i]]))
			continue;
		r = find_split(b, b->order[i], &shift);
		if (r == 1)
			r = make_shift(b, &shift) < 0 ? -ENOMEM : 1;
		if (r != 0)
			return r;
	}
	return 0;
}

int planner_rebalance(struct planner_fill *fills, size_t n_fills,
		      const struct volume_record *const *records,
		      size_t n_records, struct planner_shift **ret,
		      size_t *ret_count, struct error *err)
{
	struct rebalance b = {
		.fills = fills,
		.n_fills = n_fills,
		.records = records,
		.n_records = n_records,
		.order = calloc(n_fills + 1, sizeof(*b.order)),
		.pools = calloc(n_fills + 1, sizeof(*b.pools)),
	};
	int r = b.order && b.pools ? 1 : -ENOMEM;

	while (r == 1)
		r = next_shift(&b);
	free(b.order);
	free(b.pools);
	if (r < 0) {
		free(b.shifts);
		return error_set(err, ENOMEM, "out of memory");
	}
	*ret = b.shifts;
	*ret_count = b.n_shifts;
	return 0;
}
