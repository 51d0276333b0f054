/* SPDX-License-Identifier: Apache-2.0 */
/* Answers to the socket, as many as there are in one call. */
#include <errno.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "target/iscsi/iscsi_conn_internal.h"
#include "target/net/socket.h"

static void send_later(struct iscsi_conn *conn)
{
	conn->sending = true;
	conn->progress_ms = clock_ms();
	loop_sendmsg(conn->loop, &conn->send_op, conn->fd, &conn->message, 0);
}

bool iscsi_conn_send(struct iscsi_conn *conn)
{
	while (!conn->sending &&
	       iscsi_session_gather(&conn->session, conn->batch)) {
		size_t sent = 0;
		int r;

		conn->message = (struct msghdr){
			.msg_iov = conn->batch->iov,
			.msg_iovlen = conn->batch->n_iov,
		};
		r = socket_send(conn->fd, &conn->message, &sent);
		if (r == -EAGAIN) { /* the loop waits for the socket */
			send_later(conn);
			return true;
		}
		iscsi_session_sent(&conn->session, conn->batch);
		if (r < 0)
			return false;
	}
	return true;
}

void iscsi_conn_send_done(struct op *op, int res)
{
	struct iscsi_conn *conn = container_of(op, struct iscsi_conn, send_op);

	conn->sending = false;
	iscsi_conn_touch(conn);
	if (res < 0 && res != -EAGAIN && res != -EINTR) {
		iscsi_session_sent(&conn->session, conn->batch);
		iscsi_conn_kill(conn);
		return;
	}
	if (res > 0)
		socket_message_advance(&conn->message, (size_t)res);
	if (conn->message.msg_iovlen > 0 && conn->phase != ISCSI_CONN_CLOSING) {
		send_later(conn);
		return;
	}
	iscsi_session_sent(&conn->session, conn->batch);
}
