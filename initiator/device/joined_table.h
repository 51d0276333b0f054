/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The mapper table of one device made of several: for each segment a linear or
 * a striped target. The arithmetic is that of trib-nbd, too
 * (base/blockdev/segments.h). Pure functions.
 */
#ifndef INITIATOR_JOINED_TABLE_H
#define INITIATOR_JOINED_TABLE_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/blockdev/segments.h"
#include "base/dm/mapper_table.h"

/*
 * Make the table.
 *
 * @devices  of the parts, segments.n_parts of them
 * @ret      set only on success; owned
 *
 * -EINVAL: a size that is no multiple of MAPPER_SECTOR. -ENOMEM.
 */
int joined_table_make(const struct segments *segments, const dev_t *devices,
		      struct mapper_table *ret);

/*
 * Tell whether @next is @now, perhaps grown at its end: no byte of @now is
 * elsewhere.
 */
bool joined_table_grows(const struct mapper_table *now,
			const struct mapper_table *next);

#endif
