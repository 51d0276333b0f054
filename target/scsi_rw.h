/* SPDX-License-Identifier: Apache-2.0 */
/* What the commands that move blocks share. */
#ifndef TARGET_SCSI_RW_H
#define TARGET_SCSI_RW_H

#include "target/scsi_internal.h"

struct scsi_rw {
	uint64_t lba;
	uint64_t blocks;
	unsigned blocks_at; /* the byte of the CDB that says so */
};

/*
 * Where and how many, from a CDB as READ (6), (10), (12) or (16) has it. It
 * fails the task, and says false, if protection information is asked for.
 */
bool scsi_rw_decode(struct scsi_task *task, struct scsi_rw *ret);

/* Fail the task if the unit is write protected. True: it is not. */
bool scsi_write_allowed(struct scsi_task *task);

/* For commands that write like WRITE: sets range, length, data to collect. */
void scsi_write_parse(struct scsi_task *task);

/* The flags of what the task writes: enum blockdev_flag. */
unsigned scsi_write_flags(const struct scsi_task *task);

#endif
