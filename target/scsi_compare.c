/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Read, decide, write, with nobody between: COMPARE AND WRITE, SBC-3 5.3, and
 * ORWRITE (16), SBC-3 5.7.
 */
#include <string.h>

#include "target/scsi_primary.h"
#include "target/scsi_rw.h"

#define PROTECT 0xe0
#define FUA     0x08

/* Read @piece bytes, which are all that changes. */
static void change_read(struct scsi_task *task,
			void (*read)(struct scsi_task *task, int res))
{
	if (!scsi_buffer_get(task, task->piece))
		return;
	blockdev_read(task->path->dev, scsi_task_op(task, read),
		      task->buffer->data, task->piece, task->offset);
}

static bool change_failed(struct scsi_task *task, int res)
{
	if (res < 0)
		scsi_fail_errno(task, res, task->offset, false);
	if (res < 0 || scsi_task_stopped(task)) {
		scsi_task_complete(task);
		return true;
	}
	return false;
}

static void change_write(struct scsi_task *task)
{
	blockdev_write(task->path->dev, scsi_task_op(task, scsi_write_done),
		       task->buffer->data, task->piece, task->offset,
		       scsi_write_flags(task));
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
}

static void compared(struct scsi_task *task, int res)
{
	size_t length = task->piece;
	size_t same;

	if (change_failed(task, res))
		return;
	same = scsi_differ(task->buffer->data, task->out, length);
	if (same < length) {
		scsi_fail_miscompare(task, same);
		scsi_task_complete(task);
		return;
	}
	memcpy(task->buffer->data, task->out + length, length);
	change_write(task);
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

static void or_read(struct scsi_task *task, int res)
{
	uint8_t *data;

	if (change_failed(task, res))
		return;
	data = task->buffer->data;
	for (size_t i = 0; i < task->piece; i++)
		data[i] |= task->out[i];
	change_write(task);
}

static void or_run(struct scsi_task *task)
{
	task->piece = scsi_write_length(task);
	if (task->piece == 0)
		scsi_task_complete(task);
	else
		change_read(task, or_read);
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
	 .parse = scsi_write_parse,
	 .run = or_run},
	{.length = 0},
};
