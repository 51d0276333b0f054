/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The socket between the server of a union and its supervisor (supervisor.h).
 * The supervisor keeps descriptors that must outlive the server, each under a
 * token. The server sends a descriptor before it is needed; a message that was
 * sent arrives even if the server is killed then. The next server is given all
 * of them first.
 */
#ifndef UNION_FD_STORE_H
#define UNION_FD_STORE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "launch/fd_store_message.h"

#define FD_STORE_VERSION 3 /* of all this; a part of state_layout() */

/*
 * Tokens: of the state memory, of the connection to the kernel, of servers that
 * were killed and have not ended (stuck_server.h), and of others. Those of
 * stuck servers are the supervisor's own.
 */
#define FD_STORE_STATE     1
#define FD_STORE_FUSE      2
#define FD_STORE_STUCK     8 /* the first of */
#define FD_STORE_STUCK_MAX 8
#define FD_STORE_FIRST     16
#define FD_STORE_LOCK                                          \
	(1ull << 62) /* the first of BRANCH_MAX: branch_lock.h \
		      */

/*
 * Begin, in the server, which has one supervisor: take @socket and the
 * descriptors that the supervisor kept. @socket -1: there is no supervisor, and
 * all functions below do nothing. 0 or -errno.
 */
int fd_store_start(int socket);
bool fd_store_is_on(void);

/* Take a descriptor that an earlier server stored; owned. -1: none. */
int fd_store_take(uint64_t token);
/* Take a descriptor that was not taken so far; owned. -1: there is no more. */
int fd_store_take_any(uint64_t *ret_token);

void fd_store_fd(uint64_t token, int fd);
void fd_store_drop(uint64_t token);
void fd_store_death_pipe(int fd);
void fd_store_say_mounts(void);
void fd_store_say_ready(void);
void fd_store_say_failed(const struct error *err);

/*
 * Have the supervisor replace this server, by one thread at a time. Returns
 * only when the server is not replaced: -errno with @err. -ETIMEDOUT: the
 * supervisor did not answer within @timeout_ms, and may replace the server yet.
 */
int fd_store_ask_replace(int timeout_ms, struct error *err);

#endif
