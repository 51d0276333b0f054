/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Of a supervisor: the servers that were killed and have not ended
 * (stuck_server.h). Each is among what is held for the next server, too, as
 * long as it is there.
 */
#ifndef UNION_STUCK_SERVERS_H
#define UNION_STUCK_SERVERS_H

#include <poll.h>
#include <stdbool.h>

#include "union/state/fd_store.h"
#include "union/supervisor/fd_store_server.h"

struct stuck_servers {
	int pidfds[FD_STORE_STUCK_MAX]; /* owned; -1: none */
};

void stuck_servers_init(struct stuck_servers *servers);

/* Is there room for one more? */
bool stuck_servers_fit(const struct stuck_servers *servers);

/* Takes @pidfd, of a child. False: it does not, for want of room. */
bool stuck_servers_add(struct stuck_servers *servers,
		       struct fd_store_server *held, int pidfd);

/* What says that one has ended; how many: FD_STORE_STUCK_MAX at most. */
unsigned stuck_servers_poll(const struct stuck_servers *servers,
			    struct pollfd *ret);

/* Wait for those that have. */
void stuck_servers_reap(struct stuck_servers *servers,
			struct fd_store_server *held);

/* Those that are left are others' to wait for, once this process is gone. */
void stuck_servers_done(struct stuck_servers *servers);

#endif
