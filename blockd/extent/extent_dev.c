/* SPDX-License-Identifier: Apache-2.0 */
#include "blockd/extent/extent_dev.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/clock.h"

#define unlikely(x) __builtin_expect(!!(x), 0)

#define TIMER_MAX_MS 60000          /* then the queue is looked at again */
#define BLOCK        UINT64_C(4096) /* bytes; no file system has larger ones */

static struct extent_dev *extent_dev_of(struct blockdev *dev)
{
	return container_of(dev, struct extent_dev, dev);
}

/* ---- requests ---- */

static struct extent_io *io_get(struct blockdev *dev, struct op *user,
				enum extent_io_kind kind, uint64_t offset,
				uint64_t length, unsigned flags)
{
	struct extent_dev *d = extent_dev_of(dev);
	struct extent_io *io = TAILQ_FIRST(&d->free);

	assert(io); /* EXTENT_DEV_REQUESTS */
	TAILQ_REMOVE(&d->free, io, in_queue);
	io->user = user;
	io->kind = kind;
	io->offset = offset;
	io->length = length;
	io->flags = flags;
	return io;
}

static bool io_changes(const struct extent_io *io)
{
	return io->kind != EXTENT_READ;
}

/* One change less at the medium: a cut may wait for the last. */
static void change_end(struct extent_dev *d)
{
	struct gate *gate = d->gate;

	if (atomic_fetch_sub(&d->changing, 1) == 1 &&
	    unlikely(atomic_load(&gate->busy) & GATE_CLOSED)) {
		pthread_mutex_lock(&gate->lock);
		pthread_cond_broadcast(&gate->quiet);
		pthread_mutex_unlock(&gate->lock);
	}
}

/* Count a change. False, and not counted: the gate is busy. */
static bool change_begin(struct extent_dev *d)
{
	atomic_fetch_add(&d->changing, 1);
	if (unlikely(atomic_load(&d->gate->busy))) {
		change_end(d);
		return false;
	}
	return true;
}

static void extent_io_end(struct extent_io *io, int res)
{
	struct extent_dev *d = io->dev;
	struct op *user = io->user;

	TAILQ_INSERT_HEAD(&d->free, io, in_queue);
	if (io_changes(io))
		change_end(d);
	user->done(user, res);
}

static void io_done(struct op *op, int res)
{
	struct extent_io *io = container_of(op, struct extent_io, op);

	if (io->space) {
		space_share_done(io->dev->share, io->space);
		io->space = 0;
	}
	extent_io_end(io, res);
}

static void io_submit(struct extent_io *io)
{
	struct blockdev *medium = io->dev->medium;
	const struct blockdev_ops *ops = medium->ops;

	switch (io->kind) {
	case EXTENT_READ:
		ops->read(medium, &io->op, (void *)io->data,
			  (uint32_t)io->length, io->offset);
		break;
	case EXTENT_WRITE:
		ops->write(medium, &io->op, io->data, (uint32_t)io->length,
			   io->offset, io->flags);
		break;
	case EXTENT_DISCARD:
		ops->discard(medium, &io->op, io->offset, io->length,
			     io->flags);
		break;
	case EXTENT_WRITE_ZEROES:
		ops->write_zeroes(medium, &io->op, io->offset, io->length,
				  io->flags);
		break;
	}
}

/* ---- the floor ---- */

/* Near the floor, off the loop: a look at the file system may block. */
static int space_run(struct loop_work *work)
{
	struct extent_io *io = container_of(work, struct extent_io, work);

	return space_share_ask(io->dev->share, io->offset, io->length,
			       &io->space);
}

static void space_done(struct loop_work *work, int res)
{
	struct extent_io *io = container_of(work, struct extent_io, work);

	if (res == 0) {
		io_submit(io);
		return;
	}
	io->space = 0;
	extent_io_end(io, res);
}

/* Without BLOCKDEV_NO_HOLE write-zeroes gives blocks back. */
static bool io_takes_space(const struct extent_io *io)
{
	return io->dev->share &&
	       (io->kind == EXTENT_WRITE || (io->kind == EXTENT_WRITE_ZEROES &&
					     io->flags & BLOCKDEV_NO_HOLE));
}

/* Limits and gate have let the request through; a change is counted. */
static void io_start(struct extent_io *io)
{
	if (io_takes_space(io)) {
		io->space = (io->offset + io->length + BLOCK - 1) / BLOCK *
				    BLOCK -
			    io->offset / BLOCK * BLOCK;
		if (!space_share_take(io->dev->share, io->space)) {
			loop_work(io->dev->dev.loop, &io->work);
			return;
		}
	}
	io_submit(io);
}

/* ---- waiting ---- */

/* The limits have let the request through. */
static void io_pass_gate(struct extent_io *io)
{
	struct extent_dev *d = io->dev;
	struct gate *gate = d->gate;
	bool waits = false;

	if (io_changes(io)) {
		pthread_mutex_lock(&gate->lock);
		waits = gate->closed > 0;
		if (waits)
			TAILQ_INSERT_TAIL(&d->stopped, io, in_queue);
		else
			atomic_fetch_add(&d->changing, 1);
		pthread_mutex_unlock(&gate->lock);
	}
	if (!waits)
		io_start(io);
}

/* When the request may start. The gate's lock is held. */
static uint64_t io_price(struct gate *gate, const struct extent_io *io,
			 uint64_t now_ns)
{
	const bool moves = !io_changes(io) || io->kind == EXTENT_WRITE;

	return gate->bypasses ? now_ns
			      : limit_take(&gate->limit, now_ns,
					   moves ? io->length : 0);
}

/* Requests queued by limits of before. The gate's lock is held. */
static void late_price_anew(struct extent_dev *d, uint64_t now_ns)
{
	struct extent_io *io;

	if (d->generation == d->gate->generation)
		return;
	d->generation = d->gate->generation;
	TAILQ_FOREACH (io, &d->late, in_queue)
		io->start_ns = io_price(d->gate, io, now_ns);
}

static void timer_start(struct extent_dev *d, uint64_t at_ns)
{
	uint64_t now_ns = (uint64_t)clock_ns();
	uint64_t ms = at_ns > now_ns ? (at_ns - now_ns + 999999) / 1000000 : 0;

	d->timer_runs = true;
	loop_timer_start(d->dev.loop, &d->timer,
			 ms < TIMER_MAX_MS ? (unsigned)ms : TIMER_MAX_MS);
}

/* The gate is busy: by the limits first, then because it is closed. */
static void io_admit(struct extent_io *io)
{
	struct extent_dev *d = io->dev;
	struct gate *gate = d->gate;
	uint64_t now_ns = (uint64_t)clock_ns();
	bool waits;

	pthread_mutex_lock(&gate->lock);
	late_price_anew(d, now_ns);
	io->start_ns = io_price(gate, io, now_ns);
	waits = io->start_ns > now_ns;
	if (waits)
		TAILQ_INSERT_TAIL(&d->late, io, in_queue);
	pthread_mutex_unlock(&gate->lock);
	if (!waits)
		io_pass_gate(io);
	else if (!d->timer_runs)
		timer_start(d, io->start_ns);
}

/* Move due requests to @due. Returns when the next is due, or 0. */
static uint64_t late_take_due(struct extent_dev *d, struct extent_io_queue *due)
{
	struct gate *gate = d->gate;
	uint64_t now_ns = (uint64_t)clock_ns(), next_ns = 0;
	struct extent_io *io;

	pthread_mutex_lock(&gate->lock);
	late_price_anew(d, now_ns);
	while ((io = TAILQ_FIRST(&d->late)) &&
	       (gate->bypasses || io->start_ns <= now_ns)) {
		TAILQ_REMOVE(&d->late, io, in_queue);
		TAILQ_INSERT_TAIL(due, io, in_queue);
	}
	if (io)
		next_ns = io->start_ns;
	pthread_mutex_unlock(&gate->lock);
	return next_ns;
}

static void timer_done(struct op *op, int res)
{
	struct extent_dev *d = container_of(op, struct extent_dev, timer.op);
	struct extent_io_queue due;
	struct extent_io *io;
	uint64_t next_ns;

	(void)res; /* ended early: the limits have changed */
	d->timer_runs = false;
	TAILQ_INIT(&due);
	next_ns = late_take_due(d, &due);
	if (next_ns)
		timer_start(d, next_ns);
	while ((io = TAILQ_FIRST(&due))) {
		TAILQ_REMOVE(&due, io, in_queue);
		io_pass_gate(io);
	}
}

/* The quiesces have ended, or the limits changed. */
static void wake_run(struct loop_message *message)
{
	struct extent_dev *d = container_of(message, struct extent_dev, wake);
	struct gate *gate = d->gate;
	struct extent_io_queue go;
	struct extent_io *io;

	if (d->closed) { /* on this loop; the gate may be gone */
		free(d);
		return;
	}
	TAILQ_INIT(&go);
	pthread_mutex_lock(&gate->lock);
	d->posted = false;
	if (!gate->closed)
		TAILQ_CONCAT(&go, &d->stopped, in_queue);
	TAILQ_FOREACH (io, &go, in_queue)
		atomic_fetch_add(&d->changing, 1);
	pthread_mutex_unlock(&gate->lock);
	if (d->timer_runs) /* done() looks at the queue */
		loop_cancel(d->dev.loop, &d->timer.op);
	while ((io = TAILQ_FIRST(&go))) {
		TAILQ_REMOVE(&go, io, in_queue);
		io_start(io);
	}
}

void extent_dev_wake(struct extent_dev *d)
{
	if (d->posted || (TAILQ_EMPTY(&d->stopped) && TAILQ_EMPTY(&d->late)))
		return;
	d->posted = true;
	loop_post(d->dev.loop, &d->wake);
}

/* ---- struct blockdev_ops ---- */

static void dev_read(struct blockdev *dev, struct op *op, void *data,
		     uint32_t length, uint64_t offset)
{
	struct extent_dev *d = extent_dev_of(dev);
	struct extent_io *io;

	if (!unlikely(atomic_load(&d->gate->busy) & GATE_LIMITED)) {
		d->medium->ops->read(d->medium, op, data, length, offset);
		return;
	}
	io = io_get(dev, op, EXTENT_READ, offset, length, 0);
	io->data = data;
	io_admit(io);
}

static void io_start_change(struct extent_io *io)
{
	if (change_begin(io->dev))
		io_start(io);
	else
		io_admit(io);
}

static void dev_write(struct blockdev *dev, struct op *op, const void *data,
		      uint32_t length, uint64_t offset, unsigned flags)
{
	struct extent_io *io = io_get(dev, op, EXTENT_WRITE, offset, length,
				      flags);

	io->data = data;
	io_start_change(io);
}

static void dev_flush(struct blockdev *dev, struct op *op)
{
	struct blockdev *medium = extent_dev_of(dev)->medium;

	medium->ops->flush(medium, op);
}

static void dev_discard(struct blockdev *dev, struct op *op, uint64_t offset,
			uint64_t length, unsigned flags)
{
	io_start_change(io_get(dev, op, EXTENT_DISCARD, offset, length, flags));
}

static void dev_write_zeroes(struct blockdev *dev, struct op *op,
			     uint64_t offset, uint64_t length, unsigned flags)
{
	io_start_change(
		io_get(dev, op, EXTENT_WRITE_ZEROES, offset, length, flags));
}

static void dev_cache(struct blockdev *dev, struct op *op, uint64_t offset,
		      uint64_t length)
{
	struct blockdev *medium = extent_dev_of(dev)->medium;

	medium->ops->cache(medium, op, offset, length);
}

static void dev_status(struct blockdev *dev, struct op *op, uint64_t offset,
		       uint64_t length, struct blockdev_status *ret,
		       unsigned max)
{
	struct blockdev *medium = extent_dev_of(dev)->medium;

	medium->ops->status(medium, op, offset, length, ret, max);
}

static void dev_close(struct blockdev *dev)
{
	struct extent_dev *d = extent_dev_of(dev);
	struct gate *gate = d->gate;
	bool posted;

	assert(!d->timer_runs);
	pthread_mutex_lock(&gate->lock);
	assert(TAILQ_EMPTY(&d->stopped) && TAILQ_EMPTY(&d->late));
	LIST_REMOVE(d, in_gate);
	d->closed = true;
	posted = d->posted;
	pthread_mutex_unlock(&gate->lock);
	blockdev_close(d->medium);
	space_share_free(d->share);
	if (!posted)
		free(d);
}

/* What the medium can. */
static struct blockdev_ops ops_like(const struct blockdev_ops *medium)
{
	return (struct blockdev_ops){
		.read = dev_read,
		.write = dev_write,
		.flush = dev_flush,
		.close = dev_close,
		.discard = medium->discard ? dev_discard : NULL,
		.write_zeroes = medium->write_zeroes ? dev_write_zeroes : NULL,
		.cache = medium->cache ? dev_cache : NULL,
		.status = medium->status ? dev_status : NULL,
	};
}

static void io_init(struct extent_dev *d, struct extent_io *io)
{
	io->op.done = io_done;
	io->work.run = space_run;
	io->work.done = space_done;
	io->dev = d;
	TAILQ_INSERT_TAIL(&d->free, io, in_queue);
}

int extent_dev_new(struct gate *gate, struct blockdev *medium,
		   struct space_share *share, struct blockdev **ret,
		   struct error *err)
{
	struct extent_dev *d = calloc(1, sizeof(*d));

	if (!d) {
		blockdev_close(medium);
		space_share_free(share);
		return error_set(err, ENOMEM, "out of memory");
	}
	d->dev = *medium;
	d->ops = ops_like(medium->ops);
	d->dev.ops = &d->ops;
	d->medium = medium;
	d->share = share;
	d->gate = gate;
	d->wake.run = wake_run;
	d->timer.op.done = timer_done;
	TAILQ_INIT(&d->free);
	TAILQ_INIT(&d->stopped);
	TAILQ_INIT(&d->late);
	for (size_t i = 0; i < EXTENT_DEV_REQUESTS; i++)
		io_init(d, &d->ios[i]);
	pthread_mutex_lock(&gate->lock);
	LIST_INSERT_HEAD(&gate->devs, d, in_gate);
	pthread_mutex_unlock(&gate->lock);
	*ret = &d->dev;
	return 0;
}

int extent_dev_open(struct gate *gate, struct pool *pool, const char *name,
		    uint64_t size, unsigned flags, struct loop *loop,
		    struct blockdev **ret, struct error *err)
{
	struct space_share *share = NULL;
	struct blockdev *medium;
	int r = pool->ops->open(pool, name, size, flags, loop, &medium, err);

	if (r < 0)
		return r;
	if (pool->ops->share && !(flags & BLOCKDEV_FILE_READ_ONLY))
		r = pool->ops->share(pool, name, &share, err);
	if (r < 0) {
		blockdev_close(medium);
		return r;
	}
	return extent_dev_new(gate, medium, share, ret, err);
}
