/* SPDX-License-Identifier: Apache-2.0 */
/* Replies to the socket, as many as there are in one call. */
#include <errno.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "target/nbd/nbd_conn_internal.h"
#include "target/net/socket.h"

static void iov_add(struct nbd_conn *conn, struct msghdr *message,
		    const void *data, size_t length)
{
	conn->iov[message->msg_iovlen++] = (struct iovec){
		.iov_base = (void *)data,
		.iov_len = length,
	};
}

static enum export_op op_of(uint16_t type)
{
	switch (type) {
	case NBD_CMD_READ: return EXPORT_OP_READ;
	case NBD_CMD_WRITE: return EXPORT_OP_WRITE;
	case NBD_CMD_FLUSH: return EXPORT_OP_FLUSH;
	case NBD_CMD_TRIM: return EXPORT_OP_DISCARD;
	case NBD_CMD_WRITE_ZEROES: return EXPORT_OP_WRITE_ZEROES;
	default: return EXPORT_OP_OTHER;
	}
}

/* One look at the clock for all replies of a send. */
static void note(struct nbd_conn *conn)
{
	int64_t now_ns = conn->sent.first ? clock_ns() : 0;

	for (struct nbd_io *io = conn->sent.first; io; io = io->next)
		export_stats_note(&conn->stats, op_of(io->request.type),
				  io->request.length, now_ns - io->start_ns,
				  io->failed);
}

static void gather_replies(struct nbd_conn *conn, struct msghdr *message)
{
	struct nbd_io *io;

	while ((io = nbd_io_list_take(&conn->ready))) {
		nbd_io_list_add(&conn->sent, io);
		iov_add(conn, message, io->head, io->head_length);
		if (io->data_length > 0)
			iov_add(conn, message, io->data, io->data_length);
	}
}

/* What is ready becomes the next send. */
static void gather(struct nbd_conn *conn)
{
	struct msghdr *message = conn->tls ? &conn->plain : &conn->message;

	*message = (struct msghdr){.msg_iov = conn->iov};
	conn->output_in_send = conn->session.out.length > 0;
	if (conn->output_in_send)
		iov_add(conn, message, conn->session.out.data,
			conn->session.out.length);
	gather_replies(conn, message);
	note(conn);
}

static void sent_free(struct nbd_conn *conn)
{
	struct nbd_io *io = conn->sent.first;

	conn->sent = (struct nbd_io_list){0};
	conn->message.msg_iovlen = conn->plain.msg_iovlen = 0;
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
	size_t cipher = 0;

	if (conn->tls)
		(void)tls_session_output(conn->tls, &cipher);
	return !conn->sending && !conn->ready.first &&
	       conn->session.out.length == 0 && conn->plain.msg_iovlen == 0 &&
	       cipher == 0;
}

static void send_later(struct nbd_conn *conn)
{
	conn->sending = true;
	conn->progress_ms = clock_ms();
	loop_sendmsg(conn->loop, &conn->send_op, conn->fd, &conn->message, 0);
}

/* The next bytes for the socket. False: the connection can't go on. */
static bool message_next(struct nbd_conn *conn)
{
	if (!conn->tls) {
		gather(conn);
		return true;
	}
	if (conn->plain.msg_iovlen == 0)
		gather(conn);
	return nbd_conn_tls_encipher(conn);
}

/* All of conn->message has gone out. */
static void message_end(struct nbd_conn *conn)
{
	if (conn->plain.msg_iovlen == 0)
		sent_free(conn);
}

/* As much as the socket takes now. False: the peer is gone. */
static bool send_now(struct nbd_conn *conn)
{
	size_t sent = 0;
	int r = socket_send(conn->fd, &conn->message, &sent);

	if (conn->tls)
		tls_session_sent(conn->tls, sent);
	if (r == -EAGAIN) /* the loop waits for the socket */
		send_later(conn);
	else if (r == 0)
		message_end(conn);
	return r == 0 || r == -EAGAIN;
}

bool nbd_conn_send(struct nbd_conn *conn)
{
	while (!conn->sending && !nbd_conn_all_sent(conn))
		if (!message_next(conn) || !send_now(conn)) {
			sent_free(conn);
			return false;
		}
	return true;
}

static void send_fail(struct nbd_conn *conn)
{
	sent_free(conn);
	nbd_conn_kill(conn);
}

void nbd_conn_send_done(struct op *op, int res)
{
	struct nbd_conn *conn = container_of(op, struct nbd_conn, send_op);

	conn->sending = false;
	if (res < 0 && res != -EAGAIN && res != -EINTR) {
		send_fail(conn);
		return;
	}
	if (res > 0) {
		socket_message_advance(&conn->message, (size_t)res);
		if (conn->tls)
			tls_session_sent(conn->tls, (size_t)res);
	}
	if (conn->phase == NBD_CONN_CLOSING) {
		sent_free(conn);
	} else if (conn->message.msg_iovlen > 0) {
		send_later(conn);
		return;
	} else {
		message_end(conn);
	}
	nbd_conn_touch(conn);
}
