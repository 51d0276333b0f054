/* SPDX-License-Identifier: Apache-2.0 */
/* A connection from its start to its end, between socket and protocol. */
#include "target/conn/conn.h"

#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/clock.h"

/* Bytes of a payload received at once, at most: how often progress is seen. */
#define PAYLOAD_PIECE_MAX (UINT32_C(1) << 20)

/*
 * An idle peer is left alone for half of its time limit, and probed in the
 * other half.
 */
#define KEEPALIVE_TRIES 3

void conn_touch(struct conn *conn)
{
	loop_batch_add(conn->loop, &conn->batch);
}

/* ---- ending ---- */

void conn_opened(struct conn *conn)
{
	conn->service->opening -= conn->opening;
	conn->opening = false;
	if (conn->timer_runs)
		loop_cancel(conn->loop, &conn->timer.op);
	conn_touch(conn);
}

void conn_kill(struct conn *conn)
{
	conn_touch(conn);
	if (conn->phase == CONN_CLOSING)
		return;
	conn->phase = CONN_CLOSING;
	conn_opened(conn); /* or never will be */
	/* Wakes the receive and the send that are in flight. */
	(void)shutdown(conn->fd, SHUT_RDWR);
	receiver_close(&conn->in);
	if (conn->tick_runs)
		loop_cancel(conn->loop, &conn->tick.op);
	conn->ops->forget(conn);
}

void conn_complain(struct conn *conn, const char *what, const char *why)
{
	const bool asked = conn->asked_for && conn->asked_for[0];
	char peer[PEER_ADDRESS_TEXT_MAX];
	unsigned others;

	if (log_limit_allow(&conn->service->log_limit, &others))
		log_warning(
			"%s: %s %s%s%s: %s%s", conn->ops->name, what,
			peer_address_format(&conn->peer, peer, sizeof(peer)),
			asked ? ", at " : "", asked ? conn->asked_for : "", why,
			others ? " (and others before)" : "");
}

void conn_drop(struct conn *conn, const char *why)
{
	if (conn->phase != CONN_CLOSING)
		conn_complain(conn, "dropped", why);
	conn_kill(conn);
}

static void timer_start(struct conn *conn, unsigned timeout_ms)
{
	conn->timer_runs = true;
	loop_timer_start(conn->loop, &conn->timer, timeout_ms);
}

void conn_logout(struct conn *conn)
{
	conn->phase = CONN_LOGOUT;
	receiver_close(&conn->in);
	conn->ops->forget(conn);
	conn_touch(conn);
}

/* A timer that still runs is the opening's: it will do, or its end starts
 * ours. */
void conn_drain(struct conn *conn, unsigned timeout_ms)
{
	if (conn->phase >= CONN_DRAINING)
		return;
	conn->phase = CONN_DRAINING;
	conn->drain_timeout_ms = timeout_ms;
	(void)shutdown(conn->fd, SHUT_RD);
	receiver_close(&conn->in);
	conn->ops->forget(conn);
	if (!conn->timer_runs)
		timer_start(conn, timeout_ms);
	conn_touch(conn);
}

static void timer_done(struct op *op, int res)
{
	struct loop_timer *timer = container_of(op, struct loop_timer, op);
	struct conn *conn = container_of(timer, struct conn, timer);
	bool draining = conn->phase == CONN_DRAINING;

	conn->timer_runs = false;
	conn_touch(conn);
	if (draining && res == -ECANCELED)
		timer_start(conn, conn->drain_timeout_ms);
	else if (draining)
		conn_kill(conn);
	else if (conn->opening)
		conn_drop(conn, conn->ops->open_late);
}

void conn_tick_start(struct conn *conn, unsigned delay_ms)
{
	conn->tick_runs = true;
	loop_timer_start(conn->loop, &conn->tick, delay_ms);
}

static void tick_done(struct op *op, int res)
{
	struct loop_timer *timer = container_of(op, struct loop_timer, op);
	struct conn *conn = container_of(timer, struct conn, tick);

	conn->tick_runs = false;
	conn_touch(conn);
	if (res != -ECANCELED && conn->phase == CONN_OPEN)
		conn->ops->tick(conn);
}

static void conn_free(struct conn *conn)
{
	struct conn_service *service = conn->service;

	assert(conn->active == 0 && conn->buffered == 0);
	loop_batch_remove(conn->loop, &conn->batch);
	LIST_REMOVE(conn, in_service);
	conn->ops->done(conn);
	tls_session_free(conn->tls);
	fd_close(conn->fd);
	receiver_done(&conn->in);
	free(conn);
	service->ended(service, 1);
}

/* Closing: devices as soon as they are idle, the rest when all came back. */
static void conn_end(struct conn *conn)
{
	if (conn->active > 0 || conn->in.runs || conn->sending)
		return;
	conn->ops->leave(conn);
	if (conn->timer_runs || conn->tick_runs || conn->ops->is_called(conn))
		return;
	conn_free(conn);
}

/* After each batch of completions. */
static void conn_settle(struct loop_batch *batch)
{
	struct conn *conn = container_of(batch, struct conn, batch);

	if (conn->phase != CONN_CLOSING && !conn_send(conn))
		conn_kill(conn);
	if (conn->ops->settle)
		conn->ops->settle(conn);
	if (conn->phase == CONN_OPEN) {
		conn_go_on(conn);
	} else if (conn->phase == CONN_DRAINING && !conn->sending &&
		   !conn->batch.queued && !conn->ops->is_due(conn)) {
		conn_tls_goodbye(conn);
		conn_kill(conn);
	}
	if (conn->phase == CONN_CLOSING)
		conn_end(conn); /* the last thing: it may be freed */
}

/* ---- sending ---- */

static void send_later(struct conn *conn)
{
	conn->sending = true;
	conn->progress_ms = clock_ms();
	loop_sendmsg(conn->loop, &conn->send_op, conn->fd, &conn->message, 0);
}

void conn_message_advance(struct msghdr *message, size_t length)
{
	while (length > 0 && length >= message->msg_iov->iov_len) {
		length -= message->msg_iov->iov_len;
		message->msg_iov++;
		message->msg_iovlen--;
	}
	if (length > 0) {
		message->msg_iov->iov_base =
			(char *)message->msg_iov->iov_base + length;
		message->msg_iov->iov_len -= length;
	}
}

/*
 * @length bytes of conn->message are out; the loop sends the rest. Negative:
 * nothing of what was gathered goes out any more.
 */
static void message_went(struct conn *conn, ssize_t length)
{
	if (length < 0) {
		conn->plain.msg_iovlen = conn->message.msg_iovlen = 0;
	} else {
		conn_message_advance(&conn->message, (size_t)length);
		if (conn->tls)
			tls_session_sent(conn->tls, (size_t)length);
	}
	if (conn->message.msg_iovlen > 0)
		send_later(conn);
	else if (conn->plain.msg_iovlen == 0)
		conn->ops->sent(conn);
}

bool conn_send(struct conn *conn)
{
	while (!conn->sending) {
		ssize_t n;
		int r = conn->tls ? conn_tls_gather(conn)
				  : conn->ops->gather(conn, &conn->message);

		if (r < 0)
			message_went(conn, -1);
		if (r <= 0)
			return r == 0;
		n = sendmsg(conn->fd, &conn->message,
			    MSG_DONTWAIT | MSG_NOSIGNAL);
		if (n < 0 && errno != EAGAIN && errno != EINTR) {
			message_went(conn, -1);
			return false;
		}
		message_went(conn, n > 0 ? n : 0);
	}
	return true;
}

static void send_done(struct op *op, int res)
{
	struct conn *conn = container_of(op, struct conn, send_op);

	conn->sending = false;
	conn_touch(conn);
	if (res < 0 && res != -EAGAIN && res != -EINTR) {
		message_went(conn, -1);
		conn_kill(conn);
	} else if (conn->phase == CONN_CLOSING) {
		message_went(conn, -1);
	} else {
		message_went(conn, res > 0 ? res : 0);
	}
}

/* ---- receiving ---- */

static void receive_start(struct conn *conn)
{
	const struct iovec *to = &conn->payload;

	if (conn->tls) {
		conn_tls_receive(conn);
		return;
	}
	if (to->iov_len == 0) {
		receiver_start(&conn->in, conn->ops->may_stream(conn));
		return;
	}
	conn->progress_ms = clock_ms();
	receiver_start_direct(&conn->in, to->iov_base,
			      to->iov_len < PAYLOAD_PIECE_MAX
				      ? (uint32_t)to->iov_len
				      : PAYLOAD_PIECE_MAX,
			      MSG_WAITALL);
}

void conn_go_on(struct conn *conn)
{
	bool goes;

	if (conn->in.fills || conn->phase != CONN_OPEN || conn->paused)
		return;
	do {
		goes = conn->ops->feed(conn) && conn->phase == CONN_OPEN &&
		       !conn->paused;
		if (conn->tls_begins && goes)
			conn_tls_start(conn);
	} while (goes && conn->tls && conn_tls_fill(conn));
	goes = goes && conn->phase == CONN_OPEN;
	if (conn->in.runs) { /* a stream */
		if (!goes || conn->payload.iov_len > 0)
			receiver_stream_end(&conn->in);
	} else if (goes) {
		receive_start(conn);
	}
}

/* receiver.came */
static void receive_came(struct receiver *receiver, int res)
{
	struct conn *conn = container_of(receiver, struct conn, in);

	if (conn->phase != CONN_OPEN) {
		conn->ops->forget(conn);
		conn_touch(conn);
	} else if (res > 0) {
		conn->received += (uint32_t)res;
		if (conn->tls)
			tls_session_put(conn->tls, (uint32_t)res);
		else if (receiver->direct)
			conn->ops->payload_came(conn, (uint32_t)res);
		conn_go_on(conn);
	} else if (res == 0) {
		conn->ops->hung_up(conn);
	} else if (res == -EINTR || res == -EAGAIN) {
		conn_go_on(conn);
	} else {
		conn_kill(conn);
	}
}

/* ---- starting ---- */

static int at_least_one(unsigned seconds)
{
	return seconds > 0 ? (int)seconds : 1;
}

/*
 * Nothing waits for a fuller packet, and a peer that is gone is noticed: after
 * @timeout_s without a word from its machine, or in which it takes nothing. No
 * system call waits for it; the ring does all the same.
 */
static void socket_setup(int fd, const struct peer_address *peer,
			 unsigned timeout_s)
{
	const struct {
		int level, name, value;
	} options[] = {
		{IPPROTO_TCP, TCP_NODELAY, 1},
		{SOL_SOCKET, SO_KEEPALIVE, 1},
		{IPPROTO_TCP, TCP_KEEPIDLE, at_least_one(timeout_s / 2)},
		{IPPROTO_TCP, TCP_KEEPINTVL,
		 at_least_one(timeout_s / 2 / KEEPALIVE_TRIES)},
		{IPPROTO_TCP, TCP_KEEPCNT, KEEPALIVE_TRIES},
		/* For bytes sent: tcp(7) */
		{IPPROTO_TCP, TCP_USER_TIMEOUT, (int)timeout_s * 1000},
	};

	if (peer->family == AF_UNIX)
		return;
	/* A connection without them works too. */
	for (size_t i = 0; i < array_size(options); i++)
		(void)setsockopt(fd, options[i].level, options[i].name,
				 &options[i].value, sizeof(options[i].value));
}

static struct conn *conn_new(struct conn_service *service, int fd,
			     const struct peer_address *peer)
{
	const struct conn_ops *ops = service->ops;
	struct conn *conn = calloc(1, ops->size);

	if (!conn)
		return NULL;
	conn->service = service;
	conn->ops = ops;
	conn->loop = service->loop;
	conn->fd = fd;
	conn->peer = *peer;
	TAILQ_INIT(&conn->own);
	conn->batch.run = conn_settle;
	conn->send_op.done = send_done;
	conn->timer.op.done = timer_done;
	conn->tick.op.done = tick_done;
	if (receiver_init(&conn->in, service->loop, ops->receive_size,
			  receive_came) < 0 ||
	    ops->init(conn) < 0) {
		receiver_done(&conn->in);
		free(conn);
		return NULL;
	}
	return conn;
}

/* Drop the oldest opening connection where one more would be too many. */
static void opening_make_room(struct conn_service *service)
{
	struct conn *conn, *oldest = NULL;

	if (service->opening < CONN_OPENING_MAX)
		return;
	LIST_FOREACH (conn, &service->conns, in_service)
		if (conn->opening)
			oldest = conn;
	assert(oldest); /* they are counted */
	conn_drop(oldest, service->ops->open_many);
}

void conn_start(struct conn_service *service, int fd,
		const struct peer_address *peer)
{
	struct conn *conn;

	opening_make_room(service);
	conn = service->stopping ? NULL : conn_new(service, fd, peer);
	if (!conn) {
		fd_close(fd);
		service->ended(service, 1);
		return;
	}
	socket_setup(fd, peer, service->peer_timeout_s);
	receiver_open(&conn->in, fd, peer->family == AF_UNIX);
	LIST_INSERT_HEAD(&service->conns, conn, in_service);
	conn->opening = true;
	service->opening++;
	timer_start(conn, service->ops->open_timeout_ms);
	conn_touch(conn); /* sends a greeting, then receives */
}

/* ---- services ---- */

void conn_service_init(struct conn_service *service, const struct conn_ops *ops,
		       struct loop *loop, struct export_table *exports)
{
	*service = (struct conn_service){
		.ops = ops,
		.loop = loop,
		.exports = exports,
		.peer_timeout_s = CONN_PEER_TIMEOUT_S,
		.wake.run = conn_service_wake,
		.check.op.done = conn_service_check,
	};
	LIST_INIT(&service->conns);
	TAILQ_INIT(&service->line);
}

void conn_service_stop(struct conn_service *service)
{
	struct conn *conn;

	service->stopping = true;
	if (service->check_runs)
		loop_cancel(service->loop, &service->check.op);
	LIST_FOREACH (conn, &service->conns, in_service) {
		if (conn->opening) { /* nobody loses anything */
			conn_kill(conn);
			continue;
		}
		if (service->ops->stop)
			service->ops->stop(conn);
		conn_drain(conn, CONN_STOP_TIMEOUT_MS);
	}
}

void conn_service_grow(struct conn_service *service, const char *name,
		       uint64_t size)
{
	struct conn *conn;

	LIST_FOREACH (conn, &service->conns, in_service)
		service->ops->grow(conn, name, size);
}

bool conn_service_still(const struct conn_service *service)
{
	return LIST_EMPTY(&service->conns) && !service->check_runs;
}
