/* SPDX-License-Identifier: Apache-2.0 */
/* The reads and writes of a split so far, as its device or export counts them.
 */
#ifndef VOLUME_SPLIT_USE_H
#define VOLUME_SPLIT_USE_H

#include "volume/op/context.h"

/* Counters only grow, as long as @counter is the same. */
struct split_use {
	bool known;
	uint64_t reads, read_bytes, read_us;    /* us: of all together */
	uint64_t writes, write_bytes, write_us; /* flushes are no writes */
	char counter[RECORD_NAME_SIZE + 16]; /* "device loop3", "export v-0" */
	char why[RECORD_TEXT_SIZE];          /* when not known */
};

/*
 * Ask for the use of split @index. The kernel of this machine counts what
 * passes the device of a volume that is attached here. The export of the split
 * counts for other nodes, but not for its own, which goes around it.
 */
void volume_split_use(struct volume_context *ctx,
		      const struct volume_record *record, unsigned index,
		      struct split_use *ret);

#endif
