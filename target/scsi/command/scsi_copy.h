/* SPDX-License-Identifier: Apache-2.0 */
/*
 * EXTENDED COPY (LID1), block to block, between units of one target: what its
 * files share.
 */
#ifndef TARGET_SCSI_COPY_H
#define TARGET_SCSI_COPY_H

#include "target/scsi/scsi_internal.h"

/* Limits, told by RECEIVE COPY RESULTS and VPD page 8F. Ours. */
#define SCSI_COPY_ENDS        8u
#define SCSI_COPY_SEGMENTS    32u
#define SCSI_COPY_END_SIZE    32u /* bytes of a descriptor; SPC-4 6.4.5 */
#define SCSI_COPY_BLOCKS_SIZE 28u /* the same of a segment; 6.4.6.4 */
#define SCSI_COPY_BYTES_SIZE  32u /* the same; 6.4.6.12 */
#define SCSI_COPY_LIST_MAX                     \
	(SCSI_COPY_ENDS * SCSI_COPY_END_SIZE + \
	 SCSI_COPY_SEGMENTS * SCSI_COPY_BYTES_SIZE)
#define SCSI_COPY_HEADER 16u /* bytes */
#define SCSI_COPY_HELD   16u /* results a session may ask for later */

#define SCSI_COPY_END_TYPE    0xe4 /* identification descriptor */
#define SCSI_COPY_BLOCKS_TYPE 0x02 /* block to block */
#define SCSI_COPY_BYTES_TYPE  0x0a /* the same, with offsets in bytes */

/* The most bytes of a segment: the maximum of the field of either type. */
#define SCSI_COPY_SEGMENT_MAX UINT32_MAX

struct scsi_copy_segment {
	unsigned from_end, to_end; /* places in the ends */
	bool in_bytes;             /* of the type that has offsets */
	bool by_to;                /* DC: counted in the destination's blocks */
	uint32_t count;            /* blocks, or bytes */
	uint64_t from_lba, to_lba;
	unsigned from_skip, to_skip; /* bytes of these blocks; offsets */
	/* In bytes of both media; once it is clear that they are there. */
	uint64_t from, to, length;
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
	uint32_t piece;        /* bytes under way */
	struct scsi_task part; /* the piece read, then written */
	void (*piece_done)(struct scsi_copy *copy, bool fine);
};

static inline const struct scsi_copy_segment *scsi_copy_segment_of(
	const struct scsi_copy *copy)
{
	return &copy->segments[copy->segment];
}

/* Read the parameter list. False: the task has failed. */
bool scsi_copy_decode(struct scsi_task *task, struct scsi_copy *ret);

/* Bytes of buffer that a copy works with. */
#define SCSI_COPY_SCRATCH SCSI_SCRATCH_MAX

/* The session could READ or WRITE there. */
bool scsi_copy_allowed(struct scsi_path *path, bool write);

/*
 * Move the next piece of the segment. @done is called with whether it could be,
 * maybe from inside; the progress has been noted.
 */
void scsi_copy_piece(struct scsi_copy *copy,
		     void (*done)(struct scsi_copy *copy, bool fine));

/* Keep the status of the copy with its list_id, for this session. */
void scsi_copy_note(const struct scsi_copy *copy, enum scsi_copy_status status);

#endif
