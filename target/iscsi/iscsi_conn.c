/* SPDX-License-Identifier: Apache-2.0 */
/* A connection from its first byte to its end. */
#include "target/iscsi/iscsi_conn.h"

#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "target/iscsi/iscsi_conn_internal.h"
#include "target/net/socket.h"

/* ---- ending ---- */

void iscsi_conn_opened(struct iscsi_conn *conn)
{
	conn->service->opening -= conn->opening;
	conn->opening = false;
}

void iscsi_conn_kill(struct iscsi_conn *conn)
{
	iscsi_conn_touch(conn);
	if (conn->phase == ISCSI_CONN_CLOSING)
		return;
	iscsi_conn_opened(conn);
	conn->phase = ISCSI_CONN_CLOSING;
	/* Wakes the receive and the send that are in flight. */
	(void)shutdown(conn->fd, SHUT_RDWR);
	if (conn->timer_running)
		loop_cancel(conn->loop, &conn->timer.op);
	if (conn->tick_running)
		loop_cancel(conn->loop, &conn->tick.op);
	iscsi_io_forget_all(conn);
	iscsi_session_abandon(&conn->session);
}

void iscsi_conn_complain(struct iscsi_conn *conn, const char *what,
			 const char *why)
{
	const struct iscsi_login *login = &conn->session.login;
	char peer[PEER_ADDRESS_TEXT_MAX];
	unsigned others;

	if (!log_limit_allow(&conn->service->log_limit, &others))
		return;
	/* Names are checked: iscsi_name_ok(). */
	log_warning("iscsi: %s %s%s%s: %s%s", what,
		    peer_address_format(&conn->peer, peer, sizeof(peer)),
		    login->target[0] ? ", at " : "", login->target,
		    why ?: "it may not", others ? " (and others before)" : "");
}

void iscsi_conn_drop(struct iscsi_conn *conn, const char *why)
{
	if (conn->phase != ISCSI_CONN_CLOSING)
		iscsi_conn_complain(conn, "dropped", why);
	iscsi_conn_kill(conn);
}

static void timer_start(struct iscsi_conn *conn, unsigned timeout_ms)
{
	conn->timer_running = true;
	loop_timer_start(conn->loop, &conn->timer, timeout_ms);
}

/* A timer that still runs is the login's: it will do, or its end starts ours.
 */
void iscsi_conn_drain(struct iscsi_conn *conn, unsigned timeout_ms)
{
	if (conn->phase == ISCSI_CONN_DRAINING ||
	    conn->phase == ISCSI_CONN_CLOSING)
		return;
	conn->phase = ISCSI_CONN_DRAINING;
	conn->drain_timeout_ms = timeout_ms;
	(void)shutdown(conn->fd, SHUT_RD);
	receiver_stream_end(&conn->in);
	if (!conn->timer_running)
		timer_start(conn, timeout_ms);
	iscsi_conn_touch(conn);
}

static void timer_done(struct op *op, int res)
{
	struct loop_timer *timer = container_of(op, struct loop_timer, op);
	struct iscsi_conn *conn = container_of(timer, struct iscsi_conn, timer);
	bool draining = conn->phase == ISCSI_CONN_DRAINING;

	conn->timer_running = false;
	iscsi_conn_touch(conn);
	if (draining && res == -ECANCELED)
		timer_start(conn, conn->drain_timeout_ms);
	else if (draining)
		iscsi_conn_kill(conn);
	else if (res != -ECANCELED)
		iscsi_conn_drop(conn, "its login takes too long");
}

/* ---- signs of life ---- */

void iscsi_conn_tick_start(struct iscsi_conn *conn, unsigned delay_ms)
{
	conn->tick_running = true;
	loop_timer_start(conn->loop, &conn->tick, delay_ms);
}

/* Nothing was heard for one period: ask; for two: it is gone. */
static void look(struct iscsi_conn *conn)
{
	if (!conn->heard && conn->session.ping) {
		iscsi_conn_drop(conn, "it does not answer");
		return;
	}
	if (!conn->heard && conn->active == 0 && !conn->sending)
		iscsi_session_ping(&conn->session);
	conn->heard = false;
	iscsi_conn_tick_start(conn, conn->service->ping_ms);
}

static void tick_done(struct op *op, int res)
{
	struct loop_timer *timer = container_of(op, struct loop_timer, op);
	struct iscsi_conn *conn = container_of(timer, struct iscsi_conn, tick);

	conn->tick_running = false;
	iscsi_conn_touch(conn);
	if (res == -ECANCELED || conn->phase != ISCSI_CONN_OPEN)
		return;
	if (!conn->committing)
		look(conn);
	else
		iscsi_conn_commit(conn);
}

/* ---- after each batch of completions ---- */

static void conn_free(struct iscsi_conn *conn)
{
	struct iscsi_service *service = conn->service;

	assert(conn->n_ios == 0 && conn->buffered == 0);
	loop_batch_remove(conn->loop, &conn->settle);
	*conn->link = conn->next;
	if (conn->next)
		conn->next->link = conn->link;
	iscsi_session_done(&conn->session);
	iscsi_place_unref(conn->place);
	while (conn->free) {
		struct iscsi_io *io = conn->free;

		conn->free = io->next;
		free(io);
	}
	fd_close(conn->fd);
	iscsi_conn_free_luns(conn);
	free(conn->batch);
	receiver_done(&conn->in);
	explicit_bzero(&conn->secrets, sizeof(conn->secrets));
	free(conn);
	service->ended(service, 1);
}

/* Closing: the devices as soon as they are idle, the rest when all is back. */
static void end(struct iscsi_conn *conn)
{
	if (conn->active > 0 || conn->n_resets > 0 || conn->in.runs ||
	    conn->sending)
		return;
	iscsi_conn_leave(conn);
	if (conn->timer_running || conn->tick_running ||
	    iscsi_conn_awaits_message(conn))
		return;
	conn_free(conn);
}

static bool answers_are_due(const struct iscsi_conn *conn)
{
	return conn->session.n_open > 0 || conn->session.n_immediate > 0 ||
	       conn->n_resets > 0;
}

/* All connections of the target end, this one too (RFC 7143 11.5.1). */
static void cold_reset(struct iscsi_conn *conn)
{
	conn->cold_reset = false;
	iscsi_place_expel(conn->place);
}

/*
 * All is answered. When the peer is told that the session is over, it is: it
 * may come back at once and look.
 */
static void goodbye(struct iscsi_conn *conn)
{
	iscsi_conn_leave(conn);
	iscsi_session_goodbye(&conn->session);
	iscsi_conn_drain(conn, ISCSI_DRAIN_TIMEOUT_MS);
	if (!iscsi_conn_send(conn))
		iscsi_conn_kill(conn);
}

static void settle(struct loop_batch *batch)
{
	struct iscsi_conn *conn = container_of(batch, struct iscsi_conn,
					       settle);

	if (conn->phase != ISCSI_CONN_CLOSING && !iscsi_conn_send(conn))
		iscsi_conn_kill(conn);
	if (conn->phase == ISCSI_CONN_LOGOUT && !answers_are_due(conn) &&
	    conn->n_ios == 0)
		goodbye(conn);
	if (conn->cold_reset && !conn->sending &&
	    iscsi_session_all_sent(&conn->session))
		cold_reset(conn);
	iscsi_conn_go_on(conn);
	if (conn->phase == ISCSI_CONN_DRAINING && !answers_are_due(conn) &&
	    !conn->sending && iscsi_session_all_sent(&conn->session))
		iscsi_conn_kill(conn);
	if (conn->phase == ISCSI_CONN_CLOSING)
		end(conn); /* the last thing: it may be freed */
}

/* ---- starting ---- */

/* Where the peer has reached us, as TargetAddress has it (RFC 7143 13.8). */
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

	if (getsockname(conn->fd, &name.any, &length) < 0 ||
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

static struct iscsi_conn *conn_new(struct iscsi_service *service)
{
	struct iscsi_conn *conn = calloc(1, sizeof(*conn));

	if (!conn)
		return NULL;
	conn->batch = malloc(sizeof(*conn->batch));
	if (!conn->batch ||
	    receiver_init(&conn->in, service->loop, ISCSI_RECEIVE_SIZE,
			  &iscsi_conn_receiver_ops) < 0) {
		free(conn->batch);
		free(conn);
		return NULL;
	}
	conn->service = service;
	conn->loop = service->loop;
	conn->send_op.done = iscsi_conn_send_done;
	conn->settle.run = settle;
	conn->timer.op.done = timer_done;
	conn->tick.op.done = tick_done;
	iscsi_conn_expel_setup(conn);
	iscsi_session_init(&conn->session, &iscsi_conn_session_ops, conn,
			   conn->portal);
	return conn;
}

/* One more than may be opening: the oldest of them goes. */
static void make_room(struct iscsi_service *service)
{
	struct iscsi_conn *oldest = NULL;

	if (service->opening < ISCSI_OPENING_MAX)
		return;
	for (struct iscsi_conn *conn = service->conns; conn; conn = conn->next)
		if (conn->opening)
			oldest = conn;
	assert(oldest); /* they are counted */
	iscsi_conn_drop(oldest, "too many connections have yet to log in");
}

void iscsi_conn_start(struct iscsi_service *service, int fd,
		      const struct peer_address *peer)
{
	struct iscsi_conn *conn;

	make_room(service);
	conn = service->stopping ? NULL : conn_new(service);
	if (!conn) {
		fd_close(fd);
		service->ended(service, 1);
		return;
	}
	socket_setup(fd, peer, service->peer_timeout_s);
	conn->fd = fd;
	receiver_open(&conn->in, fd, peer->family == AF_UNIX);
	conn->peer = *peer;
	portal_format(conn);
	conn->link = &service->conns;
	conn->next = service->conns;
	if (conn->next)
		conn->next->link = &conn->next;
	service->conns = conn;
	conn->opening = true;
	service->opening++;
	timer_start(conn, ISCSI_LOGIN_TIMEOUT_MS);
	iscsi_conn_touch(conn); /* receives */
}

/* ---- the service ---- */

void iscsi_service_init(struct iscsi_service *service, struct loop *loop,
			struct export_table *exports, struct iscsi_table *table,
			void (*ended)(struct iscsi_service *service,
				      unsigned n))
{
	*service = (struct iscsi_service){
		.loop = loop,
		.exports = exports,
		.table = table,
		.ping_ms = ISCSI_PING_MS,
		.peer_timeout_s = SOCKET_PEER_TIMEOUT_S,
		.ended = ended,
		.buffers.drop_stuck = iscsi_service_drop_stuck,
		.wake.run = iscsi_service_wake,
		.check.op.done = iscsi_service_check,
	};
}

void iscsi_service_stop(struct iscsi_service *service)
{
	service->stopping = true;
	if (service->check_runs)
		loop_cancel(service->loop, &service->check.op);
	for (struct iscsi_conn *conn = service->conns; conn;
	     conn = conn->next) {
		if (!conn->nexus) { /* nobody loses anything */
			iscsi_conn_kill(conn);
			continue;
		}
		iscsi_session_async(&conn->session, ISCSI_ASYNC_DROP_SESSION);
		iscsi_conn_drain(conn, ISCSI_STOP_TIMEOUT_MS);
	}
}

void iscsi_service_grow(struct iscsi_service *service, const char *name,
			uint64_t size)
{
	for (struct iscsi_conn *conn = service->conns; conn; conn = conn->next)
		for (struct iscsi_conn_lun *lun = conn->luns; lun;
		     lun = lun->next)
			if (lun->dev && export_is(lun->user.export, name))
				blockdev_grown(lun->dev, size);
}

bool iscsi_service_still(const struct iscsi_service *service)
{
	return !service->conns && !service->check_runs;
}
