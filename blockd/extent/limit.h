/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two token buckets of an extent, operations and bytes, in the form of the time
 * at which each is full again. An operation that comes is told when it may
 * start, and is paid for at once. So all that wait are in one fair queue, and
 * an idle bucket needs no timer.
 *
 * A full bucket holds what flows in within LIMIT_BURST_NS. Any one operation
 * may start while the bucket is not empty, also one that takes more than it
 * holds. The operations that follow wait for the debt. Every read, write,
 * discard and write-zeroes is an operation; reads and writes take their bytes;
 * a flush takes nothing.
 */
#ifndef BLOCKD_LIMIT_H
#define BLOCKD_LIMIT_H

#include <stdbool.h>
#include <stdint.h>

#include "blockd/pool/extent_record.h"

#define LIMIT_BURST_NS UINT64_C(100000000) /* 0.1 s; ours */

struct limit {
	struct extent_limits rates; /* extent_limits_check() passed */
	uint64_t operations_full_ns;
	uint64_t bytes_full_ns;
};

/* Full buckets with these rates. */
void limit_set(struct limit *limit, const struct extent_limits *rates);

bool limit_is_set(const struct limit *limit);

/*
 * Take one operation of @bytes. Returns when it may start: @now_ns or later.
 *
 * @now_ns  of a clock that never goes back
 */
uint64_t limit_take(struct limit *limit, uint64_t now_ns, uint64_t bytes);

#endif
