/* SPDX-License-Identifier: Apache-2.0 */
/* How a volume's limits are divided among its extents. */
#ifndef VOLUME_LIMITS_H
#define VOLUME_LIMITS_H

#include "volume/context.h"

/*
 * The part of @limit that @size is of @whole, rounded up: at least 1, and
 * together no more than one above it for each part. 0 stays 0.
 */
uint64_t limit_part(uint64_t limit, uint64_t size, uint64_t whole);

/* Of one of @record's splits, as large as it is going to be. */
struct node_limits limits_of_split(const struct volume_record *record,
				   const struct volume_split *split);

/* Tell every extent its part, as the record has it now. */
int limits_apply(struct operation *op, struct error *err);

#endif
