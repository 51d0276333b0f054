/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For tests: the control API of a node, with one pool in memory. It makes,
 * grows, tells of and deletes extents, and can be slow, full or gone. What an
 * extent holds is a number, which its snapshots and clones take over.
 */
#ifndef CSI_FAKE_NODE_H
#define CSI_FAKE_NODE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#include "rpc/rpc.h"
#include "volume/volume.h"

#define FAKE_EXTENTS_MAX 512

struct fake_extent {
	char name[RECORD_NAME_SIZE]; /* "": free */
	char id[UUID_TEXT_SIZE];
	uint64_t size; /* bytes */
	struct labels labels;
	uint64_t content; /* fake_node_write() */
	bool snapshot;
	char origin[RECORD_NAME_SIZE], origin_id[UUID_TEXT_SIZE];
	char cut[UUID_TEXT_SIZE];
	uint64_t iops, bytes_per_second;
	int copying; /* looks at it, until it is copied */
	bool held;
};

/* As a node would not tell of them that means well. */
enum fake_ranges {
	FAKE_RANGES_GOOD,
	FAKE_RANGES_BACKWARDS,
	FAKE_RANGES_OVERLAP,
	FAKE_RANGES_TWICE,
	FAKE_RANGES_PAST_THE_END,
	FAKE_RANGES_WRAP,
	FAKE_RANGES_EMPTY,
	FAKE_RANGES_BEFORE_THE_START,
	FAKE_RANGES_OTHER_SIZE,
	FAKE_RANGES_SIZE_CHANGES,
	FAKE_RANGES_ENDLESS, /* messages that say nothing */
	FAKE_RANGES_CUT,     /* it ends with an error */
	FAKE_RANGES_N,
};

struct fake_node {
	char name[RECORD_NAME_SIZE];
	char address[128];
	uint64_t capacity; /* bytes of its pool */
	/* Before it makes, grows, limits, snapshots or deletes an extent. */
	atomic_int pause_ms;
	atomic_bool silent;               /* it does not list its extents */
	atomic_bool lists_none;           /* as if it had listed them before */
	_Atomic(const char *) pool_state; /* NULL: "online" */
	_Atomic(const char *) version;    /* NULL: "" */
	/* errno for the next that is made, grown or deleted; 0: none */
	atomic_int fails;
	atomic_size_t asked; /* calls so far */
	/* errno for the next of each; 0: none. It is done all the same if < 0
	 */
	atomic_int hold_fails, cut_fails, release_fails, revert_fails,
		limit_fails;
	atomic_int lapses; /* so many holds end before they are released */
	int copies;        /* `copying` of a new copy */
	/* The kind of its lists of ranges; enum fake_ranges. */
	atomic_int ranges;
	size_t n_cuts;             /* calls that made snapshots */
	char hold[UUID_TEXT_SIZE]; /* "": none */
	pthread_cond_t released;
	pthread_mutex_t lock; /* guards all below, and the three above */
	struct fake_extent extents[FAKE_EXTENTS_MAX];
	struct rpc_server *server; /* NULL: down */
};

/* Serving in @dir, and known to @volumes. */
void fake_node_start(struct fake_node *node, const char *dir, const char *name,
		     uint64_t capacity, struct volume_context *volumes);
/* Take the node down, and up again with its extents. */
void fake_node_down(struct fake_node *node);
void fake_node_up(struct fake_node *node);
void fake_node_stop(struct fake_node *node);

/* An extent is gone, without a word; false: it was not there. */
bool fake_node_lose(struct fake_node *node, const char *name);
/* Write @content, when it is not held. */
void fake_node_write(struct fake_node *node, const char *name,
		     uint64_t content);
/* A copy of it; false: it is not there. Labels are empty. */
bool fake_node_look(struct fake_node *node, const char *name,
		    struct fake_extent *ret);
/* Return how many calls the node got. */
size_t fake_node_asked(struct fake_node *node);
size_t fake_node_extents(struct fake_node *node);
uint64_t fake_node_free(struct fake_node *node);

#endif
