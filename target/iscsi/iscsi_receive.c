/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes from the socket to the session, and its events to whom they concern. */
#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "target/iscsi/iscsi_conn_internal.h"

/* A payload larger than this is received where it is written from, bytes. */
#define DIRECT_PAYLOAD_MIN (UINT32_C(16) << 10)

/* ---- payloads ---- */

/* See owes_data() of iscsi_io.c. */
static void data_came(struct iscsi_conn *conn, uint32_t n)
{
	conn->data_came += n;
	if (conn->data_came < ISCSI_STUCK_DATA_MIN)
		return;
	conn->data_came = 0;
	conn->data_ms = clock_ms();
}

static void payload_at(struct iscsi_conn *conn, const void *data, uint32_t n)
{
	iscsi_session_payload_taken(&conn->session, data, n);
	data_came(conn, n);
	conn->writing_at += n;
	conn->writing_left -= n;
	if (conn->writing_left == 0)
		conn->writing = NULL;
}

/* What of it is in the buffer. */
static bool payload_take(struct iscsi_conn *conn)
{
	uint32_t there = conn->in.end - conn->in.start;
	uint32_t n = there < conn->writing_left ? there : conn->writing_left;
	uint8_t *to = (uint8_t *)conn->writing->out->data + conn->writing_at;

	if (n == 0)
		return false;
	memcpy(to, conn->in.data + conn->in.start, n);
	conn->in.start += n;
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
	case ISCSI_EVENT_PART:
		iscsi_parts_feed(iscsi_io_of(event->task));
		return true;
	case ISCSI_EVENT_READY:
		iscsi_io_ready(iscsi_io_of(event->task));
		return true;
	case ISCSI_EVENT_MANAGE: iscsi_manage(conn, event->pdu); return true;
	case ISCSI_EVENT_COMMIT: iscsi_conn_commit(conn); return true;
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
	if (receiver_is_empty(&conn->in) && !session->in_payload)
		return false;
	if (!iscsi_io_room(conn) || iscsi_session_full(session))
		return false; /* settle() goes on */
	conn->in.start += (uint32_t)iscsi_session_feed(
		session, conn->in.data + conn->in.start,
		conn->in.end - conn->in.start, &event);
	return on_event(conn, &event);
}

/* ---- the socket ---- */

static bool may_receive(const struct iscsi_conn *conn)
{
	return conn->phase == ISCSI_CONN_OPEN && !conn->committing &&
	       iscsi_io_room(conn) && !iscsi_session_full(&conn->session);
}

/* The next payload is received straight into the buffer of conn->writing. */
static bool is_direct(const struct iscsi_conn *conn)
{
	return conn->writing && receiver_is_empty(&conn->in) &&
	       conn->writing_left >= DIRECT_PAYLOAD_MIN;
}

static void receive(struct iscsi_conn *conn)
{
	struct iscsi_io *io = conn->writing;

	if (!is_direct(conn)) {
		receiver_start(&conn->in, conn->nexus != NULL);
		return;
	}
	conn->progress_ms = clock_ms();
	receiver_start_direct(&conn->in,
			      (uint8_t *)io->out->data + conn->writing_at,
			      conn->writing_left, MSG_WAITALL);
}

void iscsi_conn_go_on(struct iscsi_conn *conn)
{
	if (receiver_waits(&conn->in) || conn->phase != ISCSI_CONN_OPEN ||
	    conn->committing)
		return;
	while (conn->phase == ISCSI_CONN_OPEN && !conn->committing &&
	       parse_step(conn))
		;
	if (conn->session.first && !conn->sending) /* else its end will */
		iscsi_conn_touch(conn);
	if (conn->in.runs) { /* a stream */
		if (!may_receive(conn) || is_direct(conn))
			receiver_stream_end(&conn->in);
	} else if (may_receive(conn)) {
		receive(conn);
	}
}

/* False: the connection takes no more. */
static bool receive_check(struct receiver *receiver, int res)
{
	struct iscsi_conn *conn = container_of(receiver, struct iscsi_conn, in);

	if (conn->phase != ISCSI_CONN_OPEN) {
		iscsi_io_forget_all(conn);
		iscsi_conn_touch(conn);
		return false;
	}
	if (res == 0 || (res < 0 && res != -EINTR && res != -EAGAIN)) {
		/* It is gone, and its commands with it (RFC 7143 6.3.6). */
		iscsi_conn_kill(conn);
		return false;
	}
	return true;
}

static void receive_came(struct receiver *receiver, uint32_t n)
{
	struct iscsi_conn *conn = container_of(receiver, struct iscsi_conn, in);

	conn->heard |= n > 0;
	if (n > 0 && receiver->direct)
		payload_at(conn,
			   (uint8_t *)conn->writing->out->data +
				   conn->writing_at,
			   n);
	iscsi_conn_go_on(conn);
}

const struct receiver_ops iscsi_conn_receiver_ops = {
	.check = receive_check,
	.came = receive_came,
};
