/* SPDX-License-Identifier: Apache-2.0 */
/* Clusters that are given before they are written to. */
#include <errno.h>
#include <stdlib.h>

#include "blockd/raw/dev/raw_users.h"
#include "blockd/raw/pool_raw_internal.h"

/* One change at a time: the pool's lock is held for a millisecond. */
#define AT_ONCE 32768u /* clusters */

static const struct raw_map *map_of(struct pool_raw *raw, uint32_t id)
{
	const struct raw_state *state = raw_store_lock(raw->store);
	const struct raw_map *map = &raw_state_object(state, id)->map;

	raw_store_unlock(raw->store);
	return map;
}

/*
 * Take and map, as one request: a search for leaked clusters waits for it.
 * map->count is 0 when there is none.
 */
static int map_some(struct pool_raw *raw, struct raw_record *map, uint32_t want,
		    uint32_t near, struct error *err)
{
	unsigned phase = raw_users_enter(raw->users);
	int r = 0;

	map->count = raw_store_take(raw->store, want, near, &map->physical);
	if (map->count)
		r = raw_store_change(raw->store, map, 1, NULL, err);
	if (r < 0)
		raw_store_untake(raw->store, map->physical, map->count);
	raw_users_leave(raw->users, phase);
	return r;
}

static int fill_run(struct pool_raw *raw, uint32_t id, uint64_t at,
		    uint64_t end, uint32_t *near, struct error *err)
{
	struct raw_record map = {
		.type = RAW_MAP, .object = id, .unwritten = true};

	while (at < end) {
		uint32_t want = end - at < AT_ONCE ? (uint32_t)(end - at)
						   : AT_ONCE;
		struct error other;
		int r;

		map.logical = at;
		r = map_some(raw, &map, want, *near, err);
		/* Freed clusters may be there to take by now. */
		if (r == 0 && !map.count &&
		    raw_users_clean_now(raw->users, &other) == 0)
			r = map_some(raw, &map, want, *near, err);
		if (r < 0)
			return r;
		if (!map.count)
			return error_set(err, ENOSPC,
					 "pool '%s' has no free clusters left",
					 raw->pool.record.name);
		at += map.count;
		*near = map.physical + map.count - 1;
	}
	return 0;
}

int pool_raw_fill(struct pool_raw *raw, uint32_t id, uint64_t from,
		  uint64_t end, struct error *err)
{
	const struct raw_map *map = map_of(raw, id);
	uint32_t near = RAW_HOLE;
	int r = 0;

	while (r == 0 && from < end) {
		uint32_t entry;
		uint64_t n = raw_map_run(map, from, end - from, &entry);

		if (entry == RAW_HOLE)
			r = fill_run(raw, id, from, from + n, &near, err);
		else
			near = RAW_PHYSICAL(entry) + (uint32_t)n - 1;
		from += n;
	}
	return r;
}

int pool_raw_thicken(struct pool_raw *raw, uint32_t id, uint64_t clusters,
		     struct error *err)
{
	int r = pool_raw_fill(raw, id, 0, clusters, err);

	if (r == -ENOSPC)
		r = 0; /* its space is promised: writes take it */
	return r < 0 ? r
		     : raw_store_commit(raw->store,
					raw_store_newest(raw->store), err);
}
