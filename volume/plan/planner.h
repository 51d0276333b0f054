/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where to put a volume: a pure function of the request and the pools. The
 * same input gives the same answer. A stripe is as many equal extents as it is
 * wide, whatever the sizes of the pools.
 *
 * The spec's placement says how:
 *
 *	balanced  as few extents as serve, in the pools with the most room.
 *	          Sizes are in proportion to the room, so that the pools fill
 *	          evenly
 *	packed    as few extents as serve, in the fullest pools that hold them.
 *	          Each pool is filled before the next larger one, so that large
 *	          holes stay
 *	local     as much as fits in the pools of spec->local_node, the rest in
 *	          as few others as serve
 *
 * A placement is a wish: a volume that it cannot place (too many extents, or
 * too small ones) is placed as balanced. So no placement refuses what another
 * one takes.
 */
#ifndef VOLUME_PLANNER_H
#define VOLUME_PLANNER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "volume/record/label.h"
#include "volume/record/volume_record.h"

#define PLANNER_UNIT (UINT64_C(4) << 20)       /* bytes; only the last split */
					       /* may end elsewhere */
#define PLANNER_EXTENT_MIN VOLUME_CAPACITY_MIN /* bytes */

struct planner_pool {
	const char *node;            /* borrowed, as are the next two */
	const char *pool;            /* unique on the node */
	const struct labels *labels; /* of the node; NULL: none */
	uint64_t available;          /* bytes, the largest extent it takes */
	bool online;
	bool cordoned; /* nothing new is placed there */
};

struct planner_split {
	size_t pool;   /* index into the pools given */
	uint64_t size; /* bytes */
};

/*
 * @spec  checked (volume_spec_check)
 * @ret   owned, *ret_count items whose sizes add up to spec->capacity
 *
 * -ENOSPC: these pools cannot hold the volume. The text tells the size asked
 * for, the free space in all, and where most of that is.
 */
int planner_place(const struct volume_spec *spec,
		  const struct planner_pool *pools, size_t n_pools,
		  struct planner_split **ret, size_t *ret_count,
		  struct error *err);

/* When the splits come to others that could be made larger instead. */
struct planner_beside {
	uint64_t least; /* bytes; no split is smaller */
	/*
	 * Bytes that may be placed beyond spec->capacity, so that no split is
	 * too small.
	 */
	uint64_t spare;
};

/* planner_place(); sizes add up to spec->capacity and what of spare it took. */
int planner_place_beside(const struct volume_spec *spec,
			 const struct planner_pool *pools, size_t n_pools,
			 const struct planner_beside *beside,
			 struct planner_split **ret, size_t *ret_count,
			 struct error *err);

struct planner_growth {
	uint64_t *sizes;             /* owned; bytes, of the splits there are */
	struct planner_split *extra; /* owned; new splits */
	size_t n_extra;
};

/*
 * Make a volume larger. First the splits there are grow, in the pools where
 * they are, in proportion to what each can take. The rest becomes new splits,
 * placed as planner_place() does it. All sizes are multiples of PLANNER_UNIT
 * more than now, but for one of the old and one of the new. The order of the
 * pools does not matter.
 *
 * A device (volume_spec_is_device()) grows at its end: of a linear one the last
 * split alone, a stripe by another set. No extent of that set is too small, so
 * it may be larger than asked for. New splits of a device may be in the pools
 * of the others.
 *
 * A new split has at least what its file system needs, and its fair share of
 * @capacity (1 of VOLUME_SPLITS_MAX parts). The old splits grow by less where
 * a new one would be smaller than that. Without spec->share_pools a new split
 * is in a pool of its own. With it, a new split may also be where the old ones
 * have reached spec->max_extent. The old splits stay where they are, whatever
 * @spec says by now, and grow in cordoned pools, too.
 *
 * @spec      checked; its capacity is not looked at
 * @splits    at most VOLUME_SPLITS_MAX; each one's pool is among @pools;
 *            together at most VOLUME_CAPACITY_MAX
 * @capacity  bytes, multiple of 4096: the sum of all sizes
 * @ret       no size is smaller than now; planner_growth_done()
 *
 * -ENOSPC: these pools cannot hold the volume. The text says how large it could
 * become where it is, and the free space of each pool. -ERANGE: smaller than
 * now.
 */
int planner_grow(const struct volume_spec *spec,
		 const struct planner_split *splits, size_t n_splits,
		 const struct planner_pool *pools, size_t n_pools,
		 uint64_t capacity, struct planner_growth *ret,
		 struct error *err);
void planner_growth_done(struct planner_growth *growth);

#define PLANNER_NO_POOL SIZE_MAX /* planner_split.pool: none of those given */

/*
 * Choose another pool for one split, as a new volume of its size would be
 * placed with @spec. Without spec->share_pools no pool of another split is
 * taken, but for a linear device.
 *
 * @splits    all of the volume; a pool may be PLANNER_NO_POOL
 * @index     the split that moves
 * @ret_pool  index into @pools
 *
 * -ENOSPC: none of these pools can have it.
 */
int planner_move(const struct volume_spec *spec,
		 const struct planner_split *splits, size_t n_splits,
		 size_t index, const struct planner_pool *pools, size_t n_pools,
		 size_t *ret_pool, struct error *err);

#endif
