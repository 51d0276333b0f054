/* SPDX-License-Identifier: Apache-2.0 */
/* Task management (RFC 7143 11.5, 11.6). */
#include <stdlib.h>

#include "base/cleanup.h"
#include "target/iscsi/iscsi_conn_internal.h"

static void task_respond(struct iscsi_conn *conn, uint32_t itt,
			 enum iscsi_task_answer answer)
{
	iscsi_session_task_response(&conn->session, itt, answer);
	conn_touch(&conn->base);
}

/* The task ends first, then the answer goes out. */
static void abort_task(struct iscsi_conn *conn, const struct iscsi_pdu *pdu)
{
	struct iscsi_task *task = iscsi_session_task(&conn->session, pdu->ttt);
	struct iscsi_io *io = task ? iscsi_io_of(task) : NULL;

	if (!io || task->lun != pdu->lun) {
		task_respond(conn, pdu->itt, ISCSI_TASK_NOT_THERE);
	} else if (io->abort_asked) {
		task_respond(conn, pdu->itt, ISCSI_TASK_REJECTED);
	} else {
		io->abort_asked = true;
		io->abort_itt = pdu->itt;
		if (io->started)
			iscsi_io_abort(io);
		else
			iscsi_io_forget(io);
	}
}

/* ---- of several tasks ---- */

struct hit {
	uint64_t lun;
	bool all; /* LUNs */
};

static void forget_hit(struct iscsi_task *task, void *context)
{
	const struct hit *hit = context;
	struct iscsi_io *io = iscsi_io_of(task);

	if (!io->started && (hit->all || task->lun == hit->lun))
		iscsi_io_forget(io);
}

static void lun_reset_done(struct scsi_reset *reset)
{
	struct iscsi_conn_reset *done = container_of(
		reset, struct iscsi_conn_reset, reset);
	struct iscsi_conn *conn = done->conn;

	conn->base.active--;
	conn->n_resets--;
	if (conn->base.phase != CONN_CLOSING)
		task_respond(conn, done->itt,
			     reset->res < 0 ? ISCSI_TASK_NO_LUN
					    : ISCSI_TASK_COMPLETE);
	conn->cold_reset |= done->cold;
	conn_touch(&conn->base);
	free(done);
}

static void reset_start(struct iscsi_conn *conn, const struct iscsi_pdu *pdu,
			enum scsi_function function)
{
	struct hit hit = {pdu->lun, function == SCSI_TARGET_RESET};
	be64 lun = be64_make(pdu->lun);
	struct iscsi_conn_reset *reset = conn->n_resets < ISCSI_RESETS_MAX
						 ? calloc(1, sizeof(*reset))
						 : NULL;

	if (!reset) {
		task_respond(conn, pdu->itt, ISCSI_TASK_REJECTED);
		return;
	}
	reset->conn = conn;
	reset->itt = pdu->itt;
	reset->cold = pdu->task.function == ISCSI_COLD_RESET;
	reset->reset.done = lun_reset_done;
	conn->base.active++;
	conn->n_resets++;
	iscsi_session_each_task(&conn->session, forget_hit, &hit);
	scsi_reset_start(&reset->reset, conn->nexus, function, lun.bytes);
}

void iscsi_manage(struct iscsi_conn *conn, const struct iscsi_pdu *pdu)
{
	switch (pdu->task.function) {
	case ISCSI_ABORT_TASK: abort_task(conn, pdu); break;
	case ISCSI_ABORT_TASK_SET:
		reset_start(conn, pdu, SCSI_ABORT_TASK_SET);
		break;
	case ISCSI_CLEAR_TASK_SET:
		reset_start(conn, pdu, SCSI_CLEAR_TASK_SET);
		break;
	case ISCSI_LUN_RESET: reset_start(conn, pdu, SCSI_LUN_RESET); break;
	case ISCSI_WARM_RESET:
	case ISCSI_COLD_RESET: reset_start(conn, pdu, SCSI_TARGET_RESET); break;
	case ISCSI_TASK_REASSIGN:
		task_respond(conn, pdu->itt, ISCSI_TASK_NO_REASSIGN);
		break;
	case ISCSI_CLEAR_ACA:
		task_respond(conn, pdu->itt, ISCSI_TASK_NOT_SUPPORTED);
		break;
	default: task_respond(conn, pdu->itt, ISCSI_TASK_REJECTED); break;
	}
}
