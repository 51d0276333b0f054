/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Of a holder: the servers that were killed and have not ended (dying.h). Each
 * is among what is held for the next server, too, as long as it is there.
 */
#ifndef UNION_DYING_SERVERS_H
#define UNION_DYING_SERVERS_H

#include <poll.h>
#include <stdbool.h>

#include "union/state/fd_store.h"
#include "union/supervisor/fd_store_server.h"

struct dying_servers {
	int pidfds[FD_STORE_DYING_MAX]; /* owned; -1: none */
};

void dying_servers_init(struct dying_servers *servers);

/* Is there room for one more? */
bool dying_servers_fit(const struct dying_servers *servers);

/* Takes @pidfd, of a child. False: it does not, for want of room. */
bool dying_servers_add(struct dying_servers *servers,
		       struct fd_store_server *held, int pidfd);

/* What says that one has ended; how many: FD_STORE_DYING_MAX at most. */
unsigned dying_servers_poll(const struct dying_servers *servers,
			    struct pollfd *ret);

/* Wait for those that have. */
void dying_servers_reap(struct dying_servers *servers,
			struct fd_store_server *held);

/* Those that are left are others' to wait for, once this process is gone. */
void dying_servers_done(struct dying_servers *servers);

#endif
