/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages by which a process has another one, the store, keep descriptors for
 * it, each under a token. The store of a union's server is its supervisor
 * (union/state/fd_store.h). That of a supervisor is the launcher
 * (launch_store.h). The socket is of type SOCK_SEQPACKET.
 */
#ifndef LAUNCH_FD_STORE_MESSAGE_H
#define LAUNCH_FD_STORE_MESSAGE_H

#include <stdint.h>

#include "base/error.h"

enum fd_store_op {
	FD_STORE_ADD = 1, /* with a descriptor; both ways */
	FD_STORE_DROP,    /* to the store */
	FD_STORE_READY,  /* to the store: a server serves. To the launcher also:
			  * the supervisor has sent all that it has
			  */
	FD_STORE_FAILED, /* to the supervisor: it does not; with @text, and
		       an errno for @token */
	FD_STORE_END,    /* from the store: those were all. To the launcher: it
			  * shall forget them
			  */
	FD_STORE_MOUNTS, /* to the supervisor: it is about to */
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

/*
 * Send a message; @fd -1: none. 0 or -errno: the other side is gone. -EAGAIN:
 * @socket does not wait, and the other side is behind.
 */
int fd_store_send(int socket, enum fd_store_op op, uint64_t token,
		  const char *text, int fd);

/* Wait for a message. 1, with @ret_fd (-1: none); 0: the other side is gone. */
int fd_store_receive(int socket, struct fd_store_message *ret, int *ret_fd);

/*
 * The same, and leave the message where it is, until fd_store_skip(). @ret_fd
 * is a descriptor of ours all the same.
 */
int fd_store_peek(int socket, struct fd_store_message *ret, int *ret_fd);
void fd_store_skip(int socket);

#endif
