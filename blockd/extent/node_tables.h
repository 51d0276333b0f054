/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a node has: its pools and the extents in them, by name.
 *
 * Locks, in order: node.pools, node.space, node.tables (blockd/extent/extent.h
 * has the rest). A node_pool stays as long as one of these is held or an extent
 * of it is in the table.
 */
#ifndef BLOCKD_NODE_TABLES_H
#define BLOCKD_NODE_TABLES_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "base/error.h"
#include "blockd/extent/extent.h"
#include "blockd/pool/pool.h"
#include "blockd/pool/space.h"

struct pool_try;

enum node_pool_state {
	NODE_POOL_ONLINE,
	/*
	 * Its medium fails, or can only be read. Its extents are served as far
	 * as the medium goes along; nothing new is placed there.
	 */
	NODE_POOL_FAILING,
	NODE_POOL_READ_ONLY,
	NODE_POOL_MISSING, /* no medium, or no pool in it */
	NODE_POOL_FOREIGN, /* another pool is there */
	NODE_POOL_LOCKED,  /* another blockd has it */
	NODE_POOL_DAMAGED, /* its identity does not decode */
	NODE_POOL_STATES
};

const char *node_pool_state_name(enum node_pool_state state);

/* Of a pool; node.pools guards it. */
struct node_health {
	struct pool_try *trial; /* under way; NULL: none is */
	atomic_bool suspect;    /* something failed since one began */
	atomic_bool silent;     /* it does not answer at once */
	int64_t begun_ms;       /* when it began; clock_ms() */
	int64_t tried_ms;       /* when the last one ended; 0: never */
	int64_t again_ms;       /* no sooner, unless it is asked for */
	int64_t delay_ms;       /* from one to the next */
	int64_t since_ms;       /* when it was well for the last time */
};

#define NODE_BUCKETS                                             \
	1024 /* of extents by name; a node has tens to thousands \
	      */

/* A pool the node knows of, open or not. Changed under space and tables. */
struct node_pool {
	struct known_pool known;
	struct node *node;
	enum node_pool_state state;
	char message[ERROR_TEXT_MAX]; /* why it is not online */
	bool served; /* it is open, and its extents are in the table */
	/* pool_proxy.h; NULL: it was never open. It stays when that ends. */
	struct pool *pool;
	struct node_health health;
	/* Its medium was not there, or could not be read; of pools. */
	bool lost;
	uint64_t reserved;          /* bytes; guarded by space */
	struct space_medium medium; /* as last measured; guarded by space */
	bool low;                   /* and told of; guarded by space */
	unsigned extents;           /* in the table; guarded by tables */
	bool leaving;               /* takes no new extent; tables */
	TAILQ_ENTRY(node_pool) in_node;
};

/* Not open for an error that may be over some time: tried by the clock. */
static inline bool node_pool_retries(const struct node_pool *pool)
{
	return !pool->served && (pool->state == NODE_POOL_FAILING ||
				 pool->state == NODE_POOL_READ_ONLY);
}

/* Tell whether the pool can take something new. Space or tables held. */
static inline bool node_pool_online(const struct node_pool *pool)
{
	return pool->state == NODE_POOL_ONLINE;
}

TAILQ_HEAD(node_pool_list, node_pool);

struct node {
	pthread_mutex_t pools;  /* one create or delete of a pool at a time */
	pthread_mutex_t space;  /* measuring and promising */
	pthread_mutex_t tables; /* the lists, and every record; no I/O */
	int state_fd;           /* STATE/pools */
	int lock_fd;
	uint64_t floor; /* bytes; 0: space.h's default */
	struct node_pool_list list;
	struct extent_list buckets[NODE_BUCKETS];
	struct extent_users users; /* set before the first call */
	/* Media that may have come or gone are looked at; node_watch.h. */
	void (*look_again)(struct node *node);
	struct quiesces *quiesces;       /* owned */
	struct cut_intents *cut_intents; /* owned */
	/* Owned; NULL: node_watch.h was not started. Any thread looks. */
	_Atomic(struct node_watch *) watch;
	/* Copies byte by byte that are under way; guarded by tables. */
	LIST_HEAD(copy_job_list, copy_job) copying;
	LIST_HEAD(pull_job_list, pull_job) pulling; /* the same */
	pthread_cond_t copied; /* a copy or pull is over; with tables */
};

/* ---- looking things up ---- */

/* Tables held. NULL: there is none. */
struct node_pool *node_find_pool(struct node *node, const char *name);
struct extent *node_find_extent(struct node *node, const char *name);
void node_insert_extent(struct node *node, struct extent *extent);
void node_remove_extent(struct node *node, struct extent *extent);

/*
 * References to all extents, sorted by name. Returned owned; node_put_list()
 * frees. @pool NULL or "": of all pools; -ENOENT when there is no such pool.
 */
int node_list_extents(struct node *node, const char *pool, struct extent ***ret,
		      size_t *ret_count, struct error *err);
void node_put_list(struct extent **extents, size_t count);

/*
 * How the pool of an extent is. @ret_why: ERROR_TEXT_MAX bytes; "" when it is
 * online.
 */
enum node_pool_state node_pool_of(struct node *node,
				  const struct node_pool *pool, char *ret_why);

#endif
