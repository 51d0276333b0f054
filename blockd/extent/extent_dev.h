/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The device of an extent, for pools of every kind, as a target gets it. A
 * request passes, in this order:
 *
 *	its range    the wrappers of base/blockdev/blockdev.h
 *	the limits   blockd/extent/limit.h
 *	the gate     changes wait while a cut is made (blockd/extent/gate.h)
 *	the floor    blockd/pool/space_floor.h: a write that would take space
 *	             kept free gets -ENOSPC, and writes nothing
 *	the medium   a file (base/blockdev) or an object of a raw pool
 *
 * The medium's functions are called as they are and look at no range. The first
 * step is the only check, and the medium's size is not followed. The device has
 * the medium's abilities but resize: blockd grows the medium behind a device,
 * never through it (blockdev_grown()).
 *
 * At most EXTENT_DEV_REQUESTS may be under way on one device.
 */
#ifndef BLOCKD_EXTENT_DEV_H
#define BLOCKD_EXTENT_DEV_H

#include "base/blockdev/blockdev.h"
#include "base/loop/loop.h"
#include "blockd/extent/gate.h"
#include "blockd/pool/pool.h"

/*
 * More than the target sends to one device: 128 by an NBD connection
 * (NBD_CONN_REQUESTS), 208 by an iSCSI session (ISCSI_WINDOW,
 * ISCSI_IMMEDIATE_MAX and ISCSI_PARTS_MAX).
 */
#define EXTENT_DEV_REQUESTS 256

/*
 * Open the extent @name of a pool: its medium, and its share of the floor if
 * it is written to. Arguments and errors as pool_ops.open has them, -ENOMEM.
 *
 * @gate  borrowed until the device is closed
 */
int extent_dev_open(struct gate *gate, struct pool *pool, const char *name,
		    uint64_t size, unsigned flags, struct loop *loop,
		    struct blockdev **ret, struct error *err);

/*
 * Make a device on the medium's loop. -ENOMEM.
 *
 * @medium  taken, also on failure
 * @share   taken, also on failure; NULL: no floor
 */
int extent_dev_new(struct gate *gate, struct blockdev *medium,
		   struct space_share *share, struct blockdev **ret,
		   struct error *err);

/* ---- for blockd/extent/gate.c ---- */

enum extent_io_kind {
	EXTENT_READ,
	EXTENT_WRITE,
	EXTENT_DISCARD,
	EXTENT_WRITE_ZEROES,
};

/* A request under way or waiting. A read that no limit delays has none. */
struct extent_io {
	struct op op;    /* given to the medium */
	struct op *user; /* given to the device */
	struct extent_dev *dev;
	TAILQ_ENTRY(extent_io) in_queue; /* also in the free ones */
	enum extent_io_kind kind;
	unsigned flags; /* enum blockdev_flag */
	const void *data;
	uint64_t offset, length; /* bytes */
	uint64_t start_ns;       /* earliest start by the limits; clock_ns() */
	uint64_t space;          /* bytes taken of the share */
	struct loop_work work;   /* asks the file system for space */
};

TAILQ_HEAD(extent_io_queue, extent_io);

struct extent_dev {
	struct blockdev dev;
	struct blockdev *medium; /* owned */
	struct blockdev_ops ops;
	struct gate *gate;
	struct space_share *share; /* owned; NULL: no floor */
	atomic_uint changing;      /* changes at the medium */
	struct extent_io_queue free;
	/* Guarded by the gate's lock: */
	struct extent_io_queue stopped; /* until the gate opens */
	struct extent_io_queue late;    /* until their time, in its order */
	unsigned generation;            /* of the limits that @late goes by */
	bool posted;                    /* @wake is on its way */
	LIST_ENTRY(extent_dev) in_gate;
	/* The loop's. The timer runs only while something is late. */
	bool closed; /* freed when @wake arrives */
	struct loop_message wake;
	struct loop_timer timer;
	bool timer_runs;
	struct extent_io ios[EXTENT_DEV_REQUESTS];
};

/* Have the device look at its queues. The gate's lock is held. */
void extent_dev_wake(struct extent_dev *dev);

#endif
