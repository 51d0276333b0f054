/* SPDX-License-Identifier: Apache-2.0 */
#include "blockd/direct/direct_runs.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RUNS_FEW  64u
#define RUNS_MANY 4096u

void direct_runs_done(struct direct_runs *runs)
{
	free(runs->items);
	*runs = (struct direct_runs){0};
}

static bool follows(const struct direct_run *run, const struct direct_run *next)
{
	return run->logical + run->count == next->logical &&
	       (uint64_t)run->physical + run->count == next->physical &&
	       next->count <= UINT32_MAX - run->count;
}

int direct_runs_add(struct direct_runs *runs, const struct direct_run *run)
{
	struct direct_run *last = runs->n ? &runs->items[runs->n - 1] : NULL;

	assert(run->count &&
	       (!last || last->logical + last->count <= run->logical));
	if (last && follows(last, run)) {
		last->count += run->count;
		return 0;
	}
	if (runs->n == runs->room) {
		size_t room = runs->room ? 2 * runs->room : 16;
		struct direct_run *items = reallocarray(runs->items, room,
							sizeof(*items));

		if (!items)
			return -ENOMEM;
		runs->items = items;
		runs->room = room;
	}
	runs->items[runs->n++] = *run;
	return 0;
}

static int by_size(const void *a, const void *b)
{
	const struct direct_run *x = a, *y = b;

	if (x->count != y->count)
		return x->count < y->count ? 1 : -1;
	return x->logical < y->logical ? -1 : 1;
}

static int by_logical(const void *a, const void *b)
{
	const struct direct_run *x = a, *y = b;

	return x->logical < y->logical ? -1 : 1;
}

void direct_runs_cap(struct direct_runs *runs, size_t max)
{
	if (runs->n <= max)
		return;
	qsort(runs->items, runs->n, sizeof(*runs->items), by_size);
	runs->n = max;
	if (max)
		qsort(runs->items, max, sizeof(*runs->items), by_logical);
}

size_t direct_runs_max(const char *release)
{
	unsigned major = 0, minor = 0;

	if (sscanf(release, "%u.%u", &major, &minor) != 2)
		return RUNS_FEW;
	return major > 6 || (major == 6 && minor >= 11) ? RUNS_MANY : RUNS_FEW;
}

const struct direct_run *direct_runs_at(const struct direct_runs *runs,
					uint64_t logical)
{
	size_t low = 0, high = runs->n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		const struct direct_run *run = &runs->items[middle];

		if (run->logical + run->count <= logical)
			low = middle + 1;
		else
			high = middle;
	}
	return low < runs->n ? &runs->items[low] : NULL;
}

bool direct_runs_hit(const struct direct_runs *runs, uint64_t logical,
		     uint64_t count)
{
	const struct direct_run *run = direct_runs_at(runs, logical);

	return run && run->logical < logical + count;
}

uint64_t direct_runs_clusters(const struct direct_runs *runs)
{
	uint64_t n = 0;

	for (size_t i = 0; i < runs->n; i++)
		n += runs->items[i].count;
	return n;
}

bool direct_runs_same(const struct direct_runs *a, const struct direct_runs *b)
{
	return a->n == b->n && (!a->n || memcmp(a->items, b->items,
						a->n * sizeof(*a->items)) == 0);
}
