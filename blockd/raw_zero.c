/* SPDX-License-Identifier: Apache-2.0 */
/* Discard and write-zeroes: whole clusters are freed, or said to be zeroes. */
#include "blockd/raw_io.h"

static void unmap_done(struct raw_io *r, int res)
{
	if (res == 0)
		raw_users_clean(r->dev->users);
	raw_io_piece_done(r, res);
}

/* A thick one keeps them; they read as zeroes. */
static void unwrite(struct raw_io *r, uint32_t first, uint64_t clusters)
{
	r->piece = raw_io_bytes(r, clusters);
	r->n_changes = 1;
	r->changes[0] = (struct raw_record){
		.type = RAW_MAP,
		.object = r->dev->id,
		.logical = raw_io_cluster(r),
		.physical = first,
		.count = (uint32_t)clusters,
		.unwritten = true,
	};
	raw_io_change(r, raw_io_piece_done);
}

/* Clusters from here on that others have, too. */
static uint64_t shared_run(const struct raw_io *r, uint64_t max)
{
	uint64_t cluster = raw_io_cluster(r), n = 0;
	uint32_t entry = raw_map_get(r->dev->map, cluster);

	while (n < max && !raw_reads_zero(entry) &&
	       raw_dev_shared(r->dev, cluster + n, entry))
		entry = raw_map_get(r->dev->map, cluster + ++n);
	return n;
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
	raw_io_start(r, bytes, raw_io_piece_done);
	blockdev_write_zeroes(r->dev->medium, &r->op, from, bytes,
			      BLOCKDEV_NO_HOLE | (r->flags & BLOCKDEV_FAST) |
				      (r->flags & BLOCKDEV_FUA));
}

/* In a cluster that is written in part, and the device's own. */
static void zero_part(struct raw_io *r)
{
	uint64_t from, bytes = raw_io_run(r, &from, NULL);
	uint64_t in_cluster = raw_io_bytes(r, 1);

	if (bytes > in_cluster) /* it is whole now */
		bytes = in_cluster;
	if (!bytes) {
		raw_io_end(r, -EIO);
	} else if (from == RAW_ZEROES) {
		raw_io_advance(r, bytes);
		r->step(r);
	} else {
		write_zeroes(r, from, bytes);
	}
}

/* Zeroes that stay allocated: written in place, or given a cluster. */
static void zero_in_place(struct raw_io *r, uint64_t max)
{
	uint32_t first;
	uint64_t n = raw_io_writable(r, &first);

	if (n)
		write_zeroes(r,
			     raw_dev_offset(r->dev, first) + raw_io_inside(r),
			     raw_io_bytes(r, n < max ? n : max));
	else if (raw_is_partly(first) &&
		 !raw_dev_shared(r->dev, raw_io_cluster(r), first))
		zero_part(r);
	else
		raw_fill_begin(r);
}

/* Whole clusters become zeroes. What others have, too, is left to them. */
static void give_up(struct raw_io *r, uint64_t whole)
{
	uint64_t n;
	uint32_t first;

	if (!r->dev->thick) {
		unmap(r, whole);
		return;
	}
	n = raw_io_writable(r, &first);
	if (n)
		unwrite(r, first, n < whole ? n : whole);
	else if (raw_is_partly(first) &&
		 !raw_dev_shared(r->dev, raw_io_cluster(r), first))
		unwrite(r, RAW_PHYSICAL(first), 1);
	else
		unmap(r, shared_run(r, whole));
}

void raw_zero_step(struct raw_io *r)
{
	while (r->left > 0) {
		uint64_t whole = whole_clusters(r);
		uint32_t entry;
		uint64_t n = raw_map_run(r->dev->map, raw_io_cluster(r),
					 raw_io_clusters(r), &entry);

		if (raw_reads_zero(entry) &&
		    (entry == RAW_HOLE || r->dev->thick || !whole ||
		     r->flags & BLOCKDEV_NO_HOLE)) {
			raw_io_advance(r, raw_io_bytes(r, n));
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
