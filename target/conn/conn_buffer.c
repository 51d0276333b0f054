/* SPDX-License-Identifier: Apache-2.0 */
/* Buffers: which connection has them, and which requests wait in what order. */
#include "base/cleanup.h"
#include "base/clock.h"
#include "target/conn/conn.h"

/* Looked at longer ago than this: no request has waited meanwhile. */
#define LOOK_GAP_MS (10 * CONN_WAIT_CHECK_MS)

void conn_service_pair(struct conn_service *a, struct conn_service *b,
		       size_t limit)
{
	a->half = b->half = limit / 2;
	a->other = b;
	b->other = a;
}

/* The connection has as much as it may have: @size bytes more are too many. */
static bool conn_buffers_full(const struct conn *conn, uint64_t size)
{
	return conn->buffered > 0 && conn->buffered + size > CONN_BUFFER_MAX;
}

/* Tell whether the other protocol waits, and @size more is beyond half. */
static bool exceeds_half(const struct conn_service *service, uint32_t size)
{
	return service->other && service->other->waits && service->held > 0 &&
	       service->held + size > service->half;
}

/* Of the reserve, or if it is the turn of @wait, of the rest. */
static struct iobuf *buffer_get(struct conn *conn, const struct conn_wait *wait,
				uint32_t size)
{
	struct conn_service *service = conn->service;
	struct iobuf *buf = NULL;

	if (conn->buffered + size <= CONN_RESERVE_MAX)
		buf = loop_iobuf_get_reserve(conn->loop, size);
	if (!buf &&
	    (wait->place == CONN_WAIT_LINE || TAILQ_EMPTY(&service->line)) &&
	    !exceeds_half(service, size)) {
		buf = loop_iobuf_get(conn->loop, size);
		service->held += buf ? buf->size : 0;
	}
	if (buf)
		conn->buffered += buf->size;
	return buf;
}

static void buffer_put(struct conn *conn, struct iobuf *buf)
{
	conn->buffered -= buf->size;
	if (!buf->reserve)
		conn->service->held -= buf->size;
	loop_iobuf_put(conn->loop, buf);
}

struct iobuf *conn_buffer_get(struct conn *conn, const struct conn_wait *wait,
			      uint32_t size)
{
	return conn_buffers_full(conn, size) ? NULL
					     : buffer_get(conn, wait, size);
}

bool conn_buffers_get(struct conn *conn, const struct conn_wait *wait,
		      const uint32_t *sizes, unsigned n, struct iobuf **ret)
{
	uint64_t size = 0;
	unsigned i;

	for (i = 0; i < n; i++)
		size += sizes[i];
	if (conn_buffers_full(conn, size))
		return false;
	for (i = 0; i < n; i++) {
		if (sizes[i] == 0)
			continue;
		ret[i] = buffer_get(conn, wait, sizes[i]);
		if (!ret[i])
			break;
	}
	if (i == n)
		return true;
	while (i-- > 0)
		if (sizes[i] > 0)
			buffer_put(conn, take_ptr(ret[i]));
	return false;
}

/* ---- the line ---- */

/* Tell the other protocol whether requests wait; run the check while they do.
 */
static void line_changed(struct conn_service *service)
{
	service->waits = !TAILQ_EMPTY(&service->line) || service->refused;
	if (!service->waits || service->check_runs || service->stopping)
		return;
	service->check_runs = true;
	loop_timer_start(service->loop, &service->check, CONN_WAIT_CHECK_MS);
}

static struct conn_line *line_of(const struct conn_wait *wait)
{
	return wait->place == CONN_WAIT_OWN ? &wait->conn->own
					    : &wait->conn->service->line;
}

static void wait_insert(struct conn_wait *wait, enum conn_wait_place place)
{
	wait->place = place;
	wait->since_ms = clock_ms();
	TAILQ_INSERT_TAIL(line_of(wait), wait, in_line);
	line_changed(wait->conn->service);
}

/*
 * Let the first request that waits for its own connection stand in line, if it
 * may have its buffers by now.
 */
static void own_next(struct conn *conn)
{
	struct conn_wait *wait = TAILQ_FIRST(&conn->own);

	if (!wait || conn_buffers_full(conn, wait->size))
		return;
	TAILQ_REMOVE(&conn->own, wait, in_line);
	wait_insert(wait, CONN_WAIT_LINE);
	loop_batch_add(conn->loop, &conn->service->wake);
}

void conn_wait_add(struct conn *conn, struct conn_wait *wait, uint64_t size)
{
	bool own = !TAILQ_EMPTY(&conn->own) || conn_buffers_full(conn, size);

	wait->conn = conn;
	wait->size = size;
	wait_insert(wait, own ? CONN_WAIT_OWN : CONN_WAIT_LINE);
}

void conn_wait_remove(struct conn_wait *wait)
{
	if (wait->place == CONN_WAIT_NOWHERE)
		return;
	TAILQ_REMOVE(line_of(wait), wait, in_line);
	wait->place = CONN_WAIT_NOWHERE;
	line_changed(wait->conn->service);
	own_next(wait->conn);
}

void conn_buffer_put(struct conn *conn, struct iobuf *buf)
{
	if (!buf)
		return;
	buffer_put(conn, buf);
	if (conn->service->waits)
		loop_batch_add(conn->loop, &conn->service->wake);
	if (!TAILQ_EMPTY(&conn->own))
		own_next(conn);
}

void conn_buffers_refused(struct conn_service *service)
{
	service->refused = true;
	service->refused_ms = clock_ms();
	line_changed(service);
}

void conn_service_wake(struct loop_batch *batch)
{
	struct conn_service *service = container_of(batch, struct conn_service,
						    wake);
	struct conn_wait *wait = TAILQ_FIRST(&service->line);

	while (wait) {
		struct conn_wait *next = TAILQ_NEXT(wait, in_line);

		if (conn_buffers_full(wait->conn, wait->size)) {
			/* Its connection got others meanwhile. */
			TAILQ_REMOVE(&service->line, wait, in_line);
			wait_insert(wait, CONN_WAIT_OWN);
		} else if (!service->ops->retry(wait)) {
			return; /* it stays the first to be tried */
		}
		wait = next;
	}
}

/* Requests that have waited in vain for long enough. */
static void line_give_up(struct conn_service *service, int64_t now_ms)
{
	struct conn_wait *wait;

	while (service->ops->give_up && (wait = TAILQ_FIRST(&service->line)) &&
	       now_ms - wait->since_ms >= CONN_WAIT_MAX_MS)
		service->ops->give_up(wait);
}

static void drop_stuck(struct conn_service *service, int64_t now_ms);

/* Every CONN_WAIT_CHECK_MS while requests wait; or conn_service_stop(). */
void conn_service_check(struct op *op, int res)
{
	struct loop_timer *timer = container_of(op, struct loop_timer, op);
	struct conn_service *service = container_of(timer, struct conn_service,
						    check);
	int64_t now_ms = clock_ms();

	(void)res; /* service->stopping says it */
	service->check_runs = false;
	if (now_ms - service->refused_ms >= CONN_WAIT_MAX_MS)
		service->refused = false;
	service->waits = !TAILQ_EMPTY(&service->line) || service->refused;
	if (service->waits && !service->stopping) {
		drop_stuck(service, now_ms);
		if (service->other)
			drop_stuck(service->other, now_ms);
		/* The other protocol may have given some back. */
		conn_service_wake(&service->wake);
		line_give_up(service, now_ms);
		line_changed(service);
	}
	if (!service->check_runs)
		service->ended(service, 0);
}

/* ---- peers that sit on buffers ---- */

void conn_data_came(struct conn *conn, uint32_t n)
{
	conn->data_came += n;
	if (conn->data_came < CONN_STUCK_DATA_MIN)
		return;
	conn->data_came = 0;
	conn->data_ms = clock_ms();
}

/*
 * The peer has owed a payload for too long. Other bytes do not count, nor does
 * a byte now and then.
 */
static bool owes_for_long(struct conn *conn, int64_t now_ms)
{
	bool owes = conn->in.runs && conn->ops->owes_payload(conn);

	if (!owes || now_ms - conn->looked_ms >= LOOK_GAP_MS) {
		conn->data_ms = now_ms;
		conn->data_came = 0;
	}
	conn->looked_ms = now_ms;
	return now_ms - conn->data_ms >= CONN_STUCK_MAX_MS;
}

static bool is_stuck(struct conn *conn, int64_t now_ms)
{
	bool peer_is_next = conn->sending ||
			    (conn->in.runs && conn->in.direct && !conn->tls);

	if (conn->buffered == 0 || conn->phase == CONN_CLOSING)
		return false;
	return owes_for_long(conn, now_ms) ||
	       (peer_is_next &&
		now_ms - conn->progress_ms >= CONN_STUCK_MAX_MS);
}

/* Drop peers that hold buffers and neither take nor send anything. */
static void drop_stuck(struct conn_service *service, int64_t now_ms)
{
	struct conn *conn;

	LIST_FOREACH (conn, &service->conns, in_service)
		if (is_stuck(conn, now_ms))
			conn_drop(conn, "others wait for buffers that it holds "
					"and does nothing with");
}
