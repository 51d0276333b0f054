/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whole units go to the pools in proportion to the room of each, and inside a
 * pool evenly to its splits. The rest beyond whole units goes to one split that
 * has room for it.
 */
#include "volume/plan/planner_in_place.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/size.h"

#define LISTED_MAX 4 /* pools named in the text of an error */

struct part {
	size_t split;   /* index into the input */
	uint64_t limit; /* bytes it may grow by, whatever its pool has */
	uint64_t given; /* units */
};

struct host { /* a pool with splits in it */
	size_t pool;
	uint64_t room;      /* bytes */
	uint64_t units;     /* whole ones that its splits can take */
	uint64_t given;     /* units */
	uint64_t beyond;    /* bytes that one split can take after all units */
	struct part *parts; /* borrowed from in_place.parts; smallest first */
	size_t n_parts;
};

struct in_place {
	const struct planner_split *splits;
	size_t n_splits;
	const struct planner_pool *pools;
	struct part *parts; /* owned */
	struct host *hosts; /* owned; most room first */
	size_t n_hosts;
	uint64_t size;    /* bytes, now */
	uint64_t units;   /* of all hosts */
	uint64_t largest; /* bytes it could become */
};

static uint64_t down(uint64_t bytes, uint64_t unit)
{
	return bytes - bytes % unit;
}

static uint64_t least_of(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* ---- what there is ---- */

static int compare_parts(const void *a_, const void *b_)
{
	const struct part *a = a_, *b = b_;

	if (a->limit != b->limit)
		return a->limit < b->limit ? -1 : 1;
	return a->split < b->split ? -1 : 1;
}

static int compare_hosts(const void *a_, const void *b_, void *pools_)
{
	const struct host *a = a_, *b = b_;
	const struct planner_pool *pools = pools_;
	int r;

	if (a->units != b->units)
		return a->units > b->units ? -1 : 1;
	r = strcmp(pools[a->pool].node, pools[b->pool].node);
	return r ? r : strcmp(pools[a->pool].pool, pools[b->pool].pool);
}

/*
 * Measure how much the splits of a pool can take together, and one of them
 * beyond.
 */
static void host_measure(struct host *host)
{
	uint64_t units = 0, rest = 0;

	for (size_t i = 0; i < host->n_parts; i++) {
		uint64_t limit = host->parts[i].limit;

		units += limit / PLANNER_UNIT;
		if (limit % PLANNER_UNIT > rest)
			rest = limit % PLANNER_UNIT;
	}
	host->units = least_of(host->room / PLANNER_UNIT, units);
	host->beyond = host->room - host->units * PLANNER_UNIT;
	/* With all splits full there is only what their limits leave. */
	if (host->units == units)
		host->beyond = least_of(host->beyond, rest);
}

static void host_add(struct in_place *g, size_t pool, size_t n_splits,
		     uint64_t max_extent, struct part *parts)
{
	struct host *host = &g->hosts[g->n_hosts];
	const struct planner_pool *p = &g->pools[pool];

	*host = (struct host){.pool = pool, .parts = parts};
	if (p->online)
		host->room = down(least_of(p->available, VOLUME_CAPACITY_MAX),
				  RECORD_SIZE_UNIT);
	for (size_t i = 0; i < n_splits; i++) {
		uint64_t size = g->splits[i].size, limit = host->room;

		if (g->splits[i].pool != pool)
			continue;
		if (max_extent)
			limit = size < max_extent ? down(max_extent - size,
							 RECORD_SIZE_UNIT)
						  : 0;
		parts[host->n_parts++] = (struct part){
			.split = i,
			.limit = least_of(limit, host->room),
		};
	}
	if (host->n_parts == 0)
		return;
	qsort(parts, host->n_parts, sizeof(*parts), compare_parts);
	host_measure(host);
	g->n_hosts++;
}

static int in_place_measure(struct in_place *g, size_t n_pools,
			    uint64_t max_extent, struct error *err)
{
	uint64_t beyond = 0, more;
	size_t used = 0;

	g->parts = calloc(g->n_splits + 1, sizeof(*g->parts));
	g->hosts = calloc(n_pools + 1, sizeof(*g->hosts));
	if (!g->parts || !g->hosts)
		return error_set(err, ENOMEM, "out of memory");
	for (size_t i = 0; i < g->n_splits; i++)
		g->size += g->splits[i].size;
	for (size_t i = 0; i < n_pools; i++) {
		size_t before = g->n_hosts;

		host_add(g, i, g->n_splits, max_extent, &g->parts[used]);
		if (g->n_hosts == before)
			continue;
		used += g->hosts[before].n_parts;
		g->units += g->hosts[before].units;
		if (g->hosts[before].beyond > beyond)
			beyond = g->hosts[before].beyond;
	}
	qsort_r(g->hosts, g->n_hosts, sizeof(*g->hosts), compare_hosts,
		(void *)g->pools);
	/* A volume has 256 splits of 2^60 bytes at most: 2^46 units. */
	more = g->units < VOLUME_CAPACITY_MAX / PLANNER_UNIT
		       ? g->units * PLANNER_UNIT + beyond
		       : VOLUME_CAPACITY_MAX;
	g->largest = least_of(g->size + more, VOLUME_CAPACITY_MAX);
	return 0;
}

int in_place_new(const struct planner_split *splits, size_t n_splits,
		 const struct planner_pool *pools, size_t n_pools,
		 uint64_t max_extent, struct in_place **ret, struct error *err)
{
	struct in_place *g = calloc(1, sizeof(*g));
	int r;

	if (!g)
		return error_set(err, ENOMEM, "out of memory");
	g->splits = splits;
	g->n_splits = n_splits;
	g->pools = pools;
	r = in_place_measure(g, n_pools, max_extent, err);
	if (r < 0) {
		in_place_free(g);
		return r;
	}
	*ret = g;
	return 0;
}

void in_place_free(struct in_place *g)
{
	if (!g)
		return;
	free(g->parts);
	free(g->hosts);
	free(g);
}

uint64_t in_place_size(const struct in_place *g)
{
	return g->size;
}

uint64_t in_place_largest(const struct in_place *g)
{
	return g->largest;
}

void in_place_leave(const struct in_place *g, struct planner_pool *pools)
{
	for (size_t i = 0; i < g->n_hosts; i++) {
		const struct host *host = &g->hosts[i];

		pools[host->pool].available = host->room -
					      host->units * PLANNER_UNIT -
					      host->beyond;
	}
}

/* ---- what to say when it can't be done ---- */

void in_place_tell(const struct in_place *g, uint64_t capacity, char *ret)
{
	char text[ERROR_TEXT_MAX] = "", size[3][SIZE_TEXT_MAX];
	size_t at = 0;

	for (size_t i = 0; i < g->n_hosts && i < LISTED_MAX; i++) {
		const struct host *host = &g->hosts[i];
		const struct planner_pool *pool = &g->pools[host->pool];

		at += (size_t)snprintf(text + at, sizeof(text) - at,
				       "%s %s in %.24s/%.24s%s", i ? "," : "",
				       size_format(size[0], host->room),
				       pool->node, pool->pool,
				       pool->online ? "" : " (offline)");
	}
	if (g->n_hosts > LISTED_MAX)
		(void)snprintf(text + at, sizeof(text) - at,
			       " and less in %zu more",
			       g->n_hosts - LISTED_MAX);
	(void)snprintf(ret, ERROR_TEXT_MAX,
		       "%s asked for; in its pools it could become %s, from "
		       "%s now. They have%.330s free",
		       size_format(size[0], capacity),
		       size_format(size[1], g->largest),
		       size_format(size[2], g->size), text);
}

/* ---- the shares ---- */

static void share_between_hosts(struct in_place *g, uint64_t units)
{
	uint64_t given = 0;

	for (size_t i = 0; g->units > 0 && i < g->n_hosts; i++) {
		struct host *host = &g->hosts[i];

		host->given = (uint64_t)((unsigned __int128)units *
					 host->units / g->units);
		given += host->given;
	}
	while (given < units) { /* what rounding left: less than a unit each */
		for (size_t i = 0; i < g->n_hosts && given < units; i++) {
			struct host *host = &g->hosts[i];

			if (host->given < host->units) {
				host->given++;
				given++;
			}
		}
	}
}

/*
 * Share inside a pool, smallest limit first: the rest of a split's share goes
 * to those after it.
 */
static void share_in_host(struct host *host)
{
	uint64_t left = host->given;

	for (size_t i = 0; i < host->n_parts; i++) {
		struct part *part = &host->parts[i];

		part->given = least_of(part->limit / PLANNER_UNIT,
				       left / (host->n_parts - i));
		left -= part->given;
	}
}

/* The bytes beyond whole units: the first split with room for them. */
static void in_place_tail(const struct in_place *g, uint64_t tail,
			  uint64_t *sizes)
{
	for (size_t i = 0; tail > 0 && i < g->n_hosts; i++) {
		const struct host *host = &g->hosts[i];

		if (host->room - host->given * PLANNER_UNIT < tail)
			continue;
		for (size_t k = host->n_parts; k-- > 0;) {
			const struct part *part = &host->parts[k];

			if (part->limit - part->given * PLANNER_UNIT < tail)
				continue;
			sizes[part->split] += tail;
			return;
		}
	}
}

void in_place_share(struct in_place *g, uint64_t capacity, uint64_t *ret_sizes)
{
	uint64_t more = capacity - g->size;

	share_between_hosts(g, more / PLANNER_UNIT);
	for (size_t i = 0; i < g->n_splits; i++)
		ret_sizes[i] = g->splits[i].size;
	for (size_t i = 0; i < g->n_hosts; i++) {
		struct host *host = &g->hosts[i];

		share_in_host(host);
		for (size_t k = 0; k < host->n_parts; k++)
			ret_sizes[host->parts[k].split] +=
				host->parts[k].given * PLANNER_UNIT;
	}
	in_place_tail(g, more % PLANNER_UNIT, ret_sizes);
}
