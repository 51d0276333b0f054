/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The requests that are being served. They are watched so that a branch whose
 * calls do not come back holds up no request but its own.
 *
 * A thread looks at them once a second while there are any. For a request that
 * is served for WATCHDOG_SLOW_MS another thread is started, so that requests
 * for other branches are taken.
 *
 * A request may take longer than the union's branch_timeout. Then the branches
 * that it met are tried, each by a thread of its own. A branch whose try does
 * not come back within WATCHDOG_TRY_MS is failed (ETIMEDOUT), and requests that
 * wait for it get EIO. If such a call comes back after all, its answer is not
 * wanted any more: the kernel refuses it.
 */
#ifndef UNION_WATCHDOG_H
#define UNION_WATCHDOG_H

#include "union/view/unionfs.h"

#define WATCHDOG_SLOW_MS 1000
#define WATCHDOG_TRY_MS  5000

/*
 * Begin to watch. @more starts one more thread to serve requests, for the rest
 * of the time. 0 or -errno.
 */
int watchdog_start(struct unionfs *fs, void (*more)(void *context),
		   void *context);
void watchdog_stop(void);

/*
 * Join, as a thread that serves requests, and leave. NULL, which the functions
 * here take: no memory, the thread goes unwatched.
 */
struct watchdog_slot *watchdog_join(void);
void watchdog_leave(struct watchdog_slot *slot);

/*
 * Note that this thread serves @request. @data is all of it; both are borrowed
 * until the end.
 */
void watchdog_begin(struct watchdog_slot *slot, struct request *request,
		    const void *data, size_t length);

/*
 * Note that the request is done. True: another thread took this one's place, so
 * this one may end.
 */
bool watchdog_end(struct watchdog_slot *slot, struct request *request);

#endif
