/* SPDX-License-Identifier: Apache-2.0 */
/* Commands to the device server, their buffers, and their results. */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "target/iscsi/iscsi_conn_internal.h"

static void iscsi_io_done(struct scsi_task *scsi);

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
 * Bytes of data that may come before the command has its buffers. A command
 * gets its buffers before its data comes, or two that hold some might wait for
 * each other. Few bytes may come all the same: those of all commands of a
 * session together are little. Ours.
 */
#define SMALL_DATA 4096u /* bytes: the smallest buffer */

/* Buffers of a command: data out, data in, and room to work. */
#define IO_BUFFERS 3u

/* Set @ret to the bytes that it needs now and does not have. Returns all. */
static uint64_t size_missing(const struct iscsi_io *io,
			     uint32_t ret[static IO_BUFFERS])
{
	bool running = io->task.state == ISCSI_TASK_RUNNING;
	bool works = running || io->task.wanted > SMALL_DATA;

	ret[0] = io->out ? 0 : io->task.wanted;
	ret[1] = !running || io->in ? 0 : io->scsi.in_size;
	ret[2] = !works || io->scratch ? 0 : io->scsi.scratch_size;
	return (uint64_t)ret[0] + ret[1] + ret[2];
}

/*
 * Get all buffers that the command needs now and does not have. False: none of
 * them.
 */
static bool buffers_get(struct iscsi_io *io)
{
	struct iobuf *got[IO_BUFFERS] = {io->out, io->in, io->scratch};
	uint32_t sizes[IO_BUFFERS];

	if (size_missing(io, sizes) == 0)
		return true;
	if (!conn_buffers_get(&io->conn->base, &io->wait, sizes, IO_BUFFERS,
			      got))
		return false;
	io->out = got[0];
	io->in = got[1];
	io->scratch = got[2];
	return true;
}

static void buffers_await(struct iscsi_io *io)
{
	uint32_t sizes[IO_BUFFERS];

	conn_wait_add(&io->conn->base, &io->wait, size_missing(io, sizes));
}

/* ---- the end of a command ---- */

/* Give the command's buffers back. It is not in the session any more. */
static void io_free(struct iscsi_io *io)
{
	struct iscsi_conn *conn = io->conn;
	bool was_full = !iscsi_io_room(conn);

	conn_wait_remove(&io->wait);
	iscsi_split_free(io);
	scsi_task_finish(&io->scsi);
	conn_buffer_put(&conn->base, io->out);
	conn_buffer_put(&conn->base, io->in);
	conn_buffer_put(&conn->base, io->scratch);
	io->next = conn->free;
	conn->free = io;
	conn->n_ios--;
	if (was_full || conn->base.phase != CONN_OPEN)
		conn_touch(&conn->base);
}

void iscsi_io_forget(struct iscsi_io *io)
{
	assert(!io->started && !io->dropped);
	io->sending = !iscsi_session_forget(&io->conn->session, &io->task);
	io->dropped = true;
	if (io->conn->writing == io)
		io->conn->writing = NULL;
	iscsi_split_abort(io);
	iscsi_io_drop(io);
}

void iscsi_io_drop(struct iscsi_io *io)
{
	struct iscsi_conn *conn = io->conn;

	if (io->sending || iscsi_split_run(io))
		return;
	if (io->abort_asked && conn->base.phase != CONN_CLOSING) {
		iscsi_session_task_response(&conn->session, io->abort_itt,
					    ISCSI_TASK_COMPLETE);
		conn_touch(&conn->base);
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
		iscsi_split_abort(io);
	else
		scsi_task_abort(&io->scsi);
}

static void forget_one(struct iscsi_task *task, void *context)
{
	struct iscsi_io *io = iscsi_io_of(task);
	struct iscsi_conn *conn = context;

	if (io->started && conn->base.phase == CONN_CLOSING)
		iscsi_io_abort(io);
	else if (io->started)
		; /* it is answered */
	else if (conn->base.in.runs && conn->base.in.direct &&
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

static void io_answer(struct iscsi_io *io)
{
	iscsi_io_count(io);
	io->task.status = io->scsi.status;
	io->task.transfer_length = io->scsi.transfer_length;
	io->task.in_length = io->scsi.in_length;
	io->task.in = io->in ? io->in->data : NULL;
	io->task.sense = io->scsi.sense;
	io->task.sense_length = io->scsi.sense_length;
	iscsi_session_answer(&io->conn->session, &io->task);
	conn_touch(&io->conn->base);
}

static void io_answer_status(struct iscsi_io *io, enum scsi_status status)
{
	io->scsi.status = (uint8_t)status;
	io->scsi.transfer_length = 0;
	io->scsi.in_length = 0;
	io->scsi.sense_length = 0;
	io_answer(io);
}

static void io_answer_error(struct iscsi_io *io)
{
	iscsi_session_answer_error(&io->conn->session, &io->task);
	conn_touch(&io->conn->base);
}

void iscsi_io_end(struct iscsi_io *io)
{
	const struct scsi_task *scsi = &io->scsi;
	struct iscsi_conn *conn = io->conn;
	bool closing = conn->base.phase == CONN_CLOSING;
	bool silent = scsi->aborted && scsi->status != SCSI_TASK_ABORTED;

	io->started = false;
	conn_touch(&conn->base);
	if (io->abort_asked && !closing)
		iscsi_session_task_response(&conn->session, io->abort_itt,
					    ISCSI_TASK_COMPLETE);
	io->abort_asked = false;
	if (closing || silent)
		iscsi_io_forget(io);
	else if (io->task.error != ISCSI_TASK_FINE)
		io_answer_error(io);
	else
		io_answer(io);
}

static void iscsi_io_done(struct scsi_task *scsi)
{
	struct iscsi_io *io = container_of(scsi, struct iscsi_io, scsi);

	io->conn->base.active--;
	if (io->device_ns)
		iscsi_split_measure(io, io->device_ns);
	iscsi_io_end(io);
}

/* ---- starting ---- */

static void io_start(struct iscsi_io *io)
{
	io->scsi.out = io->out ? io->out->data : NULL;
	io->scsi.in = io->in ? io->in->data : NULL;
	io->scsi.scratch = io->scratch ? io->scratch->data : NULL;
	io->started = true;
	if (io->parts || (io->in && iscsi_split_plan(io))) {
		iscsi_split_whole(io);
		return;
	}
	io->device_ns = iscsi_split_look(io);
	io->conn->base.active++;
	scsi_task_start(&io->scsi);
}

void iscsi_io_ready(struct iscsi_io *io)
{
	if (io->parts)
		io_start(io);
	else if (io->task.error != ISCSI_TASK_FINE)
		io_answer_error(io);
	else if (buffers_get(io))
		io_start(io);
	else
		buffers_await(io);
}

/* The session's own device for the unit. */
static void path_device(struct iscsi_conn *conn, struct scsi_path *path)
{
	struct iscsi_conn_lun *lun;

	if (!path || path->dev)
		return;
	lun = conn->by_lun[path->lun];
	path->dev = lun ? lun->use.dev : NULL;
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
	scsi->done = iscsi_io_done;
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
		io->task.has_buffer = buffers_get(io);
		(void)iscsi_split_plan(io); /* else it goes whole */
	}
	ready = iscsi_session_accept(&conn->session, &io->task);
	if (io->task.error == ISCSI_TASK_NO_ROOM)
		conn_buffers_refused(conn->base.service);
	if (ready)
		iscsi_io_ready(io);
	else if (io->task.wanted > 0 && !io->task.has_buffer &&
		 io->task.error == ISCSI_TASK_FINE)
		buffers_await(io);
	return true;
}

/* ---- the line for buffers ---- */

/* The command has its buffers. */
static void wait_end(struct iscsi_io *io)
{
	conn_wait_remove(&io->wait);
	if (io->task.state == ISCSI_TASK_RUNNING) {
		io_start(io);
		return;
	}
	iscsi_session_solicit(&io->conn->session, &io->task);
	conn_touch(&io->conn->base);
}

bool iscsi_io_retry(struct conn_wait *wait)
{
	struct iscsi_io *io = container_of(wait, struct iscsi_io, wait);

	if (!buffers_get(io))
		return false;
	wait_end(io);
	return true;
}

void iscsi_io_give_up(struct conn_wait *wait)
{
	struct iscsi_io *io = container_of(wait, struct iscsi_io, wait);

	conn_wait_remove(&io->wait);
	io->task.state = ISCSI_TASK_RUNNING;
	io_answer_status(io, SCSI_BUSY);
}

static void look_for_data(struct iscsi_task *task, void *context)
{
	bool *awaited = context;

	*awaited |= task->state == ISCSI_TASK_COLLECTING &&
		    iscsi_io_of(task)->out != NULL;
}

bool iscsi_io_owes_payload(struct conn *base)
{
	bool awaited = false;

	iscsi_session_each_task(&iscsi_conn_of(base)->session, look_for_data,
				&awaited);
	return awaited;
}
