/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writing to clusters that are written in part: data, then the mark that says
 * so. Writers of one cluster need not wait for each other. Only the request
 * that makes it such a cluster works alone (blockd/raw/dev/raw_fill.c).
 */
#include <errno.h>
#include <string.h>

#include "blockd/raw/dev/raw_io.h"

#define WINDOW_BYTES ((uint64_t)RAW_WINDOW * RAW_BLOCK)

bool raw_partial_may(const struct raw_io *r)
{
	return r->dev->partial && r->data && !r->dev->map->whole &&
	       raw_io_bytes(r, 1) < raw_dev_cluster(r->dev) &&
	       r->dev->alloc->bitmaps.n < RAW_BITMAPS_MAX;
}

uint64_t raw_partial_bytes(const struct raw_io *r)
{
	uint64_t left = WINDOW_BYTES - raw_io_inside(r) % WINDOW_BYTES;
	uint64_t bytes = raw_io_bytes(r, 1);

	return bytes < left ? bytes : left;
}

/* Also the last block of a device that ends inside it. */
struct raw_record raw_partial_record(const struct raw_io *r, uint32_t physical)
{
	const uint64_t at = raw_io_inside(r) % WINDOW_BYTES;
	const uint64_t end = (at + r->piece - 1) / RAW_BLOCK;
	struct raw_record record = {
		.type = RAW_WRITTEN,
		.object = r->dev->id,
		.logical = raw_io_cluster(r),
		.physical = physical,
		.count = 1,
		.window = (uint32_t)(raw_io_inside(r) / WINDOW_BYTES),
	};

	for (uint64_t block = at / RAW_BLOCK; block <= end; block++)
		record.blocks.bits[block / 64] |= UINT64_C(1) << block % 64;
	return record;
}

/* All of the piece was written before: nothing is to be marked. */
static bool is_marked(const struct raw_io *r)
{
	const struct raw_record *record = &r->changes[0];
	const struct raw_bitmap *bitmap = raw_bitmaps_find(
		&r->dev->alloc->bitmaps, record->physical);
	struct raw_blocks has;
	uint64_t more = 0;

	if (!bitmap || !raw_bitmap_window(bitmap, record->window, &has))
		return false;
	for (unsigned i = 0; i < RAW_WINDOW / 64; i++)
		more |= record->blocks.bits[i] & ~has.bits[i];
	return !more;
}

static void part_written(struct raw_io *r, int res)
{
	if (res < 0 || is_marked(r))
		raw_io_piece_done(r, res);
	else
		raw_io_change(r, raw_io_change_done);
}

void raw_partial_write(struct raw_io *r)
{
	struct blockdev *medium = r->dev->medium;
	const uint32_t physical = RAW_PHYSICAL(r->look.entry);

	raw_io_start(r, raw_partial_bytes(r), part_written);
	r->changes[0] = raw_partial_record(r, physical);
	r->n_changes = 1;
	/* Durable by itself: another request's mark may have been so before. */
	medium->ops->write(medium, &r->op, r->data, (uint32_t)r->piece,
			   raw_dev_offset(r->dev, physical) + raw_io_inside(r),
			   r->flags & BLOCKDEV_FUA);
}

bool raw_partial_clear(const struct raw_dev *dev, uint32_t physical,
		       uint8_t *buffer)
{
	const struct raw_bitmap *bitmap = raw_bitmaps_find(&dev->alloc->bitmaps,
							   physical);
	uint32_t end = (uint32_t)(raw_dev_cluster(dev) / RAW_BLOCK), n;
	bool written;

	if (!bitmap)
		return false;
	for (uint32_t at = 0; at < end; at += n) {
		n = raw_bitmap_run(bitmap, at, end - at, &written);
		if (!written)
			memset(buffer + (size_t)at * RAW_BLOCK, 0,
			       (size_t)n * RAW_BLOCK);
	}
	return true;
}
