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

enum fd_store_op {
	FD_STORE_ADD = 1, /* with a descriptor; both ways */
	FD_STORE_DROP,    /* to the supervisor */
	FD_STORE_READY,   /* to the supervisor: it serves */
	FD_STORE_FAILED,  /* to the supervisor: it does not; with @text, and
			an errno for @token */
	FD_STORE_END,     /* to the server: those were all */
	FD_STORE_MOUNTS,  /* to the supervisor: it is about to */
	FD_STORE_REPLACE, /* to the supervisor: another server is to take over
			   */
	FD_STORE_REFUSED, /* to the server: none can; with @text, and the token
			 it asked with */
	FD_STORE_DEATH_PIPE, /* to the supervisor: see death_pipe.h; with a
			      * descriptor
			      */
};

struct fd_store_message {
	uint32_t op;
	uint32_t reserved;
	uint64_t token;
	char text[ERROR_TEXT_MAX]; /* sent as far as it is used */
};

/* Send a message; @fd -1: none. 0 or -errno: the other side is gone. */
int fd_store_send(int socket, enum fd_store_op op, uint64_t token,
		  const char *text, int fd);

/* Wait for a message. 1, with @ret_fd (-1: none); 0: the other side is gone. */
int fd_store_receive(int socket, struct fd_store_message *ret, int *ret_fd);

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
