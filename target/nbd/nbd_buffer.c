/* SPDX-License-Identifier: Apache-2.0 */
/* Buffers of requests: who has them, and who waits for them in which order. */
#include <assert.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "target/nbd/nbd_conn_internal.h"

void nbd_buffer_put(struct nbd_conn *conn, struct iobuf *buf)
{
	struct nbd_service *service = conn->service;

	conn->buffered -= buf->size;
	buffer_share_put(&service->buffers, conn->loop, buf);
	if (service->waiting_first)
		loop_batch_add(conn->loop, &service->wake);
}

static void starving_start(struct nbd_service *service)
{
	service->starving_runs = true;
	loop_timer_start(service->loop, &service->starving,
			 NBD_STARVE_CHECK_MS);
}

static void waiting_add(struct nbd_conn *conn)
{
	struct nbd_service *service = conn->service;

	conn->stall = NBD_STALL_POOL;
	conn->waiting_next = NULL;
	if (service->waiting_last)
		service->waiting_last->waiting_next = conn;
	else
		service->waiting_first = conn;
	service->waiting_last = conn;
	service->buffers.waits = true;
	if (!service->starving_runs)
		starving_start(service);
}

static void waiting_remove(struct nbd_conn *conn)
{
	struct nbd_service *service = conn->service;
	struct nbd_conn **at = &service->waiting_first, *before = NULL;

	while (*at != conn) {
		before = *at;
		assert(before); /* it is in the list */
		at = &before->waiting_next;
	}
	*at = conn->waiting_next;
	if (service->waiting_last == conn)
		service->waiting_last = before;
	service->buffers.waits = service->waiting_first;
}

void nbd_io_stop_waiting(struct nbd_conn *conn)
{
	if (conn->stall == NBD_STALL_POOL)
		waiting_remove(conn);
	conn->stall = NBD_STALL_NONE;
}

/*
 * Whoever comes later than those who wait already queues behind them; but not
 * for what the reserve has.
 */
enum nbd_buffer_result nbd_buffer_get(struct nbd_io *io, uint32_t size)
{
	struct nbd_conn *conn = io->conn;
	struct nbd_service *service = conn->service;
	bool may_take;

	if (conn->buffered > 0 && conn->buffered + size > NBD_CONN_BUFFER_MAX) {
		conn->stall = NBD_STALL_OWN;
		return NBD_BUFFER_STALLED;
	}
	may_take = !service->waiting_first || conn->stall == NBD_STALL_POOL;
	io->buf = buffer_share_get_reserve(conn->loop, conn->buffered, size);
	if (!io->buf && may_take)
		io->buf = buffer_share_get(&service->buffers, conn->loop, size);
	if (io->buf) {
		nbd_io_stop_waiting(conn);
		conn->buffered += io->buf->size;
		return NBD_BUFFER_GOT;
	}
	if (may_take && loop_iobufs_in_use(conn->loop) == 0) {
		nbd_io_stop_waiting(conn);
		return NBD_BUFFER_NONE;
	}
	if (conn->stall != NBD_STALL_POOL)
		waiting_add(conn);
	return NBD_BUFFER_STALLED;
}

void nbd_service_wake(struct loop_batch *batch)
{
	struct nbd_service *service = container_of(batch, struct nbd_service,
						   wake);

	while (service->waiting_first) {
		struct nbd_conn *conn = service->waiting_first;
		struct nbd_io *io = conn->stalled;

		conn->stalled = NULL;
		if (!nbd_io_start(io)) {
			conn->stalled = io;
			return; /* it is still the first */
		}
		nbd_conn_go_on(conn);
	}
}

static bool stuck(const struct nbd_conn *conn, int64_t now_ms)
{
	bool waits_for_peer = conn->sending || (conn->in.runs && conn->writing);

	return conn->buffered > 0 && waits_for_peer &&
	       conn->phase != NBD_CONN_CLOSING &&
	       now_ms - conn->progress_ms >= NBD_STARVE_TIMEOUT_MS;
}

void nbd_service_drop_stuck(struct buffer_share *share, int64_t now_ms)
{
	struct nbd_service *service = container_of(share, struct nbd_service,
						   buffers);

	for (struct nbd_conn *conn = service->conns; conn; conn = conn->next)
		if (stuck(conn, now_ms))
			nbd_conn_drop(conn, "others wait for buffers that it "
					    "holds and does nothing with");
}

void nbd_service_starving(struct op *op, int res)
{
	struct loop_timer *timer = container_of(op, struct loop_timer, op);
	struct nbd_service *service = container_of(timer, struct nbd_service,
						   starving);

	(void)res; /* stopped by nbd_service_stop(), or due */
	service->starving_runs = false;
	if (!service->waiting_first || service->stopping) {
		service->ended(service, 0);
		return;
	}
	buffer_share_look(&service->buffers, clock_ms());
	/* Buffers of the pool may come back from others than us. */
	nbd_service_wake(&service->wake);
	if (service->starving_runs)
		return;
	if (service->waiting_first)
		starving_start(service);
	else
		service->ended(service, 0);
}
