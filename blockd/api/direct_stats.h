/* SPDX-License-Identifier: Apache-2.0 */
/* What an extent's device has straight on the disk, and what passed that way.
 */
#ifndef BLOCKD_DIRECT_STATS_H
#define BLOCKD_DIRECT_STATS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "blockd/node/node.h"

struct direct_stats {
	struct pool_direct is; /* its device, and the table in use */
	/*
	 * Of the device, by the kernel's counters: also what blockd served.
	 * They begin with the device.
	 */
	uint64_t reads, read_bytes, writes, written_bytes, discards, flushes;
};

/* false: the extent has no such device. */
bool direct_stats_get(const struct extent *extent, struct direct_stats *ret);

/* The part of /metrics about them. */
void direct_stats_write(FILE *out, const char *prefix,
			struct extent *const *extents, size_t n);

#endif
