/* SPDX-License-Identifier: Apache-2.0 */
/* A command from its CDB to the code that runs it. */
#include "target/scsi/scsi_internal.h"

#define CONTROL_NACA 0x04 /* SAM-5 5.2 */

/* ---- parsing ---- */

static uint32_t list_length(const struct scsi_task *task)
{
	const uint8_t *p = task->cdb + task->command->list_at;

	switch (task->command->list_size) {
	case 1: return p[0];
	case 2: return scsi_be16(p);
	case 3: return scsi_be24(p);
	default: return scsi_be32(p);
	}
}

static void parse_list_in(struct scsi_task *task)
{
	uint32_t length = list_length(task);
	uint32_t max = length < SCSI_LIST_MAX ? length : SCSI_LIST_MAX;

	task->transfer_length = length;
	task->in_size = max < task->expected_in ? max : task->expected_in;
}

static void parse_list_out(struct scsi_task *task)
{
	uint32_t length = list_length(task);

	if (length > SCSI_LIST_MAX) {
		scsi_fail(task, SCSI_ILLEGAL_REQUEST, SCSI_ASC_LIST_LENGTH);
		return;
	}
	task->transfer_length = length;
	task->out_length = length < task->expected_out ? length
						       : task->expected_out;
}

static void parse_command(struct scsi_task *task)
{
	const struct scsi_command *command;
	bool opcode;

	command = task->cdb_long ? NULL : scsi_command_find(task->cdb, &opcode);
	task->command = command;
	if (!task->path && (!command || !(command->flags & SCSI_C_NO_UNIT))) {
		scsi_fail(task, SCSI_ILLEGAL_REQUEST, SCSI_ASC_NO_UNIT);
	} else if (!command && !task->cdb_long && opcode) {
		scsi_fail_cdb(task, 1, 4); /* the service action */
	} else if (!command || ((command->flags & SCSI_C_THIN) &&
				(!task->path || !task->path->unit->thin))) {
		scsi_fail_field(task, SCSI_ASC_INVALID_OPCODE, true, 0,
				SCSI_NO_BIT);
	} else if (task->cdb[command->length - 1] & CONTROL_NACA) {
		scsi_fail_cdb(task, command->length - 1u, 2);
	} else {
		if (command->flags & SCSI_C_LIST_IN)
			parse_list_in(task);
		if (command->flags & SCSI_C_LIST_OUT)
			parse_list_out(task);
		if (command->parse && !task->failed)
			command->parse(task);
	}
}

void scsi_task_parse(struct scsi_task *task)
{
	int lun = scsi_lun_decode(task->lun);

	task->path = lun < 0 ? NULL
			     : scsi_nexus_path(task->nexus, (unsigned)lun);
	task->epoch = task->path ? atomic_load(&task->path->epoch) : 0;
	task->out_length = task->in_size = task->scratch_size = 0;
	task->in_length = task->transfer_length = 0;
	task->status = SCSI_GOOD;
	task->sense_length = 0;
	task->aborted = task->failed = task->cut = task->abort = false;
	task->offset = task->length = task->at = 0;
	task->flags = 0;
	task->entered = SCSI_OUTSIDE;
	task->context = NULL;
	parse_command(task);
	if (task->failed)
		task->out_length = task->in_size = task->scratch_size =
			task->transfer_length = 0;
	task->needs_device = !task->failed &&
			     (task->command->flags & SCSI_C_MEDIUM);
}

/* ---- starting ---- */

static bool attention(struct scsi_task *task)
{
	struct scsi_sense sense;

	if (task->follows ||
	    (task->command && (task->command->flags & SCSI_C_QUIET)))
		return false;
	if (!scsi_attention_take(task->path, &sense))
		return false;
	scsi_fail_sense(task, &sense);
	return true;
}

static void check_ready(struct scsi_task *task)
{
	if (atomic_load_explicit(&scsi_task_unit(task)->ejected,
				 memory_order_relaxed))
		scsi_fail(task, SCSI_NOT_READY, SCSI_ASC_NO_MEDIUM);
	else if (!task->path->dev)
		scsi_fail(task, SCSI_NOT_READY, SCSI_ASC_NOT_READY);
}

/* The device may have got its new size later than the unit, or never. */
static void check_reach(struct scsi_task *task)
{
	uint64_t size = task->path->dev->size;

	if (task->length &&
	    (task->offset > size || task->length > size - task->offset))
		scsi_fail(task, SCSI_NOT_READY, SCSI_ASC_NOT_READY);
}

static void entered(struct scsi_task *task)
{
	if (scsi_task_stopped(task))
		scsi_task_complete(task);
	else if (scsi_reserved(task) || task->failed)
		scsi_task_complete(task);
	else
		task->command->run(task);
}

/* Ordered: after all that came before, before all that comes after. */
static bool needs_range_alone(const struct scsi_task *task)
{
	return (task->command->flags & SCSI_C_EXCLUSIVE) ||
	       task->attribute == SCSI_ORDERED;
}

void scsi_task_start(struct scsi_task *task)
{
	if (!task->path || scsi_task_stopped(task) || attention(task)) {
		if (task->failed || task->path)
			scsi_task_complete(task);
		else
			task->command->run(task);
		return;
	}
	if (task->needs_device) {
		check_ready(task);
		if (!task->failed)
			check_reach(task);
	}
	if (!task->failed && task->needs_device &&
	    !scsi_range_enter(task, needs_range_alone(task), entered))
		return;
	entered(task);
}

void scsi_task_abort(struct scsi_task *task)
{
	task->abort = true;
	if (task->entered == SCSI_WAITING_SHARED ||
	    task->entered == SCSI_WAITING_EXCLUSIVE)
		scsi_range_cancel(task);
}
