/* SPDX-License-Identifier: Apache-2.0 */
/* READ and WRITE, 6 to 16 bytes: SBC-3 5.8 to 5.13, 5.34 to 5.39 */
#include "target/scsi/command/scsi_rw.h"

#include "target/scsi/command/scsi_primary.h"

#define PROTECT 0xe0 /* RDPROTECT, WRPROTECT, VRPROTECT */
#define FUA     0x08

bool scsi_rw_decode(struct scsi_task *task, struct scsi_rw *ret)
{
	const uint8_t *cdb = task->cdb;

	switch (task->command->length) {
	case 6:
		ret->lba = scsi_be24(cdb + 1) & 0x1fffff;
		ret->blocks = cdb[4] ?: 256;
		ret->blocks_at = 4;
		return true;
	case 10:
		ret->lba = scsi_be32(cdb + 2);
		ret->blocks = scsi_be16(cdb + 7);
		ret->blocks_at = 7;
		break;
	case 12:
		ret->lba = scsi_be32(cdb + 2);
		ret->blocks = scsi_be32(cdb + 6);
		ret->blocks_at = 6;
		break;
	default:
		ret->lba = scsi_be64(cdb + 2);
		if (cdb[0] == SCSI_WRITE_ATOMIC_16) {
			ret->blocks = scsi_be16(cdb + 12);
			ret->blocks_at = 12;
			break;
		}
		ret->blocks = scsi_be32(cdb + 10);
		ret->blocks_at = 10;
	}
	if (cdb[1] & PROTECT) {
		scsi_fail_cdb(task, 1, 7);
		return false;
	}
	return true;
}

bool scsi_write_allowed(struct scsi_task *task)
{
	const struct scsi_unit *unit = scsi_task_unit(task);
	const struct blockdev *dev = task->path->dev;

	/* The device may be so by itself: its disk takes no writes. */
	if (unit->read_only || (dev && dev->read_only))
		scsi_fail(task, SCSI_DATA_PROTECT, SCSI_ASC_WRITE_PROTECTED);
	else if (atomic_load_explicit(&unit->write_protect,
				      memory_order_relaxed))
		scsi_fail(task, SCSI_DATA_PROTECT, SCSI_ASC_SOFTWARE_PROTECTED);
	return !task->failed;
}

bool scsi_rw_parse(struct scsi_task *task)
{
	const struct scsi_unit *unit = scsi_task_unit(task);
	struct scsi_rw rw;

	if (!scsi_rw_decode(task, &rw) ||
	    !scsi_task_range(task, rw.lba, rw.blocks))
		return false;
	if (task->length > unit->transfer_max) {
		scsi_fail_cdb(task, rw.blocks_at, SCSI_NO_BIT);
		return false;
	}
	task->transfer_length = (uint32_t)task->length;
	if (task->command->length > 6 && (task->cdb[1] & FUA))
		task->flags = BLOCKDEV_FUA;
	return true;
}

void scsi_scratch_ask(struct scsi_task *task, uint64_t length, uint32_t max)
{
	assert(max <= SCSI_SCRATCH_MAX);
	task->scratch_size = length < max ? (uint32_t)length : max;
}

/* ---- READ ---- */

static void read_parse(struct scsi_task *task)
{
	uint32_t mask = scsi_task_unit(task)->block_size - 1;

	if (!scsi_rw_parse(task))
		return;
	/* Whole blocks, into a buffer that the rest of the last one fits. */
	task->in_size = task->transfer_length;
	if (task->expected_in < task->in_size)
		task->in_size = (task->expected_in + mask) & ~mask;
}

static void read_done(struct scsi_task *task, int res)
{
	if (res < 0)
		scsi_fail_errno(task, res, task->offset, false);
	else
		task->in_length = task->in_size;
	scsi_task_complete(task);
}

static void read_flushed(struct scsi_task *task, int res)
{
	if (res < 0 || scsi_task_stopped(task)) {
		if (res < 0)
			scsi_fail_errno(task, res, task->offset, true);
		scsi_task_complete(task);
		return;
	}
	blockdev_read(task->path->dev, scsi_task_op(task, read_done), task->in,
		      task->in_size, task->offset);
}

static void read_run(struct scsi_task *task)
{
	struct blockdev *dev = task->path->dev;

	if (task->in_size == 0)
		scsi_task_complete(task);
	else if (task->flags & BLOCKDEV_FUA) /* what is on the medium */
		blockdev_flush(dev, scsi_task_op(task, read_flushed));
	else
		blockdev_read(dev, scsi_task_op(task, read_done), task->in,
			      task->in_size, task->offset);
}

/* ---- WRITE ---- */

void scsi_write_parse(struct scsi_task *task)
{
	if (!scsi_rw_parse(task) || !scsi_write_allowed(task))
		return;
	task->out_length = task->transfer_length < task->expected_out
				   ? task->transfer_length
				   : task->expected_out;
}

void scsi_write_done(struct scsi_task *task, int res)
{
	if (res < 0)
		scsi_fail_errno(task, res, task->offset, true);
	scsi_task_complete(task);
}

unsigned scsi_write_flags(const struct scsi_task *task)
{
	bool through = atomic_load_explicit(
		&scsi_task_unit(task)->write_through, memory_order_relaxed);

	return task->flags | (through ? BLOCKDEV_FUA : 0);
}

bool scsi_write_whole(struct scsi_task *task)
{
	uint32_t mask = scsi_task_unit(task)->block_size - 1;

	if (!(task->out_length & mask))
		return true;
	scsi_fail(task, SCSI_ILLEGAL_REQUEST, SCSI_ASC_DATA_SIZE);
	task->cut = true;
	return false;
}

static void write_run(struct scsi_task *task)
{
	uint32_t length = task->out_length;

	if (!scsi_write_whole(task) || length == 0)
		scsi_task_complete(task);
	else
		blockdev_write(task->path->dev,
			       scsi_task_op(task, scsi_write_done), task->out,
			       length, task->offset, scsi_write_flags(task));
}

/* ---- WRITE ATOMIC, SBC-4 5.46 ---- */

static void atomic_parse(struct scsi_task *task)
{
	if (scsi_be16(task->cdb + 10)) { /* a boundary inside of it */
		scsi_fail_cdb(task, 10, SCSI_NO_BIT);
		return;
	}
	scsi_write_parse(task);
	if (!task->failed && task->length > SCSI_ATOMIC_MAX)
		scsi_fail_cdb(task, 12, SCSI_NO_BIT);
}

/*
 * Write while nobody else reads or writes these blocks. The device decides
 * whether a loss of power leaves all of the write or nothing.
 */
static void atomic_run(struct scsi_task *task)
{
	if (task->out_length == task->transfer_length) {
		write_run(task);
		return;
	}
	scsi_fail(task, SCSI_ILLEGAL_REQUEST, SCSI_ASC_DATA_SIZE);
	scsi_task_complete(task);
}

#define READ(code, bytes, ...)                                                 \
	{                                                                      \
		.opcode = (code), .action = SCSI_NO_ACTION, .length = (bytes), \
		.flags = SCSI_C_MEDIUM | SCSI_C_READS,                         \
		.usage = {0, __VA_ARGS__}, .parse = read_parse,                \
		.run = read_run                                                \
	}

#define WRITE(code, bytes, ...)                                                \
	{                                                                      \
		.opcode = (code), .action = SCSI_NO_ACTION, .length = (bytes), \
		.flags = SCSI_C_MEDIUM | SCSI_C_WRITES,                        \
		.usage = {0, __VA_ARGS__}, .parse = scsi_write_parse,          \
		.run = write_run                                               \
	}

const struct scsi_command scsi_rw_commands[] = {
	READ(SCSI_READ_6, 6, 0x1f, 0xff, 0xff, 0xff),
	READ(SCSI_READ_10, 10, 0xf8, 0xff, 0xff, 0xff, 0xff, 0, 0xff, 0xff),
	READ(SCSI_READ_12, 12, 0xf8, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
	     0xff),
	READ(SCSI_READ_16, 16, 0xf8, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
	     0xff, 0xff, 0xff, 0xff, 0xff),
	WRITE(SCSI_WRITE_6, 6, 0x1f, 0xff, 0xff, 0xff),
	WRITE(SCSI_WRITE_10, 10, 0xf8, 0xff, 0xff, 0xff, 0xff, 0, 0xff, 0xff),
	WRITE(SCSI_WRITE_12, 12, 0xf8, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
	      0xff),
	WRITE(SCSI_WRITE_16, 16, 0xf8, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
	      0xff, 0xff, 0xff, 0xff, 0xff),
	{.opcode = SCSI_WRITE_ATOMIC_16,
	 .action = SCSI_NO_ACTION,
	 .length = 16,
	 .flags = SCSI_C_MEDIUM | SCSI_C_WRITES | SCSI_C_EXCLUSIVE,
	 .usage = {0, 0xf8, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
		   0xff, 0xff, 0xff, 0xff},
	 .parse = atomic_parse,
	 .run = atomic_run},
	{.length = 0},
};
