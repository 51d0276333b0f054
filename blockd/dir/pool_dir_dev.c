/* SPDX-License-Identifier: Apache-2.0 */
#include "blockd/dir/pool_dir_dev.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "blockd/dir/file_map.h"

#define BLOCK UINT64_C(4096) /* bytes; no file system has larger ones */

struct dev {
	struct blockdev dev;
	struct blockdev *inner; /* owned; the file */
	struct blockdev_ops ops;
	struct space_floor *floor; /* a reference */
	struct space_share share;
	int fd; /* to ask where its blocks are; not for data */
	LIST_HEAD(requests, request) unused;
};

/* A write, write-zeroes or flush. */
struct request {
	struct op op;     /* what the file is given */
	struct op *outer; /* what we were given */
	struct loop_work work;
	struct dev *dev;
	bool flushes;            /* and nothing else of this matters */
	const void *data;        /* NULL: zeroes */
	uint64_t offset, length; /* bytes */
	uint64_t takes;          /* bytes that it may need of the free ones */
	unsigned flags;
	LIST_ENTRY(request) in_unused;
};

static struct dev *dev_of(struct blockdev *dev)
{
	return container_of(dev, struct dev, dev);
}

/* The owner grows ours, not the file's. */
static struct blockdev *inner_of(struct dev *d)
{
	if (d->inner->size != d->dev.size)
		blockdev_grown(d->inner, d->dev.size);
	return d->inner;
}

/* ---- requests ---- */

static void request_end(struct request *q, int res)
{
	struct op *outer = q->outer;

	LIST_INSERT_HEAD(&q->dev->unused, q, in_unused);
	outer->done(outer, res);
}

static void file_done(struct op *op, int res)
{
	struct request *q = container_of(op, struct request, op);

	if (q->flushes) /* the file does not see how it ends */
		blockdev_note_fault(q->dev->inner, res);
	else
		space_share_done(&q->dev->share, q->takes);
	request_end(q, res);
}

static void request_start(struct request *q)
{
	struct blockdev *inner = inner_of(q->dev);

	if (q->data)
		inner->ops->write(inner, &q->op, q->data, (uint32_t)q->length,
				  q->offset, q->flags);
	else
		inner->ops->write_zeroes(inner, &q->op, q->offset, q->length,
					 q->flags);
}

/* ---- near the floor: beside the loop, as asking may wait for a disk ---- */

static int ask_run(struct loop_work *work)
{
	struct request *q = container_of(work, struct request, work);
	struct dev *d = q->dev;

	if (space_share_ask(d->floor, &d->share, q->takes))
		return 0;
	/* There is not so much; but does it need so much? */
	q->takes = file_map_missing(d->fd, q->offset, q->length);
	if (q->takes == 0 || space_share_ask(d->floor, &d->share, q->takes))
		return 0;
	return -ENOSPC;
}

static void ask_done(struct loop_work *work, int res)
{
	struct request *q = container_of(work, struct request, work);

	if (res == 0)
		request_start(q);
	else
		request_end(q, res);
}

static struct request *request_get(struct dev *d)
{
	struct request *q = LIST_FIRST(&d->unused);

	if (q) {
		LIST_REMOVE(q, in_unused);
		return q;
	}
	q = calloc(1, sizeof(*q));
	if (!q)
		abort(); /* some bytes: the process can't go on */
	q->dev = d;
	q->op.done = file_done;
	q->work.run = ask_run;
	q->work.done = ask_done;
	return q;
}

static void request_new(struct blockdev *dev, struct op *op, const void *data,
			uint64_t offset, uint64_t length, unsigned flags)
{
	struct dev *d = dev_of(dev);
	struct request *q = request_get(d);

	q->outer = op;
	q->flushes = false;
	q->data = data;
	q->offset = offset;
	q->length = length;
	q->flags = flags;
	q->takes = (offset + length + BLOCK - 1) / BLOCK * BLOCK -
		   offset / BLOCK * BLOCK;
	if (space_share_take(&d->share, q->takes))
		request_start(q);
	else
		loop_work(dev->loop, &q->work);
}

/* ---- struct blockdev_ops ---- */

static void dev_read(struct blockdev *dev, struct op *op, void *data,
		     uint32_t length, uint64_t offset)
{
	struct blockdev *inner = inner_of(dev_of(dev));

	inner->ops->read(inner, op, data, length, offset);
}

static void dev_write(struct blockdev *dev, struct op *op, const void *data,
		      uint32_t length, uint64_t offset, unsigned flags)
{
	request_new(dev, op, data, offset, length, flags);
}

static void dev_flush(struct blockdev *dev, struct op *op)
{
	struct dev *d = dev_of(dev);
	struct request *q = request_get(d);

	q->outer = op;
	q->flushes = true;
	d->inner->ops->flush(d->inner, &q->op);
}

static void dev_discard(struct blockdev *dev, struct op *op, uint64_t offset,
			uint64_t length, unsigned flags)
{
	struct blockdev *inner = inner_of(dev_of(dev));

	inner->ops->discard(inner, op, offset, length, flags);
}

/* Without BLOCKDEV_NO_HOLE it gives blocks back. */
static void dev_write_zeroes(struct blockdev *dev, struct op *op,
			     uint64_t offset, uint64_t length, unsigned flags)
{
	struct blockdev *inner = inner_of(dev_of(dev));

	if (flags & BLOCKDEV_NO_HOLE)
		request_new(dev, op, NULL, offset, length, flags);
	else
		inner->ops->write_zeroes(inner, op, offset, length, flags);
}

static void dev_cache(struct blockdev *dev, struct op *op, uint64_t offset,
		      uint64_t length)
{
	struct blockdev *inner = inner_of(dev_of(dev));

	inner->ops->cache(inner, op, offset, length);
}

static void dev_status(struct blockdev *dev, struct op *op, uint64_t offset,
		       uint64_t length, struct blockdev_status *ret,
		       unsigned max)
{
	struct blockdev *inner = inner_of(dev_of(dev));

	inner->ops->status(inner, op, offset, length, ret, max);
}

static void dev_close(struct blockdev *dev)
{
	struct dev *d = dev_of(dev);
	struct request *q;

	blockdev_close(d->inner);
	space_share_end(d->floor, &d->share);
	space_floor_unref(d->floor);
	fd_close(d->fd);
	while ((q = LIST_FIRST(&d->unused))) {
		LIST_REMOVE(q, in_unused);
		free(q);
	}
	free(d);
}

/* A file may lack cache(); growing is the pool's. */
static const struct blockdev_ops dev_ops = {
	.read = dev_read,
	.write = dev_write,
	.flush = dev_flush,
	.close = dev_close,
	.discard = dev_discard,
	.write_zeroes = dev_write_zeroes,
	.cache = dev_cache,
	.status = dev_status,
};

void pool_dir_dev_on_fault(struct blockdev *dev, void (*fault)(void *context),
			   void *context)
{
	struct blockdev *inner = dev_of(dev)->inner;

	inner->fault = fault;
	inner->fault_context = context;
}

int pool_dir_dev_open(struct space_floor *floor, struct loop *loop,
		      const char *path, uint64_t size, unsigned flags,
		      struct blockdev **ret, struct error *err)
{
	struct dev *d = calloc(1, sizeof(*d));
	int r;

	if (!d)
		return error_set(err, ENOMEM, "out of memory");
	r = blockdev_file_open(loop, path, size, flags, &d->inner, err);
	d->fd = r < 0 ? -1 : open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (r == 0 && d->fd < 0)
		r = error_set(err, errno, "open '%s': %s", path,
			      strerror(errno));
	if (r < 0) {
		blockdev_close(d->inner);
		free(d);
		return r;
	}
	d->dev = *d->inner;
	d->ops = dev_ops;
	if (!d->inner->ops->cache)
		d->ops.cache = NULL;
	d->dev.ops = &d->ops;
	d->floor = space_floor_ref(floor);
	LIST_INIT(&d->unused);
	space_share_begin(floor, &d->share);
	*ret = &d->dev;
	return 0;
}
