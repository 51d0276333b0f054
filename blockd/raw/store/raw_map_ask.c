/* SPDX-License-Identifier: Apache-2.0 */
/* What maps have, and where two of them differ. */
#include "blockd/raw/store/raw_map.h"

uint64_t raw_map_mapped(const struct raw_map *map)
{
	const struct raw_root *root = raw_map_root(map);
	uint64_t n = 0;

	for (size_t i = 0; root && i < root->slots; i++) {
		const struct raw_leaf *leaf = raw_root_leaf(root, i);

		if (leaf)
			n += leaf->mapped;
	}
	return n;
}

static const struct raw_leaf *leaf_at(const struct raw_root *root,
				      uint64_t cluster)
{
	return root && cluster < root->clusters
		       ? raw_root_leaf(root, cluster / RAW_LEAF_ENTRIES)
		       : NULL;
}

/* Clusters from @at to the end of its leaf. */
static uint64_t to_leaf_end(uint64_t at)
{
	return RAW_LEAF_ENTRIES - at % RAW_LEAF_ENTRIES;
}

/* What a cluster reads as: zeroes, or what is in one of the pool. */
static uint32_t content(const struct raw_map *map, uint64_t cluster)
{
	uint32_t entry = map ? raw_map_get(map, cluster) : RAW_HOLE;

	return entry == RAW_HOLE || entry & RAW_UNWRITTEN ? RAW_HOLE
							  : RAW_PHYSICAL(entry);
}

void raw_map_difference(const struct raw_map *map, const struct raw_map *from,
			uint64_t cluster, uint64_t *ret_start,
			uint64_t *ret_count)
{
	const struct raw_root *a = raw_map_root(map);
	const struct raw_root *b = from ? raw_map_root(from) : NULL;
	uint64_t end = a ? a->clusters : 0, at = cluster, start;

	if (b && b->clusters > end)
		end = b->clusters;
	while (at < end && content(map, at) == content(from, at))
		at += leaf_at(a, at) == leaf_at(b, at) ? to_leaf_end(at) : 1;
	start = at < end ? at : end;
	while (at < end && content(map, at) != content(from, at))
		at++;
	*ret_start = start;
	*ret_count = at < end ? at - start : end - start;
}
