/* SPDX-License-Identifier: Apache-2.0 */
/* What an object has, or has otherwise than another one. */
#include <errno.h>

#include "blockd/raw/pool_raw_internal.h"

static int pool_raw_find_map(struct pool_raw *raw, const char *name,
			     uint32_t *ret_id, const struct raw_map **ret,
			     struct error *err)
{
	int r = pool_raw_need(raw, name, ret_id, NULL, err);

	if (r == 0 && pool_raw_is_damaged(raw, *ret_id))
		r = error_set(err, EIO, "extent '%.64s' is damaged", name);
	if (r < 0)
		return r;
	*ret = &raw_state_object(raw_store_lock(raw->store), *ret_id)->map;
	raw_store_unlock(raw->store);
	return 0;
}

/* Nobody changes either map: no lock. */
static int walk(const struct pool_raw *raw, const struct raw_map *map,
		const struct raw_map *base, uint64_t start, uint64_t size,
		pool_range visit, void *context)
{
	const uint64_t cluster = pool_raw_cluster(raw);
	uint64_t at = start / cluster, first, n;
	int r = 0;

	while (r == 0) {
		uint64_t from, end;

		raw_map_difference(map, base, at, &first, &n);
		from = first * cluster;
		end = (first + n) * cluster;
		if (!n || from >= size)
			break;
		if (from < start)
			from = start;
		if (end > size)
			end = size;
		r = visit(context, from, end - from);
		at = first + n;
	}
	return r;
}

int pool_raw_ranges(struct pool *pool, const char *name, const char *base,
		    uint64_t start, pool_range visit, void *context,
		    struct error *err)
{
	struct pool_raw *raw = pool_raw_of(pool);
	const struct raw_map *map, *other = NULL;
	uint64_t size = 0;
	uint32_t id, base_id;
	int r = pool_raw_find_map(raw, name, &id, &map, err);

	if (r == 0)
		r = pool_raw_size(raw, id, &size, NULL, err);
	if (r == 0 && base)
		r = pool_raw_find_map(raw, base, &base_id, &other, err);
	if (r < 0 || start >= size)
		return r;
	return walk(raw, map, other, start, size, visit, context);
}
