/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs of clusters that a table of device mapper maps straight to a pool's
 * medium. Sorted by the cluster of the extent; none overlaps another, and
 * neighbours that follow each other on the medium, too, are one run. One
 * thread at a time; no I/O.
 */
#ifndef BLOCKD_DIRECT_RUNS_H
#define BLOCKD_DIRECT_RUNS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct direct_run {
	uint64_t logical;  /* cluster of the extent */
	uint32_t physical; /* cluster of the pool */
	uint32_t count;    /* clusters, at least 1 */
};

struct direct_runs {
	struct direct_run *items; /* owned */
	size_t n, room;
};

void direct_runs_done(struct direct_runs *runs);

/*
 * Add a run behind all others, or make the last one longer. -ENOMEM: nothing
 * was changed.
 */
int direct_runs_add(struct direct_runs *runs, const struct direct_run *run);

/*
 * Keep the @max largest runs. Of runs of one size those at the beginning of the
 * extent stay. @max 0: none.
 */
void direct_runs_cap(struct direct_runs *runs, size_t max);

/*
 * The most runs of a table, on a kernel of this release (uname(2)). Before
 * Linux 6.11 a flush is sent to the medium once for each.
 */
size_t direct_runs_max(const char *release);

/* Tell whether any of @count clusters from @logical on is in a run. */
bool direct_runs_hit(const struct direct_runs *runs, uint64_t logical,
		     uint64_t count);

/*
 * Find the run that has cluster @logical, or the next one behind it. NULL:
 * there is none.
 */
const struct direct_run *direct_runs_at(const struct direct_runs *runs,
					uint64_t logical);

uint64_t direct_runs_clusters(const struct direct_runs *runs);
bool direct_runs_same(const struct direct_runs *a, const struct direct_runs *b);

#endif
