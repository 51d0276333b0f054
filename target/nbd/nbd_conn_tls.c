/* SPDX-License-Identifier: Apache-2.0 */
/* A connection behind TLS: between its socket and its session. */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "base/cleanup.h"
#include "target/nbd/nbd_conn_internal.h"
#include "target/net/socket.h"

/* Replies shorter than this share a record, bytes. */
#define GATHER_MAX 16384u

/* A unix socket is guarded by its mode already. */
enum nbd_tls nbd_conn_tls_mode(const struct nbd_service *service,
			       const struct peer_address *peer)
{
	if (!service->tls)
		return NBD_TLS_OFF;
	return service->tls_required && peer->family != AF_UNIX
		       ? NBD_TLS_REQUIRED
		       : NBD_TLS_OFFERED;
}

void nbd_conn_tls_start(struct nbd_conn *conn)
{
	conn->tls_starts = false;
	/* on_starttls() looked before the answer; nothing may have come since
	 */
	if (!receiver_is_empty(&conn->in) || conn->in.runs) {
		nbd_conn_drop(conn, "bytes between STARTTLS and TLS");
		return;
	}
	if (tls_session_new(conn->service->tls, &conn->tls) < 0)
		nbd_conn_drop(conn, "no memory for TLS");
}

void nbd_conn_tls_receive(struct nbd_conn *conn)
{
	uint32_t room;
	void *to = tls_session_room(conn->tls, &room);

	receiver_start_direct(&conn->in, to, room, 0);
}

/* ---- in ---- */

/* True: it is done, and what is behind it can be read. */
static bool handshake(struct nbd_conn *conn)
{
	struct error err = {0};
	int r = tls_session_handshake(conn->tls, &err);

	nbd_conn_touch(conn); /* it may have something to say */
	if (r == -EAGAIN)
		return false;
	if (r < 0) {
		(void)nbd_conn_send(conn); /* the alert, if it is taken */
		nbd_conn_drop(conn, error_text(&err));
		return false;
	}
	conn->user.peer.names = tls_session_names(conn->tls);
	nbd_session_tls_on(&conn->session);
	return true;
}

static ssize_t read_payload(struct nbd_conn *conn)
{
	struct nbd_io *io = conn->writing;
	ssize_t n = tls_session_read(conn->tls,
				     (uint8_t *)io->buf->data + io->progress,
				     io->request.length - io->progress);

	if (n > 0)
		nbd_conn_payload_received(conn, (uint32_t)n);
	return n;
}

static ssize_t read_buffer(struct nbd_conn *conn)
{
	uint32_t room;
	uint8_t *to = receiver_room(&conn->in, &room);
	ssize_t n = tls_session_read(conn->tls, to, room);

	if (n > 0)
		conn->in.end += (uint32_t)n;
	return n;
}

bool nbd_conn_tls_fill(struct nbd_conn *conn)
{
	ssize_t n;

	if (!tls_session_open(conn->tls) && !handshake(conn))
		return false;
	n = nbd_conn_is_direct(conn) ? read_payload(conn) : read_buffer(conn);
	nbd_conn_touch(conn); /* a new key is answered */
	if (n == 0)
		nbd_conn_drain(conn, NBD_DRAIN_TIMEOUT_MS);
	else if (n < 0 && n != -EAGAIN)
		nbd_conn_drop(conn, "TLS: what came is not from this session");
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

static ssize_t encipher_some(struct nbd_conn *conn)
{
	const struct iovec *part = conn->plain.msg_iov;
	uint8_t together[GATHER_MAX];
	size_t length = plain_collect(&conn->plain, together);

	if (length > 0)
		return tls_session_write(conn->tls, together, length);
	return tls_session_write(conn->tls, part->iov_base, part->iov_len);
}

bool nbd_conn_tls_encipher(struct nbd_conn *conn)
{
	size_t length;

	while (conn->plain.msg_iovlen > 0) {
		ssize_t n = encipher_some(conn);

		if (n < 0)
			return false;
		if (n == 0)
			break;
		socket_message_advance(&conn->plain, (size_t)n);
	}
	conn->cipher.iov_base = (void *)tls_session_output(conn->tls, &length);
	conn->cipher.iov_len = length;
	conn->message = (struct msghdr){
		.msg_iov = &conn->cipher,
		.msg_iovlen = length > 0,
	};
	return true;
}

void nbd_conn_say_goodbye(struct nbd_conn *conn)
{
	if (!conn->tls)
		return;
	tls_session_end(conn->tls);
	if (nbd_conn_tls_encipher(conn) && conn->message.msg_iovlen > 0)
		(void)sendmsg(conn->fd, &conn->message,
			      MSG_DONTWAIT | MSG_NOSIGNAL); /* or not */
	conn->message.msg_iovlen = 0;
}
