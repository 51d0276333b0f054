/* SPDX-License-Identifier: Apache-2.0 */
/* The first write to a cluster gives it one of its own: data, then the map. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "blockd/raw/dev/raw_io.h"

/*
 * End a fill. A cluster that was taken for it and has not been mapped is given
 * back.
 */
static void fill_end(struct raw_io *r)
{
	struct raw_users *users = r->dev->users;
	struct raw_fill *fill = r->fill;

	if (fill->taken)
		raw_store_untake(users->store, fill->physical, 1);
	raw_users_fill_end(users, fill);
	free(fill->buffer);
	free(fill);
	r->fill = NULL;
}

static void fill_failed(struct raw_io *r, int res)
{
	fill_end(r);
	raw_io_end(r, res);
}

/*
 * The cluster is not what it was: it was given up, or others had it and have
 * taken leave of it. Then data written in place meanwhile is not in the copy.
 */
static void fill_again(struct raw_io *r)
{
	fill_end(r);
	r->step(r);
}

static void fill_mapped(struct raw_io *r, int res)
{
	if (res == -EAGAIN) {
		fill_again(r);
		return;
	}
	if (res < 0) {
		fill_failed(r, res);
		return;
	}
	r->fill->taken = false; /* the map has it */
	fill_end(r);
	raw_io_advance(r, r->piece);
	r->step(r);
}

/* The data is on the medium (not durably): now it may be mapped. */
static void fill_written(struct raw_io *r, int res)
{
	if (res < 0) {
		fill_failed(r, res);
		return;
	}
	r->changes[0] = (struct raw_record){
		.type = RAW_MAP,
		.object = r->dev->id,
		.logical = r->fill->cluster,
		.physical = r->fill->physical,
		.count = 1,
		.unwritten = r->fill->partial,
	};
	r->n_changes = 1;
	if (r->fill->partial && !r->fill->taken) /* it is mapped so already */
		r->n_changes = 0;
	if (r->fill->partial)
		r->changes[r->n_changes++] = raw_partial_record(
			r, r->fill->physical);
	raw_io_change(r, fill_mapped);
}

/* The user's part, when the rest of the cluster is right already. */
static void fill_write_part(struct raw_io *r, int res)
{
	struct blockdev *medium = r->dev->medium;
	if (res < 0) {
		fill_failed(r, res);
		return;
	}
	raw_io_start(r, r->piece, fill_written);
	medium->ops->write(medium, &r->op, r->data, (uint32_t)r->piece,
			   raw_dev_offset(r->dev, r->fill->physical) +
				   raw_io_inside(r),
			   0);
}

/*
 * Write the content of the shared cluster, with the user's part in its place.
 */
static void fill_copied(struct raw_io *r, int res)
{
	struct blockdev *medium = r->dev->medium;
	uint8_t *at = r->fill->buffer + raw_io_inside(r);
	const uint32_t entry = r->look.entry;

	if (res < 0) {
		fill_failed(r, res);
		return;
	}
	if (raw_is_partial(entry) &&
	    !raw_partial_clear(r->dev, RAW_PHYSICAL(entry), r->fill->buffer)) {
		fill_again(r);
		return;
	}
	if (r->data)
		memcpy(at, r->data, r->piece);
	else
		memset(at, 0, r->piece);
	raw_io_start(r, r->piece, fill_written);
	medium->ops->write(medium, &r->op, r->fill->buffer,
			   (uint32_t)raw_dev_cluster(r->dev),
			   raw_dev_offset(r->dev, r->fill->physical), 0);
}

static void fill_copy(struct raw_io *r)
{
	struct blockdev *medium = r->dev->medium;
	struct raw_fill *fill = r->fill;

	fill->buffer = aligned_alloc(RAW_BLOCK, raw_dev_cluster(r->dev));
	if (!fill->buffer) {
		fill_failed(r, -ENOMEM);
		return;
	}
	raw_io_start(r, r->piece, fill_copied);
	medium->ops->read(medium, &r->op, fill->buffer,
			  (uint32_t)raw_dev_cluster(r->dev),
			  raw_dev_offset(r->dev, RAW_PHYSICAL(r->look.entry)));
}

/* The cluster is this request's: how it gets its content. */
static void fill_start(struct raw_io *r)
{
	struct blockdev *medium = r->dev->medium;
	const bool whole = raw_io_bytes(r, 1) == raw_dev_cluster(r->dev);
	const bool zero = raw_reads_zero(r->look.entry);

	r->piece = raw_io_bytes(r, 1);
	if (!zero && (!whole || !r->data)) {
		fill_copy(r);
	} else if (whole) {
		fill_write_part(r, 0);
	} else if (zero && raw_partial_may(r)) {
		r->fill->partial = true;
		r->piece = raw_partial_bytes(r);
		fill_write_part(r, 0);
	} else {
		raw_io_start(r, r->piece, fill_write_part);
		medium->ops->write_zeroes(
			medium, &r->op,
			raw_dev_offset(r->dev, r->fill->physical),
			raw_dev_cluster(r->dev), BLOCKDEV_NO_HOLE);
	}
}

static void starved_posted(struct loop_message *message)
{
	struct raw_io *r = container_of(message, struct raw_io, raw.again);

	r->phase = raw_users_enter(r->dev->users);
	r->step(r);
}

/*
 * Wait for a round of the cleaner; the second time there is no space. A request
 * that waits is not inside: the cleaner waits for those that are.
 */
static void starve(struct raw_io *r)
{
	if (r->starved) {
		bool broken = raw_store_broken(r->dev->users->store, NULL);

		raw_io_end(r, broken ? -EIO : -ENOSPC);
		return;
	}
	r->starved = true;
	r->returned = true;
	raw_users_leave(r->dev->users, r->phase);
	r->raw.again.run = starved_posted;
	raw_users_starve(r->dev->users, &r->raw);
}

static void step_posted(struct loop_message *message)
{
	struct raw_io *r = container_of(message, struct raw_io, raw.again);

	r->step(r);
}

/* Join the request that fills the cluster, or be it. */
static bool fill_claim(struct raw_io *r)
{
	struct raw_users *users = r->dev->users;
	struct raw_fill *mine = calloc(1, sizeof(*mine)), *fill;

	if (!mine) {
		raw_io_end(r, -ENOMEM);
		return false;
	}
	mine->object = r->dev->id;
	mine->cluster = raw_io_cluster(r);
	mine->count = 1;
	TAILQ_INIT(&mine->waiting);
	(void)pthread_mutex_lock(&users->lock);
	fill = raw_users_find_fill(users, mine->object, mine->cluster, 1);
	if (fill) {
		r->returned = true;
		r->raw.again.run = step_posted;
		TAILQ_INSERT_TAIL(&fill->waiting, &r->raw, waiting);
	} else {
		LIST_INSERT_HEAD(&users->fills, mine, in_users);
		r->fill = mine;
	}
	(void)pthread_mutex_unlock(&users->lock);
	if (fill)
		free(mine);
	return !fill;
}

static uint32_t cluster_before(const struct raw_io *r)
{
	uint64_t cluster = raw_io_cluster(r);
	uint32_t entry = cluster ? raw_map_get(r->dev->map, cluster - 1)
				 : RAW_HOLE;

	return entry == RAW_HOLE ? entry : RAW_PHYSICAL(entry);
}

void raw_fill_begin(struct raw_io *r)
{
	struct raw_fill *fill;

	if (!fill_claim(r))
		return;
	fill = r->fill;
	raw_io_look(r, 1);
	/*
	 * Another request was quicker, or took away the cluster to be zeroed.
	 */
	if (raw_look_own(&r->look) ||
	    (!r->data && raw_reads_zero(r->look.entry))) {
		fill_end(r);
		r->step(r);
		return;
	}
	if (raw_look_unwritten(&r->look)) {
		fill->physical = RAW_PHYSICAL(r->look.entry);
		fill_start(r);
		return;
	}
	fill->taken = raw_store_take(r->dev->users->store, 1, cluster_before(r),
				     &fill->physical);
	if (!fill->taken) {
		fill_end(r);
		starve(r);
		return;
	}
	fill_start(r);
}
