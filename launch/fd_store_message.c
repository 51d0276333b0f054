/* SPDX-License-Identifier: Apache-2.0 */
#include "launch/fd_store_message.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>

#define HEAD offsetof(struct fd_store_message, text)

union fd_space {
	struct cmsghdr header;
	char data[CMSG_SPACE(sizeof(int))];
};

int fd_store_send(int socket, enum fd_store_op op, uint64_t token,
		  const char *text, int fd)
{
	struct fd_store_message message = {.op = op, .token = token};
	size_t length = text ? strnlen(text, sizeof(message.text) - 1) : 0;
	struct iovec iov = {&message, HEAD + length};
	union fd_space space = {0};
	struct msghdr header = {.msg_iov = &iov, .msg_iovlen = 1};
	ssize_t n;

	if (length)
		memcpy(message.text, text, length);
	if (fd >= 0) {
		header.msg_control = &space;
		header.msg_controllen = sizeof(space);
		space.header.cmsg_level = SOL_SOCKET;
		space.header.cmsg_type = SCM_RIGHTS;
		space.header.cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(&space.header), &fd, sizeof(int));
	}
	do
		n = sendmsg(socket, &header, MSG_NOSIGNAL);
	while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : 0;
}

static int receive_message(int socket, int flags, struct fd_store_message *ret,
			   int *ret_fd)
{
	struct iovec iov = {ret, sizeof(*ret)};
	union fd_space space = {0};
	struct msghdr header = {.msg_iov = &iov,
				.msg_iovlen = 1,
				.msg_control = &space,
				.msg_controllen = sizeof(space)};
	struct cmsghdr *part;
	ssize_t n;

	*ret_fd = -1;
	memset(ret, 0, sizeof(*ret));
	/* A peer that ended with unread messages is an error, once. Its own
	 * messages from before are still to come. */
	do
		n = recvmsg(socket, &header, MSG_CMSG_CLOEXEC | flags);
	while (n < 0 && (errno == EINTR || errno == ECONNRESET));
	if (n <= 0)
		return n < 0 ? -errno : 0;
	part = CMSG_FIRSTHDR(&header);
	if (part && part->cmsg_type == SCM_RIGHTS &&
	    part->cmsg_len == CMSG_LEN(sizeof(int)))
		memcpy(ret_fd, CMSG_DATA(part), sizeof(int));
	ret->text[sizeof(ret->text) - 1] = '\0';
	return (size_t)n >= HEAD ? 1 : -EPROTO;
}

int fd_store_receive(int socket, struct fd_store_message *ret, int *ret_fd)
{
	return receive_message(socket, 0, ret, ret_fd);
}

int fd_store_peek(int socket, struct fd_store_message *ret, int *ret_fd)
{
	return receive_message(socket, MSG_PEEK, ret, ret_fd);
}

void fd_store_skip(int socket)
{
	char byte;

	/* A packet is taken as a whole, and its descriptor with it. */
	while (recv(socket, &byte, sizeof(byte), MSG_DONTWAIT) < 0 &&
	       errno == EINTR)
		;
}
