/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the commands that move blocks. */
#ifndef TARGET_SCSI_RW_H
#define TARGET_SCSI_RW_H

#include "target/scsi/scsi_internal.h"

struct scsi_rw {
	uint64_t lba;
	uint64_t blocks;
	unsigned blocks_at; /* the byte of the CDB that says so */
};

/*
 * Decode place and number of blocks, from a CDB as READ (6), (10), (12) or (16)
 * has it. False: protection information is asked for, and the task has failed.
 */
bool scsi_rw_decode(struct scsi_task *task, struct scsi_rw *ret);

/*
 * Parse the common part of READ and WRITE: the range, no longer than a transfer
 * may be; transfer_length; FUA. False: the task has failed.
 */
bool scsi_rw_parse(struct scsi_task *task);

/* Fail the task if the unit is write protected. True: it is not. */
bool scsi_write_allowed(struct scsi_task *task);

/* For commands that write like WRITE: sets range, length, data to collect. */
void scsi_write_parse(struct scsi_task *task);

/*
 * Tell whether the data that came is whole blocks. Else the task has failed. No
 * part of a block is written for an initiator that sends less than the command
 * says, and it is told.
 */
bool scsi_write_whole(struct scsi_task *task);

/* End a task as its last step: the write is over, or failed. */
void scsi_write_done(struct scsi_task *task, int res);

/* Return the flags of the task's writes: enum blockdev_flag. */
unsigned scsi_write_flags(const struct scsi_task *task);

/* Ask for a buffer for pieces of @length bytes in all, of @max each. */
void scsi_scratch_ask(struct scsi_task *task, uint64_t length, uint32_t max);

/*
 * Ask for the scratch memory that scsi_verify_start() needs for @length bytes.
 */
void scsi_verify_ask(struct scsi_task *task, uint64_t length);

/*
 * Read the medium, compare it with data, and complete the task. If they differ:
 * MISCOMPARE, with the offset of the first byte that does.
 *
 * @data    borrowed until then; NULL: just read
 * @period  bytes of @data, again and again
 * @length  bytes, from task->offset on
 */
void scsi_verify_start(struct scsi_task *task, const uint8_t *data,
		       uint32_t period, uint64_t length);

/* MISCOMPARE at byte @offset of the data. */
void scsi_fail_miscompare(struct scsi_task *task, uint64_t offset);

/* Return where both begin to differ; @length: nowhere. */
size_t scsi_differ(const uint8_t *a, const uint8_t *b, size_t length);

#endif
