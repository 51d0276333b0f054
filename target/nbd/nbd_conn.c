/* SPDX-License-Identifier: Apache-2.0 */
/* A connection from its start to its end. */
#include "target/nbd/nbd_conn.h"

#include <assert.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "base/cleanup.h"
#include "target/nbd/nbd_conn_internal.h"
#include "target/net/socket.h"

/* ---- ending ---- */

static void timer_stop(struct nbd_conn *conn)
{
	if (conn->timer_running)
		loop_cancel(conn->loop, &conn->timer.op);
}

static void ready_drop(struct nbd_conn *conn)
{
	struct nbd_io *io = conn->ready.first;

	conn->ready = (struct nbd_io_list){0};
	while (io) {
		struct nbd_io *next = io->next;

		nbd_io_free(io);
		io = next;
	}
}

void nbd_conn_forget(struct nbd_conn *conn)
{
	nbd_io_stop_waiting(conn);
	if (conn->stalled)
		nbd_io_free(take_ptr(conn->stalled));
	if (conn->writing && !conn->in.runs)
		nbd_io_free(take_ptr(conn->writing));
}

static void opened(struct nbd_conn *conn)
{
	conn->service->opening -= conn->opening;
	conn->opening = false;
}

void nbd_conn_begin(struct nbd_conn *conn)
{
	opened(conn);
	timer_stop(conn);
	nbd_conn_touch(conn);
}

void nbd_conn_kill(struct nbd_conn *conn)
{
	nbd_conn_touch(conn);
	if (conn->phase == NBD_CONN_CLOSING)
		return;
	opened(conn);
	conn->phase = NBD_CONN_CLOSING;
	/* Wakes the receive and the send that are in flight. */
	(void)shutdown(conn->fd, SHUT_RDWR);
	timer_stop(conn);
	if (conn->await_running)
		loop_cancel(conn->loop, &conn->await_timer.op);
	nbd_conn_forget(conn);
	ready_drop(conn);
}

void nbd_conn_drop(struct nbd_conn *conn, const char *why)
{
	char peer[PEER_ADDRESS_TEXT_MAX];
	unsigned others;

	if (log_limit_allow(&conn->service->log_limit, &others))
		log_warning("nbd: dropped %s: %s%s",
			    peer_address_format(&conn->user.peer, peer,
						sizeof(peer)),
			    why, others ? " (and others before)" : "");
	nbd_conn_kill(conn);
}

static void timer_start(struct nbd_conn *conn, unsigned timeout_ms)
{
	conn->timer_running = true;
	loop_timer_start(conn->loop, &conn->timer, timeout_ms);
}

/*
 * No more requests; what is under way is finished and answered. A timer
 * that still runs is the handshake's: it will do, or its end starts ours.
 */
void nbd_conn_drain(struct nbd_conn *conn, unsigned timeout_ms)
{
	if (conn->phase != NBD_CONN_OPEN)
		return;
	conn->phase = NBD_CONN_DRAINING;
	conn->drain_timeout_ms = timeout_ms;
	(void)shutdown(conn->fd, SHUT_RD);
	receiver_stream_end(&conn->in);
	nbd_conn_forget(conn);
	if (!conn->timer_running)
		timer_start(conn, timeout_ms);
	nbd_conn_touch(conn);
}

static void timer_done(struct op *op, int res)
{
	struct loop_timer *timer = container_of(op, struct loop_timer, op);
	struct nbd_conn *conn = container_of(timer, struct nbd_conn, timer);
	bool cancelled = res == -ECANCELED;

	conn->timer_running = false;
	nbd_conn_touch(conn);
	if (conn->phase == NBD_CONN_DRAINING && cancelled)
		timer_start(conn, conn->drain_timeout_ms);
	else if (conn->phase == NBD_CONN_DRAINING ||
		 !nbd_session_transmits(&conn->session))
		nbd_conn_kill(conn);
}

static void conn_free(struct nbd_conn *conn)
{
	struct nbd_service *service = conn->service;

	assert(conn->active == 0 && conn->buffered == 0);
	loop_batch_remove(conn->loop, &conn->batch);
	*conn->link = conn->next;
	if (conn->next)
		conn->next->link = conn->link;
	nbd_session_done(&conn->session);
	tls_session_free(conn->tls);
	fd_close(conn->fd);
	receiver_done(&conn->in);
	free(conn);
	service->ended(service, 1);
}

/* Closing: the device as soon as it is idle, the rest when all came back. */
static void end(struct nbd_conn *conn)
{
	if (conn->active > 0)
		return;
	nbd_conn_leave(conn);
	if (conn->in.runs || conn->sending || conn->timer_running ||
	    nbd_conn_is_called(conn))
		return;
	conn_free(conn);
}

/* After each batch of completions. */
static void settle(struct loop_batch *batch)
{
	struct nbd_conn *conn = container_of(batch, struct nbd_conn, batch);

	if (conn->phase != NBD_CONN_CLOSING && !nbd_conn_send(conn))
		nbd_conn_kill(conn);
	if (conn->phase == NBD_CONN_OPEN)
		nbd_conn_go_on(conn);
	if (conn->phase == NBD_CONN_DRAINING && conn->active == 0 &&
	    nbd_conn_all_sent(conn)) {
		nbd_conn_say_goodbye(conn);
		nbd_conn_kill(conn);
	}
	if (conn->phase == NBD_CONN_CLOSING)
		end(conn); /* the last thing: it may be freed */
}

/* ---- starting ---- */

static struct nbd_conn *conn_new(struct nbd_service *service)
{
	struct nbd_conn *conn = calloc(1, sizeof(*conn));

	if (!conn)
		return NULL;
	if (receiver_init(&conn->in, service->loop, NBD_RECEIVE_SIZE,
			  &nbd_conn_receiver_ops) < 0 ||
	    nbd_session_init(&conn->session, &nbd_conn_session_ops, conn) < 0) {
		receiver_done(&conn->in);
		free(conn);
		return NULL;
	}
	conn->service = service;
	conn->loop = service->loop;
	conn->send_op.done = nbd_conn_send_done;
	conn->batch.run = settle;
	conn->timer.op.done = timer_done;
	conn->user.stats = &conn->stats;
	TAILQ_INIT(&conn->changing);
	nbd_conn_expel_setup(conn);
	return conn;
}

/* One more than may be opening: the oldest of them goes. */
static void make_room(struct nbd_service *service)
{
	struct nbd_conn *oldest = NULL;

	if (service->opening < NBD_OPENING_MAX)
		return;
	for (struct nbd_conn *conn = service->conns; conn; conn = conn->next)
		if (conn->opening)
			oldest = conn;
	assert(oldest); /* they are counted */
	nbd_conn_drop(oldest, "too many connections have yet to ask for an "
			      "export");
}

void nbd_conn_start(struct nbd_service *service, int fd,
		    const struct peer_address *peer)
{
	struct nbd_conn *conn;

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
	conn->user.peer = *peer;
	conn->link = &service->conns;
	conn->next = service->conns;
	if (conn->next)
		conn->next->link = &conn->next;
	service->conns = conn;
	conn->opening = true;
	service->opening++;
	conn->session.tls = nbd_conn_tls_mode(service, peer);
	timer_start(conn, NBD_HANDSHAKE_TIMEOUT_MS);
	nbd_conn_touch(conn); /* sends the greeting, then receives */
}

void nbd_service_init(struct nbd_service *service, struct loop *loop,
		      struct export_table *table,
		      void (*ended)(struct nbd_service *service, unsigned n))
{
	*service = (struct nbd_service){
		.loop = loop,
		.table = table,
		.peer_timeout_s = SOCKET_PEER_TIMEOUT_S,
		.ended = ended,
		.buffers.drop_stuck = nbd_service_drop_stuck,
		.wake.run = nbd_service_wake,
		.starving.op.done = nbd_service_starving,
	};
}

void nbd_service_stop(struct nbd_service *service)
{
	service->stopping = true;
	if (service->starving_runs)
		loop_cancel(service->loop, &service->starving.op);
	for (struct nbd_conn *conn = service->conns; conn; conn = conn->next) {
		if (conn->dev)
			nbd_conn_drain(conn, NBD_STOP_TIMEOUT_MS);
		else /* nobody loses anything */
			nbd_conn_kill(conn);
	}
}

void nbd_service_grow(struct nbd_service *service, const char *name,
		      uint64_t size)
{
	for (struct nbd_conn *conn = service->conns; conn; conn = conn->next) {
		if (!conn->dev || !export_is(conn->user.export, name))
			continue;
		blockdev_grown(conn->dev, size);
		nbd_session_grow(&conn->session, size);
	}
}
