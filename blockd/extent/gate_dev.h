/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A device of an extent behind the extent's gate (blockd/extent/gate.h). It
 * passes everything on to another device and has that one's abilities, but
 * resize: blockd grows what is behind a device, never through it.
 *
 * At most GATE_DEV_OPS operations may be under way on one device.
 */
#ifndef BLOCKD_GATE_DEV_H
#define BLOCKD_GATE_DEV_H

#include "base/blockdev/blockdev.h"
#include "base/loop/loop.h"
#include "blockd/extent/gate.h"

/*
 * More than one connection of the target starts: NBD_CONN_REQUESTS, 128, or of
 * a session ISCSI_WINDOW, ISCSI_IMMEDIATE_MAX and ISCSI_PARTS_MAX, 208.
 */
#define GATE_DEV_OPS 256

/*
 * Takes @inner, also on failure. On @inner's loop. The gate is borrowed until
 * the device is closed. -ENOMEM.
 */
int gate_dev_open(struct gate *gate, struct blockdev *inner,
		  struct blockdev **ret, struct error *err);

/* ---- for blockd/extent/gate.c ---- */

enum gate_kind {
	GATE_READ,
	GATE_WRITE,
	GATE_DISCARD,
	GATE_WRITE_ZEROES,
};

/* An operation that is under way or waits. */
struct gate_op {
	struct op op;     /* what the inner device is given */
	struct op *outer; /* what we were given */
	struct gate_dev *dev;
	TAILQ_ENTRY(gate_op) in_queue; /* of the free, too */
	enum gate_kind kind;
	unsigned flags;
	const void *data;
	uint64_t offset, length; /* bytes */
	uint64_t start_ns;       /* not before; clock_ns() */
};

TAILQ_HEAD(gate_queue, gate_op);

struct gate_dev {
	struct blockdev dev;
	struct blockdev *inner; /* owned */
	struct blockdev_ops ops;
	struct gate *gate;
	atomic_uint changing; /* operations under way that change the data */
	struct gate_queue free;
	/* Guarded by the gate's lock: */
	struct gate_queue held; /* wait for the end of a hold */
	struct gate_queue late; /* wait for their time, in its order */
	unsigned generation;    /* of the limits that @late goes by */
	bool posted;            /* @wake is on its way */
	LIST_ENTRY(gate_dev) in_gate;
	/* The loop's. The timer runs only while something is late. */
	bool closed; /* free it when @wake arrives */
	struct loop_message wake;
	struct loop_timer timer;
	bool timer_runs;
	struct gate_op ops_all[GATE_DEV_OPS];
};

/* The gate's lock is held: have the device look at its queues. */
void gate_dev_wake(struct gate_dev *g);

#endif
