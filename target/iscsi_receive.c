/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes from the socket to the session, and its events to whom they concern. */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "target/iscsi_conn_internal.h"

/* A payload larger than this is received where it is written from, bytes. */
#define DIRECT_PAYLOAD_MIN (UINT32_C(16) << 10)

/*
 * Bytes received at once while large payloads come: little more than the
 * next header, because what comes with it must be copied.
 */
#define RECEIVE_SIZE_SMALL 4096u

#define RECEIVE_SIZE_LARGE (UINT32_C(128) << 10)

/* ---- payloads ---- */

static void payload_at(struct iscsi_conn *conn, const void *data, uint32_t n)
{
	iscsi_session_payload_taken(&conn->session, data, n);
	conn->writing_at += n;
	conn->writing_left -= n;
	if (conn->writing_left == 0)
		conn->writing = NULL;
}

/* What of it is in the buffer. */
static bool payload_take(struct iscsi_conn *conn)
{
	uint32_t there = conn->end - conn->start;
	uint32_t n = there < conn->writing_left ? there : conn->writing_left;
	uint8_t *to = (uint8_t *)conn->writing->out->data + conn->writing_at;

	if (n == 0)
		return false;
	memcpy(to, conn->buffer + conn->start, n);
	conn->start += n;
	payload_at(conn, to, n);
	return !conn->writing;
}

static void on_payload(struct iscsi_conn *conn, const struct iscsi_event *event)
{
	conn->writing = iscsi_io_of(event->task);
	assert(conn->writing->out &&
	       event->offset + event->length <= conn->writing->out->size);
	conn->writing_at = event->offset;
	conn->writing_left = event->length;
}

/* ---- events ---- */

static void on_logout(struct iscsi_conn *conn)
{
	conn->phase = ISCSI_CONN_LOGOUT;
	iscsi_io_forget_all(conn);
	iscsi_conn_touch(conn); /* settle() says goodbye */
}

static bool on_end(struct iscsi_conn *conn, const struct iscsi_event *event)
{
	if (event->type == ISCSI_EVENT_DROP) {
		iscsi_conn_drop(conn, event->why);
		return false;
	}
	if (event->why)
		iscsi_conn_complain(conn, "refused", event->why);
	iscsi_conn_drain(conn, ISCSI_STOP_TIMEOUT_MS);
	return false;
}

/* True: feed on. False: more bytes are needed, or the end has come. */
static bool on_event(struct iscsi_conn *conn, const struct iscsi_event *event)
{
	switch (event->type) {
	case ISCSI_EVENT_MORE: return event->again;
	case ISCSI_EVENT_COMMAND:
		if (iscsi_io_command(conn, event))
			return true;
		iscsi_conn_drop(conn, "no memory for a command");
		return false;
	case ISCSI_EVENT_PAYLOAD: on_payload(conn, event); return true;
	case ISCSI_EVENT_READY:
		iscsi_io_ready(iscsi_io_of(event->task));
		return true;
	case ISCSI_EVENT_MANAGE: iscsi_manage(conn, event->pdu); return true;
	case ISCSI_EVENT_COMMIT: iscsi_conn_commit(conn); return false;
	case ISCSI_EVENT_LOGOUT: on_logout(conn); return false;
	case ISCSI_EVENT_CLOSE:
	case ISCSI_EVENT_DROP: return on_end(conn, event);
	}
	return false;
}

/* One step of parsing; false: it can't go on now. */
static bool parse_step(struct iscsi_conn *conn)
{
	struct iscsi_session *session = &conn->session;
	struct iscsi_event event;

	if (conn->writing)
		return payload_take(conn);
	if (conn->start == conn->end && !session->in_payload)
		return false;
	if (!iscsi_io_room(conn) || iscsi_session_full(session))
		return false; /* settle() goes on */
	conn->start += (uint32_t)iscsi_session_feed(
		session, conn->buffer + conn->start, conn->end - conn->start,
		&event);
	return on_event(conn, &event);
}

/* ---- the socket ---- */

static bool may_receive(const struct iscsi_conn *conn)
{
	return conn->phase == ISCSI_CONN_OPEN && !conn->committing &&
	       iscsi_io_room(conn) && !iscsi_session_full(&conn->session);
}

static void receive(struct iscsi_conn *conn)
{
	struct iscsi_io *io = conn->writing;
	uint32_t room;

	conn->receiving = true;
	conn->receiving_direct = io && conn->start == conn->end &&
				 conn->writing_left >= DIRECT_PAYLOAD_MIN;
	if (conn->receiving_direct) {
		conn->progress_ms = clock_ms();
		loop_recv(conn->loop, &conn->receive_op, conn->fd,
			  (uint8_t *)io->out->data + conn->writing_at,
			  conn->writing_left, MSG_WAITALL);
		return;
	}
	if (conn->start > 0) { /* only part of an element is left */
		memmove(conn->buffer, conn->buffer + conn->start,
			conn->end - conn->start);
		conn->end -= conn->start;
		conn->start = 0;
	}
	room = ISCSI_RECEIVE_SIZE - conn->end;
	loop_recv(conn->loop, &conn->receive_op, conn->fd,
		  conn->buffer + conn->end,
		  room < conn->receive_limit ? room : conn->receive_limit, 0);
}

void iscsi_conn_go_on(struct iscsi_conn *conn)
{
	if (conn->receiving || conn->phase != ISCSI_CONN_OPEN ||
	    conn->committing)
		return;
	while (conn->phase == ISCSI_CONN_OPEN && !conn->committing &&
	       parse_step(conn))
		;
	if (conn->session.first)
		iscsi_conn_touch(conn);
	if (may_receive(conn))
		receive(conn);
}

void iscsi_conn_receive_done(struct op *op, int res)
{
	struct iscsi_conn *conn = container_of(op, struct iscsi_conn,
					       receive_op);

	conn->receiving = false;
	if (conn->phase != ISCSI_CONN_OPEN) {
		iscsi_io_forget_all(conn);
		iscsi_conn_touch(conn);
		return;
	}
	if (res == 0 || (res < 0 && res != -EINTR && res != -EAGAIN)) {
		/* It is gone, and its commands with it (RFC 7143 6.3.6). */
		iscsi_conn_kill(conn);
		return;
	}
	conn->heard = true;
	if (res > 0 && conn->receiving_direct) {
		payload_at(conn,
			   (uint8_t *)conn->writing->out->data +
				   conn->writing_at,
			   (uint32_t)res);
		conn->receive_limit = RECEIVE_SIZE_SMALL;
	} else if (res > 0) {
		conn->end += (uint32_t)res;
		conn->receive_limit = RECEIVE_SIZE_LARGE;
	}
	iscsi_conn_go_on(conn);
}
