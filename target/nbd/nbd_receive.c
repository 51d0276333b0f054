/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes from the socket to the session, and its events to whom they concern. */
#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "target/nbd/nbd_conn_internal.h"

/* A payload larger than this is received where it is written from, bytes. */
#define DIRECT_PAYLOAD_MIN (UINT32_C(32) << 10)

/* Bytes of it received at once, at most: how often progress is seen. */
#define DIRECT_PIECE_MAX (UINT32_C(1) << 20)

/*
 * The payload of conn->writing, from the buffer. True: all of it was there.
 * A short one is left until it is whole; a long one is taken as it comes.
 */
static bool payload_take(struct nbd_conn *conn)
{
	struct nbd_io *io = conn->writing;
	uint32_t want = (uint32_t)(io->request.length - io->progress);
	uint32_t there = conn->in.end - conn->in.start;
	uint32_t n = there < want ? there : want;

	if (n < want && io->request.length < DIRECT_PAYLOAD_MIN)
		return false;
	memcpy((uint8_t *)io->buf->data + io->progress,
	       conn->in.data + conn->in.start, n);
	conn->in.start += n;
	io->progress += n;
	nbd_session_payload_taken(&conn->session, n);
	if (n < want)
		return false;
	conn->writing = NULL;
	nbd_io_write(io);
	return true;
}

/* A request that the session lets through, or that is to be refused. */
static void on_request(struct nbd_conn *conn, const struct nbd_event *event)
{
	struct nbd_io *io = nbd_io_new(conn, &event->request);

	assert(io); /* parse() looked before */
	if (event->type == NBD_EVENT_REFUSED)
		nbd_io_refuse(io, event->error, event->why);
	else if (!nbd_io_start(io))
		conn->stalled = io;
}

/* What came with it in plain text is not what the peer says by TLS. */
static void on_starttls(struct nbd_conn *conn)
{
	conn->tls_starts = true;
	if (!receiver_is_empty(&conn->in))
		nbd_conn_drop(conn, "bytes between STARTTLS and TLS");
}

/* True: feed on. False: more bytes are needed, or the end has come. */
static bool on_event(struct nbd_conn *conn, const struct nbd_event *event,
		     size_t consumed)
{
	switch (event->type) {
	case NBD_EVENT_MORE: return consumed > 0;
	case NBD_EVENT_WAIT: nbd_conn_await(conn); return false;
	case NBD_EVENT_TLS: on_starttls(conn); return false;
	case NBD_EVENT_START: nbd_conn_begin(conn); return true;
	case NBD_EVENT_REQUEST:
	case NBD_EVENT_REFUSED: on_request(conn, event); return true;
	case NBD_EVENT_CLOSE:
		nbd_conn_drain(conn, NBD_DRAIN_TIMEOUT_MS);
		return false;
	case NBD_EVENT_DROP: nbd_conn_drop(conn, event->why); return false;
	}
	return false;
}

static bool request_slot(struct nbd_conn *conn)
{
	if (conn->free || conn->used < NBD_CONN_REQUESTS)
		return true;
	conn->stall = NBD_STALL_REQUESTS;
	return false;
}

/* One step of parsing; false: it can't go on now. */
static bool parse_step(struct nbd_conn *conn)
{
	struct nbd_session *session = &conn->session;
	struct nbd_event event = {0};
	size_t consumed;

	if (conn->writing)
		return payload_take(conn);
	if (session->state == NBD_SESSION_TLS)
		return false;
	if (!nbd_session_transmits(session) && session->out.length > 0)
		return false; /* each answer goes out before the next */
	if (receiver_is_empty(&conn->in) || !request_slot(conn))
		return false;
	consumed = nbd_session_feed(session, conn->in.data + conn->in.start,
				    conn->in.end - conn->in.start, &event);
	conn->in.start += (uint32_t)consumed;
	return on_event(conn, &event, consumed);
}

/* The stalled request first, and only then those behind it. */
static bool unstall(struct nbd_conn *conn)
{
	struct nbd_io *io = conn->stalled;

	if (conn->stall == NBD_STALL_POOL)
		return false; /* the service wakes us */
	conn->stall = NBD_STALL_NONE;
	if (!io)
		return true;
	conn->stalled = NULL;
	if (nbd_io_start(io))
		return true;
	conn->stalled = io;
	return false;
}

bool nbd_conn_is_direct(const struct nbd_conn *conn)
{
	return conn->writing && receiver_is_empty(&conn->in) &&
	       conn->writing->request.length >= DIRECT_PAYLOAD_MIN;
}

static void receive_plain(struct nbd_conn *conn)
{
	struct nbd_io *io = conn->writing;
	uint64_t left;

	if (!nbd_conn_is_direct(conn)) {
		/* In the handshake bytes behind STARTTLS would pass for TLS. */
		receiver_start(&conn->in,
			       nbd_session_transmits(&conn->session));
		return;
	}
	left = io->request.length - io->progress;
	receiver_start_direct(
		&conn->in, (uint8_t *)io->buf->data + io->progress,
		left < DIRECT_PIECE_MAX ? (uint32_t)left : DIRECT_PIECE_MAX,
		MSG_WAITALL);
}

static void receive(struct nbd_conn *conn)
{
	if (conn->writing)
		conn->progress_ms = clock_ms();
	if (conn->tls)
		nbd_conn_tls_receive(conn);
	else
		receive_plain(conn);
}

/* Nothing keeps the peer from saying more. */
static bool may_receive(const struct nbd_conn *conn)
{
	return conn->phase == NBD_CONN_OPEN && conn->stall == NBD_STALL_NONE &&
	       !conn->awaits &&
	       !(conn->session.out.length > 0 &&
		 !nbd_session_transmits(&conn->session));
}

void nbd_conn_go_on(struct nbd_conn *conn)
{
	if (receiver_waits(&conn->in) || conn->phase != NBD_CONN_OPEN ||
	    conn->awaits || !unstall(conn))
		return;
	conn->now_ns = clock_ns(); /* once for all that came together */
	do {
		while (conn->phase == NBD_CONN_OPEN && !conn->stalled &&
		       parse_step(conn))
			;
		if (conn->session.out.length > 0 && !conn->sending)
			nbd_conn_touch(conn); /* else its end will */
		if (may_receive(conn) && conn->tls_starts)
			nbd_conn_tls_start(conn);
	} while (may_receive(conn) && conn->tls && nbd_conn_tls_fill(conn));
	if (conn->in.runs) { /* a stream */
		if (!may_receive(conn) || nbd_conn_is_direct(conn))
			receiver_stream_end(&conn->in);
	} else if (may_receive(conn)) {
		receive(conn);
	}
}

void nbd_conn_payload_received(struct nbd_conn *conn, uint32_t length)
{
	struct nbd_io *io = conn->writing;

	io->progress += length;
	nbd_session_payload_taken(&conn->session, length);
	if (io->progress < io->request.length)
		return;
	conn->writing = NULL;
	nbd_io_write(io);
}

/* False: the connection takes no more. */
static bool receive_check(struct receiver *receiver, int res)
{
	struct nbd_conn *conn = container_of(receiver, struct nbd_conn, in);

	if (conn->phase != NBD_CONN_OPEN) {
		nbd_conn_forget(conn);
		nbd_conn_touch(conn);
		return false;
	}
	if (res == 0) { /* the peer has closed its side */
		nbd_conn_drain(conn, NBD_DRAIN_TIMEOUT_MS);
		return false;
	}
	if (res < 0 && res != -EINTR && res != -EAGAIN) {
		nbd_conn_kill(conn);
		return false;
	}
	return true;
}

static void receive_came(struct receiver *receiver, uint32_t n)
{
	struct nbd_conn *conn = container_of(receiver, struct nbd_conn, in);

	conn->received += n;
	if (n > 0 && receiver->streamed)
		conn->progress_ms = clock_ms();
	if (n > 0 && conn->tls)
		tls_session_put(conn->tls, n);
	else if (n > 0 && receiver->direct)
		nbd_conn_payload_received(conn, n);
	nbd_conn_go_on(conn);
}

const struct receiver_ops nbd_conn_receiver_ops = {
	.check = receive_check,
	.came = receive_came,
};
