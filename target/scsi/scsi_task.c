/* SPDX-License-Identifier: Apache-2.0 */
/* A command from its CDB to its status. */
#include <errno.h>
#include <string.h>

#include "target/scsi/scsi_internal.h"

#define CONTROL_NACA 0x04 /* SAM-5 5.2 */

/* ---- how it ends ---- */

void scsi_fail_sense(struct scsi_task *task, const struct scsi_sense *sense)
{
	bool descriptors = task->path && scsi_task_unit(task)->descriptors;

	task->status = SCSI_CHECK_CONDITION;
	task->sense_length = (uint8_t)scsi_sense_encode(sense, descriptors,
							task->sense);
	task->failed = true;
}

void scsi_fail(struct scsi_task *task, enum scsi_sense_key key,
	       enum scsi_asc asc)
{
	scsi_fail_sense(task, &(struct scsi_sense){.key = key, .asc = asc});
}

static void fail_field(struct scsi_task *task, enum scsi_asc asc, bool in_cdb,
		       unsigned byte, int bit)
{
	struct scsi_sense sense = {.key = SCSI_ILLEGAL_REQUEST, .asc = asc};

	scsi_sense_point(&sense, in_cdb, byte, bit);
	scsi_fail_sense(task, &sense);
}

void scsi_fail_cdb(struct scsi_task *task, unsigned byte, int bit)
{
	fail_field(task, SCSI_ASC_INVALID_CDB, true, byte, bit);
}

void scsi_fail_list(struct scsi_task *task, unsigned byte, int bit)
{
	fail_field(task, SCSI_ASC_INVALID_LIST, false, byte, bit);
}

static void fail_lba(struct scsi_task *task, enum scsi_sense_key key,
		     enum scsi_asc asc, uint64_t lba)
{
	scsi_fail_sense(task, &(struct scsi_sense){.key = key,
						   .asc = asc,
						   .has_information = true,
						   .information = lba});
}

void scsi_fail_range(struct scsi_task *task, uint64_t lba)
{
	fail_lba(task, SCSI_ILLEGAL_REQUEST, SCSI_ASC_LBA_RANGE, lba);
}

void scsi_fail_status(struct scsi_task *task, enum scsi_status status)
{
	task->status = (uint8_t)status;
	task->failed = true;
}

void scsi_fail_errno(struct scsi_task *task, int error, uint64_t offset,
		     bool write)
{
	uint64_t lba = offset >> scsi_task_unit(task)->block_shift;

	switch (-error) {
	case ENOSPC:
	case EDQUOT:
		fail_lba(task, SCSI_DATA_PROTECT, SCSI_ASC_SPACE, lba);
		break;
	case EROFS:
	case EPERM:
	case EACCES:
		scsi_fail(task, SCSI_DATA_PROTECT, SCSI_ASC_WRITE_PROTECTED);
		break;
	case EAGAIN:
	case ENOMEM:
	case EBUSY: scsi_fail_status(task, SCSI_BUSY); break;
	case ENODEV:
	case ENXIO:
	case ESHUTDOWN:
	case ESTALE:
	case ECANCELED:
		scsi_fail(task, SCSI_NOT_READY, SCSI_ASC_NOT_READY);
		break;
	case EIO:
		fail_lba(task, SCSI_MEDIUM_ERROR,
			 write ? SCSI_ASC_WRITE_ERROR : SCSI_ASC_READ_ERROR,
			 lba);
		break;
	default: scsi_fail(task, SCSI_HARDWARE_ERROR, SCSI_ASC_INTERNAL);
	}
}

bool scsi_task_stopped(const struct scsi_task *task)
{
	return task->abort ||
	       (task->path && task->epoch != atomic_load(&task->path->epoch));
}

/* An answer that is none: someone aborted it. */
static void stopped(struct scsi_task *task)
{
	bool tell = !task->abort && (atomic_load(&task->path->epoch) & 1);

	task->aborted = true;
	task->status = tell ? SCSI_TASK_ABORTED : SCSI_GOOD;
	task->sense_length = 0;
	task->in_length = 0;
	task->transfer_length = 0;
}

void scsi_task_complete(struct scsi_task *task)
{
	if (scsi_task_stopped(task)) {
		stopped(task);
	} else if (task->failed) {
		task->in_length = 0;
		if (!task->cut)
			task->transfer_length = 0;
	}
	scsi_range_leave(task);
	task->done(task);
}

void scsi_task_reply(struct scsi_task *task, const void *data, size_t length)
{
	size_t fits = length < task->transfer_length ? length
						     : task->transfer_length;

	task->transfer_length = (uint32_t)fits;
	task->in_length = (uint32_t)(fits < task->in_size ? fits
							  : task->in_size);
	if (task->in_length)
		memcpy(task->in, data, task->in_length);
	scsi_task_complete(task);
}

void scsi_task_finish(struct scsi_task *task)
{
	free(task->context);
	task->context = NULL;
}

/* ---- operations of the device ---- */

static void op_done(struct op *op, int res)
{
	struct scsi_task *task = container_of(op, struct scsi_task, op);

	task->step(task, res);
}

struct op *scsi_task_op(struct scsi_task *task,
			void (*step)(struct scsi_task *task, int res))
{
	task->op.done = op_done;
	task->step = step;
	return &task->op;
}

/* ---- what it is ---- */

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
		fail_field(task, SCSI_ASC_INVALID_OPCODE, true, 0, SCSI_NO_BIT);
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

bool scsi_task_range(struct scsi_task *task, uint64_t lba, uint64_t blocks)
{
	const struct scsi_unit *unit = scsi_task_unit(task);
	uint64_t all = scsi_unit_blocks(unit);

	if (lba > all || blocks > all - lba) {
		scsi_fail_range(task, lba > all ? lba : all);
		return false;
	}
	task->offset = lba << unit->block_shift;
	task->length = blocks << unit->block_shift;
	return true;
}

/* ---- whether it may ---- */

bool scsi_attention_take(struct scsi_path *path, struct scsi_sense *ret)
{
	uint32_t owed = atomic_load_explicit(&path->attentions,
					     memory_order_relaxed);
	unsigned ua;

	if (owed == 0)
		return false;
	ua = (unsigned)__builtin_ctz(owed);
	atomic_fetch_and(&path->attentions, ~(UINT32_C(1) << ua));
	*ret = (struct scsi_sense){.key = SCSI_UNIT_ATTENTION,
				   .asc = scsi_attention_asc(ua)};
	if (ua == SCSI_UA_LOW_SPACE) { /* which threshold: SBC-4 4.7.3.7.6 */
		ret->has_information = true;
		ret->information = SCSI_THRESHOLD_AT;
	}
	return true;
}

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
static bool alone(const struct scsi_task *task)
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
	    !scsi_range_enter(task, alone(task), entered))
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
