/* SPDX-License-Identifier: Apache-2.0 */
/* EXTENDED COPY, SPC-4 6.4: what may be copied, and one piece after another. */
#include "target/scsi/command/scsi_copy.h"

#include "target/scsi/command/scsi_rw.h"

static void copy_end(struct scsi_copy *copy)
{
	bool fine = !copy->task->failed && !scsi_task_stopped(copy->task);

	if (copy->held)
		scsi_copy_note(copy, fine ? SCSI_COPY_DONE : SCSI_COPY_FAILED);
	scsi_task_complete(copy->task);
}

/* ---- may it be ---- */

bool scsi_copy_allowed(struct scsi_path *path, bool write)
{
	struct scsi_task probe = {
		.path = path,
		.nexus = path->nexus,
		.cdb = {write ? SCSI_WRITE_16 : SCSI_READ_16},
	};
	bool opcode;

	probe.command = scsi_command_find(probe.cdb, &opcode);
	return !scsi_reserved(&probe) && (!write || scsi_write_allowed(&probe));
}

static bool reachable(const struct scsi_copy *copy, unsigned end)
{
	return end < copy->n_ends && copy->ends[end] &&
	       scsi_path_ready(copy->ends[end]);
}

/* An end of a segment: on the medium, and @ret is where. */
static bool end_place(const struct scsi_unit *unit,
		      const struct scsi_copy_segment *s, uint64_t lba,
		      unsigned skip, uint64_t *ret)
{
	uint64_t size = scsi_unit_size(unit);
	uint32_t mask = unit->block_size - 1;

	if (lba > size >> unit->block_shift || skip > mask ||
	    (!s->in_bytes && (s->length & mask)))
		return false;
	*ret = (lba << unit->block_shift) + skip;
	return *ret <= size && s->length <= size - *ret;
}

static bool segment_place(const struct scsi_copy *copy,
			  struct scsi_copy_segment *s)
{
	const struct scsi_unit *from = copy->ends[s->from_end]->unit;
	const struct scsi_unit *to = copy->ends[s->to_end]->unit;
	unsigned shift = (s->by_to ? to : from)->block_shift;

	s->length = (uint64_t)s->count << (s->in_bytes ? 0 : shift);
	return end_place(from, s, s->from_lba, s->from_skip, &s->from) &&
	       end_place(to, s, s->to_lba, s->to_skip, &s->to);
}

static bool segment_check(struct scsi_copy *copy, struct scsi_copy_segment *s)
{
	if (!reachable(copy, s->from_end) || !reachable(copy, s->to_end))
		scsi_fail(copy->task, SCSI_COPY_ABORTED, SCSI_ASC_COPY_TARGET);
	else if (!segment_place(copy, s) ||
		 !scsi_copy_allowed(copy->ends[s->from_end], false) ||
		 !scsi_copy_allowed(copy->ends[s->to_end], true))
		scsi_fail(copy->task, SCSI_COPY_ABORTED, SCSI_ASC_NONE);
	return !copy->task->failed;
}

/* ---- moving ---- */

static void copy_next(struct scsi_copy *copy, bool fine)
{
	const struct scsi_copy_segment *s = scsi_copy_segment_of(copy);

	if (!fine)
		scsi_fail(copy->task, SCSI_COPY_ABORTED, SCSI_ASC_NONE);
	while (fine && copy->segment < copy->n_segments &&
	       copy->at == s->length) {
		copy->at = 0;
		copy->segment++;
		s++;
	}
	if (!fine || copy->segment == copy->n_segments ||
	    scsi_task_stopped(copy->task))
		copy_end(copy);
	else
		scsi_copy_piece(copy, copy_next);
}

static void copy_parse(struct scsi_task *task)
{
	if (task->transfer_length > 0)
		task->scratch_size = SCSI_COPY_SCRATCH;
}

static void copy_run(struct scsi_task *task)
{
	struct scsi_copy *copy;

	if (task->transfer_length == 0) { /* nothing to do, and no error */
		scsi_task_complete(task);
		return;
	}
	copy = calloc(1, sizeof(*copy));
	if (!copy) {
		scsi_fail_status(task, SCSI_BUSY);
		scsi_task_complete(task);
		return;
	}
	task->context = copy;
	copy->task = task;
	copy->part.nexus = task->nexus;
	if (!scsi_copy_decode(task, copy)) {
		scsi_task_complete(task);
		return;
	}
	for (unsigned i = 0; i < copy->n_segments; i++)
		if (!segment_check(copy, &copy->segments[i])) {
			copy_end(copy);
			return;
		}
	if (copy->held)
		scsi_copy_note(copy, SCSI_COPY_RUNS);
	copy_next(copy, true);
}

const struct scsi_command scsi_copy_commands[] = {
	{.opcode = SCSI_EXTENDED_COPY,
	 .action = 0x00, /* LID1 */
	 .length = 16,
	 .flags = SCSI_C_LIST_OUT,
	 .list_at = 10,
	 .list_size = 4,
	 .usage = {[1] = 0x1f, [10] = 0xff, 0xff, 0xff, 0xff},
	 .parse = copy_parse,
	 .run = copy_run},
	{.length = 0},
};
