/* SPDX-License-Identifier: Apache-2.0 */
/* Commands to the device server, their buffers, and what comes of them. */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "target/iscsi/iscsi_conn_internal.h"

/* Looked at longer ago than so, nobody has waited meanwhile. */
#define LOOK_GAP_MS (10 * ISCSI_WAIT_CHECK_MS)

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

/*
 * What a command works with it gets before its data comes, or two that hold
 * theirs might wait for each other. Data of a few bytes may come all the same:
 * that of all commands of a session together is little. Ours.
 */
#define SMALL_DATA 4096u /* bytes: the smallest buffer */

/* To the loop again; nobody is told. */
static void buffer_drop(struct iscsi_conn *conn, struct iobuf **buf)
{
	if (!*buf)
		return;
	conn->buffered -= (*buf)->size;
	buffer_share_put(&conn->service->buffers, conn->loop, *buf);
	*buf = NULL;
}

static void buffer_put(struct iscsi_conn *conn, struct iobuf *buf)
{
	struct iscsi_service *service = conn->service;

	if (!buf)
		return;
	buffer_drop(conn, &buf);
	if (service->waiting_first)
		loop_batch_add(conn->loop, &service->wake);
}

/* The session has as much as it may have. */
static bool is_full(const struct iscsi_conn *conn, uint64_t size)
{
	return conn->buffered > 0 &&
	       conn->buffered + size > ISCSI_CONN_BUFFER_MAX;
}

/* @first: nobody has waited for longer; else there is only the reserve. */
static struct iobuf *buffer_take(struct iscsi_conn *conn, uint32_t size,
				 bool first)
{
	struct iobuf *buf = buffer_share_get_reserve(conn->loop, conn->buffered,
						     size);

	if (!buf && first)
		buf = buffer_share_get(&conn->service->buffers, conn->loop,
				       size);
	if (buf)
		conn->buffered += buf->size;
	return buf;
}

/* What a command needs now and does not have; bytes, 0: nothing. */
struct missing {
	uint32_t out, in, scratch;
};

static struct missing missing_of(const struct iscsi_io *io)
{
	bool running = io->task.state == ISCSI_TASK_RUNNING;
	bool works = running || io->task.wanted > SMALL_DATA;

	return (struct missing){
		.out = io->out ? 0 : io->task.wanted,
		.in = !running || io->in ? 0 : io->scsi.in_size,
		.scratch = !works || io->scratch ? 0 : io->scsi.scratch_size,
	};
}

static uint64_t size_missing(const struct iscsi_io *io)
{
	struct missing missing = missing_of(io);

	return (uint64_t)missing.out + missing.in + missing.scratch;
}

/* @size: 0: it needs none */
static bool take_one(struct iscsi_conn *conn, struct iobuf **ret, uint32_t size,
		     bool first)
{
	if (size > 0)
		*ret = buffer_take(conn, size, first);
	return size == 0 || *ret;
}

/* All that the command needs now and does not have. False: nothing of it. */
static bool buffers_get(struct iscsi_io *io, bool first)
{
	struct missing missing = missing_of(io);
	uint64_t size = size_missing(io);

	if (size == 0)
		return true;
	if (is_full(io->conn, size))
		return false;
	if (take_one(io->conn, &io->out, missing.out, first) &&
	    take_one(io->conn, &io->in, missing.in, first) &&
	    take_one(io->conn, &io->scratch, missing.scratch, first))
		return true;
	if (missing.out > 0)
		buffer_drop(io->conn, &io->out);
	if (missing.in > 0)
		buffer_drop(io->conn, &io->in);
	return false;
}

/* Those who wait are served first. */
static bool buffers_get_in_turn(struct iscsi_io *io)
{
	return buffers_get(io, !io->conn->service->waiting_first);
}

static void check_start(struct iscsi_service *service)
{
	service->check_runs = true;
	loop_timer_start(service->loop, &service->check, ISCSI_WAIT_CHECK_MS);
}

/* For who waits, and who was refused a moment ago and will come again. */
static void buffers_want(struct iscsi_service *service)
{
	service->buffers.waits = service->waiting_first || service->refused;
	if (service->buffers.waits && !service->check_runs)
		check_start(service);
}

/* Data came with it for which there is no room. */
static void note_refused(struct iscsi_service *service)
{
	service->refused = true;
	service->refused_ms = clock_ms();
	buffers_want(service);
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
	buffers_want(service);
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
	service->buffers.waits = service->waiting_first || service->refused;
}

/* ---- the end of a command ---- */

/* Its buffers go back; it is not in the session any more. */
static void io_free(struct iscsi_io *io)
{
	struct iscsi_conn *conn = io->conn;
	bool was_full = !iscsi_io_room(conn);

	wait_remove(io);
	iscsi_parts_free(io);
	scsi_task_finish(&io->scsi);
	buffer_put(conn, io->out);
	buffer_put(conn, io->in);
	buffer_put(conn, io->scratch);
	io->next = conn->free;
	conn->free = io;
	conn->n_ios--;
	if (was_full || conn->phase != ISCSI_CONN_OPEN)
		iscsi_conn_touch(conn);
}

void iscsi_io_forget(struct iscsi_io *io)
{
	assert(!io->started && !io->dropped);
	io->sending = !iscsi_session_forget(&io->conn->session, &io->task);
	io->dropped = true;
	if (io->conn->writing == io)
		io->conn->writing = NULL;
	iscsi_parts_abort(io);
	iscsi_io_drop(io);
}

void iscsi_io_drop(struct iscsi_io *io)
{
	struct iscsi_conn *conn = io->conn;

	if (io->sending || iscsi_parts_run(io))
		return;
	if (io->abort_asked && conn->phase != ISCSI_CONN_CLOSING) {
		iscsi_session_task_response(&conn->session, io->abort_itt,
					    ISCSI_TASK_COMPLETE);
		iscsi_conn_touch(conn);
	}
	io_free(io);
}

void iscsi_io_sent(struct iscsi_io *io)
{
	io->sending = false;
	if (io->dropped)
		iscsi_io_drop(io);
	else
		io_free(io);
}

void iscsi_io_abort(struct iscsi_io *io)
{
	if (io->parts)
		iscsi_parts_abort(io);
	else
		scsi_task_abort(&io->scsi);
}

static void forget_one(struct iscsi_task *task, void *context)
{
	struct iscsi_io *io = iscsi_io_of(task);
	struct iscsi_conn *conn = context;

	if (io->started && conn->phase == ISCSI_CONN_CLOSING)
		iscsi_io_abort(io);
	else if (io->started)
		; /* it is answered */
	else if (conn->in.runs && conn->in.direct && conn->writing == io)
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
	iscsi_io_count(io);
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

static void answer_error(struct iscsi_io *io)
{
	iscsi_session_answer_error(&io->conn->session, &io->task);
	iscsi_conn_touch(io->conn);
}

void iscsi_io_end(struct iscsi_io *io)
{
	const struct scsi_task *scsi = &io->scsi;
	struct iscsi_conn *conn = io->conn;
	bool closing = conn->phase == ISCSI_CONN_CLOSING;
	bool silent = scsi->aborted && scsi->status != SCSI_TASK_ABORTED;

	io->started = false;
	iscsi_conn_touch(conn);
	if (io->abort_asked && !closing)
		iscsi_session_task_response(&conn->session, io->abort_itt,
					    ISCSI_TASK_COMPLETE);
	io->abort_asked = false;
	if (closing || silent)
		iscsi_io_forget(io);
	else if (io->task.error != ISCSI_TASK_FINE)
		answer_error(io);
	else
		answer(io);
}

static void io_done(struct scsi_task *scsi)
{
	struct iscsi_io *io = container_of(scsi, struct iscsi_io, scsi);

	io->conn->active--;
	if (io->device_ns)
		iscsi_parts_measure(io, io->device_ns);
	iscsi_io_end(io);
}

/* ---- starting ---- */

static void io_start(struct iscsi_io *io)
{
	io->scsi.out = io->out ? io->out->data : NULL;
	io->scsi.in = io->in ? io->in->data : NULL;
	io->scsi.scratch = io->scratch ? io->scratch->data : NULL;
	io->started = true;
	if (io->parts || (io->in && iscsi_parts_plan(io))) {
		iscsi_parts_whole(io);
		return;
	}
	io->device_ns = iscsi_parts_look(io);
	io->conn->active++;
	scsi_task_start(&io->scsi);
}

void iscsi_io_ready(struct iscsi_io *io)
{
	if (io->parts)
		io_start(io);
	else if (io->task.error != ISCSI_TASK_FINE)
		answer_error(io);
	else if (buffers_get_in_turn(io))
		io_start(io);
	else
		wait_add(io);
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
	bool ready;

	if (!io)
		return false;
	io->start_ns = clock_ns();
	iscsi_session_task_init(&conn->session, &io->task, event);
	scsi_fill(io, event);
	io->task.wanted = io->scsi.out_length;
	if (io->task.wanted > 0) {
		io->task.has_buffer = buffers_get_in_turn(io);
		(void)iscsi_parts_plan(io); /* else it goes whole */
	}
	ready = iscsi_session_accept(&conn->session, &io->task);
	if (io->task.error == ISCSI_TASK_NO_ROOM)
		note_refused(conn->service);
	if (ready)
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

		if (buffers_get(io, true))
			wait_end(io);
		else if (!is_full(io->conn, size_missing(io)))
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

static void look_for_data(struct iscsi_task *task, void *context)
{
	bool *awaited = context;

	*awaited |= task->state == ISCSI_TASK_COLLECTING &&
		    iscsi_io_of(task)->out != NULL;
}

/* Data for the buffers of a command is yet to come. */
static bool awaits_data(struct iscsi_conn *conn)
{
	bool awaited = false;

	iscsi_session_each_task(&conn->session, look_for_data, &awaited);
	return awaited;
}

/*
 * It is its turn to send data, and has been for too long. Whatever else it says
 * does not count, nor a byte now and then.
 */
static bool owes_data(struct iscsi_conn *conn, int64_t now_ms)
{
	bool owes = conn->in.runs && awaits_data(conn);

	if (!owes || now_ms - conn->looked_ms >= LOOK_GAP_MS) {
		conn->data_ms = now_ms;
		conn->data_came = 0;
	}
	conn->looked_ms = now_ms;
	return now_ms - conn->data_ms >= ISCSI_STUCK_MAX_MS;
}

static bool stuck(struct iscsi_conn *conn, int64_t now_ms)
{
	bool waits_for_peer = conn->sending ||
			      (conn->in.runs && conn->in.direct);

	if (conn->buffered == 0 || conn->phase == ISCSI_CONN_CLOSING)
		return false;
	return owes_data(conn, now_ms) ||
	       (waits_for_peer &&
		now_ms - conn->progress_ms >= ISCSI_STUCK_MAX_MS);
}

void iscsi_service_drop_stuck(struct buffer_share *share, int64_t now_ms)
{
	struct iscsi_service *service = container_of(
		share, struct iscsi_service, buffers);

	for (struct iscsi_conn *conn = service->conns; conn; conn = conn->next)
		if (stuck(conn, now_ms))
			iscsi_conn_drop(conn, "others wait for buffers that it "
					      "holds and does nothing with");
}

void iscsi_service_check(struct op *op, int res)
{
	struct loop_timer *timer = container_of(op, struct loop_timer, op);
	struct iscsi_service *service = container_of(
		timer, struct iscsi_service, check);
	int64_t now_ms = clock_ms();

	(void)res; /* stopped by iscsi_service_stop(), or due */
	service->check_runs = false;
	if (now_ms - service->refused_ms >= ISCSI_WAIT_MAX_MS)
		service->refused = false;
	service->buffers.waits = service->waiting_first || service->refused;
	if (!service->buffers.waits || service->stopping) {
		service->ended(service, 0);
		return;
	}
	buffer_share_look(&service->buffers, now_ms);
	/* Buffers of the pool may come back from others than us. */
	iscsi_service_wake(&service->wake);
	while (service->waiting_first &&
	       now_ms - service->waiting_first->since_ms >= ISCSI_WAIT_MAX_MS)
		wait_give_up(service->waiting_first);
	buffers_want(service);
	if (!service->check_runs)
		service->ended(service, 0);
}
