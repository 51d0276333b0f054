/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The storage of a node: its pools, the extents in them, and what it
 * remembers of the pools (STATE/pools/NAME.pool). Everything about extents is
 * in the pools themselves.
 *
 * Locks, in order: node.pools, node.space, node.tables (blockd/extent.h has
 * the rest). A node_pool stays as long as one of these is held or an extent
 * of it is in the table.
 */
#ifndef BLOCKD_NODE_H
#define BLOCKD_NODE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "base/error.h"
#include "blockd/extent.h"
#include "blockd/node_health.h"
#include "blockd/pool.h"
#include "blockd/space.h"

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
	/* pool_seat.h; NULL: it was never open. It stays when that ends. */
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

/* It can take something new. Space or tables held. */
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
	struct extent_users users;   /* set before the first call */
	struct holds *holds;         /* owned */
	struct cut_notes *cut_notes; /* owned */
	/* Owned; NULL: node_watch.h was not started. Any thread looks. */
	_Atomic(struct node_watch *) watch;
	/* Copies byte by byte that are under way; guarded by tables. */
	LIST_HEAD(copying_list, copying) copying;
	pthread_cond_t copied; /* one is over; with tables */
};

struct node_options {
	const char *state_dir; /* made if missing */
	uint64_t floor;        /* bytes each medium keeps free; 0: default */
};

/* -EBUSY: another blockd uses the state directory. */
int node_new(const struct node_options *options, struct node **ret,
	     struct error *err);
/* Nothing uses it any more. NULL is fine. */
void node_free(struct node *node);

/*
 * Open the pools that are remembered. One that is missing, foreign or damaged
 * is reported in the log and in its state; -EBUSY: another blockd has one.
 */
int node_open_known(struct node *node, struct error *err);

struct node_pool_request {
	const char *name;
	const char *path;
	/* Of a pool that is there both are changed to these; 0: as they are. */
	unsigned overcommit_percent; /* of a new one 0: the default */
	uint64_t capacity;     /* bytes; of a new one 0: what the medium has */
	bool may_format;       /* false: only a pool that is there */
	uint64_t cluster_size; /* bytes; 0: the default of its kind */
	bool raw;              /* a directory is -EINVAL */
	bool force;            /* format what holds something else */
};

bool node_knows_pool(struct node *node, const char *name);

/*
 * Serve the pool at a path: one of ours that is there is opened, an empty
 * directory is formatted. Repeating it is 0, also to bring one back that was
 * missing.
 *
 * @ret_note  ERROR_TEXT_MAX bytes: what it changed of a pool that was there, in
 *            words for a person, which are in the log, too; "": nothing. NULL
 *            is fine
 *
 * -ENOENT: no such directory, or no pool in it and may_format is not set or
 * one was known to be there; -EEXIST: the name or the directory belongs to
 * another pool, or it is there with another cluster size;
 * -ENOTEMPTY: holds other files; -EBUSY: another blockd has it; -ESTALE,
 * -EBADMSG: foreign or damaged; -EINVAL: a bad name or figure.
 */
int node_add_pool(struct node *node, const struct node_pool_request *request,
		  char *ret_note, struct error *err);

/* -EBUSY: it has extents; -ENODEV: not online. Not there: 0. */
int node_delete_pool(struct node *node, const char *name, struct error *err);

/*
 * struct pool_ops has what these do. -ENOENT: no such pool; -ENODEV: it is
 * not online; -EOPNOTSUPP: its kind has no such thing. Pools are neither made
 * nor deleted meanwhile.
 */
int node_check_pool(struct node *node, const char *name, bool repair,
		    void (*finding)(void *context, const char *text,
				    bool repaired),
		    void *context, struct error *err);
int node_grow_pool(struct node *node, const char *name, struct error *err);

/* What is to be seen of a pool, at one instant. */
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

/*
 * References to all extents, sorted by name. Returned owned; node_put_list()
 * frees. @pool NULL or "": of all pools; -ENOENT when there is no such pool.
 */
int node_list_extents(struct node *node, const char *pool, struct extent ***ret,
		      size_t *ret_count, struct error *err);
void node_put_list(struct extent **extents, size_t count);

/* ---- for blockd/extent.c ---- */

/* Tables held. NULL: there is none. */
struct node_pool *node_find_pool(struct node *node, const char *name);
struct extent *node_find_extent(struct node *node, const char *name);
void node_insert_extent(struct node *node, struct extent *extent);
void node_remove_extent(struct node *node, struct extent *extent);

/* Name of the online pool with the most room, into @ret (POOL_NAME_SIZE). */
int node_choose_pool(struct node *node, char *ret, struct error *err);

/*
 * @r is why a change in a pool failed. Where that may be its medium's fault,
 * the pool is tried; if it is not well, -ENODEV, and @err says how it is
 * instead. Nothing is held.
 */
int node_blame(struct node *node, const char *pool, int r, struct error *err);

/* Look at all media; each pool hears what it has to keep free. */
void node_measure(struct node *node);

/*
 * Measure, and call @tell for each pool that has less than @percent of its
 * capacity left, and had more when this was last called. Space is held.
 */
void node_note_low_space(struct node *node, unsigned percent,
			 void (*tell)(void *context, const char *pool),
			 void *context);

/*
 * How the pool of an extent is. @ret_why: ERROR_TEXT_MAX bytes; "" when it is
 * online.
 */
enum node_pool_state node_pool_of(struct node *node,
				  const struct node_pool *pool, char *ret_why);

/* Promise @bytes more of a pool, or -ENOSPC with what there is where. */
int node_reserve(struct node *node, struct node_pool *pool, uint64_t bytes,
		 struct error *err);
void node_release(struct node *node, struct node_pool *pool, uint64_t bytes);

#endif
