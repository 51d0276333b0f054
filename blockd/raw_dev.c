/* SPDX-License-Identifier: Apache-2.0 */
#include "blockd/raw_dev.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "blockd/raw_users.h"

struct raw_dev {
	struct blockdev dev;
	struct blockdev *medium; /* owned */
	struct raw_users *users;
	const struct raw_map *map; /* of the object */
	const struct raw_alloc *alloc;
	uint32_t id;
	bool thick;
	unsigned shift;      /* of a cluster's size */
	uint64_t data_start; /* bytes */
};

/* One request of a user, done piece by piece. */
struct request {
	struct raw_request raw;
	struct op op; /* on the medium */
	struct loop_work work;
	struct op *user;
	struct raw_dev *dev;
	uint8_t *data;         /* NULL: zeroes */
	uint64_t offset, left; /* bytes */
	uint64_t piece;        /* bytes that are under way */
	unsigned flags;        /* enum blockdev_flag */
	unsigned phase;        /* raw_users_enter() */
	bool discards;         /* it is a hint */
	bool starved;          /* it has waited for a cluster already */
	bool returned;         /* from the call that started it */
	void (*step)(struct request *r);
	void (*next)(struct request *r, int res); /* after op or work */
	struct raw_record change;                 /* for work */
	struct raw_fill *fill;                    /* it fills a cluster */
	int res;
};

static struct raw_dev *raw_of(struct blockdev *dev)
{
	return container_of(dev, struct raw_dev, dev);
}

/* ---- where a request is ---- */

static uint64_t cluster_size(const struct raw_dev *dev)
{
	return UINT64_C(1) << dev->shift;
}

static uint64_t cluster_of(const struct request *r)
{
	return r->offset >> r->dev->shift;
}

static uint64_t inside_cluster(const struct request *r)
{
	return r->offset & (cluster_size(r->dev) - 1);
}

/* Clusters that it reaches into. */
static uint64_t clusters_left(const struct request *r)
{
	return ((inside_cluster(r) + r->left - 1) >> r->dev->shift) + 1;
}

/* Bytes of the request in the next @clusters. */
static uint64_t bytes_in(const struct request *r, uint64_t clusters)
{
	uint64_t bytes = (clusters << r->dev->shift) - inside_cluster(r);

	return bytes < r->left ? bytes : r->left;
}

static uint64_t medium_offset(const struct raw_dev *dev, uint32_t physical)
{
	/* The map may have clusters of a part that it has grown by. */
	blockdev_grown(dev->medium, atomic_load_explicit(&dev->users->grown,
							 memory_order_acquire));
	return dev->data_start + ((uint64_t)physical << dev->shift);
}

static bool reads_zero(uint32_t entry)
{
	return entry == RAW_HOLE || entry & RAW_UNWRITTEN;
}

static bool is_shared(const struct raw_dev *dev, uint64_t cluster,
		      uint32_t entry)
{
	return raw_alloc_shared(dev->alloc, dev->map, cluster, entry);
}

/*
 * Clusters from here on that may be written in place, one after the other on
 * the medium. They become shared only while nobody is inside.
 */
static uint64_t writable_run(const struct request *r, uint32_t *ret_first)
{
	uint64_t cluster = cluster_of(r), max = clusters_left(r), n = 0;
	uint32_t first = raw_map_get(r->dev->map, cluster);

	while (!reads_zero(first) && n < max &&
	       raw_map_get(r->dev->map, cluster + n) == first + (uint32_t)n &&
	       !is_shared(r->dev, cluster + n, first + (uint32_t)n))
		n++;
	*ret_first = first;
	return n;
}

static void advance(struct request *r, uint64_t bytes)
{
	if (r->data)
		r->data += bytes;
	r->offset += bytes;
	r->left -= bytes;
	r->starved = false;
}

/* ---- ends ---- */

static void request_end(struct request *r)
{
	struct op *user = r->user;
	int res = r->res;

	free(r);
	user->done(user, res);
}

static void end_posted(struct loop_message *message)
{
	request_end(container_of(message, struct request, raw.again));
}

static void finish(struct request *r, int res)
{
	raw_users_leave(r->dev->users, r->phase);
	r->res = res;
	if (r->returned) {
		request_end(r);
		return;
	}
	r->raw.again.run = end_posted; /* not from inside the call */
	loop_post(r->raw.loop, &r->raw.again);
}

/* ---- waiting for the medium, and for the store ---- */

static void op_done(struct op *op, int res)
{
	struct request *r = container_of(op, struct request, op);

	if (res < 0 && r->dev->users->fault)
		r->dev->users->fault(r->dev->users->context);
	r->next(r, res);
}

static void work_done(struct loop_work *work, int res)
{
	struct request *r = container_of(work, struct request, work);

	r->next(r, res);
}

static void step_posted(struct loop_message *message)
{
	struct request *r = container_of(message, struct request, raw.again);

	r->step(r);
}

static int commit_run(struct loop_work *work)
{
	struct request *r = container_of(work, struct request, work);
	struct raw_store *store = r->dev->users->store;
	struct error err;
	int res = raw_store_commit(store, raw_store_newest(store), &err);

	if (res < 0 && r->dev->users->broken)
		r->dev->users->broken(r->dev->users->context, &err);
	return res < 0 ? -EIO : 0;
}

static int change_run(struct loop_work *work)
{
	struct request *r = container_of(work, struct request, work);
	struct error err;
	struct raw_store *store = r->dev->users->store;
	int res = r->fill && r->fill->buffer
			  ? raw_store_change_shared(store, &r->change, &err)
			  : raw_store_change(store, &r->change, 1, NULL, &err);

	if (res == -ENOMEM || res == -ENOSPC || res == -EAGAIN)
		return res;
	return res < 0 ? -EIO : 0;
}

static void start_work(struct request *r, int (*run)(struct loop_work *work),
		       void (*next)(struct request *r, int res))
{
	r->work.run = run;
	r->work.done = work_done;
	r->next = next;
	r->returned = true; /* it goes on from the loop */
	loop_work(r->raw.loop, &r->work);
}

/* ---- reading ---- */

static void piece_done(struct request *r, int res)
{
	if (res < 0) {
		finish(r, res);
		return;
	}
	advance(r, r->piece);
	r->step(r);
}

static void start_op(struct request *r, uint64_t bytes,
		     void (*next)(struct request *r, int res))
{
	r->piece = bytes;
	r->next = next;
	r->returned = true; /* the medium's done() comes from the loop, too */
}

static void read_step(struct request *r)
{
	while (r->left > 0) {
		uint32_t entry;
		uint64_t n = raw_map_run(r->dev->map, cluster_of(r),
					 clusters_left(r), &entry);
		uint64_t bytes = bytes_in(r, n);

		if (!reads_zero(entry)) {
			uint64_t from = medium_offset(r->dev, entry) +
					inside_cluster(r);

			start_op(r, bytes, piece_done);
			blockdev_read(r->dev->medium, &r->op, r->data,
				      (uint32_t)bytes, from);
			return;
		}
		memset(r->data, 0, bytes);
		advance(r, bytes);
	}
	finish(r, 0);
}

/* ---- giving a cluster ---- */

static void fill_end(struct request *r)
{
	struct raw_users *users = r->dev->users;
	struct raw_fill *fill = r->fill;

	(void)pthread_mutex_lock(&users->lock);
	LIST_REMOVE(fill, in_users);
	raw_requests_again(&fill->waiting);
	(void)pthread_mutex_unlock(&users->lock);
	free(fill->buffer);
	free(fill);
	r->fill = NULL;
}

static void fill_failed(struct request *r, int res)
{
	if (r->fill->taken)
		raw_store_untake(r->dev->users->store, r->fill->physical, 1);
	fill_end(r);
	finish(r, res);
}

/*
 * Others had the cluster that was copied, and have taken leave of it: who
 * wrote to it in place meanwhile is not in the copy.
 */
static void fill_again(struct request *r)
{
	raw_store_untake(r->dev->users->store, r->fill->physical, 1);
	fill_end(r);
	r->step(r);
}

static void fill_mapped(struct request *r, int res)
{
	if (res == -EAGAIN) {
		fill_again(r);
		return;
	}
	if (res < 0) {
		fill_failed(r, res);
		return;
	}
	fill_end(r);
	advance(r, r->piece);
	r->step(r);
}

/* The data is on the medium (not durably): now it may be mapped. */
static void fill_written(struct request *r, int res)
{
	if (res < 0) {
		fill_failed(r, res);
		return;
	}
	r->change = (struct raw_record){
		.type = RAW_MAP,
		.object = r->dev->id,
		.logical = r->fill->cluster,
		.physical = r->fill->physical,
		.count = 1,
	};
	start_work(r, change_run, fill_mapped);
}

/* The user's part, when the rest of the cluster is right already. */
static void fill_write_part(struct request *r, int res)
{
	if (res < 0) {
		fill_failed(r, res);
		return;
	}
	start_op(r, r->piece, fill_written);
	blockdev_write(r->dev->medium, &r->op, r->data, (uint32_t)r->piece,
		       medium_offset(r->dev, r->fill->physical) +
			       inside_cluster(r),
		       0);
}

/* What was in the shared cluster, with the user's part in its place. */
static void fill_copied(struct request *r, int res)
{
	uint8_t *at = r->fill->buffer + inside_cluster(r);

	if (res < 0) {
		fill_failed(r, res);
		return;
	}
	if (r->data)
		memcpy(at, r->data, r->piece);
	else
		memset(at, 0, r->piece);
	start_op(r, r->piece, fill_written);
	blockdev_write(r->dev->medium, &r->op, r->fill->buffer,
		       (uint32_t)cluster_size(r->dev),
		       medium_offset(r->dev, r->fill->physical), 0);
}

static void fill_copy(struct request *r)
{
	struct raw_fill *fill = r->fill;

	fill->buffer = aligned_alloc(RAW_BLOCK, cluster_size(r->dev));
	if (!fill->buffer) {
		fill_failed(r, -ENOMEM);
		return;
	}
	start_op(r, r->piece, fill_copied);
	blockdev_read(r->dev->medium, &r->op, fill->buffer,
		      (uint32_t)cluster_size(r->dev),
		      medium_offset(r->dev, RAW_PHYSICAL(fill->entry)));
}

/* The cluster is this request's: how it gets its content. */
static void fill_start(struct request *r)
{
	const bool whole = bytes_in(r, 1) == cluster_size(r->dev);

	r->piece = bytes_in(r, 1);
	if (!reads_zero(r->fill->entry) && (!whole || !r->data)) {
		fill_copy(r);
	} else if (whole) {
		fill_write_part(r, 0);
	} else {
		start_op(r, r->piece, fill_write_part);
		blockdev_write_zeroes(r->dev->medium, &r->op,
				      medium_offset(r->dev, r->fill->physical),
				      cluster_size(r->dev), BLOCKDEV_NO_HOLE);
	}
}

static void starved_posted(struct loop_message *message)
{
	struct request *r = container_of(message, struct request, raw.again);

	r->phase = raw_users_enter(r->dev->users);
	r->step(r);
}

/*
 * Wait for a round of the cleaner; the second time there is no space. Who
 * waits is not inside: the cleaner waits for those.
 */
static void starve(struct request *r)
{
	if (r->starved) {
		bool broken = raw_store_broken(r->dev->users->store, NULL);

		finish(r, broken ? -EIO : -ENOSPC);
		return;
	}
	r->starved = true;
	r->returned = true;
	raw_users_leave(r->dev->users, r->phase);
	r->raw.again.run = starved_posted;
	raw_users_starve(r->dev->users, &r->raw);
}

/* Lock held. */
static struct raw_fill *find_fill(struct raw_users *users, uint32_t object,
				  uint64_t cluster)
{
	struct raw_fill *fill;

	LIST_FOREACH (fill, &users->fills, in_users) {
		if (fill->object == object && fill->cluster == cluster)
			return fill;
	}
	return NULL;
}

/* Join the request that fills the cluster, or be it. */
static bool fill_claim(struct request *r)
{
	struct raw_users *users = r->dev->users;
	struct raw_fill *mine = calloc(1, sizeof(*mine)), *fill;

	if (!mine) {
		finish(r, -ENOMEM);
		return false;
	}
	mine->object = r->dev->id;
	mine->cluster = cluster_of(r);
	TAILQ_INIT(&mine->waiting);
	(void)pthread_mutex_lock(&users->lock);
	fill = find_fill(users, mine->object, mine->cluster);
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

static uint32_t cluster_before(const struct request *r)
{
	uint64_t cluster = cluster_of(r);
	uint32_t entry = cluster ? raw_map_get(r->dev->map, cluster - 1)
				 : RAW_HOLE;

	return entry == RAW_HOLE ? entry : RAW_PHYSICAL(entry);
}

static void fill_begin(struct request *r)
{
	struct raw_fill *fill;
	uint32_t entry;

	if (!fill_claim(r))
		return;
	fill = r->fill;
	/* Another one was quicker, or took away what was to be zeroed. */
	if (writable_run(r, &entry) || (!r->data && reads_zero(entry))) {
		fill_end(r);
		r->step(r);
		return;
	}
	fill->entry = entry;
	if (entry != RAW_HOLE && entry & RAW_UNWRITTEN &&
	    !is_shared(r->dev, fill->cluster, entry)) {
		fill->physical = RAW_PHYSICAL(entry);
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

/* ---- writing ---- */

/* All pieces are done: with FUA the map has to be durable, too. */
static void write_end(struct request *r)
{
	if (r->flags & BLOCKDEV_FUA && raw_store_pending(r->dev->users->store))
		start_work(r, commit_run, finish);
	else
		finish(r, 0);
}

static void write_step(struct request *r)
{
	uint64_t n, bytes;
	uint32_t first;

	if (r->left == 0) {
		write_end(r);
		return;
	}
	n = writable_run(r, &first);
	if (!n) {
		fill_begin(r);
		return;
	}
	bytes = bytes_in(r, n);
	start_op(r, bytes, piece_done);
	blockdev_write(r->dev->medium, &r->op, r->data, (uint32_t)bytes,
		       medium_offset(r->dev, first) + inside_cluster(r),
		       r->flags & BLOCKDEV_FUA);
}

/* ---- discard and zeroes ---- */

static void unmap_done(struct request *r, int res)
{
	if (res == 0)
		raw_users_clean(r->dev->users);
	piece_done(r, res);
}

/* A thick one keeps them; they read as zeroes. */
static void unwrite(struct request *r, uint32_t first, uint64_t clusters)
{
	r->piece = bytes_in(r, clusters);
	r->change = (struct raw_record){
		.type = RAW_MAP,
		.object = r->dev->id,
		.logical = cluster_of(r),
		.physical = first,
		.count = (uint32_t)clusters,
		.unwritten = true,
	};
	start_work(r, change_run, piece_done);
}

/* Clusters from here on that others have, too. */
static uint64_t shared_run(const struct request *r, uint64_t max)
{
	uint64_t cluster = cluster_of(r), n = 0;
	uint32_t entry = raw_map_get(r->dev->map, cluster);

	while (n < max && !reads_zero(entry) &&
	       is_shared(r->dev, cluster + n, entry))
		entry = raw_map_get(r->dev->map, cluster + ++n);
	return n;
}

static void unmap(struct request *r, uint64_t clusters)
{
	r->piece = bytes_in(r, clusters);
	r->change = (struct raw_record){
		.type = RAW_UNMAP,
		.object = r->dev->id,
		.logical = cluster_of(r),
		.count = (uint32_t)clusters,
	};
	start_work(r, change_run, unmap_done);
}

/* Whole clusters from here on, the device's last one included. */
static uint64_t whole_clusters(const struct request *r)
{
	uint64_t left = r->left;

	if (inside_cluster(r))
		return 0;
	if (r->offset + left == r->dev->dev.size)
		left += cluster_size(r->dev) - 1;
	return left >> r->dev->shift;
}

/* Zeroes that stay allocated: written in place, or given a cluster. */
static void zero_in_place(struct request *r, uint64_t max)
{
	uint64_t n, bytes;
	uint32_t first;

	n = writable_run(r, &first);
	if (!n) {
		fill_begin(r);
		return;
	}
	bytes = bytes_in(r, n < max ? n : max);
	start_op(r, bytes, piece_done);
	blockdev_write_zeroes(r->dev->medium, &r->op,
			      medium_offset(r->dev, first) + inside_cluster(r),
			      bytes,
			      BLOCKDEV_NO_HOLE | (r->flags & BLOCKDEV_FAST) |
				      (r->flags & BLOCKDEV_FUA));
}

/* Whole clusters become zeroes. What others have, too, is left to them. */
static void give_up(struct request *r, uint64_t whole)
{
	uint64_t n;
	uint32_t first;

	if (!r->dev->thick) {
		unmap(r, whole);
		return;
	}
	n = writable_run(r, &first);
	if (n)
		unwrite(r, first, n < whole ? n : whole);
	else
		unmap(r, shared_run(r, whole));
}

static void zero_step(struct request *r)
{
	while (r->left > 0) {
		uint64_t whole = whole_clusters(r);
		uint32_t entry;
		uint64_t n = raw_map_run(r->dev->map, cluster_of(r),
					 clusters_left(r), &entry);

		if (reads_zero(entry) &&
		    (entry == RAW_HOLE || r->dev->thick || !whole ||
		     r->flags & BLOCKDEV_NO_HOLE)) {
			advance(r, bytes_in(r, n));
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
		advance(r, bytes_in(r, 1));
	}
	write_end(r);
}

/* ---- the operations ---- */

static struct request *request_new(struct blockdev *dev, struct op *user,
				   uint64_t offset, uint64_t length,
				   void (*step)(struct request *r))
{
	struct request *r = calloc(1, sizeof(*r));

	if (!r)
		abort(); /* 300 bytes: the process can't go on */
	r->dev = raw_of(dev);
	r->user = user;
	r->raw.loop = dev->loop;
	r->op.done = op_done;
	r->offset = offset;
	r->left = length;
	r->step = step;
	r->phase = raw_users_enter(r->dev->users);
	return r;
}

static void raw_read(struct blockdev *dev, struct op *op, void *data,
		     uint32_t length, uint64_t offset)
{
	struct request *r = request_new(dev, op, offset, length, read_step);

	r->data = data;
	r->step(r);
}

static void raw_write(struct blockdev *dev, struct op *op, const void *data,
		      uint32_t length, uint64_t offset, unsigned flags)
{
	struct request *r = request_new(dev, op, offset, length, write_step);

	r->data = (uint8_t *)data; /* not written to */
	r->flags = flags;
	r->step(r);
}

static void raw_discard(struct blockdev *dev, struct op *op, uint64_t offset,
			uint64_t length, unsigned flags)
{
	struct request *r = request_new(dev, op, offset, length, zero_step);

	r->flags = flags;
	r->discards = true;
	r->step(r);
}

static void raw_write_zeroes(struct blockdev *dev, struct op *op,
			     uint64_t offset, uint64_t length, unsigned flags)
{
	struct request *r = request_new(dev, op, offset, length, zero_step);

	r->flags = flags;
	r->step(r);
}

static void raw_flush(struct blockdev *dev, struct op *op)
{
	struct raw_dev *raw = raw_of(dev);
	struct request *r;

	if (!raw_store_pending(raw->users->store)) {
		blockdev_flush(raw->medium, op);
		return;
	}
	r = request_new(dev, op, 0, 0, NULL);
	start_work(r, commit_run, finish);
}

static unsigned status_of(uint32_t entry)
{
	if (entry == RAW_HOLE)
		return BLOCKDEV_HOLE | BLOCKDEV_ZERO;
	return entry & RAW_UNWRITTEN ? BLOCKDEV_ZERO : 0;
}

static void raw_status(struct blockdev *dev, struct op *op, uint64_t offset,
		       uint64_t length, struct blockdev_status *ret,
		       unsigned max)
{
	struct request *r = request_new(dev, op, offset, length, NULL);
	unsigned n = 0;

	while (r->left > 0) {
		uint32_t entry;
		uint64_t run = raw_map_run(r->dev->map, cluster_of(r),
					   clusters_left(r), &entry);
		uint64_t bytes = bytes_in(r, run);
		unsigned flags = status_of(entry);

		if (n && ret[n - 1].flags == flags)
			ret[n - 1].length += bytes;
		else if (n == max)
			break;
		else
			ret[n++] = (struct blockdev_status){bytes, flags};
		advance(r, bytes);
	}
	finish(r, (int)n);
}

static void raw_close(struct blockdev *dev)
{
	struct raw_dev *raw = raw_of(dev);

	struct raw_users *users = raw->users;

	blockdev_close(raw->medium);
	free(raw);
	raw_users_part(users);
}

static const struct blockdev_ops raw_ops = {
	.read = raw_read,
	.write = raw_write,
	.flush = raw_flush,
	.close = raw_close,
	.discard = raw_discard,
	.write_zeroes = raw_write_zeroes,
	.status = raw_status,
};

/* @dev finds its object; it is there, and stays. */
static int find_map(struct raw_dev *dev, struct error *err)
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
	dev->shift = super->cluster_shift;
	dev->data_start = super->data_start;
	r = find_map(dev, err);
	if (r == 0)
		r = blockdev_file_open(loop, users->path, 0, users->flags,
				       &dev->medium, err);
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
		.block_size = dev->medium->block_size,
		.preferred_size = dev->medium->preferred_size,
		.read_only = flags & RAW_DEV_READ_ONLY,
	};
	*ret = &dev->dev;
	return 0;
}
