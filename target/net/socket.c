/* SPDX-License-Identifier: Apache-2.0 */
#include "target/net/socket.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>

#include "base/cleanup.h"

/* An idle peer is left alone for half of the time, and probed in the other
 * half. */
#define KEEPALIVE_TRIES 3

static int at_least_one(unsigned seconds)
{
	return seconds > 0 ? (int)seconds : 1;
}

void socket_setup(int fd, const struct peer_address *peer, unsigned timeout_s)
{
	const struct {
		int level, name, value;
	} options[] = {
		{IPPROTO_TCP, TCP_NODELAY, 1},
		{SOL_SOCKET, SO_KEEPALIVE, 1},
		{IPPROTO_TCP, TCP_KEEPIDLE, at_least_one(timeout_s / 2)},
		{IPPROTO_TCP, TCP_KEEPINTVL,
		 at_least_one(timeout_s / 2 / KEEPALIVE_TRIES)},
		{IPPROTO_TCP, TCP_KEEPCNT, KEEPALIVE_TRIES},
		/* For bytes sent: tcp(7) */
		{IPPROTO_TCP, TCP_USER_TIMEOUT, (int)timeout_s * 1000},
	};

	if (peer->family == AF_UNIX)
		return;
	/* A connection without them works too. */
	for (size_t i = 0; i < array_size(options); i++)
		(void)setsockopt(fd, options[i].level, options[i].name,
				 &options[i].value, sizeof(options[i].value));
}

void socket_message_advance(struct msghdr *message, size_t length)
{
	while (length > 0 && length >= message->msg_iov->iov_len) {
		length -= message->msg_iov->iov_len;
		message->msg_iov++;
		message->msg_iovlen--;
	}
	if (length > 0) {
		message->msg_iov->iov_base =
			(char *)message->msg_iov->iov_base + length;
		message->msg_iov->iov_len -= length;
	}
}

int socket_send(int fd, struct msghdr *message, size_t *sent)
{
	while (message->msg_iovlen > 0) {
		ssize_t n = sendmsg(fd, message, MSG_DONTWAIT | MSG_NOSIGNAL);

		if (n < 0 && errno != EINTR)
			return -errno;
		if (n < 0)
			continue;
		socket_message_advance(message, (size_t)n);
		*sent += (size_t)n;
	}
	return 0;
}
