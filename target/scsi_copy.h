/* SPDX-License-Identifier: Apache-2.0 */
/*
 * EXTENDED COPY (LID1), block to block, between units of one target: what its
 * three files share.
 */
#ifndef TARGET_SCSI_COPY_H
#define TARGET_SCSI_COPY_H

#include "target/scsi_internal.h"

/* Limits, told by RECEIVE COPY RESULTS and VPD page 8F. Ours. */
#define SCSI_COPY_ENDS         8u
#define SCSI_COPY_SEGMENTS     32u
#define SCSI_COPY_END_SIZE     32u /* bytes of a descriptor; SPC-4 6.4.5 */
#define SCSI_COPY_SEGMENT_SIZE 28u
#define SCSI_COPY_LIST_MAX                     \
	(SCSI_COPY_ENDS * SCSI_COPY_END_SIZE + \
	 SCSI_COPY_SEGMENTS * SCSI_COPY_SEGMENT_SIZE)
#define SCSI_COPY_HEADER 16u /* bytes */
#define SCSI_COPY_HELD   16u /* results a session may ask for later */

#define SCSI_COPY_END_TYPE     0xe4 /* identification descriptor */
#define SCSI_COPY_SEGMENT_TYPE 0x02 /* block to block */

struct scsi_copy_segment {
	unsigned from_end, to_end; /* places in the ends */
	bool by_to;                /* DC: counted in the destination's blocks */
	uint32_t blocks;
	uint64_t from_lba, to_lba;
};

struct scsi_copy {
	struct scsi_task *task;
	uint8_t list_id;
	bool held; /* its result is kept */
	unsigned n_ends, n_segments;
	struct scsi_path *ends[SCSI_COPY_ENDS]; /* NULL: can't be reached */
	struct scsi_copy_segment segments[SCSI_COPY_SEGMENTS];
	/* Progress. */
	unsigned segment;
	uint64_t at;           /* bytes of the segment */
	uint64_t bytes;        /* in all */
	struct scsi_task part; /* a piece read, then written */
};

/* Read the parameter list. False: the task has failed. */
bool scsi_copy_decode(struct scsi_task *task, struct scsi_copy *ret);

/* How the copy with @list_id stands: kept for this session. */
enum scsi_copy_status { /* SPC-4 table 283 */
			SCSI_COPY_RUNS = 0,
			SCSI_COPY_DONE = 1,
			SCSI_COPY_FAILED = 2,
};
void scsi_copy_note(const struct scsi_copy *copy, enum scsi_copy_status status);
void scsi_copy_forget(struct scsi_path *path);

#endif
