/* SPDX-License-Identifier: Apache-2.0 */
/* A connection behind TLS: between its socket and its protocol. */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "base/cleanup.h"
#include "target/conn/conn.h"

/* Replies shorter than this share a record, bytes. */
#define GATHER_MAX 16384u

/* The error of bytes in plain text, which the peer did not say by TLS. */
static const char bytes_between[] = "bytes between STARTTLS and TLS";

void conn_tls_begin(struct conn *conn)
{
	conn->tls_begins = true;
	if (!receiver_is_empty(&conn->in))
		conn_drop(conn, bytes_between);
}

void conn_tls_start(struct conn *conn)
{
	conn->tls_begins = false;
	/* conn_tls_begin() looked before the answer; more may have come. */
	if (!receiver_is_empty(&conn->in) || conn->in.runs)
		conn_drop(conn, bytes_between);
	else if (tls_session_new(conn->service->tls, &conn->tls) < 0)
		conn_drop(conn, "no memory for TLS");
}

void conn_tls_receive(struct conn *conn)
{
	uint32_t room;
	void *to = tls_session_room(conn->tls, &room);

	receiver_start_direct(&conn->in, to, room, 0);
}

/* ---- in ---- */

/*
 * Go on with the handshake. True: it is done, and bytes behind it can be read.
 */
static bool tls_handshake(struct conn *conn)
{
	struct error err = {0};
	int r = tls_session_handshake(conn->tls, &err);

	conn_touch(conn); /* it may have something to say */
	if (r == -EAGAIN)
		return false;
	if (r < 0) {
		(void)conn_send(conn); /* the alert, if it is taken */
		conn_drop(conn, error_text(&err));
		return false;
	}
	conn->peer.names = tls_session_names(conn->tls);
	conn->ops->tls_on(conn);
	return true;
}

/* To where the payload belongs, or to the buffer. */
static ssize_t tls_read(struct conn *conn)
{
	bool payload = conn->payload.iov_len > 0;
	uint32_t room = (uint32_t)conn->payload.iov_len;
	void *to = payload ? conn->payload.iov_base
			   : receiver_room(&conn->in, &room);
	ssize_t n = tls_session_read(conn->tls, to, room);

	if (n > 0 && payload)
		conn->ops->payload_came(conn, (uint32_t)n);
	else if (n > 0)
		conn->in.end += (uint32_t)n;
	return n;
}

bool conn_tls_fill(struct conn *conn)
{
	ssize_t n;

	if (!tls_session_open(conn->tls) && !tls_handshake(conn))
		return false;
	n = tls_read(conn);
	conn_touch(conn); /* a new key is answered */
	if (n == 0)
		conn->ops->hung_up(conn);
	else if (n < 0 && n != -EAGAIN)
		conn_drop(conn, "TLS: a record is not from this session");
	return n > 0;
}

/* ---- out ---- */

/* Small parts together, up to a record; returns the bytes in @to. */
static size_t plain_collect(const struct msghdr *plain, uint8_t *to)
{
	size_t length = 0;

	for (size_t i = 0; i < plain->msg_iovlen; i++) {
		const struct iovec *part = &plain->msg_iov[i];

		if (part->iov_len > GATHER_MAX - length)
			break;
		memcpy(to + length, part->iov_base, part->iov_len);
		length += part->iov_len;
	}
	return length;
}

static ssize_t encipher_some(struct conn *conn)
{
	const struct iovec *part = conn->plain.msg_iov;
	uint8_t together[GATHER_MAX];
	size_t length = plain_collect(&conn->plain, together);

	if (length > 0)
		return tls_session_write(conn->tls, together, length);
	return tls_session_write(conn->tls, part->iov_base, part->iov_len);
}

/* Set conn->message from conn->plain. False: it can't go on. */
static bool tls_encipher(struct conn *conn)
{
	size_t length;

	while (conn->plain.msg_iovlen > 0) {
		ssize_t n = encipher_some(conn);

		if (n < 0)
			return false;
		if (n == 0)
			break;
		conn_message_advance(&conn->plain, (size_t)n);
	}
	conn->cipher.iov_base = (void *)tls_session_output(conn->tls, &length);
	conn->cipher.iov_len = length;
	conn->message = (struct msghdr){
		.msg_iov = &conn->cipher,
		.msg_iovlen = length > 0,
	};
	return true;
}

int conn_tls_gather(struct conn *conn)
{
	if (conn->plain.msg_iovlen == 0)
		(void)conn->ops->gather(conn, &conn->plain);
	if (!tls_encipher(conn))
		return -EPROTO;
	return conn->message.msg_iovlen > 0;
}

void conn_tls_goodbye(struct conn *conn)
{
	if (!conn->tls)
		return;
	tls_session_end(conn->tls);
	if (tls_encipher(conn) && conn->message.msg_iovlen > 0)
		(void)sendmsg(conn->fd, &conn->message,
			      MSG_DONTWAIT | MSG_NOSIGNAL); /* or not */
	conn->message.msg_iovlen = 0;
}
