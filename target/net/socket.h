/* SPDX-License-Identifier: Apache-2.0 */
/* Operations on a socket, for connections of both protocols. */
#ifndef TARGET_SOCKET_H
#define TARGET_SOCKET_H

#include <sys/socket.h>

#include "target/net/peer.h"

#define SOCKET_PEER_TIMEOUT_S 60 /* ours */

/*
 * Nothing waits for a fuller packet, and a peer that is gone is noticed: after
 * @timeout_s without a word from its machine, or in which it takes nothing. No
 * system call waits for it; the ring does all the same.
 */
void socket_setup(int fd, const struct peer_address *peer, unsigned timeout_s);

/* @length bytes of it are out: leave them behind. */
void socket_message_advance(struct msghdr *message, size_t length);

/*
 * As much of @message as the socket takes at once; that is left behind and
 * added to *@sent. 0: all of it; -EAGAIN: the socket is full; or another error,
 * after which the connection is of no use.
 */
int socket_send(int fd, struct msghdr *message, size_t *sent);

#endif
