/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Read, decide, write, with nobody between: COMPARE AND WRITE, SBC-3 5.3, and
 * ORWRITE (16), SBC-3 5.7.
 */
#include <string.h>

#include "target/scsi/command/scsi_primary.h"
#include "target/scsi/command/scsi_rw.h"

#define PROTECT 0xe0
#define FUA     0x08

#define OR_PIECE (UINT32_C(256) << 10) /* bytes; ours */

static bool change_failed(struct scsi_task *task, int res, bool write)
{
	if (res < 0)
		scsi_fail_errno(task, res, task->offset + task->at, write);
	if (res < 0 || scsi_task_stopped(task)) {
		scsi_task_complete(task);
		return true;
	}
	return false;
}

/* Write the read blocks back, changed. */
static void change_write(struct scsi_task *task,
			 void (*written)(struct scsi_task *task, int res))
{
	blockdev_write(task->path->dev, scsi_task_op(task, written),
		       task->scratch, task->piece, task->offset + task->at,
		       scsi_write_flags(task));
}

static void change_read(struct scsi_task *task,
			void (*read)(struct scsi_task *task, int res))
{
	assert(task->piece <= task->scratch_size);
	blockdev_read(task->path->dev, scsi_task_op(task, read), task->scratch,
		      task->piece, task->offset + task->at);
}

/* ---- COMPARE AND WRITE ---- */

static void compare_parse(struct scsi_task *task)
{
	const uint8_t *cdb = task->cdb;

	if (cdb[1] & PROTECT) {
		scsi_fail_cdb(task, 1, 7);
		return;
	}
	if (!scsi_task_range(task, scsi_be64(cdb + 2), cdb[13]) ||
	    !scsi_write_allowed(task))
		return;
	if (task->expected_out != 2 * task->length) {
		scsi_fail_cdb(task, 13, SCSI_NO_BIT);
		return;
	}
	task->flags = cdb[1] & FUA ? BLOCKDEV_FUA : 0;
	task->transfer_length = task->out_length = (uint32_t)(2 * task->length);
	scsi_scratch_ask(task, task->length, SCSI_SCRATCH_MAX);
}

static void compared(struct scsi_task *task, int res)
{
	size_t length = task->piece;
	size_t same;

	if (change_failed(task, res, false))
		return;
	same = scsi_differ(task->scratch, task->out, length);
	if (same < length) {
		scsi_fail_miscompare(task, same);
		scsi_task_complete(task);
		return;
	}
	memcpy(task->scratch, task->out + length, length);
	change_write(task, scsi_write_done);
}

static void compare_run(struct scsi_task *task)
{
	task->piece = (uint32_t)task->length;
	if (task->piece == 0)
		scsi_task_complete(task);
	else
		change_read(task, compared);
}

/* ---- ORWRITE ---- */

/* In pieces: nobody else gets in between, and that is all it promises. */
static void or_next(struct scsi_task *task);

static void or_parse(struct scsi_task *task)
{
	scsi_write_parse(task);
	if (!task->failed)
		scsi_scratch_ask(task, task->out_length, OR_PIECE);
}

static void or_written(struct scsi_task *task, int res)
{
	if (change_failed(task, res, true))
		return;
	task->at += task->piece;
	or_next(task);
}

static void or_read(struct scsi_task *task, int res)
{
	if (change_failed(task, res, false))
		return;
	for (size_t i = 0; i < task->piece; i++)
		task->scratch[i] |= task->out[task->at + i];
	change_write(task, or_written);
}

static void or_next(struct scsi_task *task)
{
	uint32_t left = task->out_length - (uint32_t)task->at;

	task->piece = left < task->scratch_size ? left : task->scratch_size;
	if (left == 0)
		scsi_task_complete(task);
	else
		change_read(task, or_read);
}

static void or_run(struct scsi_task *task)
{
	if (scsi_write_whole(task))
		or_next(task);
	else
		scsi_task_complete(task);
}

const struct scsi_command scsi_compare_commands[] = {
	{.opcode = SCSI_COMPARE_AND_WRITE,
	 .action = SCSI_NO_ACTION,
	 .length = 16,
	 .flags = SCSI_C_MEDIUM | SCSI_C_WRITES | SCSI_C_EXCLUSIVE,
	 .usage = {0, 0xf8, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
		   0xff, [13] = 0xff},
	 .parse = compare_parse,
	 .run = compare_run},
	{.opcode = SCSI_ORWRITE_16,
	 .action = SCSI_NO_ACTION,
	 .length = 16,
	 .flags = SCSI_C_MEDIUM | SCSI_C_WRITES | SCSI_C_EXCLUSIVE,
	 .usage = {0, 0xf8, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
		   0xff, 0xff, 0xff, 0xff},
	 .parse = or_parse,
	 .run = or_run},
	{.length = 0},
};
