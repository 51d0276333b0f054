/* SPDX-License-Identifier: Apache-2.0 */
/* NBD for conn.h: bytes to the session, and its events to the requests. */
#include "target/nbd/nbd_conn.h"

#include <assert.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "target/nbd/nbd_conn_internal.h"

/*
 * Bytes received at once, at most: 32 writes of 4 KiB, or more requests than
 * a connection may have. Memory is touched only as far as data comes.
 */
#define RECEIVE_SIZE (UINT32_C(128) << 10)
static_assert(RECEIVE_SIZE > NBD_SESSION_NEED_MAX, "an option must fit");

/* A payload larger than this is received where it is written from, bytes. */
#define DIRECT_PAYLOAD_MIN (UINT32_C(32) << 10)

#define AWAIT_MS 1 /* until NBD_EVENT_WAIT is looked at again */

/* ---- payloads ---- */

static void payload_add(struct nbd_conn *conn, uint32_t n)
{
	struct nbd_io *io = conn->writing;

	io->progress += n;
	nbd_session_payload_taken(&conn->session, n);
	conn_data_came(&conn->base, n);
	if (io->progress < io->request.length)
		return;
	conn->writing = NULL;
	nbd_io_write(io);
}

/*
 * The payload of conn->writing, from the buffer. True: all of it was there.
 * A short one is left until it is whole; a long one is taken as it comes.
 */
static bool nbd_payload_take(struct nbd_conn *conn)
{
	struct receiver *in = &conn->base.in;
	struct nbd_io *io = conn->writing;
	uint32_t want = (uint32_t)(io->request.length - io->progress);
	uint32_t there = in->end - in->start;
	uint32_t n = there < want ? there : want;

	if (n < want && io->request.length < DIRECT_PAYLOAD_MIN)
		return false;
	memcpy((uint8_t *)io->buf->data + io->progress, in->data + in->start,
	       n);
	in->start += n;
	payload_add(conn, n);
	return n == want;
}

/* Where the next bytes go: a long payload is received where it belongs. */
static void nbd_payload_set(struct nbd_conn *conn)
{
	const struct nbd_io *io = conn->writing;
	struct iovec *payload = &conn->base.payload;

	if (io->request.length < DIRECT_PAYLOAD_MIN)
		return;
	payload->iov_base = (uint8_t *)io->buf->data + io->progress;
	payload->iov_len = io->request.length - io->progress;
}

/* conn_ops.payload_came */
static void nbd_conn_payload_came(struct conn *base, uint32_t n)
{
	payload_add(nbd_conn_of(base), n);
}

/* conn_ops.owes_payload */
static bool nbd_conn_owes_payload(struct conn *base)
{
	return nbd_conn_of(base)->writing;
}

/* ---- events ---- */

static void on_wait(struct nbd_conn *conn)
{
	conn->base.paused = true;
	conn_tick_start(&conn->base, AWAIT_MS);
}

/* True: feed on. False: more bytes are needed, or the end has come. */
static bool nbd_on_event(struct nbd_conn *conn, const struct nbd_event *event,
			 size_t consumed)
{
	struct nbd_io *io;

	switch (event->type) {
	case NBD_EVENT_MORE: return consumed > 0;
	case NBD_EVENT_WAIT: on_wait(conn); return false;
	case NBD_EVENT_TLS: conn_tls_begin(&conn->base); return false;
	case NBD_EVENT_START: conn_opened(&conn->base); return true;
	case NBD_EVENT_REQUEST:
		io = nbd_io_new(conn, &event->request);
		if (!nbd_io_start(io))
			conn->stalled = io;
		return true;
	case NBD_EVENT_REFUSED:
		io = nbd_io_new(conn, &event->request);
		nbd_io_refuse(io, event->error, event->why);
		return true;
	case NBD_EVENT_CLOSE:
		conn_drain(&conn->base, CONN_DRAIN_TIMEOUT_MS);
		return false;
	case NBD_EVENT_DROP: conn_drop(&conn->base, event->why); return false;
	}
	return false;
}

/* ---- feeding ---- */

/* An answer of the handshake goes out before the next is made. */
static bool answer_is_due(const struct nbd_conn *conn)
{
	return conn->session.out.length > 0 &&
	       !nbd_session_transmits(&conn->session);
}

/* conn_ops.feed */
static bool nbd_conn_feed(struct conn *base)
{
	struct nbd_conn *conn = nbd_conn_of(base);
	struct receiver *in = &base->in;
	struct nbd_event event = {0};
	bool goes_on = true;
	size_t n;

	conn->now_ns = clock_ns(); /* once for all that came together */
	while (goes_on && base->phase == CONN_OPEN && !conn->stalled) {
		if (conn->writing) {
			goes_on = nbd_payload_take(conn);
			continue;
		}
		if (receiver_is_empty(in) || conn->n_ios == NBD_CONN_REQUESTS ||
		    answer_is_due(conn) ||
		    conn->session.state == NBD_SESSION_TLS)
			break;
		n = nbd_session_feed(&conn->session, in->data + in->start,
				     in->end - in->start, &event);
		in->start += (uint32_t)n;
		goes_on = nbd_on_event(conn, &event, n);
	}
	base->payload.iov_len = 0;
	if (conn->writing)
		nbd_payload_set(conn);
	if (conn->session.out.length > 0)
		conn_touch(base);
	return !conn->stalled && !answer_is_due(conn) &&
	       (conn->n_ios < NBD_CONN_REQUESTS || receiver_is_empty(in));
}

/* conn_ops.may_stream; in the handshake bytes behind STARTTLS would pass for
 * TLS */
static bool nbd_conn_may_stream(const struct conn *base)
{
	const struct nbd_conn *conn = (const struct nbd_conn *)base;

	return nbd_session_transmits(&conn->session);
}

/* conn_ops.retry */
static bool nbd_conn_retry(struct conn_wait *wait)
{
	struct nbd_conn *conn = container_of(wait, struct nbd_conn, wait);
	struct nbd_io *io = take_ptr(conn->stalled);

	if (nbd_io_start(io)) {
		conn_wait_remove(wait);
		conn_go_on(&conn->base);
		return true;
	}
	conn->stalled = io;
	return false;
}

/* ---- life ---- */

/* conn_ops.hung_up; it may still take replies */
static void nbd_conn_hung_up(struct conn *base)
{
	conn_drain(base, CONN_DRAIN_TIMEOUT_MS);
}

/* conn_ops.tls_on */
static void nbd_conn_tls_on(struct conn *base)
{
	nbd_session_tls_on(&nbd_conn_of(base)->session);
}

/* conn_ops.tick */
static void nbd_conn_tick(struct conn *base)
{
	base->paused = false;
}

/* conn_ops.is_due */
static bool nbd_conn_is_due(const struct conn *base)
{
	return base->active > 0;
}

/* conn_ops.forget */
static void nbd_conn_forget(struct conn *base)
{
	struct nbd_conn *conn = nbd_conn_of(base);

	conn_wait_remove(&conn->wait);
	if (conn->stalled)
		nbd_io_free(take_ptr(conn->stalled));
	if (conn->writing && !base->in.runs)
		nbd_io_free(take_ptr(conn->writing));
	if (base->phase == CONN_CLOSING)
		nbd_io_drop_replies(conn);
}

/* conn_ops.is_called */
static bool nbd_conn_is_called(const struct conn *base)
{
	const struct nbd_conn *conn = (const struct nbd_conn *)base;

	return conn_revoke_is_coming(&conn->export.revoke) ||
	       export_table_is_asked(base->service->exports,
				     &conn->export.user);
}

/* conn_ops.leave */
static void nbd_conn_leave(struct conn *base)
{
	conn_export_leave(&nbd_conn_of(base)->export);
}

/* conn_ops.grow */
static void nbd_conn_grow(struct conn *base, const char *name, uint64_t size)
{
	struct nbd_conn *conn = nbd_conn_of(base);

	if (conn_export_grow(&conn->export, name, size))
		nbd_session_grow(&conn->session, size);
}

/*
 * Return the TLS that a new connection is offered. A unix socket is guarded by
 * its mode.
 */
static enum nbd_tls tls_mode(const struct conn *base)
{
	if (!base->service->tls)
		return NBD_TLS_OFF;
	return base->service->tls_required && base->peer.family != AF_UNIX
		       ? NBD_TLS_REQUIRED
		       : NBD_TLS_OFFERED;
}

/* conn_ops.init */
static int nbd_conn_init(struct conn *base)
{
	struct nbd_conn *conn = nbd_conn_of(base);
	int r = nbd_session_init(&conn->session, &nbd_conn_session_ops, conn);

	if (r < 0)
		return r;
	conn->session.tls = tls_mode(base);
	STAILQ_INIT(&conn->free);
	STAILQ_INIT(&conn->ready);
	STAILQ_INIT(&conn->sent);
	TAILQ_INIT(&conn->changing);
	conn_export_init(&conn->export, &conn->base);
	nbd_catch_up_init(conn);
	return 0;
}

/* conn_ops.done */
static void nbd_conn_done(struct conn *base)
{
	nbd_session_done(&nbd_conn_of(base)->session);
}

const struct conn_ops nbd_conn_ops = {
	.name = "nbd",
	.size = sizeof(struct nbd_conn),
	.receive_size = RECEIVE_SIZE,
	.open_timeout_ms = NBD_HANDSHAKE_TIMEOUT_MS,
	.open_late = "its handshake takes too long",
	.open_many = "too many connections have yet to ask for an export",
	.init = nbd_conn_init,
	.done = nbd_conn_done,
	.feed = nbd_conn_feed,
	.may_stream = nbd_conn_may_stream,
	.payload_came = nbd_conn_payload_came,
	.owes_payload = nbd_conn_owes_payload,
	.hung_up = nbd_conn_hung_up,
	.tls_on = nbd_conn_tls_on,
	.gather = nbd_io_gather,
	.sent = nbd_io_sent,
	.retry = nbd_conn_retry,
	.tick = nbd_conn_tick,
	.is_due = nbd_conn_is_due,
	.forget = nbd_conn_forget,
	.leave = nbd_conn_leave,
	.is_called = nbd_conn_is_called,
	.grow = nbd_conn_grow,
};
