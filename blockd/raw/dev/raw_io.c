/* SPDX-License-Identifier: Apache-2.0 */
#include "blockd/raw/dev/raw_io.h"

#include <errno.h>
#include <stdlib.h>

void raw_io_look(struct raw_io *r, uint64_t max)
{
	r->look = raw_alloc_look(r->dev->alloc, r->dev->map, raw_io_cluster(r),
				 max);
	r->whatever = false;
}

/*
 * Looks at most at a cluster that is written in part. A change to such a
 * cluster changes the entry first, and then the block bitmap. So if the bitmap
 * is gone, the entry has changed.
 */
#define LOOKS 1000

static uint64_t partial_run(const struct raw_io *r, uint32_t entry,
			    uint64_t *ret_from)
{
	const struct raw_bitmap *bitmap = raw_bitmaps_find(
		&r->dev->alloc->bitmaps, RAW_PHYSICAL(entry));
	const uint64_t inside = raw_io_inside(r);
	const uint32_t block = (uint32_t)(inside / RAW_BLOCK);
	bool written;
	uint64_t bytes;

	if (!bitmap)
		return 0;
	bytes = raw_bitmap_run(bitmap, block,
			       (uint32_t)(raw_dev_cluster(r->dev) / RAW_BLOCK) -
				       block,
			       &written) *
			(uint64_t)RAW_BLOCK -
		inside % RAW_BLOCK;
	*ret_from = RAW_ZEROES;
	if (written)
		*ret_from = raw_dev_offset(r->dev, RAW_PHYSICAL(entry)) +
			    inside;
	return bytes < r->left ? bytes : r->left;
}

static uint64_t run_of(const struct raw_io *r, uint32_t entry, uint64_t n,
		       uint64_t *ret_from)
{
	if (raw_is_partial(entry))
		return partial_run(r, entry, ret_from);
	*ret_from = raw_reads_zero(entry)
			    ? RAW_ZEROES
			    : raw_dev_offset(r->dev, entry) + raw_io_inside(r);
	return raw_io_bytes(r, n);
}

uint64_t raw_io_look_run(const struct raw_io *r, uint64_t *ret_from)
{
	return run_of(r, r->look.entry, r->look.n, ret_from);
}

uint64_t raw_io_run(const struct raw_io *r, uint64_t *ret_from, bool *ret_hole)
{
	uint32_t entry;
	uint64_t n, bytes = 0;

	for (unsigned looks = 0; !bytes && looks < LOOKS; looks++) {
		n = raw_map_run(r->dev->map, raw_io_cluster(r),
				raw_io_clusters(r), &entry);
		bytes = run_of(r, entry, n, ret_from);
	}
	if (ret_hole)
		*ret_hole = entry == RAW_HOLE;
	return bytes;
}

/* ---- ends ---- */

void raw_io_end(struct raw_io *r, int res)
{
	struct op *user = r->user;
	struct loop *loop = r->raw.loop;
	bool returned = r->returned;

	raw_users_leave(r->dev->users, r->phase);
	free(r);
	if (returned)
		user->done(user, res);
	else /* not from inside the call */
		loop_complete(loop, user, res);
}

/* ---- waiting for the medium, and for the store ---- */

static void op_done(struct op *op, int res)
{
	struct raw_io *r = container_of(op, struct raw_io, op);

	r->next(r, res);
}

static void work_done(struct loop_work *work, int res)
{
	struct raw_io *r = container_of(work, struct raw_io, work);

	r->next(r, res);
}

int raw_io_commit(struct loop_work *work)
{
	struct raw_io *r = container_of(work, struct raw_io, work);
	struct raw_store *store = r->dev->users->store;
	struct error err;
	int res = raw_store_commit(store, raw_store_newest(store), &err);

	if (res < 0 && r->dev->users->broken)
		r->dev->users->broken(r->dev->users->context, &err);
	return res < 0 ? -EIO : 0;
}

static int change_result(int res)
{
	if (res == -ENOMEM || res == -ENOSPC || res == -EAGAIN ||
	    res == -ETXTBSY)
		return res;
	return res < 0 ? -EIO : 0;
}

static const struct raw_look *decided_on(const struct raw_io *r)
{
	return r->whatever ? NULL : &r->look;
}

static int change_run(struct loop_work *work)
{
	struct raw_io *r = container_of(work, struct raw_io, work);
	struct error err;
	struct raw_store *store = r->dev->users->store;

	return change_result(raw_store_change_if(
		store, r->changes, r->n_changes, decided_on(r), &err));
}

void raw_io_work(struct raw_io *r, int (*run)(struct loop_work *work),
		 void (*next)(struct raw_io *r, int res))
{
	r->work.run = run;
	r->work.done = work_done;
	r->next = next;
	r->returned = true; /* it goes on from the loop */
	loop_work(r->raw.loop, &r->work);
}

#define QUICK 16u /* clusters that are changed on the loop */

void raw_io_change(struct raw_io *r, void (*next)(struct raw_io *r, int res))
{
	struct error err;
	int res = -EBUSY;

	if (r->changes[0].count <= QUICK)
		res = raw_store_change_now(r->dev->users->store, r->changes,
					   r->n_changes, decided_on(r), &err);
	if (res == -EBUSY)
		raw_io_work(r, change_run, next);
	else
		next(r, change_result(res));
}

void raw_io_start(struct raw_io *r, uint64_t bytes,
		  void (*next)(struct raw_io *r, int res))
{
	r->piece = bytes;
	r->next = next;
	r->returned = true; /* the medium's done() comes from the loop, too */
}

void raw_io_piece_done(struct raw_io *r, int res)
{
	if (res < 0) {
		raw_io_end(r, res);
		return;
	}
	raw_io_advance(r, r->piece);
	r->step(r);
}

void raw_io_change_done(struct raw_io *r, int res)
{
	if (res == -EAGAIN)
		r->step(r);
	else
		raw_io_piece_done(r, res);
}

void raw_io_written(struct raw_io *r)
{
	if (r->flags & BLOCKDEV_FUA && raw_store_pending(r->dev->users->store))
		raw_io_work(r, raw_io_commit, raw_io_end);
	else
		raw_io_end(r, 0);
}

/* ---- begins ---- */

struct raw_io *raw_io_new(struct blockdev *dev, struct op *user,
			  uint64_t offset, uint64_t length,
			  void (*step)(struct raw_io *r))
{
	struct raw_io *r = calloc(1, sizeof(*r));

	if (!r)
		abort(); /* 300 bytes: the process can't go on */
	r->dev = raw_dev_of(dev);
	r->user = user;
	r->raw.loop = dev->loop;
	r->op.done = op_done;
	r->offset = offset;
	r->left = length;
	r->step = step;
	r->phase = raw_users_enter(r->dev->users);
	return r;
}
