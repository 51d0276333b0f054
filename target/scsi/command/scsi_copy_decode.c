/* SPDX-License-Identifier: Apache-2.0 */
/* The parameter list of EXTENDED COPY (LID1), SPC-4 6.4 */
#include <string.h>

#include "target/scsi/command/scsi_copy.h"
#include "target/scsi/command/scsi_primary.h"

enum usage { HOLD = 0, HOLD_TOO = 2, NO_ID = 3 }; /* LIST ID USAGE */

struct lists {
	unsigned ends, segments; /* bytes */
};

static bool length_failed(struct scsi_task *task)
{
	scsi_fail(task, SCSI_ILLEGAL_REQUEST, SCSI_ASC_LIST_LENGTH);
	return false;
}

static bool header_decode(struct scsi_task *task, struct scsi_copy *copy,
			  struct lists *ret)
{
	const uint8_t *list = task->out;
	uint32_t segments;

	if (task->out_length < SCSI_COPY_HEADER)
		return length_failed(task);
	copy->list_id = list[0];
	copy->held = (list[1] >> 3 & 3) != NO_ID;
	if (!copy->held && list[0]) {
		scsi_fail_list(task, 0, SCSI_NO_BIT);
		return false;
	}
	ret->ends = scsi_be16(list + 2);
	segments = scsi_be32(list + 8);
	if (scsi_be32(list + 12)) {
		scsi_fail(task, SCSI_ILLEGAL_REQUEST, SCSI_ASC_INLINE_DATA);
		return false;
	}
	if (segments > SCSI_COPY_LIST_MAX ||
	    ret->ends + segments > SCSI_COPY_LIST_MAX ||
	    ret->ends + segments > task->out_length - SCSI_COPY_HEADER)
		return length_failed(task);
	ret->segments = segments;
	return true;
}

/* ---- ends ---- */

/* The path of this session to the unit with that NAA identifier. */
static struct scsi_path *path_find(struct scsi_nexus *nexus,
				   const uint8_t naa[8])
{
	struct scsi_target *target = nexus->target;
	int lun = -1;

	pthread_mutex_lock(&target->lock);
	for (int i = 0; i < SCSI_LUNS && lun < 0; i++) {
		uint8_t own[8];

		if (!target->units[i])
			continue;
		scsi_unit_naa(target->units[i], own);
		if (memcmp(own, naa, sizeof(own)) == 0)
			lun = i;
	}
	pthread_mutex_unlock(&target->lock);
	return lun < 0 ? NULL : scsi_nexus_path(nexus, (unsigned)lun);
}

/* At byte @at of the list. LU ID TYPE and NUL are obsolete. */
static bool end_decode(struct scsi_task *task, struct scsi_copy *copy,
		       unsigned at)
{
	const uint8_t *d = task->out + at;
	bool naa;

	if (d[0] != SCSI_COPY_END_TYPE) {
		scsi_fail(task, SCSI_ILLEGAL_REQUEST, SCSI_ASC_TARGET_TYPE);
		return false;
	}
	naa = (d[4] & 0x0f) == 1 && (d[5] & 0x3f) == 3 && d[7] == 8;
	copy->ends[copy->n_ends++] = naa ? path_find(task->nexus, d + 8) : NULL;
	return true;
}

static bool ends_decode(struct scsi_task *task, struct scsi_copy *copy,
			unsigned bytes)
{
	unsigned at = SCSI_COPY_HEADER;

	if (bytes % SCSI_COPY_END_SIZE) {
		scsi_fail_list(task, 2, SCSI_NO_BIT);
		return false;
	}
	if (bytes / SCSI_COPY_END_SIZE > SCSI_COPY_ENDS) {
		scsi_fail(task, SCSI_ILLEGAL_REQUEST, SCSI_ASC_MANY_TARGETS);
		return false;
	}
	for (; at < SCSI_COPY_HEADER + bytes; at += SCSI_COPY_END_SIZE)
		if (!end_decode(task, copy, at))
			return false;
	return true;
}

/* ---- segments ---- */

/* Returns the length that it has to have; 0: it is of another type. */
static unsigned segment_size(uint8_t type)
{
	switch (type) {
	case SCSI_COPY_BLOCKS_TYPE: return SCSI_COPY_BLOCKS_SIZE;
	case SCSI_COPY_BYTES_TYPE: return SCSI_COPY_BYTES_SIZE;
	default: return 0;
	}
}

/* SPC-4 tables 151 and 159 */
static struct scsi_copy_segment segment_decode(const uint8_t *d)
{
	struct scsi_copy_segment s = {
		.from_end = scsi_be16(d + 4),
		.to_end = scsi_be16(d + 6),
		.in_bytes = d[0] == SCSI_COPY_BYTES_TYPE,
		.from_lba = scsi_be64(d + 12),
		.to_lba = scsi_be64(d + 20),
	};

	if (s.in_bytes) {
		s.count = scsi_be32(d + 8);
		s.from_skip = scsi_be16(d + 28);
		s.to_skip = scsi_be16(d + 30);
	} else {
		s.count = scsi_be16(d + 10);
		s.by_to = d[1] & 0x02;
	}
	return s;
}

static bool segments_decode(struct scsi_task *task, struct scsi_copy *copy,
			    unsigned at, unsigned bytes)
{
	unsigned end = at + bytes;

	while (at < end) {
		const uint8_t *d = task->out + at;
		unsigned size = segment_size(d[0]);

		if (size == 0) {
			scsi_fail(task, SCSI_ILLEGAL_REQUEST,
				  SCSI_ASC_SEGMENT_TYPE);
			return false;
		}
		if (copy->n_segments == SCSI_COPY_SEGMENTS) {
			scsi_fail(task, SCSI_ILLEGAL_REQUEST,
				  SCSI_ASC_MANY_SEGMENTS);
			return false;
		}
		if (end - at < size)
			return length_failed(task);
		if (scsi_be16(d + 2) != size - 4) {
			scsi_fail_list(task, at + 2, SCSI_NO_BIT);
			return false;
		}
		copy->segments[copy->n_segments++] = segment_decode(d);
		at += size;
	}
	return true;
}

bool scsi_copy_decode(struct scsi_task *task, struct scsi_copy *ret)
{
	struct lists lists;

	return header_decode(task, ret, &lists) &&
	       ends_decode(task, ret, lists.ends) &&
	       segments_decode(task, ret, SCSI_COPY_HEADER + lists.ends,
			       lists.segments);
}
