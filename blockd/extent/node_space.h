/* SPDX-License-Identifier: Apache-2.0 */
/* The space of a node's pools: measured, promised, shown. */
#ifndef BLOCKD_NODE_SPACE_H
#define BLOCKD_NODE_SPACE_H

#include "blockd/extent/node_tables.h"

/* The figures and state of a pool, at one instant. */
struct node_pool_info {
	struct known_pool known;
	enum node_pool_state state;
	char message[ERROR_TEXT_MAX];
	bool served;
	struct pool_record record; /* served only, like the rest */
	uint64_t cluster_size;     /* bytes; 0: it has no clusters */
	struct space space;
	uint64_t reserved;  /* bytes */
	uint64_t allocated; /* bytes */
	unsigned extents;
	uint64_t nominal; /* bytes; sizes of all extents and snapshots */
	/* False: pool.h's sharing() could not tell. */
	bool sharing_known;
	struct pool_sharing sharing;
};

/* @name NULL: all. Returned owned, sorted by name; none found is 0 too. */
int node_list_pools(struct node *node, const char *name,
		    struct node_pool_info **ret, size_t *ret_count,
		    struct error *err);

/* Name of the online pool with the most room, into @ret (POOL_NAME_SIZE). */
int node_choose_pool(struct node *node, char *ret, struct error *err);

/*
 * @r is why a change in a pool failed. Where that may be its medium's fault,
 * the pool is tried; if it is not well, -ENODEV, and @err says how it is
 * instead. Nothing is held.
 */
int node_blame(struct node *node, const char *pool, int r, struct error *err);

/* Look at all media, and tell each pool the bytes that it has to keep free. */
void node_measure(struct node *node);

/*
 * Measure, and call @tell for each pool that has less than @percent of its
 * capacity left, and had more when this was last called. Space is held.
 */
void node_note_low_space(struct node *node, unsigned percent,
			 void (*tell)(void *context, const char *pool),
			 void *context);

/*
 * Promise @bytes more of a pool, or -ENOSPC, which says how much there is and
 * where.
 */
int node_reserve(struct node *node, struct node_pool *pool, uint64_t bytes,
		 struct error *err);
void node_release(struct node *node, struct node_pool *pool, uint64_t bytes);

#endif
