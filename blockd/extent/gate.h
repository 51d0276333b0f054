/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The gate before the data of an extent: all its open devices
 * (blockd/extent/extent_dev.h), on whichever loops, go through one gate. It can
 *
 * - stop what changes the data (write, discard, write-zeroes; a flush and
 *   reads go through), so that a snapshot is of one instant;
 * - keep the limits of operations and bytes a second (blockd/extent/limit.h)
 *   that all devices share. The devices take from them.
 *
 * While neither is asked for an operation takes no lock. An operation that
 * changes something is counted before it looks at `busy`. The thread that sets
 * `busy` looks at the counts afterwards. So one of the two waits.
 *
 * A gate is embedded in its extent and outlives its devices.
 */
#ifndef BLOCKD_GATE_H
#define BLOCKD_GATE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "blockd/extent/limit.h"

struct extent_dev;

enum gate_busy {
	GATE_CLOSED = 1 << 0,
	GATE_LIMITED = 1 << 1,
};

struct gate {
	atomic_uint busy;     /* enum gate_busy; changed under the lock */
	pthread_mutex_t lock; /* guards the rest, and the queues of devices */
	pthread_cond_t quiet; /* a device has nothing under way any more */
	unsigned closed;
	unsigned bypasses;
	unsigned generation; /* of the limits */
	struct limit limit;
	LIST_HEAD(extent_dev_list, extent_dev) devs;
};

void gate_init(struct gate *gate);
/* No device is open. */
void gate_done(struct gate *gate);

/*
 * Let nothing change the data from here on; returns when all requests under way
 * are done. Closes nest. Not from a loop.
 *
 * @until_ms  clock_ms() at which to give up: -ETIMEDOUT, and the gate is open
 */
int gate_close(struct gate *gate, int64_t until_ms);
/* Let waiting requests go on, each on its own loop. */
void gate_open(struct gate *gate);

static inline bool gate_is_closed(struct gate *gate)
{
	return atomic_load(&gate->busy) & GATE_CLOSED;
}

/* What waits by the old limits is queued anew by these. */
void gate_set_limits(struct gate *gate, const struct extent_limits *limits);

/*
 * While a bypass lasts there is no limit. It is for the time in which blockd
 * waits for connections to end, which first finish their requests.
 */
void gate_bypass_begin(struct gate *gate);
void gate_bypass_end(struct gate *gate);

#endif
