/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The process that outlives the servers of a union. The supervisor keeps what a
 * server gives it (fd_store.h): the state memory, the connection to the kernel,
 * files that were removed while they are open. It watches the server, and
 * starts the next one when the server was killed. It does nothing else.
 *
 * The program at the supervisor's path is started, so a new version takes over
 * when it is told to (SIGUSR2) and can. If that program does not come to serve,
 * the program of the supervisor itself follows it. restart_backoff.h says when
 * the supervisor gives up.
 */
#ifndef UNION_SUPERVISOR_H
#define UNION_SUPERVISOR_H

#include "base/error.h"
#include "union/config/options.h"

/*
 * The one word at which that program tells, in a line, which records it keeps:
 * state_layout(), or 0.
 */
#define SUPERVISOR_ASKS "--records"

/*
 * Hold the union of this command line, in the calling process. SIGTERM, SIGINT
 * and SIGHUP go to the server. SIGUSR2 kills it, and the next one is started.
 * That is refused if the next one would keep other records, or if the server
 * would not end (task_blocked.h).
 *
 * @ready  called when a server serves, for the first time
 *
 * Returns when it is unmounted: 0, or -errno with @err.
 */
int supervisor_run(const struct union_options *options, int argc, char **argv,
		   void (*ready)(void *context), void *context,
		   struct error *err);

#endif
