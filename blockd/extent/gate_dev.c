/* SPDX-License-Identifier: Apache-2.0 */
#include "blockd/extent/gate_dev.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/clock.h"

#define unlikely(x) __builtin_expect(!!(x), 0)

#define TIMER_MAX_MS 60000 /* then it is looked at again */

static struct gate_dev *gate_dev_of(struct blockdev *dev)
{
	return container_of(dev, struct gate_dev, dev);
}

/* The owner grows ours, not the inner one. */
static void follow_size(struct gate_dev *g)
{
	if (unlikely(g->inner->size != g->dev.size))
		blockdev_grown(g->inner, g->dev.size);
}

/* ---- operations ---- */

static struct gate_op *op_get(struct gate_dev *g, struct op *outer)
{
	struct gate_op *o = TAILQ_FIRST(&g->free);

	assert(o); /* GATE_DEV_OPS */
	TAILQ_REMOVE(&g->free, o, in_queue);
	o->outer = outer;
	return o;
}

static bool changes(const struct gate_op *o)
{
	return o->kind != GATE_READ;
}

/* Give it back; what it was for. */
static struct op *op_put(struct gate_op *o)
{
	struct op *outer = o->outer;

	TAILQ_INSERT_HEAD(&o->dev->free, o, in_queue);
	return outer;
}

/* It does not change the data any more: somebody may wait to see that. */
static void leave(struct gate_dev *g)
{
	struct gate *gate = g->gate;

	if (atomic_fetch_sub(&g->changing, 1) == 1 &&
	    unlikely(atomic_load(&gate->busy) & GATE_HELD)) {
		pthread_mutex_lock(&gate->lock);
		pthread_cond_broadcast(&gate->quiet);
		pthread_mutex_unlock(&gate->lock);
	}
}

/* True: it is counted, and may go on with nothing to wait for. */
static bool enter(struct gate_dev *g)
{
	atomic_fetch_add(&g->changing, 1);
	if (unlikely(atomic_load(&g->gate->busy))) {
		leave(g);
		return false;
	}
	return true;
}

static void op_done(struct op *op, int res)
{
	struct gate_op *o = container_of(op, struct gate_op, op);
	struct gate_dev *g = o->dev;
	const bool changed = changes(o);
	struct op *outer = op_put(o);

	if (changed)
		leave(g);
	outer->done(outer, res);
}

/* Nothing stands in its way; one that changes the data is counted. */
static void op_start(struct gate_op *o)
{
	struct blockdev *inner = o->dev->inner;

	follow_size(o->dev);
	switch (o->kind) {
	case GATE_READ:
		inner->ops->read(inner, &o->op, (void *)o->data,
				 (uint32_t)o->length, o->offset);
		break;
	case GATE_WRITE:
		inner->ops->write(inner, &o->op, o->data, (uint32_t)o->length,
				  o->offset, o->flags);
		break;
	case GATE_DISCARD:
		inner->ops->discard(inner, &o->op, o->offset, o->length,
				    o->flags);
		break;
	case GATE_WRITE_ZEROES:
		inner->ops->write_zeroes(inner, &o->op, o->offset, o->length,
					 o->flags);
		break;
	}
}

/* ---- waiting ---- */

/* The limits let it through: now for the holds. */
static void pass_holds(struct gate_op *o)
{
	struct gate_dev *g = o->dev;
	struct gate *gate = g->gate;
	bool waits = false;

	if (changes(o)) {
		pthread_mutex_lock(&gate->lock);
		waits = gate->holds > 0;
		if (waits)
			TAILQ_INSERT_TAIL(&g->held, o, in_queue);
		else
			atomic_fetch_add(&g->changing, 1);
		pthread_mutex_unlock(&gate->lock);
	}
	if (!waits)
		op_start(o);
}

/* When it may start. The gate's lock is held. */
static uint64_t price(struct gate *gate, const struct gate_op *o,
		      uint64_t now_ns)
{
	const bool moves = !changes(o) || o->kind == GATE_WRITE;

	return gate->rushes ? now_ns
			    : limit_take(&gate->limit, now_ns,
					 moves ? o->length : 0);
}

/* Those that wait by limits of before; the gate's lock is held. */
static void price_anew(struct gate_dev *g, uint64_t now_ns)
{
	struct gate_op *o;

	if (g->generation == g->gate->generation)
		return;
	g->generation = g->gate->generation;
	TAILQ_FOREACH (o, &g->late, in_queue)
		o->start_ns = price(g->gate, o, now_ns);
}

static void timer_start(struct gate_dev *g, uint64_t at_ns)
{
	uint64_t now_ns = (uint64_t)clock_ns();
	uint64_t ms = at_ns > now_ns ? (at_ns - now_ns + 999999) / 1000000 : 0;

	g->timer_runs = true;
	loop_timer_start(g->dev.loop, &g->timer,
			 ms < TIMER_MAX_MS ? (unsigned)ms : TIMER_MAX_MS);
}

/* Something is busy: by the limits first, then by the holds. */
static void arrive(struct gate_op *o)
{
	struct gate_dev *g = o->dev;
	struct gate *gate = g->gate;
	uint64_t now_ns = (uint64_t)clock_ns();
	bool waits;

	pthread_mutex_lock(&gate->lock);
	price_anew(g, now_ns);
	o->start_ns = price(gate, o, now_ns);
	waits = o->start_ns > now_ns;
	if (waits)
		TAILQ_INSERT_TAIL(&g->late, o, in_queue);
	pthread_mutex_unlock(&gate->lock);
	if (!waits)
		pass_holds(o);
	else if (!g->timer_runs)
		timer_start(g, o->start_ns);
}

/* Move those whose time has come to @due; when the next one's comes, or 0. */
static uint64_t take_due(struct gate_dev *g, struct gate_queue *due)
{
	struct gate *gate = g->gate;
	uint64_t now_ns = (uint64_t)clock_ns(), next_ns = 0;
	struct gate_op *o;

	pthread_mutex_lock(&gate->lock);
	price_anew(g, now_ns);
	while ((o = TAILQ_FIRST(&g->late)) &&
	       (gate->rushes || o->start_ns <= now_ns)) {
		TAILQ_REMOVE(&g->late, o, in_queue);
		TAILQ_INSERT_TAIL(due, o, in_queue);
	}
	if (o)
		next_ns = o->start_ns;
	pthread_mutex_unlock(&gate->lock);
	return next_ns;
}

static void timer_done(struct op *op, int res)
{
	struct gate_dev *g = container_of(op, struct gate_dev, timer.op);
	struct gate_queue due;
	struct gate_op *o;
	uint64_t next_ns;

	(void)res; /* ended early: the limits have changed */
	g->timer_runs = false;
	TAILQ_INIT(&due);
	next_ns = take_due(g, &due);
	if (next_ns)
		timer_start(g, next_ns);
	while ((o = TAILQ_FIRST(&due))) {
		TAILQ_REMOVE(&due, o, in_queue);
		pass_holds(o);
	}
}

/* The holds have ended, or the limits changed. */
static void wake_run(struct loop_message *message)
{
	struct gate_dev *g = container_of(message, struct gate_dev, wake);
	struct gate *gate = g->gate;
	struct gate_queue go;
	struct gate_op *o;

	if (g->closed) { /* on this loop; the gate may be gone */
		free(g);
		return;
	}
	TAILQ_INIT(&go);
	pthread_mutex_lock(&gate->lock);
	g->posted = false;
	if (!gate->holds)
		TAILQ_CONCAT(&go, &g->held, in_queue);
	TAILQ_FOREACH (o, &go, in_queue)
		atomic_fetch_add(&g->changing, 1);
	pthread_mutex_unlock(&gate->lock);
	if (g->timer_runs) /* done() looks at the queue */
		loop_cancel(g->dev.loop, &g->timer.op);
	while ((o = TAILQ_FIRST(&go))) {
		TAILQ_REMOVE(&go, o, in_queue);
		op_start(o);
	}
}

void gate_dev_wake(struct gate_dev *g)
{
	if (g->posted || (TAILQ_EMPTY(&g->held) && TAILQ_EMPTY(&g->late)))
		return;
	g->posted = true;
	loop_post(g->dev.loop, &g->wake);
}

/* ---- struct blockdev_ops ---- */

static bool is_limited(struct gate_dev *g)
{
	return unlikely(atomic_load(&g->gate->busy) & GATE_LIMITED);
}

static void dev_read(struct blockdev *dev, struct op *op, void *data,
		     uint32_t length, uint64_t offset)
{
	struct gate_dev *g = gate_dev_of(dev);
	struct gate_op *o;

	if (!is_limited(g)) {
		follow_size(g);
		g->inner->ops->read(g->inner, op, data, length, offset);
		return;
	}
	o = op_get(g, op);
	o->kind = GATE_READ;
	o->data = data;
	o->length = length;
	o->offset = offset;
	arrive(o);
}

/* One that changes the data, filled in. */
static void change(struct gate_op *o)
{
	if (enter(o->dev))
		op_start(o);
	else
		arrive(o);
}

static void dev_write(struct blockdev *dev, struct op *op, const void *data,
		      uint32_t length, uint64_t offset, unsigned flags)
{
	struct gate_op *o = op_get(gate_dev_of(dev), op);

	o->kind = GATE_WRITE;
	o->data = data;
	o->length = length;
	o->offset = offset;
	o->flags = flags;
	change(o);
}

static void dev_flush(struct blockdev *dev, struct op *op)
{
	struct blockdev *inner = gate_dev_of(dev)->inner;

	inner->ops->flush(inner, op);
}

static void dev_discard(struct blockdev *dev, struct op *op, uint64_t offset,
			uint64_t length, unsigned flags)
{
	struct gate_op *o = op_get(gate_dev_of(dev), op);

	o->kind = GATE_DISCARD;
	o->length = length;
	o->offset = offset;
	o->flags = flags;
	change(o);
}

static void dev_write_zeroes(struct blockdev *dev, struct op *op,
			     uint64_t offset, uint64_t length, unsigned flags)
{
	struct gate_op *o = op_get(gate_dev_of(dev), op);

	o->kind = GATE_WRITE_ZEROES;
	o->length = length;
	o->offset = offset;
	o->flags = flags;
	change(o);
}

static void dev_cache(struct blockdev *dev, struct op *op, uint64_t offset,
		      uint64_t length)
{
	struct gate_dev *g = gate_dev_of(dev);

	follow_size(g);
	g->inner->ops->cache(g->inner, op, offset, length);
}

static void dev_status(struct blockdev *dev, struct op *op, uint64_t offset,
		       uint64_t length, struct blockdev_status *ret,
		       unsigned max)
{
	struct gate_dev *g = gate_dev_of(dev);

	follow_size(g);
	g->inner->ops->status(g->inner, op, offset, length, ret, max);
}

static void dev_close(struct blockdev *dev)
{
	struct gate_dev *g = gate_dev_of(dev);
	struct gate *gate = g->gate;
	bool posted;

	assert(!g->timer_runs);
	pthread_mutex_lock(&gate->lock);
	assert(TAILQ_EMPTY(&g->held) && TAILQ_EMPTY(&g->late));
	LIST_REMOVE(g, in_gate);
	g->closed = true;
	posted = g->posted;
	pthread_mutex_unlock(&gate->lock);
	blockdev_close(g->inner);
	if (!posted)
		free(g);
}

static const struct blockdev_ops all_ops = {
	.read = dev_read,
	.write = dev_write,
	.flush = dev_flush,
	.close = dev_close,
	.discard = dev_discard,
	.write_zeroes = dev_write_zeroes,
	.cache = dev_cache,
	.status = dev_status,
};

/* What the inner device can't we can't. */
static struct blockdev_ops ops_like(const struct blockdev_ops *inner)
{
	struct blockdev_ops ops = all_ops;

	if (!inner->discard)
		ops.discard = NULL;
	if (!inner->write_zeroes)
		ops.write_zeroes = NULL;
	if (!inner->cache)
		ops.cache = NULL;
	if (!inner->status)
		ops.status = NULL;
	return ops;
}

int gate_dev_open(struct gate *gate, struct blockdev *inner,
		  struct blockdev **ret, struct error *err)
{
	struct gate_dev *g = calloc(1, sizeof(*g));

	if (!g) {
		blockdev_close(inner);
		return error_set(err, ENOMEM, "out of memory");
	}
	g->dev = *inner;
	g->ops = ops_like(inner->ops);
	g->dev.ops = &g->ops;
	g->inner = inner;
	g->gate = gate;
	g->wake.run = wake_run;
	g->timer.op.done = timer_done;
	TAILQ_INIT(&g->free);
	TAILQ_INIT(&g->held);
	TAILQ_INIT(&g->late);
	for (size_t i = 0; i < GATE_DEV_OPS; i++) {
		g->ops_all[i].op.done = op_done;
		g->ops_all[i].dev = g;
		TAILQ_INSERT_TAIL(&g->free, &g->ops_all[i], in_queue);
	}
	pthread_mutex_lock(&gate->lock);
	LIST_INSERT_HEAD(&gate->devs, g, in_gate);
	pthread_mutex_unlock(&gate->lock);
	*ret = &g->dev;
	return 0;
}
