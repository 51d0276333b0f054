/* SPDX-License-Identifier: Apache-2.0 */
/* iSCSI for conn.h: bytes to the session, and its events to the commands. */
#include "target/iscsi/iscsi_conn.h"

#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "target/iscsi/iscsi_conn_internal.h"

/* Bytes received at once, at most; touched only as far as data comes. */
#define RECEIVE_SIZE ((ISCSI_NEED_MAX + 4095u) & ~4095u)

/* A payload larger than this is received where it is written from, bytes. */
#define DIRECT_PAYLOAD_MIN (UINT32_C(16) << 10)

/* ---- payloads ---- */

static uint8_t *payload_at(const struct iscsi_conn *conn)
{
	return (uint8_t *)conn->writing->out->data + conn->writing_at;
}

/* conn_ops.payload_came */
static void iscsi_conn_payload_came(struct conn *base, uint32_t n)
{
	struct iscsi_conn *conn = iscsi_conn_of(base);

	iscsi_session_payload_taken(&conn->session, payload_at(conn), n);
	conn_data_came(base, n);
	conn->writing_at += n;
	conn->writing_left -= n;
	if (conn->writing_left == 0)
		conn->writing = NULL;
}

/* Take the payload's bytes that are in the buffer. */
static bool iscsi_payload_take(struct iscsi_conn *conn)
{
	struct receiver *in = &conn->base.in;
	uint32_t there = in->end - in->start;
	uint32_t n = there < conn->writing_left ? there : conn->writing_left;

	if (n == 0)
		return false;
	memcpy(payload_at(conn), in->data + in->start, n);
	in->start += n;
	iscsi_conn_payload_came(&conn->base, n);
	return !conn->writing;
}

/* Where the next bytes go: a long payload is received where it belongs. */
static void iscsi_payload_set(struct iscsi_conn *conn)
{
	struct iovec *payload = &conn->base.payload;

	payload->iov_len = 0;
	if (!conn->writing || conn->writing_left < DIRECT_PAYLOAD_MIN)
		return;
	payload->iov_base = payload_at(conn);
	payload->iov_len = conn->writing_left;
}

/* ---- events ---- */

static void on_payload(struct iscsi_conn *conn, const struct iscsi_event *event)
{
	conn->writing = iscsi_io_of(event->task);
	assert(conn->writing->out &&
	       event->offset + event->length <= conn->writing->out->size);
	conn->writing_at = event->offset;
	conn->writing_left = event->length;
}

static bool on_end(struct iscsi_conn *conn, const struct iscsi_event *event)
{
	if (event->type == ISCSI_EVENT_DROP) {
		conn_drop(&conn->base, event->why);
		return false;
	}
	if (event->why)
		conn_complain(&conn->base, "refused", event->why);
	conn_drain(&conn->base, CONN_STOP_TIMEOUT_MS);
	return false;
}

/* True: feed on. False: more bytes are needed, or the end has come. */
static bool iscsi_on_event(struct iscsi_conn *conn,
			   const struct iscsi_event *event)
{
	switch (event->type) {
	case ISCSI_EVENT_MORE: return event->again;
	case ISCSI_EVENT_COMMAND:
		if (iscsi_io_command(conn, event))
			return true;
		conn_drop(&conn->base, "no memory for a command");
		return false;
	case ISCSI_EVENT_PAYLOAD: on_payload(conn, event); return true;
	case ISCSI_EVENT_PART:
		iscsi_split_feed(iscsi_io_of(event->task));
		return true;
	case ISCSI_EVENT_READY:
		iscsi_io_ready(iscsi_io_of(event->task));
		return true;
	case ISCSI_EVENT_MANAGE: iscsi_manage(conn, event->pdu); return true;
	case ISCSI_EVENT_COMMIT: iscsi_conn_commit(conn); return true;
	case ISCSI_EVENT_LOGOUT: conn_logout(&conn->base); return false;
	case ISCSI_EVENT_CLOSE:
	case ISCSI_EVENT_DROP: return on_end(conn, event);
	}
	return false;
}

/* ---- feeding ---- */

static bool iscsi_conn_has_room(const struct iscsi_conn *conn)
{
	return iscsi_io_room(conn) && !iscsi_session_full(&conn->session);
}

/* Take one element; false: parsing can't go on now. */
static bool feed_step(struct iscsi_conn *conn)
{
	struct receiver *in = &conn->base.in;
	struct iscsi_event event;

	if (conn->writing)
		return iscsi_payload_take(conn);
	if (receiver_is_empty(in) && !conn->session.in_payload)
		return false;
	if (!iscsi_conn_has_room(conn))
		return false; /* conn_settle() goes on */
	in->start += (uint32_t)iscsi_session_feed(&conn->session,
						  in->data + in->start,
						  in->end - in->start, &event);
	return iscsi_on_event(conn, &event);
}

/* conn_ops.feed */
static bool iscsi_conn_feed(struct conn *base)
{
	struct iscsi_conn *conn = iscsi_conn_of(base);

	while (base->phase == CONN_OPEN && !base->paused && feed_step(conn))
		;
	iscsi_payload_set(conn);
	if (!iscsi_session_all_sent(&conn->session))
		conn_touch(base);
	return iscsi_conn_has_room(conn);
}

/* conn_ops.may_stream */
static bool iscsi_conn_may_stream(const struct conn *base)
{
	return ((const struct iscsi_conn *)base)->nexus != NULL;
}

/* conn_ops.hung_up; its commands are gone with it (RFC 7143 6.3.6) */
static void iscsi_conn_hung_up(struct conn *base)
{
	conn_kill(base);
}

/* ---- sending ---- */

/* conn_ops.gather */
static bool iscsi_conn_gather(struct conn *base, struct msghdr *message)
{
	struct iscsi_conn *conn = iscsi_conn_of(base);

	if (!iscsi_session_gather(&conn->session, conn->batch))
		return false;
	*message = (struct msghdr){
		.msg_iov = conn->batch->iov,
		.msg_iovlen = conn->batch->n_iov,
	};
	return true;
}

/* conn_ops.sent */
static void iscsi_conn_sent(struct conn *base)
{
	struct iscsi_conn *conn = iscsi_conn_of(base);

	iscsi_session_sent(&conn->session, conn->batch);
}

/* ---- life ---- */

/* Nothing was heard for one period: ask; for two: it is gone. */
static void iscsi_conn_look(struct iscsi_conn *conn)
{
	struct conn *base = &conn->base;
	const bool heard = base->received != conn->heard;

	if (!heard && conn->session.ping) {
		conn_drop(base, "it does not answer");
		return;
	}
	if (!heard && base->active == 0 && !base->sending)
		iscsi_session_ping(&conn->session);
	conn->heard = base->received;
	conn_tick_start(base, iscsi_service_of(conn)->ping_ms);
}

/* conn_ops.tick */
static void iscsi_conn_tick(struct conn *base)
{
	if (base->paused)
		iscsi_conn_commit(iscsi_conn_of(base));
	else
		iscsi_conn_look(iscsi_conn_of(base));
}

/* conn_ops.is_due */
static bool iscsi_conn_is_due(const struct conn *base)
{
	const struct iscsi_conn *conn = (const struct iscsi_conn *)base;

	return conn->session.n_open > 0 || conn->session.n_immediate > 0 ||
	       conn->n_resets > 0;
}

/* All connections of the target end, this one too (RFC 7143 11.5.1). */
static void iscsi_conn_cold_reset(struct iscsi_conn *conn)
{
	conn->cold_reset = false;
	iscsi_target_revoke(conn->target);
}

/*
 * All is answered. When the peer is told that the session is over, it is: it
 * may come back at once and look.
 */
static void iscsi_conn_goodbye(struct iscsi_conn *conn)
{
	iscsi_conn_leave(&conn->base);
	iscsi_session_goodbye(&conn->session);
	conn_drain(&conn->base, CONN_DRAIN_TIMEOUT_MS);
}

/* conn_ops.settle */
static void iscsi_conn_after_send(struct conn *base)
{
	struct iscsi_conn *conn = iscsi_conn_of(base);

	if (base->phase == CONN_LOGOUT && !iscsi_conn_is_due(base) &&
	    conn->n_ios == 0)
		iscsi_conn_goodbye(conn);
	if (conn->cold_reset && !base->sending &&
	    iscsi_session_all_sent(&conn->session))
		iscsi_conn_cold_reset(conn);
}

/* conn_ops.forget */
static void iscsi_conn_forget(struct conn *base)
{
	struct iscsi_conn *conn = iscsi_conn_of(base);

	iscsi_io_forget_all(conn);
	if (base->phase == CONN_CLOSING)
		iscsi_session_abandon(&conn->session);
}

/* conn_ops.stop */
static void iscsi_conn_stop(struct conn *base)
{
	struct iscsi_conn *conn = iscsi_conn_of(base);

	if (conn->nexus)
		iscsi_session_async(&conn->session, ISCSI_ASYNC_DROP_SESSION);
}

/* conn_ops.grow; the unit is the table's affair */
static void iscsi_conn_grow(struct conn *base, const char *name, uint64_t size)
{
	for (struct iscsi_conn_lun *lun = iscsi_conn_of(base)->luns; lun;
	     lun = lun->next)
		(void)conn_export_grow(&lun->use, name, size);
}

/*
 * Write the address where the peer reached us, as in TargetAddress (RFC 7143
 * 13.8).
 */
static void portal_format(struct iscsi_conn *conn)
{
	union {
		struct sockaddr any;
		struct sockaddr_in in;
		struct sockaddr_in6 in6;
		struct sockaddr_storage room;
	} name = {.room = {0}};
	socklen_t length = sizeof(name);
	struct peer_address address;
	char text[PEER_ADDRESS_TEXT_MAX];

	if (getsockname(conn->base.fd, &name.any, &length) < 0 ||
	    peer_address_from(&name.any, &address) < 0 ||
	    address.family == AF_UNIX)
		return; /* "": an initiator uses the address it knows */
	(void)peer_address_format(&address, text, sizeof(text));
	(void)snprintf(conn->portal, sizeof(conn->portal),
		       address.family == AF_INET6 ? "[%s]:%u" : "%s:%u", text,
		       ntohs(name.any.sa_family == AF_INET6
				     ? name.in6.sin6_port
				     : name.in.sin_port));
}

/* conn_ops.init */
static int iscsi_conn_init(struct conn *base)
{
	struct iscsi_conn *conn = iscsi_conn_of(base);

	conn->batch = malloc(sizeof(*conn->batch));
	if (!conn->batch)
		return -ENOMEM;
	/* Names are checked: iscsi_name_ok(). */
	base->asked_for = conn->session.login.target;
	portal_format(conn);
	iscsi_conn_revoke_setup(conn);
	iscsi_session_init(&conn->session, &iscsi_conn_session_ops, conn,
			   conn->portal);
	return 0;
}

/* conn_ops.done */
static void iscsi_conn_done(struct conn *base)
{
	struct iscsi_conn *conn = iscsi_conn_of(base);

	assert(conn->n_ios == 0);
	iscsi_session_done(&conn->session);
	iscsi_target_unref(conn->target);
	while (conn->free) {
		struct iscsi_io *io = conn->free;

		conn->free = io->next;
		free(io);
	}
	iscsi_conn_free_luns(conn);
	free(conn->batch);
	explicit_bzero(&conn->secrets, sizeof(conn->secrets));
}

static const struct conn_ops iscsi_conn_ops = {
	.name = "iscsi",
	.size = sizeof(struct iscsi_conn),
	.receive_size = RECEIVE_SIZE,
	.open_timeout_ms = ISCSI_LOGIN_TIMEOUT_MS,
	.open_late = "its login takes too long",
	.open_many = "too many connections have yet to log in",
	.init = iscsi_conn_init,
	.done = iscsi_conn_done,
	.feed = iscsi_conn_feed,
	.may_stream = iscsi_conn_may_stream,
	.payload_came = iscsi_conn_payload_came,
	.owes_payload = iscsi_io_owes_payload,
	.hung_up = iscsi_conn_hung_up,
	.gather = iscsi_conn_gather,
	.sent = iscsi_conn_sent,
	.retry = iscsi_io_retry,
	.give_up = iscsi_io_give_up,
	.settle = iscsi_conn_after_send,
	.tick = iscsi_conn_tick,
	.is_due = iscsi_conn_is_due,
	.forget = iscsi_conn_forget,
	.leave = iscsi_conn_leave,
	.is_called = iscsi_conn_is_called,
	.grow = iscsi_conn_grow,
	.stop = iscsi_conn_stop,
};

void iscsi_service_init(struct iscsi_service *service, struct loop *loop,
			struct export_table *exports, struct iscsi_table *table)
{
	conn_service_init(&service->base, &iscsi_conn_ops, loop, exports);
	service->table = table;
	service->ping_ms = ISCSI_PING_MS;
}
