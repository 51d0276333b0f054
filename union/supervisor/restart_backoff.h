/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How soon another server is started when one has ended (supervisor.h): at once
 * when the last had served, so that nobody notices. But some servers end by
 * themselves again and again as soon as they serve, as the request that comes
 * again ends them. Such servers must not be started for ever without a pause.
 */
#ifndef UNION_RESTART_BACKOFF_H
#define UNION_RESTART_BACKOFF_H

#include <stdbool.h>
#include <stdint.h>

#define PACE_FIRST_MS    100   /* the first pause; the next is twice that */
#define PACE_UNSERVED_MS 1000  /* longest pause if none ever served */
#define PACE_SERVED_MS   5000  /* longest pause after a server that served */
#define PACE_SOON_MS     1000  /* less time of service: it ended at once */
#define PACE_LIVED_MS    10000 /* time of service of a good server */

#define PACE_FREE  2  /* servers that ended at once and cost no pause */
#define PACE_TRIES 20 /* servers in a row that never served: the last */

/* Zeroed at first. */
struct restart_backoff {
	unsigned soon, unserved;
};

/*
 * Tell the pause after a server has ended.
 *
 * @served_ms  how long it had served; -1: it never did
 * @by_itself  nobody outside killed it (SIGKILL). A kill from outside has its
 *             reason, and does not count against a server that served
 *
 * Returns how long to wait before the next is started, ms; -1: not again.
 */
int restart_backoff_next(struct restart_backoff *pace, int64_t served_ms,
			 bool by_itself);

#endif
