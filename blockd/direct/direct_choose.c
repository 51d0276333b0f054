/* SPDX-License-Identifier: Apache-2.0 */
#include "blockd/direct/direct.h"

/* Written whole; a hole has both flags, too. */
static bool is_written(uint32_t entry)
{
	return !(entry & (RAW_UNWRITTEN | RAW_PARTIAL));
}

static uint64_t clusters_of(const struct raw_map *map, uint64_t clusters)
{
	uint64_t has = raw_map_clusters(map);

	return clusters < has ? clusters : has;
}

/* Clusters from @from on, below @end, of a leaf that no other map has. */
static int choose_in_leaf(const struct raw_alloc *alloc,
			  const struct raw_leaf *leaf, uint64_t from,
			  uint64_t end, struct direct_runs *runs)
{
	int r = 0;

	for (uint32_t i = 0; r == 0 && i < RAW_LEAF_ENTRIES && from + i < end;
	     i++) {
		uint32_t entry = leaf->entries[i];

		if (is_written(entry) && raw_alloc_alone(alloc, entry))
			r = direct_runs_add(
				runs, &(struct direct_run){.logical = from + i,
							   .physical = entry,
							   .count = 1});
	}
	return r;
}

int direct_choose(const struct raw_alloc *alloc, const struct raw_map *map,
		  uint64_t clusters, size_t max, struct direct_runs *ret)
{
	const struct raw_root *root = raw_map_root(map);
	const uint64_t end = clusters_of(map, clusters);
	struct direct_runs runs = {0};
	int r = 0;

	for (size_t slot = 0; root && r == 0 && slot < root->slots; slot++) {
		const struct raw_leaf *leaf = raw_root_leaf(root, slot);

		if (leaf && leaf->maps == 1)
			r = choose_in_leaf(alloc, leaf,
					   (uint64_t)slot * RAW_LEAF_ENTRIES,
					   end, &runs);
	}
	if (r < 0) {
		direct_runs_done(&runs);
		return r;
	}
	direct_runs_cap(&runs, max);
	*ret = runs;
	return 0;
}

bool direct_agrees(const struct raw_alloc *alloc, const struct raw_map *map,
		   uint64_t clusters, const struct direct_runs *runs)
{
	const uint64_t end = clusters_of(map, clusters);

	for (size_t i = 0; i < runs->n; i++) {
		const struct direct_run *run = &runs->items[i];
		const struct raw_look look = {.entry = run->physical};

		if (run->count > end || run->logical > end - run->count ||
		    !is_written(run->physical) ||
		    !raw_alloc_still(alloc, map, run->logical, run->count,
				     &look))
			return false;
	}
	return true;
}
