/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions for the code of every command: a task's end, its range, its sense.
 */
#include <errno.h>
#include <string.h>

#include "target/scsi/scsi_internal.h"

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

void scsi_fail_field(struct scsi_task *task, enum scsi_asc asc, bool in_cdb,
		     unsigned byte, int bit)
{
	struct scsi_sense sense = {.key = SCSI_ILLEGAL_REQUEST, .asc = asc};

	scsi_sense_point(&sense, in_cdb, byte, bit);
	scsi_fail_sense(task, &sense);
}

void scsi_fail_cdb(struct scsi_task *task, unsigned byte, int bit)
{
	scsi_fail_field(task, SCSI_ASC_INVALID_CDB, true, byte, bit);
}

void scsi_fail_list(struct scsi_task *task, unsigned byte, int bit)
{
	scsi_fail_field(task, SCSI_ASC_INVALID_LIST, false, byte, bit);
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

/* ---- unit attentions ---- */

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
