/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A piece of an EXTENDED COPY is read, then written. Each takes its turn at the
 * medium like any other READ or WRITE, so a long copy holds up nobody. Where a
 * piece begins or ends inside of a block of the destination, what else is in
 * that block stays (SPC-4 6.4.6.12): it is read and written with nobody
 * between, like what COMPARE AND WRITE changes.
 *
 * The buffer, where offsets are in bytes: the blocks of the source that the
 * piece touches, from its beginning; then those of the destination, in their
 * place; and at its end one more block, for an edge.
 */
#include <string.h>

#include "target/scsi/command/scsi_copy.h"
#include "target/scsi/command/scsi_rw.h"

#define BLOCK_MAX 4096u /* bytes */
#define EDGE_AT   (SCSI_COPY_SCRATCH - BLOCK_MAX)

/* Blocks of the destination, whose first ones are touched in part. */
#define BYTES_ROOM (SCSI_COPY_SCRATCH - 2 * BLOCK_MAX)

/* ---- where it is ---- */

/* Of one end: whole blocks with the piece somewhere in them. */
struct span {
	struct scsi_path *path;
	uint32_t mask;   /* bytes of a block, - 1 */
	uint64_t offset; /* bytes of the medium; of the first block */
	uint32_t skip;   /* bytes in front of the piece */
	uint32_t length; /* bytes in all */
};

static struct span span_make(const struct scsi_copy *copy, unsigned end,
			     uint64_t at)
{
	struct scsi_path *path = copy->ends[end];
	uint32_t mask = path->unit->block_size - 1;
	uint32_t skip = (uint32_t)at & mask;

	return (struct span){.path = path,
			     .mask = mask,
			     .offset = at - skip,
			     .skip = skip,
			     .length = (skip + copy->piece + mask) & ~mask};
}

static struct span span_from(const struct scsi_copy *copy)
{
	const struct scsi_copy_segment *s = scsi_copy_segment_of(copy);

	return span_make(copy, s->from_end, s->from + copy->at);
}

static struct span span_to(const struct scsi_copy *copy)
{
	const struct scsi_copy_segment *s = scsi_copy_segment_of(copy);

	return span_make(copy, s->to_end, s->to + copy->at);
}

/* Bytes of the last block that are not the piece's. */
static uint32_t behind(const struct scsi_copy *copy, const struct span *span)
{
	return span->length - span->skip - copy->piece;
}

/* So that the next one begins with a block of the destination. */
static uint32_t piece_size(const struct scsi_copy *copy)
{
	const struct scsi_copy_segment *s = scsi_copy_segment_of(copy);
	uint32_t mask = copy->ends[s->to_end]->unit->block_size - 1;
	uint64_t left = s->length - copy->at;
	uint32_t room = SCSI_COPY_SCRATCH;

	if (s->in_bytes)
		room = BYTES_ROOM - ((uint32_t)(s->to + copy->at) & mask);
	return left < room ? (uint32_t)left : room;
}

/* ---- its turns ---- */

static void piece_end(struct scsi_copy *copy, bool fine)
{
	scsi_range_leave(&copy->part);
	if (fine) {
		copy->at += copy->piece;
		copy->bytes += copy->piece;
	}
	copy->piece_done(copy, fine);
}

/*
 * Tell whether the piece may go on, as its turn has come. That is asked again
 * now, because a reservation may have come meanwhile.
 */
static bool may(struct scsi_copy *copy, bool write)
{
	if (!scsi_task_stopped(copy->task) && !scsi_task_stopped(&copy->part) &&
	    scsi_copy_allowed(copy->part.path, write))
		return true;
	piece_end(copy, false);
	return false;
}

static void piece_enter(struct scsi_copy *copy, const struct span *span,
			bool exclusive, void (*entered)(struct scsi_task *part))
{
	struct scsi_task *part = &copy->part;

	part->path = span->path;
	part->epoch = atomic_load(&part->path->epoch);
	part->offset = span->offset;
	part->length = span->length;
	part->context = copy;
	part->entered = SCSI_OUTSIDE;
	if (scsi_range_enter(part, exclusive, entered))
		entered(part);
}

/* ---- writing ---- */

static void piece_written(struct scsi_task *part, int res)
{
	piece_end(part->context, res >= 0);
}

static void write_all(struct scsi_copy *copy)
{
	struct scsi_task *part = &copy->part;

	blockdev_write(part->path->dev, scsi_task_op(part, piece_written),
		       copy->task->scratch, (uint32_t)part->length,
		       part->offset, scsi_write_flags(part));
}

static void edge_read(struct scsi_copy *copy, uint64_t offset,
		      void (*step)(struct scsi_task *part, int res))
{
	struct scsi_task *part = &copy->part;

	blockdev_read(part->path->dev, scsi_task_op(part, step),
		      copy->task->scratch + EDGE_AT,
		      part->path->unit->block_size, offset);
}

static void tail_read(struct scsi_task *part, int res)
{
	struct scsi_copy *copy = part->context;
	struct span span = span_to(copy);
	uint32_t n = behind(copy, &span);
	uint8_t *scratch = copy->task->scratch;

	if (res < 0) {
		piece_end(copy, false);
		return;
	}
	memcpy(scratch + span.length - n,
	       scratch + EDGE_AT + (span.mask + 1 - n), n);
	write_all(copy);
}

static void tail(struct scsi_copy *copy)
{
	struct span span = span_to(copy);

	if (behind(copy, &span) == 0)
		write_all(copy);
	else
		edge_read(copy, span.offset + span.length - span.mask - 1,
			  tail_read);
}

static void head_read(struct scsi_task *part, int res)
{
	struct scsi_copy *copy = part->context;

	if (res < 0) {
		piece_end(copy, false);
		return;
	}
	memcpy(copy->task->scratch, copy->task->scratch + EDGE_AT,
	       span_to(copy).skip);
	tail(copy);
}

static void write_entered(struct scsi_task *part)
{
	struct scsi_copy *copy = part->context;

	if (!may(copy, true))
		return;
	if (span_to(copy).skip > 0)
		edge_read(copy, part->offset, head_read);
	else
		tail(copy);
}

/* ---- reading ---- */

static void source_read(struct scsi_task *part, int res)
{
	struct scsi_copy *copy = part->context;
	struct span from = span_from(copy), to = span_to(copy);
	bool edges = to.skip > 0 || behind(copy, &to) > 0;
	uint8_t *scratch = copy->task->scratch;

	if (res < 0) {
		piece_end(copy, false);
		return;
	}
	scsi_range_leave(part);
	if (from.skip != to.skip)
		memmove(scratch + to.skip, scratch + from.skip, copy->piece);
	piece_enter(copy, &to, edges, write_entered);
}

static void read_entered(struct scsi_task *part)
{
	struct scsi_copy *copy = part->context;

	if (may(copy, false))
		blockdev_read(part->path->dev, scsi_task_op(part, source_read),
			      copy->task->scratch, (uint32_t)part->length,
			      part->offset);
}

void scsi_copy_piece(struct scsi_copy *copy,
		     void (*done)(struct scsi_copy *copy, bool fine))
{
	struct span from;

	copy->piece = piece_size(copy);
	copy->piece_done = done;
	from = span_from(copy);
	assert(from.length <= SCSI_COPY_SCRATCH);
	piece_enter(copy, &from, false, read_entered);
}
