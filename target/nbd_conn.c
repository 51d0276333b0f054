/* SPDX-License-Identifier: Apache-2.0 */
/* A connection from its first byte to its end: receiving, parsing, closing. */
#include "target/nbd_conn.h"

#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "target/nbd_conn_internal.h"

/* A payload larger than this is received where it is written from, bytes. */
#define DIRECT_PAYLOAD_MIN (UINT32_C(32) << 10)

/* Bytes of it received at once, at most: how often progress is seen. */
#define DIRECT_PIECE_MAX (UINT32_C(1) << 20)

/*
 * Bytes received at once while large payloads come: little more than the
 * next header, because what comes with it must be copied.
 */
#define RECEIVE_SIZE_SMALL 4096u

/* Seconds and tries before an idle peer that is gone is noticed. Ours. */
#define KEEPALIVE_IDLE_S     30
#define KEEPALIVE_INTERVAL_S 10
#define KEEPALIVE_TRIES      3

/* A peer that takes no reply for so long is dropped (tcp(7)). Ours. */
#define SEND_STALL_TIMEOUT_MS 60000

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

/* Requests that have not reached the device never will. */
static void unstarted_drop(struct nbd_conn *conn)
{
	nbd_io_stop_waiting(conn);
	if (conn->stalled)
		nbd_io_free(take_ptr(conn->stalled));
	if (conn->writing && !conn->receiving)
		nbd_io_free(take_ptr(conn->writing));
}

static void opened(struct nbd_conn *conn)
{
	conn->service->opening -= conn->opening;
	conn->opening = false;
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
	unstarted_drop(conn);
	ready_drop(conn);
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
static void drain(struct nbd_conn *conn, unsigned timeout_ms)
{
	if (conn->phase != NBD_CONN_OPEN)
		return;
	conn->phase = NBD_CONN_DRAINING;
	conn->drain_timeout_ms = timeout_ms;
	(void)shutdown(conn->fd, SHUT_RD);
	unstarted_drop(conn);
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

static void device_close(struct nbd_conn *conn)
{
	blockdev_close(conn->dev);
	conn->dev = NULL;
	if (conn->entered &&
	    export_table_leave(conn->service->table, &conn->user))
		conn->expelled = true;
	conn->entered = false;
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
	free(conn->buffer);
	free(conn);
	service->ended(service, 1);
}

/* Closing: the device as soon as it is idle, the rest when all came back. */
static void end(struct nbd_conn *conn)
{
	if (conn->active > 0)
		return;
	device_close(conn);
	if (conn->receiving || conn->sending || conn->timer_running ||
	    (conn->expelled && !conn->expel_ran))
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

/* ---- the export ---- */

static void expel_run(struct loop_message *message)
{
	struct nbd_conn *conn = container_of(message, struct nbd_conn,
					     expel_message);

	conn->expel_ran = true;
	conn->expelled = true;
	nbd_conn_kill(conn);
}

/* On another thread. */
static void expel(struct export_user *user)
{
	struct nbd_conn *conn = container_of(user, struct nbd_conn, user);

	loop_post(conn->loop, &conn->expel_message);
}

static uint16_t device_flags(const struct blockdev *dev, bool read_only)
{
	uint16_t flags = NBD_TRANSMIT_SEND_FLUSH | NBD_TRANSMIT_CAN_MULTI_CONN;

	if (dev->ops->cache)
		flags |= NBD_TRANSMIT_SEND_CACHE;
	if (read_only)
		return flags | NBD_TRANSMIT_READ_ONLY;
	flags |= NBD_TRANSMIT_SEND_FUA | NBD_TRANSMIT_SEND_WRITE_ZEROES;
	if (dev->ops->discard)
		flags |= NBD_TRANSMIT_SEND_TRIM;
	if (dev->ops->write_zeroes)
		flags |= NBD_TRANSMIT_SEND_FAST_ZERO;
	return flags;
}

static void export_describe(const struct nbd_conn *conn, struct nbd_export *ret)
{
	const struct export_object *export = conn->user.export;
	const struct blockdev *dev = conn->dev;

	ret->size = dev->size;
	ret->block_size = dev->block_size;
	ret->preferred_size = dev->preferred_size;
	ret->flags = device_flags(dev,
				  export_read_only(export) || dev->read_only);
	(void)snprintf(ret->name, sizeof(ret->name), "%s", export_name(export));
	(void)snprintf(ret->description, sizeof(ret->description), "%s",
		       export_description(export));
}

/* For those who watch: what the handshake has come to. */
static void features_tell(struct nbd_conn *conn)
{
	const struct nbd_session *s = &conn->session;
	char tls[64] = "";

	if (conn->tls)
		(void)tls_session_describe(conn->tls, tls, sizeof(tls));
	(void)snprintf(conn->user.features, sizeof(conn->user.features),
		       "%s%s%s%s",
		       s->extended     ? "extended"
		       : s->structured ? "structured"
				       : "simple",
		       s->allocation ? " base:allocation" : "",
		       conn->tls ? " " : "", tls);
}

/* nbd_session_ops.open */
static int session_open(void *context, const char *name, bool keep,
			struct nbd_export *ret, struct error *err)
{
	struct nbd_conn *conn = context;
	char peer[PEER_ADDRESS_TEXT_MAX];
	unsigned dropped;
	int r;

	if (conn->expelled)
		return error_set(err, ESHUTDOWN, "the connection is closing");
	features_tell(conn);
	r = export_table_enter(conn->service->table, name, &conn->user, err);
	if (r < 0)
		return r;
	conn->entered = true;
	r = export_open(conn->user.export, conn->loop, &conn->dev, err);
	if (r < 0) {
		if (log_limit_allow(&conn->service->log_limit, &dropped))
			log_write(LOG_LEVEL_WARNING,
				  "nbd: export '%s' refused to %s: %s",
				  export_name(conn->user.export),
				  peer_address_format(&conn->user.peer, peer,
						      sizeof(peer)),
				  error_text(err));
		device_close(conn);
		return error_set(err, EIO, "the export can't be opened");
	}
	export_describe(conn, ret);
	if (!keep)
		device_close(conn);
	return 0;
}

static int list_each(void *context, const char *name)
{
	return nbd_session_list_add(context, name);
}

/* nbd_session_ops.list */
static int session_list(void *context, struct nbd_session *session)
{
	struct nbd_conn *conn = context;

	return export_table_list(conn->service->table, &conn->user.peer,
				 list_each, session);
}

static const struct nbd_session_ops session_ops = {
	.open = session_open,
	.list = session_list,
};

/* ---- receiving ---- */

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

/*
 * The payload of conn->writing, from the buffer. True: all of it was there.
 * A short one is left until it is whole; a long one is taken as it comes.
 */
static bool payload_take(struct nbd_conn *conn)
{
	struct nbd_io *io = conn->writing;
	uint32_t want = (uint32_t)(io->request.length - io->progress);
	uint32_t there = conn->end - conn->start;
	uint32_t n = there < want ? there : want;

	if (n < want && io->request.length < DIRECT_PAYLOAD_MIN)
		return false;
	memcpy((uint8_t *)io->buf->data + io->progress,
	       conn->buffer + conn->start, n);
	conn->start += n;
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
	if (conn->start != conn->end)
		nbd_conn_drop(conn, "bytes between STARTTLS and TLS");
}

static void on_start(struct nbd_conn *conn)
{
	opened(conn);
	timer_stop(conn);
	nbd_conn_touch(conn);
}

/* True: feed on. False: more bytes are needed, or the end has come. */
static bool on_event(struct nbd_conn *conn, const struct nbd_event *event,
		     size_t consumed)
{
	switch (event->type) {
	case NBD_EVENT_MORE: return consumed > 0;
	case NBD_EVENT_TLS: on_starttls(conn); return false;
	case NBD_EVENT_START: on_start(conn); return true;
	case NBD_EVENT_REQUEST:
	case NBD_EVENT_REFUSED: on_request(conn, event); return true;
	case NBD_EVENT_CLOSE: drain(conn, NBD_DRAIN_TIMEOUT_MS); return false;
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
	if (conn->start == conn->end || !request_slot(conn))
		return false;
	consumed = nbd_session_feed(session, conn->buffer + conn->start,
				    conn->end - conn->start, &event);
	conn->start += (uint32_t)consumed;
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
	return conn->writing && conn->start == conn->end &&
	       conn->writing->request.length >= DIRECT_PAYLOAD_MIN;
}

uint8_t *nbd_conn_room(struct nbd_conn *conn, uint32_t *ret_length)
{
	if (conn->start > 0) { /* only part of an element is left */
		memmove(conn->buffer, conn->buffer + conn->start,
			conn->end - conn->start);
		conn->end -= conn->start;
		conn->start = 0;
	}
	*ret_length = NBD_RECEIVE_SIZE - conn->end;
	return conn->buffer + conn->end;
}

static void receive_plain(struct nbd_conn *conn)
{
	struct nbd_io *io = conn->writing;
	uint32_t room;
	uint8_t *to;

	conn->receiving_direct = nbd_conn_is_direct(conn);
	if (conn->receiving_direct) {
		room = (uint32_t)(io->request.length - io->progress);
		loop_recv(conn->loop, &conn->receive_op, conn->fd,
			  (uint8_t *)io->buf->data + io->progress,
			  room < DIRECT_PIECE_MAX ? room : DIRECT_PIECE_MAX,
			  MSG_WAITALL);
		return;
	}
	to = nbd_conn_room(conn, &room);
	if (room > conn->receive_limit)
		room = conn->receive_limit;
	conn->asked = room;
	(conn->drained ? loop_recv_later : loop_recv)(
		conn->loop, &conn->receive_op, conn->fd, to, room, 0);
}

static void receive(struct nbd_conn *conn)
{
	conn->receiving = true;
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
	       !(conn->session.out.length > 0 &&
		 !nbd_session_transmits(&conn->session));
}

void nbd_conn_go_on(struct nbd_conn *conn)
{
	if (conn->receiving || conn->phase != NBD_CONN_OPEN || !unstall(conn))
		return;
	conn->now_ns = clock_ns(); /* once for all that came together */
	do {
		while (conn->phase == NBD_CONN_OPEN && !conn->stalled &&
		       parse_step(conn))
			;
		if (conn->session.out.length > 0)
			nbd_conn_touch(conn);
		if (may_receive(conn) && conn->tls_starts)
			nbd_conn_tls_start(conn);
	} while (may_receive(conn) && conn->tls && nbd_conn_tls_fill(conn));
	if (may_receive(conn))
		receive(conn);
}

void nbd_conn_payload_received(struct nbd_conn *conn, uint32_t length)
{
	struct nbd_io *io = conn->writing;

	io->progress += length;
	nbd_session_payload_taken(&conn->session, length);
	conn->receive_limit = RECEIVE_SIZE_SMALL;
	if (io->progress < io->request.length)
		return;
	conn->writing = NULL;
	nbd_io_write(io);
}

void nbd_conn_end_of_input(struct nbd_conn *conn)
{
	drain(conn, NBD_DRAIN_TIMEOUT_MS);
}

static void receive_done(struct op *op, int res)
{
	struct nbd_conn *conn = container_of(op, struct nbd_conn, receive_op);

	conn->receiving = false;
	if (conn->phase != NBD_CONN_OPEN) {
		unstarted_drop(conn);
		nbd_conn_touch(conn);
		return;
	}
	if (res == 0) { /* the peer has closed its side */
		nbd_conn_end_of_input(conn);
		return;
	}
	if (res < 0 && res != -EINTR && res != -EAGAIN) {
		nbd_conn_kill(conn);
		return;
	}
	if (res > 0 && conn->tls) {
		tls_session_put(conn->tls, (uint32_t)res);
	} else if (res > 0 && conn->receiving_direct) {
		conn->drained = false;
		nbd_conn_payload_received(conn, (uint32_t)res);
	} else if (res > 0) {
		conn->end += (uint32_t)res;
		conn->drained = (uint32_t)res < conn->asked;
		conn->receive_limit = NBD_RECEIVE_SIZE;
	}
	nbd_conn_go_on(conn);
}

/* ---- starting ---- */

static void socket_setup(int fd, const struct peer_address *peer)
{
	static const struct {
		int level, name, value;
	} options[] = {
		{IPPROTO_TCP, TCP_NODELAY, 1},
		{SOL_SOCKET, SO_KEEPALIVE, 1},
		{IPPROTO_TCP, TCP_KEEPIDLE, KEEPALIVE_IDLE_S},
		{IPPROTO_TCP, TCP_KEEPINTVL, KEEPALIVE_INTERVAL_S},
		{IPPROTO_TCP, TCP_KEEPCNT, KEEPALIVE_TRIES},
		{IPPROTO_TCP, TCP_USER_TIMEOUT, SEND_STALL_TIMEOUT_MS},
	};

	if (peer->family == AF_UNIX)
		return;
	/* A connection without them works too. */
	for (size_t i = 0; i < array_size(options); i++)
		(void)setsockopt(fd, options[i].level, options[i].name,
				 &options[i].value, sizeof(options[i].value));
}

static struct nbd_conn *conn_new(struct nbd_service *service)
{
	struct nbd_conn *conn = calloc(1, sizeof(*conn));

	if (!conn)
		return NULL;
	conn->buffer = malloc(NBD_RECEIVE_SIZE);
	if (!conn->buffer ||
	    nbd_session_init(&conn->session, &session_ops, conn) < 0) {
		free(conn->buffer);
		free(conn);
		return NULL;
	}
	conn->service = service;
	conn->loop = service->loop;
	conn->receive_limit = NBD_RECEIVE_SIZE;
	conn->receive_op.done = receive_done;
	conn->send_op.done = nbd_conn_send_done;
	conn->batch.run = settle;
	conn->timer.op.done = timer_done;
	conn->user.expel = expel;
	conn->user.stats = &conn->stats;
	conn->expel_message.run = expel_run;
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
	socket_setup(fd, peer);
	conn->fd = fd;
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
		.ended = ended,
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
			drain(conn, NBD_STOP_TIMEOUT_MS);
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
