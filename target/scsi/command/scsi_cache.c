/* SPDX-License-Identifier: Apache-2.0 */
/* SYNCHRONIZE CACHE and PRE-FETCH: SBC-3 5.25, 5.26, 5.10, 5.11 */
#include "target/scsi/command/scsi_rw.h"

#define IMMED 0x02

/* Bytes that a PRE-FETCH reads at once; ours. */
#define FETCH_PIECE (UINT32_C(1) << 20)
/* Most bytes of which a PRE-FETCH says that they fit the cache; ours. */
#define FETCH_FITS (UINT64_C(64) << 20) /* bytes */

/* The CDB's range, which ends at the medium's end if it has no length. */
static void range_parse(struct scsi_task *task)
{
	uint64_t lba, blocks, all = scsi_unit_blocks(scsi_task_unit(task));

	if (task->command->length == 10) {
		lba = scsi_be32(task->cdb + 2);
		blocks = scsi_be16(task->cdb + 7);
	} else {
		lba = scsi_be64(task->cdb + 2);
		blocks = scsi_be32(task->cdb + 10);
	}
	if (scsi_task_range(task, lba, blocks) && blocks == 0)
		(void)scsi_task_range(task, lba, all - lba); /* it fits */
}

/* ---- SYNCHRONIZE CACHE ---- */

/* A flush has no range: it has to wait for nobody's. */
static void sync_parse(struct scsi_task *task)
{
	range_parse(task);
	task->length = 0;
}

static void sync_done(struct scsi_task *task, int res)
{
	if (res < 0)
		scsi_fail_errno(task, res, task->offset, true);
	scsi_task_complete(task);
}

/* Even with IMMED it answers when it is done: nothing could tell later. */
static void sync_run(struct scsi_task *task)
{
	blockdev_flush(task->path->dev, scsi_task_op(task, sync_done));
}

/* ---- PRE-FETCH ---- */

static void fetch_next(struct scsi_task *task);

static void fetch_read(struct scsi_task *task, int res)
{
	if (res < 0) {
		scsi_fail_errno(task, res, task->offset + task->at, false);
		scsi_task_complete(task);
		return;
	}
	task->at += task->piece;
	fetch_next(task);
}

static void fetch_next(struct scsi_task *task)
{
	uint64_t left = task->length - task->at;

	if (left == 0 || scsi_task_stopped(task)) {
		if (!task->failed)
			task->status = SCSI_CONDITION_MET;
		scsi_task_complete(task);
		return;
	}
	task->piece = left < FETCH_PIECE ? (uint32_t)left : FETCH_PIECE;
	blockdev_read(task->path->dev, scsi_task_op(task, fetch_read),
		      task->scratch, task->piece, task->offset + task->at);
}

/*
 * Tell whether a PRE-FETCH waits. It is a hint, which may not be worth a wait.
 */
static bool fetch_waits(const struct scsi_task *task)
{
	return task->length <= FETCH_FITS && !(task->cdb[1] & IMMED);
}

static void fetch_parse(struct scsi_task *task)
{
	range_parse(task);
	if (!task->failed && fetch_waits(task))
		scsi_scratch_ask(task, task->length, FETCH_PIECE);
}

static void fetch_run(struct scsi_task *task)
{
	bool fits = task->length <= FETCH_FITS;

	if (task->length == 0) {
		task->status = SCSI_CONDITION_MET;
		scsi_task_complete(task);
	} else if (!fetch_waits(task)) {
		task->status = fits ? SCSI_CONDITION_MET : SCSI_GOOD;
		scsi_task_complete(task);
	} else {
		fetch_next(task);
	}
}

#define SYNC(code, bytes, ...)                                                 \
	{                                                                      \
		.opcode = (code), .action = SCSI_NO_ACTION, .length = (bytes), \
		.flags = SCSI_C_MEDIUM, .usage = {0, 0x06, __VA_ARGS__},       \
		.parse = sync_parse, .run = sync_run                           \
	}

#define FETCH(code, bytes, ...)                                                \
	{                                                                      \
		.opcode = (code), .action = SCSI_NO_ACTION, .length = (bytes), \
		.flags = SCSI_C_MEDIUM | SCSI_C_READS,                         \
		.usage = {0, 0x02, __VA_ARGS__}, .parse = fetch_parse,         \
		.run = fetch_run                                               \
	}

const struct scsi_command scsi_cache_commands[] = {
	SYNC(SCSI_SYNCHRONIZE_CACHE_10, 10, 0xff, 0xff, 0xff, 0xff, 0, 0xff,
	     0xff),
	SYNC(SCSI_SYNCHRONIZE_CACHE_16, 16, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
	     0xff, 0xff, 0xff, 0xff, 0xff, 0xff),
	FETCH(SCSI_PRE_FETCH_10, 10, 0xff, 0xff, 0xff, 0xff, 0, 0xff, 0xff),
	FETCH(SCSI_PRE_FETCH_16, 16, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
	      0xff, 0xff, 0xff, 0xff, 0xff),
	{.length = 0},
};
