/* SPDX-License-Identifier: Apache-2.0 */
/* Replies to the socket, as many as there are in one call. */
#include <errno.h>
#include <sys/socket.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "target/nbd_conn_internal.h"

static void iov_add(struct nbd_conn *conn, const void *data, size_t length)
{
	conn->iov[conn->message.msg_iovlen++] = (struct iovec){
		.iov_base = (void *)data,
		.iov_len = length,
	};
}

/* Everything that is ready becomes the next send. */
static void gather(struct nbd_conn *conn)
{
	conn->message = (struct msghdr){.msg_iov = conn->iov};
	conn->output_in_send = conn->session.out.length > 0;
	if (conn->output_in_send)
		iov_add(conn, conn->session.out.data, conn->session.out.length);
	conn->sent = conn->ready;
	conn->ready = (struct nbd_io_list){0};
	for (struct nbd_io *io = conn->sent.first; io; io = io->next) {
		iov_add(conn, io->head, io->head_length);
		if (io->data_length > 0)
			iov_add(conn, io->data, io->data_length);
	}
}

/* @length bytes are out: leave them behind. */
static void advance(struct msghdr *message, size_t length)
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

static void sent_free(struct nbd_conn *conn)
{
	struct nbd_io *io = conn->sent.first;

	conn->sent = (struct nbd_io_list){0};
	if (conn->output_in_send)
		conn->session.out.length = 0;
	conn->output_in_send = false;
	while (io) {
		struct nbd_io *next = io->next;

		nbd_io_free(io);
		io = next;
	}
}

bool nbd_conn_all_sent(const struct nbd_conn *conn)
{
	return !conn->sending && !conn->ready.first &&
	       conn->session.out.length == 0;
}

static void send_later(struct nbd_conn *conn)
{
	conn->sending = true;
	conn->progress_ms = clock_ms();
	loop_sendmsg(conn->loop, &conn->send_op, conn->fd, &conn->message, 0);
}

bool nbd_conn_send(struct nbd_conn *conn)
{
	while (!conn->sending && !nbd_conn_all_sent(conn)) {
		gather(conn);
		while (conn->message.msg_iovlen > 0) {
			ssize_t n = sendmsg(conn->fd, &conn->message,
					    MSG_DONTWAIT | MSG_NOSIGNAL);

			if (n >= 0) {
				advance(&conn->message, (size_t)n);
				continue;
			}
			if (errno == EINTR)
				continue;
			if (errno != EAGAIN) {
				sent_free(conn);
				return false;
			}
			/* The socket is full: the loop waits for it. */
			send_later(conn);
			return true;
		}
		sent_free(conn);
	}
	return true;
}

void nbd_conn_send_done(struct op *op, int res)
{
	struct nbd_conn *conn = container_of(op, struct nbd_conn, send_op);

	conn->sending = false;
	if (res < 0 && res != -EAGAIN && res != -EINTR) {
		sent_free(conn);
		nbd_conn_kill(conn);
		return;
	}
	if (res > 0)
		advance(&conn->message, (size_t)res);
	if (conn->message.msg_iovlen > 0 && conn->phase != NBD_CONN_CLOSING) {
		send_later(conn);
		return;
	}
	sent_free(conn);
	nbd_conn_touch(conn);
}
