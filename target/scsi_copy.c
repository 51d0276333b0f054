/* SPDX-License-Identifier: Apache-2.0 */
/*
 * EXTENDED COPY, SPC-4 6.4: one piece is read, then written, and so on. Each
 * takes its turn at the medium like any other READ or WRITE, so a long copy
 * holds up nobody.
 */
#include "target/scsi_copy.h"

#include "target/scsi_rw.h"

#define PIECE (UINT32_C(1) << 20) /* bytes; ours */

static void copy_next(struct scsi_copy *copy);

static const struct scsi_copy_segment *segment_of(const struct scsi_copy *copy)
{
	return &copy->segments[copy->segment];
}

static void copy_end(struct scsi_copy *copy)
{
	bool fine = !copy->task->failed && !scsi_task_stopped(copy->task);

	if (copy->held)
		scsi_copy_note(copy, fine ? SCSI_COPY_DONE : SCSI_COPY_FAILED);
	scsi_task_complete(copy->task);
}

static void copy_abort(struct scsi_copy *copy, enum scsi_asc asc)
{
	scsi_fail(copy->task, SCSI_COPY_ABORTED, asc);
	copy_end(copy);
}

/* ---- may it be ---- */

/* This session could READ or WRITE there. */
static bool allowed(struct scsi_path *path, bool write)
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

static uint64_t length_of(const struct scsi_copy *copy,
			  const struct scsi_copy_segment *s)
{
	const struct scsi_path *by =
		copy->ends[s->by_to ? s->to_end : s->from_end];

	return (uint64_t)s->blocks << by->unit->block_shift;
}

static bool inside(const struct scsi_path *path, uint64_t lba, uint64_t length)
{
	const struct scsi_unit *unit = path->unit;
	uint64_t all = scsi_unit_blocks(unit);
	uint64_t blocks = length >> unit->block_shift;

	return (length & (unit->block_size - 1)) == 0 && lba <= all &&
	       blocks <= all - lba;
}

static bool segment_check(struct scsi_copy *copy,
			  const struct scsi_copy_segment *s)
{
	uint64_t length;

	if (!reachable(copy, s->from_end) || !reachable(copy, s->to_end)) {
		scsi_fail(copy->task, SCSI_COPY_ABORTED, SCSI_ASC_COPY_TARGET);
		return false;
	}
	length = length_of(copy, s);
	if (!inside(copy->ends[s->from_end], s->from_lba, length) ||
	    !inside(copy->ends[s->to_end], s->to_lba, length) ||
	    !allowed(copy->ends[s->from_end], false) ||
	    !allowed(copy->ends[s->to_end], true)) {
		scsi_fail(copy->task, SCSI_COPY_ABORTED, SCSI_ASC_NONE);
		return false;
	}
	return true;
}

/* ---- moving ---- */

static void part_done(struct scsi_copy *copy)
{
	scsi_range_leave(&copy->part);
	copy->at += copy->part.length;
	copy->bytes += copy->part.length;
	if (copy->at == length_of(copy, segment_of(copy))) {
		copy->segment++;
		copy->at = 0;
	}
	copy_next(copy);
}

static void part_failed(struct scsi_copy *copy)
{
	scsi_range_leave(&copy->part);
	copy_abort(copy, SCSI_ASC_NONE);
}

/*
 * It is the piece's turn at @end. What it may do there is asked again: a
 * reservation may have come meanwhile.
 */
static bool part_may(struct scsi_copy *copy, unsigned end, bool write)
{
	if (!scsi_task_stopped(copy->task) && !scsi_task_stopped(&copy->part) &&
	    allowed(copy->ends[end], write))
		return true;
	part_failed(copy);
	return false;
}

static void part_enter(struct scsi_copy *copy, unsigned end, uint64_t lba,
		       uint64_t length, void (*entered)(struct scsi_task *part))
{
	struct scsi_task *part = &copy->part;

	part->path = copy->ends[end];
	part->epoch = atomic_load(&part->path->epoch);
	part->offset = (lba << part->path->unit->block_shift) + copy->at;
	part->length = length;
	part->context = copy;
	part->entered = SCSI_OUTSIDE;
	if (scsi_range_enter(part, false, entered))
		entered(part);
}

static void part_written(struct scsi_task *part, int res)
{
	struct scsi_copy *copy = part->context;

	if (res < 0)
		part_failed(copy);
	else
		part_done(copy);
}

static void part_write(struct scsi_task *part)
{
	struct scsi_copy *copy = part->context;

	if (part_may(copy, segment_of(copy)->to_end, true))
		blockdev_write(part->path->dev,
			       scsi_task_op(part, part_written),
			       copy->task->buffer->data, (uint32_t)part->length,
			       part->offset, scsi_write_flags(part));
}

static void part_read_done(struct scsi_task *part, int res)
{
	struct scsi_copy *copy = part->context;
	const struct scsi_copy_segment *s = segment_of(copy);

	if (res < 0) {
		part_failed(copy);
		return;
	}
	scsi_range_leave(part);
	part_enter(copy, s->to_end, s->to_lba, part->length, part_write);
}

static void part_read(struct scsi_task *part)
{
	struct scsi_copy *copy = part->context;

	if (part_may(copy, segment_of(copy)->from_end, false))
		blockdev_read(part->path->dev,
			      scsi_task_op(part, part_read_done),
			      copy->task->buffer->data, (uint32_t)part->length,
			      part->offset);
}

static void copy_next(struct scsi_copy *copy)
{
	const struct scsi_copy_segment *s;
	uint64_t left;

	while (copy->segment < copy->n_segments &&
	       segment_of(copy)->blocks == 0)
		copy->segment++;
	if (copy->segment == copy->n_segments ||
	    scsi_task_stopped(copy->task)) {
		copy_end(copy);
		return;
	}
	s = segment_of(copy);
	left = length_of(copy, s) - copy->at;
	part_enter(copy, s->from_end, s->from_lba, left < PIECE ? left : PIECE,
		   part_read);
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
	if (scsi_buffer_get(task, PIECE))
		copy_next(copy);
}

const struct scsi_command scsi_copy_commands[] = {
	{.opcode = SCSI_EXTENDED_COPY,
	 .action = 0x00, /* LID1 */
	 .length = 16,
	 .flags = SCSI_C_LIST_OUT,
	 .list_at = 10,
	 .list_size = 4,
	 .usage = {[1] = 0x1f, [10] = 0xff, 0xff, 0xff, 0xff},
	 .run = copy_run},
	{.length = 0},
};
