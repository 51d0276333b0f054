/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A file that loses its last name while somebody has it: open for more than
 * its data (O_PATH), or as a fifo, socket or device, of which we know no open
 * file. On its branch nobody would have it. So its node keeps a descriptor,
 * until the kernel forgets it.
 */
#ifndef UNION_BURY_H
#define UNION_BURY_H

#include "union/view/lookup.h"

struct bury {
	unsigned branch;
	struct buried buried; /* none: it is not the last name */
	struct handle handle;
};

/* Before the file @name that @hit found goes. */
void bury_begin(struct unionfs *fs, const struct hit *hit, const char *name,
		struct bury *ret);

/* It has gone; or has not (@removed false). */
void bury_end(struct unionfs *fs, struct bury *bury, bool removed);

#endif
