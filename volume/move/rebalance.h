/* SPDX-License-Identifier: Apache-2.0 */
/* Pools are made equally full: a plan, then one move after the other. */
#ifndef VOLUME_REBALANCE_H
#define VOLUME_REBALANCE_H

#include "volume/volume.h"

struct rebalance_move {
	char volume[RECORD_NAME_SIZE];
	struct volume_split split;                           /* where it is */
	char node[RECORD_NAME_SIZE], pool[RECORD_NAME_SIZE]; /* where it goes */
};

struct rebalance_pool {
	char node[RECORD_NAME_SIZE], name[RECORD_NAME_SIZE];
	double before, after; /* how full, from 0 to 1 */
};

struct rebalance_plan {
	struct rebalance_move *moves; /* owned */
	size_t n_moves;
	struct rebalance_pool *pools; /* owned; of the nodes that answer */
	size_t n_pools;
	size_t attached; /* volumes that stay: they are attached, ... */
	size_t other;    /* ... or something else is done with them */
};

/*
 * Plan by what the nodes answer now; nothing is changed. Pools that are
 * cordoned, or not online, have no part in it. rebalance_plan_done().
 */
int volume_rebalance_plan(struct volume_context *ctx,
			  struct rebalance_plan *ret, struct error *err);
void rebalance_plan_done(struct rebalance_plan *plan);

/* @problem  why this split stays; NULL: it has moved. Borrowed. */
typedef void (*rebalance_told)(void *context, const struct rebalance_move *move,
			       const char *problem);

/*
 * Make the moves of a plan, in order. One that fails is told, and the next one
 * made. -EBUSY, -EAGAIN: not all splits have moved, the text says how many.
 *
 * @told  called after each move; NULL: not wanted
 */
int volume_rebalance(struct volume_context *ctx,
		     const struct rebalance_plan *plan, rebalance_told told,
		     void *context, struct error *err);

#endif
