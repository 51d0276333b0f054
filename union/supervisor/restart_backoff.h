/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How soon another server is started when one has ended (supervisor.h). At once
 * when it had served, so that nobody notices; but one that ends by itself
 * again and again as soon as it serves (the request that comes again ends it)
 * must not be started for ever without a pause.
 */
#ifndef UNION_RESTART_BACKOFF_H
#define UNION_RESTART_BACKOFF_H

#include <stdbool.h>
#include <stdint.h>

#define PACE_FIRST_MS    100   /* the first pause; the next is twice that */
#define PACE_UNSERVED_MS 1000  /* the longest after one that never served */
#define PACE_SERVED_MS   5000  /* the longest after one that had served */
#define PACE_SOON_MS     1000  /* who served for less ended at once */
#define PACE_LIVED_MS    10000 /* who served for so long is a good one */

#define PACE_FREE  2  /* so many that ended at once cost no pause */
#define PACE_TRIES 20 /* in a row that never served: the last */

/* Zeroed at first. */
struct restart_backoff {
	unsigned soon, unserved;
};

/*
 * A server has ended.
 *
 * @served_ms  how long it had served; -1: it never did
 * @by_itself  nobody outside killed it (SIGKILL): that has its reason, and
 *             does not count against one that served
 *
 * Returns how long to wait before the next is started, ms; -1: not again.
 */
int restart_backoff_next(struct restart_backoff *pace, int64_t served_ms,
			 bool by_itself);

#endif
