/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One request to a device of blockd/raw/dev/raw_dev.h, done piece by piece:
 * where it is, what it waits for, how it ends. From raw_io_new() to
 * raw_io_end() it counts as a user of the map (raw_users.h), except while it
 * waits for a free cluster.
 *
 * A piece is an operation on the medium (raw_io_start()) or a change of the
 * pool (raw_io_work()); the function that is given to either goes on.
 */
#ifndef BLOCKD_RAW_IO_H
#define BLOCKD_RAW_IO_H

#include "base/cleanup.h"
#include "blockd/raw/dev/raw_users.h"

struct raw_dev {
	struct blockdev dev;
	/* Owned. Its functions are called directly: the map has the ranges. */
	struct blockdev *medium;
	struct raw_users *users;
	const struct raw_map *map; /* of the object */
	const struct raw_alloc *alloc;
	uint32_t id;
	bool thick;
	bool partial;        /* clusters may be written in part */
	unsigned shift;      /* of a cluster's size */
	uint64_t data_start; /* bytes */
};

struct raw_io {
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
	void (*step)(struct raw_io *r);
	void (*next)(struct raw_io *r, int res); /* after op or work */
	struct raw_look look;         /* what the piece was decided on */
	bool whatever;                /* the changes are right without it */
	struct raw_record changes[2]; /* for work */
	unsigned n_changes;           /* of these */
	struct raw_fill *fill;        /* it fills a cluster */
};

static inline struct raw_dev *raw_dev_of(struct blockdev *dev)
{
	return container_of(dev, struct raw_dev, dev);
}

static inline uint64_t raw_dev_cluster(const struct raw_dev *dev)
{
	return UINT64_C(1) << dev->shift;
}

static inline uint64_t raw_io_cluster(const struct raw_io *r)
{
	return r->offset >> r->dev->shift;
}

static inline uint64_t raw_io_inside(const struct raw_io *r)
{
	return r->offset & (raw_dev_cluster(r->dev) - 1);
}

/* Clusters that it reaches into. */
static inline uint64_t raw_io_clusters(const struct raw_io *r)
{
	return ((raw_io_inside(r) + r->left - 1) >> r->dev->shift) + 1;
}

/* Bytes of the request in the next @clusters. */
static inline uint64_t raw_io_bytes(const struct raw_io *r, uint64_t clusters)
{
	uint64_t bytes = (clusters << r->dev->shift) - raw_io_inside(r);

	return bytes < r->left ? bytes : r->left;
}

static inline uint64_t raw_dev_offset(const struct raw_dev *dev,
				      uint32_t physical)
{
	return dev->data_start + ((uint64_t)physical << dev->shift);
}

static inline bool raw_reads_zero(uint32_t entry)
{
	return entry == RAW_HOLE || entry & RAW_UNWRITTEN;
}

static inline bool raw_is_partial(uint32_t entry)
{
	return entry != RAW_HOLE && entry & RAW_PARTIAL;
}

/*
 * What a look says may be written to in place, whole or in part. That goes on
 * being right: clusters become shared only while nobody is inside.
 */
static inline bool raw_look_own(const struct raw_look *look)
{
	return !raw_reads_zero(look->entry) && !look->shared;
}

/* Allocated, never written, and nobody else's. */
static inline bool raw_look_unwritten(const struct raw_look *look)
{
	return look->entry != RAW_HOLE && look->entry & RAW_UNWRITTEN &&
	       !look->shared;
}

static inline void raw_io_advance(struct raw_io *r, uint64_t bytes)
{
	if (r->data)
		r->data += bytes;
	r->offset += bytes;
	r->left -= bytes;
	r->starved = false;
}

/*
 * As much from here on as is one run on the medium, or is all zeroes. Returns
 * bytes, at most those that are left; 0: the map contradicts itself.
 *
 * @ret_from  on the medium, bytes; RAW_ZEROES
 * @ret_hole  of zeroes: they have no cluster either; may be NULL
 */
#define RAW_ZEROES UINT64_MAX
uint64_t raw_io_run(const struct raw_io *r, uint64_t *ret_from, bool *ret_hole);

/*
 * Take the one look at the map that the next piece is decided on, in r->look:
 * at up to @max clusters from here on. The steps that follow get the look
 * itself, not the map.
 */
void raw_io_look(struct raw_io *r, uint64_t max);
/*
 * As raw_io_run(), by r->look; 0: the look is not right any more, look again.
 */
uint64_t raw_io_look_run(const struct raw_io *r, uint64_t *ret_from);

/* Make a request. @user is told when it ends; @step does the next piece. */
struct raw_io *raw_io_new(struct blockdev *dev, struct op *user,
			  uint64_t offset, uint64_t length,
			  void (*step)(struct raw_io *r));
/* Frees it; the user gets @res. */
void raw_io_end(struct raw_io *r, int res);
/* All pieces are done: with FUA the map has to be durable, too. */
void raw_io_written(struct raw_io *r);

/*
 * The next operation on the medium is of @bytes of the request; r->op is
 * given to it.
 */
void raw_io_start(struct raw_io *r, uint64_t bytes,
		  void (*next)(struct raw_io *r, int res));
/* For @next: on to the next piece, or the end. */
void raw_io_piece_done(struct raw_io *r, int res);

/* @run is one of the two below, not on the loop; @next is on it again. */
void raw_io_work(struct raw_io *r, int (*run)(struct loop_work *work),
		 void (*next)(struct raw_io *r, int res));
/* Everything that was changed is durable. */
int raw_io_commit(struct loop_work *work);
/*
 * Carry out r->changes here when nothing has to be waited for, else not on the
 * loop; then @next. The changes were decided on by r->look, or are r->whatever.
 * -EAGAIN as raw_store_change_if() has it.
 */
void raw_io_change(struct raw_io *r, void (*next)(struct raw_io *r, int res));

/* For that: as raw_io_piece_done(), or decide on the piece again. */
void raw_io_change_done(struct raw_io *r, int res);

/* ---- blockd/raw/dev/raw_fill.c ---- */

/*
 * Give the request's cluster one of the pool's clusters of its own, with the
 * data written to it. If another request is doing so, wait for that. Then go on
 * to the next piece.
 */
void raw_fill_begin(struct raw_io *r);

/* ---- blockd/raw/dev/raw_partial.c ---- */

/*
 * Write in place to a cluster that r->look has found the device's own and not
 * written whole yet. Mark the blocks as written, then go on to the next piece.
 */
void raw_partial_write(struct raw_io *r);
/* May the next cluster be one that is written in part, by this request? */
bool raw_partial_may(const struct raw_io *r);
/* The request's next piece, in one window of its cluster. */
uint64_t raw_partial_bytes(const struct raw_io *r);
/* A WRITTEN of r->piece, in cluster @physical. */
struct raw_record raw_partial_record(const struct raw_io *r, uint32_t physical);
/*
 * Zero the blocks in @buffer that were never written of cluster @physical.
 * False: it is not written in part any more.
 */
bool raw_partial_clear(const struct raw_dev *dev, uint32_t physical,
		       uint8_t *buffer);

/* ---- blockd/raw/dev/raw_zero.c ---- */

/* The step of a discard (r->discards) and of write-zeroes. */
void raw_zero_step(struct raw_io *r);

#endif
