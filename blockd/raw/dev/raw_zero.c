/* SPDX-License-Identifier: Apache-2.0 */
/* Discard and write-zeroes: whole clusters are freed, or said to be zeroes. */
#include <errno.h>

#include "blockd/raw/dev/raw_io.h"

/*
 * A device has direct access to some of the clusters (raw_store_guard()). They
 * stay where they are: zeroes are written to them, and a discard is a hint. The
 * same is done with the rest of the request.
 */
static void keep(struct raw_io *r)
{
	if (r->discards)
		raw_io_advance(r, r->left);
	r->flags |= BLOCKDEV_NO_HOLE;
	r->step(r);
}

static void zero_changed(struct raw_io *r, int res)
{
	if (res == -ETXTBSY)
		keep(r);
	else
		raw_io_change_done(r, res);
}

static void unmap_done(struct raw_io *r, int res)
{
	if (res == 0)
		raw_users_clean(r->dev->users);
	zero_changed(r, res);
}

/* A thick one keeps them; they read as zeroes. */
static void unwrite(struct raw_io *r, uint64_t clusters)
{
	r->piece = raw_io_bytes(r, clusters);
	r->n_changes = 1;
	r->changes[0] = (struct raw_record){
		.type = RAW_MAP,
		.object = r->dev->id,
		.logical = raw_io_cluster(r),
		.physical = RAW_PHYSICAL(r->look.entry),
		.count = (uint32_t)clusters,
		.unwritten = true,
	};
	raw_io_change(r, zero_changed);
}

static void unmap(struct raw_io *r, uint64_t clusters)
{
	r->piece = raw_io_bytes(r, clusters);
	r->n_changes = 1;
	r->changes[0] = (struct raw_record){
		.type = RAW_UNMAP,
		.object = r->dev->id,
		.logical = raw_io_cluster(r),
		.count = (uint32_t)clusters,
	};
	raw_io_change(r, unmap_done);
}

/* Whole clusters from here on, the device's last one included. */
static uint64_t whole_clusters(const struct raw_io *r)
{
	uint64_t left = r->left;

	if (raw_io_inside(r))
		return 0;
	if (r->offset + left == r->dev->dev.size)
		left += raw_dev_cluster(r->dev) - 1;
	return left >> r->dev->shift;
}

static void write_zeroes(struct raw_io *r, uint64_t from, uint64_t bytes)
{
	struct blockdev *medium = r->dev->medium;
	raw_io_start(r, bytes, raw_io_piece_done);
	medium->ops->write_zeroes(medium, &r->op, from, bytes,
				  BLOCKDEV_NO_HOLE |
					  (r->flags & BLOCKDEV_FAST) |
					  (r->flags & BLOCKDEV_FUA));
}

/* In a cluster that is written in part, and the device's own. */
static void zero_part(struct raw_io *r)
{
	uint64_t from, bytes = raw_io_look_run(r, &from);

	if (bytes && from != RAW_ZEROES) {
		write_zeroes(r, from, bytes);
		return;
	}
	if (bytes)
		raw_io_advance(r, bytes);
	r->step(r); /* 0: it is not written in part any more */
}

/* Zeroes that stay allocated: written in place, or given a cluster. */
static void zero_in_place(struct raw_io *r, uint64_t max)
{
	const struct raw_look *look = &r->look;

	if (!raw_look_own(look))
		raw_fill_begin(r);
	else if (raw_is_partial(look->entry))
		zero_part(r);
	else
		write_zeroes(r,
			     raw_dev_offset(r->dev, look->entry) +
				     raw_io_inside(r),
			     raw_io_bytes(r, look->n < max ? look->n : max));
}

/*
 * Whole clusters become zeroes. What others have, too, is left to them; of a
 * thick one its own are kept, so that which they are has to be still right.
 */
static void give_up(struct raw_io *r, uint64_t whole)
{
	uint64_t n = r->look.n < whole ? r->look.n : whole;

	r->whatever = !r->dev->thick;
	if (r->whatever)
		unmap(r, whole);
	else if (r->look.shared)
		unmap(r, n);
	else
		unwrite(r, n);
}

void raw_zero_step(struct raw_io *r)
{
	while (r->left > 0) {
		uint64_t whole = whole_clusters(r);
		uint32_t entry;

		raw_io_look(r, raw_io_clusters(r));
		entry = r->look.entry;
		if (raw_reads_zero(entry) &&
		    (entry == RAW_HOLE || r->dev->thick || !whole ||
		     r->flags & BLOCKDEV_NO_HOLE)) {
			raw_io_advance(r, raw_io_bytes(r, r->look.n));
			continue;
		}
		if (whole && !(r->flags & BLOCKDEV_NO_HOLE)) {
			give_up(r, whole);
			return;
		}
		if (!r->discards) {
			zero_in_place(r, whole ? whole : 1);
			return;
		}
		raw_io_advance(r, raw_io_bytes(r, 1));
	}
	raw_io_written(r);
}
