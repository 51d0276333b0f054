/* SPDX-License-Identifier: Apache-2.0 */
#include "blockd/direct/direct.h"

#include <errno.h>

static bool may_be_direct(const struct raw_look *look)
{
	return look->entry != RAW_HOLE &&
	       !(look->entry & (RAW_UNWRITTEN | RAW_PARTIAL)) && !look->shared;
}

static uint64_t clusters_of(const struct raw_map *map, uint64_t clusters)
{
	uint64_t has = raw_map_clusters(map);

	return clusters < has ? clusters : has;
}

int direct_choose(const struct raw_alloc *alloc, const struct raw_map *map,
		  uint64_t clusters, size_t max, struct direct_runs *ret)
{
	const uint64_t end = clusters_of(map, clusters);
	struct direct_runs runs = {0};
	struct raw_look look;

	for (uint64_t at = 0; at < end; at += look.n) {
		struct direct_run run = {.logical = at};

		look = raw_alloc_look(alloc, map, at, end - at);
		if (!may_be_direct(&look))
			continue;
		run.physical = look.entry;
		run.count = (uint32_t)look.n;
		if (direct_runs_add(&runs, &run) < 0) {
			direct_runs_done(&runs);
			return -ENOMEM;
		}
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
		    !may_be_direct(&look) ||
		    !raw_alloc_still(alloc, map, run->logical, run->count,
				     &look))
			return false;
	}
	return true;
}
