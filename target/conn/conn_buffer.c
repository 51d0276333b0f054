/* SPDX-License-Identifier: Apache-2.0 */
/* Buffers: which connection has them, and which requests wait in what order. */
#include "base/cleanup.h"
#include "base/clock.h"
#include "target/conn/conn.h"

/* Looked at longer ago than this: no request has waited meanwhile. */
#define LOOK_GAP_MS (10 * CONN_WAIT_CHECK_MS)

struct iobuf *conn_buffer_get(struct conn *conn, uint32_t size, bool first)
{
	struct iobuf *buf = buffer_quota_get_reserve(conn->loop, conn->buffered,
						     size);

	if (!buf && first)
		buf = buffer_quota_get(&conn->service->buffers, conn->loop,
				       size);
	if (buf)
		conn->buffered += buf->size;
	return buf;
}

void conn_buffer_undo(struct conn *conn, struct iobuf *buf)
{
	conn->buffered -= buf->size;
	buffer_quota_put(&conn->service->buffers, conn->loop, buf);
}

void conn_buffer_return(struct conn *conn, struct iobuf *buf)
{
	struct conn_service *service = conn->service;

	conn_buffer_undo(conn, buf);
	if (!conn_line_empty(service))
		loop_batch_add(conn->loop, &service->wake);
}

/* ---- the line ---- */

/* Tell the other protocol whether requests wait; run the check while they do.
 */
static void line_changed(struct conn_service *service)
{
	service->buffers.waits = !conn_line_empty(service) || service->refused;
	if (!service->buffers.waits || service->check_runs)
		return;
	service->check_runs = true;
	loop_timer_start(service->loop, &service->check, CONN_WAIT_CHECK_MS);
}

void conn_wait_add(struct conn *conn, struct conn_wait *wait)
{
	struct conn_service *service = conn->service;

	wait->waits = true;
	wait->since_ms = clock_ms();
	TAILQ_INSERT_TAIL(&service->line, wait, in_line);
	line_changed(service);
}

void conn_wait_leave(struct conn *conn, struct conn_wait *wait)
{
	struct conn_service *service = conn->service;

	wait->waits = false;
	TAILQ_REMOVE(&service->line, wait, in_line);
	service->buffers.waits = !conn_line_empty(service) || service->refused;
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

		if (service->ops->retry(wait) == CONN_WAIT_POOL)
			return; /* it stays the first to be tried */
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
	service->buffers.waits = !conn_line_empty(service) || service->refused;
	if (service->buffers.waits && !service->stopping) {
		buffer_quota_look(&service->buffers, now_ms);
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

void conn_service_drop_stuck(struct buffer_quota *quota, int64_t now_ms)
{
	struct conn_service *service = container_of(quota, struct conn_service,
						    buffers);
	struct conn *conn;

	LIST_FOREACH (conn, &service->conns, in_service)
		if (is_stuck(conn, now_ms))
			conn_drop(conn, "others wait for buffers that it holds "
					"and does nothing with");
}
