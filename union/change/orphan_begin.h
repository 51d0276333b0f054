/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A file that loses its last name while somebody has it: open for more than
 * its data (O_PATH), or as a fifo, socket or device, of which we know no open
 * file. On its branch nobody would have it. So its node keeps a descriptor,
 * until the kernel forgets it.
 */
#ifndef UNION_ORPHAN_BEGIN_H
#define UNION_ORPHAN_BEGIN_H

#include "union/view/lookup.h"

struct orphan {
	unsigned branch;
	struct orphan_fd buried; /* none: it is not the last name */
	struct handle handle;
};

/* Before the file @name that @hit found goes. */
void orphan_begin(struct unionfs *fs, const struct hit *hit, const char *name,
		  struct orphan *ret);

/* It has gone; or has not (@removed false). */
void orphan_end(struct unionfs *fs, struct orphan *bury, bool removed);

#endif
