/* SPDX-License-Identifier: Apache-2.0 */
#include "target/socket.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>

#include "base/cleanup.h"

/* One half of the time an idle peer is let alone, the other it is asked. */
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
		/* Of what was sent: tcp(7) */
		{IPPROTO_TCP, TCP_USER_TIMEOUT, (int)timeout_s * 1000},
	};

	/* The only way to have splice() not wait; it can't fail. */
	(void)fcntl(fd, F_SETFL, O_NONBLOCK);
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

int socket_send(int fd, struct msghdr *message, size_t *sent, int flags)
{
	flags |= MSG_DONTWAIT | MSG_NOSIGNAL;
	while (message->msg_iovlen > 0) {
		ssize_t n = sendmsg(fd, message, flags);

		if (n < 0 && errno != EINTR)
			return -errno;
		if (n < 0)
			continue;
		socket_message_advance(message, (size_t)n);
		*sent += (size_t)n;
	}
	return 0;
}

int socket_send_pipe(int fd, int pipe_out, uint32_t *left)
{
	while (*left > 0) {
		ssize_t n = splice(pipe_out, NULL, fd, NULL, *left,
				   SPLICE_F_NONBLOCK);

		if (n == 0)
			return -EPIPE;
		if (n < 0 && errno != EINTR)
			return -errno;
		if (n > 0)
			*left -= (uint32_t)n;
	}
	return 0;
}
