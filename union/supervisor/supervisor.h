/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The process that outlives the servers of a union. It does nothing but keep
 * what a server gives it (fd_store.h: the state memory, the connection to the
 * kernel, files that were removed while they are open), watch the server, and
 * start the next one when it was killed: the program that is at its path by
 * then, so a new version takes over when it is told to (SIGUSR2) and can. One
 * that does not come to serve is followed by the program of the supervisor
 * itself. restart_backoff.h says when it gives up.
 */
#ifndef UNION_SUPERVISOR_H
#define UNION_SUPERVISOR_H

#include "base/error.h"
#include "union/config/options.h"

/*
 * The one word with which that program says by a line which records it keeps:
 * state_layout(), or 0.
 */
#define HOLDER_ASKS "--records"

/*
 * Hold the union of this command line, in the calling process. SIGTERM, SIGINT
 * and SIGHUP go to the server. SIGUSR2 kills it, and the next one is started,
 * unless that would keep other records, or the server not end (task_blocked.h).
 *
 * @ready  called when a server serves, for the first time
 *
 * Returns when it is unmounted: 0, or -errno with @err.
 */
int supervisor_run(const struct union_options *options, int argc, char **argv,
		   void (*ready)(void *context), void *context,
		   struct error *err);

#endif
