/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stuck servers of a supervisor: those that were killed and have not ended
 * (stuck_server.h). The fd store for the next server holds each of them, too,
 * as long as it is there.
 */
#ifndef UNION_STUCK_SERVERS_H
#define UNION_STUCK_SERVERS_H

#include <poll.h>
#include <stdbool.h>

#include "launch/fd_store_server.h"
#include "union/state/fd_store.h"

struct stuck_servers {
	int pidfds[FD_STORE_STUCK_MAX]; /* owned; -1: none */
};

void stuck_servers_init(struct stuck_servers *servers);

/* Is there room for one more? */
bool stuck_servers_fit(const struct stuck_servers *servers);

/* Begin with those that @held has, of an earlier supervisor. */
void stuck_servers_resume(struct stuck_servers *servers,
			  const struct fd_store_server *held);

/*
 * Add @pidfd, of a server, which is taken. False: it is not, for want of room.
 */
bool stuck_servers_add(struct stuck_servers *servers,
		       struct fd_store_server *held, int pidfd);

/*
 * Fill in what poll() waits for, until one has ended. Returns how many:
 * FD_STORE_STUCK_MAX at most.
 */
unsigned stuck_servers_poll(const struct stuck_servers *servers,
			    struct pollfd *ret);

/* Wait for those that have ended. */
void stuck_servers_reap(struct stuck_servers *servers,
			struct fd_store_server *held);

/*
 * Close all. Servers that are left are others' to wait for, once this process
 * is gone.
 */
void stuck_servers_done(struct stuck_servers *servers);

#endif
