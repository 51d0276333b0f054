/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The health of a pool's medium, found out by trying it (struct pool_ops's
 * try()). A try is made when an operation on the medium has failed, and again
 * and again while it is not well. Another is made when a request asks for the
 * pools and the last try was a while ago. A pool that is not well is in state
 * "failing" or "read-only", and "online" again when a try goes well. Either is
 * told of once.
 *
 * A try is in a thread of its own, so a disk that hangs keeps nobody. A disk
 * that has not answered for NODE_HEALTH_HANG_MS fails, too, until it does.
 *
 * A failure at one place only (a sector, a damaged file) leaves the pool as it
 * is: requests to that place get the error.
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
 * Tell whether a try, or an attempt to open the pool again, is due at @now_ms.
 * If so, the next will be due later. Also for a pool that is not served.
 */
bool node_health_due(struct node_pool *pool, int64_t now_ms);

/* Begin a try that is due at @now_ms; @asked: or that is not quite fresh. */
void node_health_begin(struct node_pool *pool, int64_t now_ms, bool asked);

/*
 * Return the result of a try by now, or after @wait_ms; @err: of the latter
 * two.
 */
enum node_health_found node_health_look(struct node_pool *pool, int wait_ms,
					struct error *err);

/* clock_ms(): when to call these again if nothing happens; INT64_MAX: never. */
int64_t node_health_next_ms(const struct node_pool *pool);

/*
 * End the tries of a pool that is about to be closed. False: it can't be
 * closed, as a try hangs in it, which then has it for good.
 */
bool node_health_end(struct node_pool *pool);

#endif
