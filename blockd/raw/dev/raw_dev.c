/* SPDX-License-Identifier: Apache-2.0 */
#include "blockd/raw/dev/raw_dev.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "blockd/raw/dev/raw_io.h"

/* ---- reading ---- */

static void read_step(struct raw_io *r)
{
	struct blockdev *medium = r->dev->medium;
	while (r->left > 0) {
		uint64_t from, bytes = raw_io_run(r, &from, NULL);

		if (!bytes) {
			raw_io_end(r, -EIO);
			return;
		}
		if (from != RAW_ZEROES) {
			raw_io_start(r, bytes, raw_io_piece_done);
			medium->ops->read(medium, &r->op, r->data,
					  (uint32_t)bytes, from);
			return;
		}
		memset(r->data, 0, bytes);
		raw_io_advance(r, bytes);
	}
	raw_io_end(r, 0);
}

/* ---- writing ---- */

static void write_step(struct raw_io *r)
{
	struct blockdev *medium = r->dev->medium;
	uint64_t bytes;

	if (r->left == 0) {
		raw_io_written(r);
		return;
	}
	raw_io_look(r, raw_io_clusters(r));
	if (!raw_look_own(&r->look)) {
		raw_fill_begin(r);
		return;
	}
	if (raw_is_partial(r->look.entry)) {
		raw_partial_write(r);
		return;
	}
	bytes = raw_io_bytes(r, r->look.n);
	raw_io_start(r, bytes, raw_io_piece_done);
	medium->ops->write(medium, &r->op, r->data, (uint32_t)bytes,
			   raw_dev_offset(r->dev, r->look.entry) +
				   raw_io_inside(r),
			   r->flags & BLOCKDEV_FUA);
}

/* ---- the operations ---- */

static void raw_read(struct blockdev *dev, struct op *op, void *data,
		     uint32_t length, uint64_t offset)
{
	struct raw_io *r = raw_io_new(dev, op, offset, length, read_step);

	r->data = data;
	r->step(r);
}

static void raw_write(struct blockdev *dev, struct op *op, const void *data,
		      uint32_t length, uint64_t offset, unsigned flags)
{
	struct raw_io *r = raw_io_new(dev, op, offset, length, write_step);

	r->data = (uint8_t *)data; /* not written to */
	r->flags = flags;
	r->step(r);
}

static void raw_discard(struct blockdev *dev, struct op *op, uint64_t offset,
			uint64_t length, unsigned flags)
{
	struct raw_io *r = raw_io_new(dev, op, offset, length, raw_zero_step);

	r->flags = flags;
	r->discards = true;
	r->step(r);
}

static void raw_write_zeroes(struct blockdev *dev, struct op *op,
			     uint64_t offset, uint64_t length, unsigned flags)
{
	struct raw_io *r = raw_io_new(dev, op, offset, length, raw_zero_step);

	r->flags = flags;
	r->step(r);
}

static void raw_flush(struct blockdev *dev, struct op *op)
{
	struct raw_dev *raw = raw_dev_of(dev);
	struct raw_io *r;

	if (!raw_store_pending(raw->users->store)) {
		raw->medium->ops->flush(raw->medium, op);
		return;
	}
	r = raw_io_new(dev, op, 0, 0, NULL);
	raw_io_work(r, raw_io_commit, raw_io_end);
}

static void raw_status(struct blockdev *dev, struct op *op, uint64_t offset,
		       uint64_t length, struct blockdev_status *ret,
		       unsigned max)
{
	struct raw_io *r = raw_io_new(dev, op, offset, length, NULL);
	unsigned n = 0;

	while (r->left > 0) {
		bool hole;
		uint64_t from, bytes = raw_io_run(r, &from, &hole);
		unsigned flags = from == RAW_ZEROES ? BLOCKDEV_ZERO : 0;

		if (!bytes) {
			raw_io_end(r, -EIO);
			return;
		}
		if (hole)
			flags |= BLOCKDEV_HOLE;
		if (n && ret[n - 1].flags == flags)
			ret[n - 1].length += bytes;
		else if (n == max)
			break;
		else
			ret[n++] = (struct blockdev_status){bytes, flags};
		raw_io_advance(r, bytes);
	}
	raw_io_end(r, (int)n);
}

static void raw_dev_close(struct blockdev *dev)
{
	struct raw_dev *raw = raw_dev_of(dev);

	struct raw_users *users = raw->users;

	blockdev_close(raw->medium);
	free(raw);
	raw_users_part(users);
}

static const struct blockdev_ops raw_ops = {
	.read = raw_read,
	.write = raw_write,
	.flush = raw_flush,
	.close = raw_dev_close,
	.discard = raw_discard,
	.write_zeroes = raw_write_zeroes,
	.status = raw_status,
};

/* @dev finds its object; it is there, and stays. */
static int raw_dev_find_map(struct raw_dev *dev, struct error *err)
{
	struct raw_store *store = dev->users->store;
	struct raw_state *state = raw_store_lock(store);
	const struct raw_object *object = raw_state_object(state, dev->id);

	if (object)
		dev->map = &object->map;
	dev->alloc = &state->alloc;
	raw_store_unlock(store);
	return object ? 0
		      : error_set(err, ENOENT, "the pool has no object %u",
				  dev->id);
}

static int open_medium(struct raw_users *users, struct loop *loop,
		       struct blockdev **ret, struct error *err)
{
	int r;

	if (users->open_medium)
		return users->open_medium(users->context, loop, ret, err);
	r = blockdev_file_open(loop, users->path, 0, users->flags, ret, err);
	if (r < 0)
		return r;
	(*ret)->fault = users->fault;
	(*ret)->fault_context = users->context;
	return 0;
}

int raw_dev_open(struct raw_users *users, uint32_t id, uint64_t size,
		 unsigned flags, struct loop *loop, struct blockdev **ret,
		 struct error *err)
{
	const struct raw_super *super = raw_store_super(users->store);
	struct raw_dev *dev = calloc(1, sizeof(*dev));
	int r;

	if (!dev)
		return error_set(err, ENOMEM, "out of memory");
	dev->users = users;
	dev->id = id;
	dev->thick = flags & RAW_DEV_THICK;
	dev->partial = super->incompat & RAW_INCOMPAT_PARTIAL;
	dev->shift = super->cluster_shift;
	dev->data_start = super->data_start;
	r = raw_dev_find_map(dev, err);
	if (r == 0)
		r = open_medium(users, loop, &dev->medium, err);
	if (r < 0) {
		if (users->fault)
			users->fault(users->context);
		free(dev);
		return r;
	}
	raw_users_join(users);
	assert(size <= raw_map_clusters(dev->map) << dev->shift);
	dev->dev = (struct blockdev){
		.ops = &raw_ops,
		.loop = loop,
		.size = size,
		/* No block of this size is written in part. */
		.block_size = RAW_BLOCK,
		.preferred_size = dev->medium->preferred_size,
		.read_only = flags & RAW_DEV_READ_ONLY,
	};
	*ret = &dev->dev;
	return 0;
}
