/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How the medium of a pool is, found out by trying it (struct pool_ops's
 * try()): when something on it has failed, when somebody asks for the pools
 * and the last try was a while ago, and again and again while it is not well.
 * Then its state is "failing" or "read-only", and when a try goes well it is
 * "online" again. Either is told of once.
 *
 * A try is in a thread of its own, so a disk that hangs keeps nobody; one that
 * has not answered for NODE_HEALTH_HANG_MS fails, too, until it does.
 *
 * What fails at one place only (a sector, a damaged file) leaves the pool as
 * it is: who uses that place gets the error.
 */
#ifndef BLOCKD_NODE_HEALTH_H
#define BLOCKD_NODE_HEALTH_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "blockd/extent/node_tables.h"

#define NODE_HEALTH_HANG_MS   20000
#define NODE_HEALTH_ANSWER_MS 500 /* what is well has answered by then */

enum node_health_found {
	NODE_HEALTH_AS_IT_WAS, /* or its state and message have changed */
	NODE_HEALTH_GONE,      /* the medium is: close it */
	NODE_HEALTH_ANEW,      /* it is well when it is opened anew */
};

/* node.pools is held, and the pool is served, here and below. */

/*
 * A try, or an attempt to open it again, is about to be made, unless it is not
 * due at @now_ms; the next will be due later. A pool that is not served, too.
 */
bool node_health_due(struct node_pool *pool, int64_t now_ms);

/* Begin a try that is due at @now_ms; @asked: or that is not quite fresh. */
void node_health_begin(struct node_pool *pool, int64_t now_ms, bool asked);

/* What a try has come to by now, or after @wait_ms; @err: of the latter two. */
enum node_health_found node_health_look(struct node_pool *pool, int wait_ms,
					struct error *err);

/* clock_ms(): when to call these again if nothing happens; INT64_MAX: never. */
int64_t node_health_next_ms(const struct node_pool *pool);

/*
 * It is going to be closed. False: it can't be, as a try hangs in it; then
 * that has it for good.
 */
bool node_health_end(struct node_pool *pool);

#endif
