/* SPDX-License-Identifier: Apache-2.0 */
/* Commands to the device server, their buffers, and what comes of them. */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "target/iscsi_conn_internal.h"

static void io_done(struct scsi_task *scsi);

static struct iscsi_io *io_new(struct iscsi_conn *conn)
{
	struct iscsi_io *io = conn->free;

	if (io)
		conn->free = io->next;
	else
		io = malloc(sizeof(*io));
	if (!io)
		return NULL;
	memset(io, 0, sizeof(*io));
	io->conn = conn;
	conn->n_ios++;
	return io;
}

/* ---- buffers ---- */

static void buffer_put(struct iscsi_conn *conn, struct iobuf *buf)
{
	struct iscsi_service *service = conn->service;

	if (!buf)
		return;
	conn->buffered -= buf->size;
	loop_iobuf_put(conn->loop, buf);
	if (service->waiting_first)
		loop_batch_add(conn->loop, &service->wake);
}

static struct iobuf *buffer_take(struct iscsi_conn *conn, uint32_t size)
{
	struct iobuf *buf;

	if (conn->buffered > 0 && conn->buffered + size > ISCSI_CONN_BUFFER_MAX)
		return NULL;
	buf = loop_iobuf_get(conn->loop, size);
	if (buf)
		conn->buffered += buf->size;
	return buf;
}

/* All that the command needs now and does not have. False: none now. */
static bool buffers_get(struct iscsi_io *io)
{
	bool running = io->task.state == ISCSI_TASK_RUNNING;

	if (io->task.wanted > 0 && !io->out)
		io->out = buffer_take(io->conn, io->task.wanted);
	if (io->task.wanted > 0 && !io->out)
		return false;
	if (running && io->scsi.in_size > 0 && !io->in)
		io->in = buffer_take(io->conn, io->scsi.in_size);
	return !running || io->scsi.in_size == 0 || io->in;
}

/* Those who wait are served first. */
static bool buffers_get_in_turn(struct iscsi_io *io)
{
	return !io->conn->service->waiting_first && buffers_get(io);
}

static void check_start(struct iscsi_service *service)
{
	service->check_runs = true;
	loop_timer_start(service->loop, &service->check, ISCSI_WAIT_CHECK_MS);
}

static void wait_add(struct iscsi_io *io)
{
	struct iscsi_service *service = io->conn->service;

	io->waiting = true;
	io->since_ms = clock_ms();
	io->waiting_next = NULL;
	io->waiting_prev = service->waiting_last;
	if (service->waiting_last)
		service->waiting_last->waiting_next = io;
	else
		service->waiting_first = io;
	service->waiting_last = io;
	if (!service->check_runs)
		check_start(service);
}

static void wait_remove(struct iscsi_io *io)
{
	struct iscsi_service *service = io->conn->service;

	if (!io->waiting)
		return;
	io->waiting = false;
	if (io->waiting_prev)
		io->waiting_prev->waiting_next = io->waiting_next;
	else
		service->waiting_first = io->waiting_next;
	if (io->waiting_next)
		io->waiting_next->waiting_prev = io->waiting_prev;
	else
		service->waiting_last = io->waiting_prev;
}

/* ---- the end of a command ---- */

void iscsi_io_free(struct iscsi_io *io)
{
	struct iscsi_conn *conn = io->conn;
	bool was_full = !iscsi_io_room(conn);

	wait_remove(io);
	scsi_task_finish(&io->scsi);
	buffer_put(conn, io->out);
	buffer_put(conn, io->in);
	io->next = conn->free;
	conn->free = io;
	conn->n_ios--;
	if (was_full || conn->phase != ISCSI_CONN_OPEN)
		iscsi_conn_touch(conn);
}

void iscsi_io_forget(struct iscsi_io *io)
{
	assert(!io->started);
	iscsi_session_forget(&io->conn->session, &io->task);
	if (io->conn->writing == io)
		io->conn->writing = NULL;
	iscsi_io_free(io);
}

static void forget_one(struct iscsi_task *task, void *context)
{
	struct iscsi_io *io = iscsi_io_of(task);
	struct iscsi_conn *conn = context;

	if (io->started && conn->phase == ISCSI_CONN_CLOSING)
		scsi_task_abort(&io->scsi);
	else if (io->started)
		; /* it is answered */
	else if (conn->receiving && conn->receiving_direct &&
		 conn->writing == io)
		; /* the kernel still writes into its buffer */
	else
		iscsi_io_forget(io);
}

void iscsi_io_forget_all(struct iscsi_conn *conn)
{
	iscsi_session_each_task(&conn->session, forget_one, conn);
}

/* ---- answers ---- */

static void answer(struct iscsi_io *io)
{
	io->task.status = io->scsi.status;
	io->task.transfer_length = io->scsi.transfer_length;
	io->task.in_length = io->scsi.in_length;
	io->task.in = io->in ? io->in->data : NULL;
	io->task.sense = io->scsi.sense;
	io->task.sense_length = io->scsi.sense_length;
	iscsi_session_answer(&io->conn->session, &io->task);
	iscsi_conn_touch(io->conn);
}

static void answer_status(struct iscsi_io *io, enum scsi_status status)
{
	io->scsi.status = (uint8_t)status;
	io->scsi.transfer_length = 0;
	io->scsi.in_length = 0;
	io->scsi.sense_length = 0;
	answer(io);
}

static void io_done(struct scsi_task *scsi)
{
	struct iscsi_io *io = container_of(scsi, struct iscsi_io, scsi);
	struct iscsi_conn *conn = io->conn;
	bool closing = conn->phase == ISCSI_CONN_CLOSING;
	bool silent = scsi->aborted && scsi->status != SCSI_TASK_ABORTED;

	conn->active--;
	io->started = false;
	iscsi_conn_touch(conn);
	if (io->abort_asked && !closing)
		iscsi_session_task_response(&conn->session, io->abort_itt,
					    ISCSI_TASK_COMPLETE);
	if (closing || silent)
		iscsi_io_forget(io);
	else
		answer(io);
}

/* ---- starting ---- */

static void io_start(struct iscsi_io *io)
{
	io->scsi.out = io->out ? io->out->data : NULL;
	io->scsi.in = io->in ? io->in->data : NULL;
	io->started = true;
	io->conn->active++;
	scsi_task_start(&io->scsi);
}

void iscsi_io_ready(struct iscsi_io *io)
{
	if (io->task.error != ISCSI_TASK_FINE) {
		iscsi_session_answer_error(&io->conn->session, &io->task);
		iscsi_conn_touch(io->conn);
	} else if (io->scsi.in_size == 0 || buffers_get_in_turn(io)) {
		io_start(io);
	} else {
		wait_add(io);
	}
}

/* The session's own device for the unit. */
static void path_device(struct iscsi_conn *conn, struct scsi_path *path)
{
	struct iscsi_conn_lun *lun;

	if (!path || path->dev)
		return;
	lun = conn->by_lun[path->lun];
	path->dev = lun ? lun->dev : NULL;
}

int iscsi_io_open(struct scsi_path *path, void *context)
{
	path_device(context, path);
	return path->dev ? 0 : -ENODEV;
}

static void scsi_fill(struct iscsi_io *io, const struct iscsi_event *event)
{
	const struct iscsi_pdu *pdu = event->pdu;
	be64 lun = be64_make(pdu->lun);
	struct scsi_task *scsi = &io->scsi;

	scsi->nexus = io->conn->nexus;
	memcpy(scsi->lun, lun.bytes, sizeof(scsi->lun));
	memcpy(scsi->cdb, pdu->command.cdb, sizeof(scsi->cdb));
	scsi->cdb_long = event->cdb_long;
	scsi->attribute = (enum scsi_attribute)pdu->command.attribute;
	scsi->expected_out = io->task.expected_out;
	scsi->expected_in = io->task.expected_in;
	scsi->done = io_done;
	scsi_task_parse(scsi);
	path_device(io->conn, scsi->path);
}

bool iscsi_io_command(struct iscsi_conn *conn, const struct iscsi_event *event)
{
	struct iscsi_io *io = io_new(conn);

	if (!io)
		return false;
	iscsi_session_task_init(&conn->session, &io->task, event);
	scsi_fill(io, event);
	io->task.wanted = io->scsi.out_length;
	if (io->task.wanted > 0)
		io->task.has_buffer = buffers_get_in_turn(io);
	if (iscsi_session_accept(&conn->session, &io->task))
		iscsi_io_ready(io);
	else if (io->task.wanted > 0 && !io->task.has_buffer &&
		 io->task.error == ISCSI_TASK_FINE)
		wait_add(io);
	return true;
}

/* ---- those who wait ---- */

/* It has its buffers. */
static void wait_end(struct iscsi_io *io)
{
	wait_remove(io);
	if (io->task.state == ISCSI_TASK_RUNNING) {
		io_start(io);
		return;
	}
	iscsi_session_solicit(&io->conn->session, &io->task);
	iscsi_conn_touch(io->conn);
}

void iscsi_service_wake(struct loop_batch *batch)
{
	struct iscsi_service *service = container_of(
		batch, struct iscsi_service, wake);
	struct iscsi_io *io = service->waiting_first;

	while (io) {
		struct iscsi_io *next = io->waiting_next;
		struct iscsi_conn *conn = io->conn;

		if (buffers_get(io))
			wait_end(io);
		else if (conn->buffered == 0)
			return; /* the pool is used up: the first is next */
		io = next;
	}
}

static void wait_give_up(struct iscsi_io *io)
{
	wait_remove(io);
	io->task.state = ISCSI_TASK_RUNNING;
	answer_status(io, SCSI_BUSY);
}

static bool stuck(const struct iscsi_conn *conn, int64_t now_ms)
{
	bool waits_for_peer = conn->sending || conn->receiving_direct;

	return conn->buffered > 0 && waits_for_peer &&
	       conn->phase != ISCSI_CONN_CLOSING &&
	       now_ms - conn->progress_ms >= ISCSI_STUCK_MAX_MS;
}

void iscsi_service_check(struct op *op, int res)
{
	struct loop_timer *timer = container_of(op, struct loop_timer, op);
	struct iscsi_service *service = container_of(
		timer, struct iscsi_service, check);
	int64_t now_ms = clock_ms();

	(void)res; /* stopped by iscsi_service_stop(), or due */
	service->check_runs = false;
	if (!service->waiting_first || service->stopping) {
		service->ended(service, 0);
		return;
	}
	for (struct iscsi_conn *conn = service->conns; conn; conn = conn->next)
		if (stuck(conn, now_ms))
			iscsi_conn_drop(conn, "others wait for buffers that it "
					      "holds and does nothing with");
	/* Buffers of the pool may come back from others than us. */
	iscsi_service_wake(&service->wake);
	while (service->waiting_first &&
	       now_ms - service->waiting_first->since_ms >= ISCSI_WAIT_MAX_MS)
		wait_give_up(service->waiting_first);
	if (!service->check_runs && service->waiting_first)
		check_start(service);
	else if (!service->waiting_first)
		service->ended(service, 0);
}
