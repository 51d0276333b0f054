/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the launcher stores for other processes: their descriptors, each under a
 * token, and the command line of who goes on with them. A supervisor of a union
 * has its own stored (union/supervisor/supervisor.h), and so has a trib-nbd
 * (initiator/nbd/nbd_stored.h). When it is killed,
 * whatever else is killed with it, the next one is started here. That gets a
 * socket as its number 3, with FD_STORE_ADD for each descriptor, FD_STORE_END
 * last. It goes on with the same socket.
 *
 * A process that closes its socket and lives on is waited for: its end counts.
 * If it begins again, what it had stored before is forgotten.
 */
#ifndef LAUNCH_LAUNCH_STORE_H
#define LAUNCH_LAUNCH_STORE_H

#include <poll.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "launch/launch_proto.h"

/*
 * Processes that end before they say FD_STORE_READY are given up after so many
 * in a row. Then the mount is dead. One that said it and is killed is followed
 * at once, or after a pause if it did not live for LAUNCH_STORED_LIVED_MS.
 */
#define LAUNCH_STORED_TRIES    6
#define LAUNCH_STORED_LIVED_MS 1000
#define LAUNCH_STORED_PAUSE_MS 100 /* doubled with each in a row */

struct launch_store {
	/* Start a program: as process_start(). */
	int (*start)(void *context, const struct launch_request *request,
		     int log_fd, int pass_fd, pid_t *ret_pid,
		     struct error *err);
	void *context;
	struct launch_stored **items; /* owned */
	size_t count, size;
};

/*
 * Store for @pid, which has asked by @request; @log_fd is of its messages. Both
 * descriptors are taken. 0, -ENOMEM or -E2BIG.
 */
int launch_store_add(struct launch_store *store,
		     const struct launch_request *request, pid_t pid,
		     int log_fd, int socket, struct error *err);

/* Fill @ret, @count of them, with what to wait for. */
void launch_store_poll(const struct launch_store *store, struct pollfd *ret);

/* Tell how long until something is to be done; ms, -1: nothing is. */
int launch_store_wait_ms(const struct launch_store *store);

/* Do what has come. @fds: as launch_store_poll() filled it. */
void launch_store_look(struct launch_store *store, const struct pollfd *fds);

/* Forget all. The processes live on. */
void launch_store_done(struct launch_store *store);

#endif
