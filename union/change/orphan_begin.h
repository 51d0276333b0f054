/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A file that loses its last name while a process uses it. It may be open for
 * more than its data (O_PATH), or be a fifo, socket or device, whose open files
 * the server does not know. On its branch nobody would have it. So its node
 * keeps a descriptor, until the kernel forgets it.
 */
#ifndef UNION_ORPHAN_BEGIN_H
#define UNION_ORPHAN_BEGIN_H

#include "union/view/lookup.h"

struct orphan {
	unsigned branch;
	struct orphan_fd orphan; /* none: it is not the last name */
	struct handle handle;
};

/* Begin before the file @name goes, which @hit found. */
void orphan_begin(struct unionfs *fs, const struct hit *hit, const char *name,
		  struct orphan *ret);

/* End it: the file has gone; @removed false: it has not. */
void orphan_end(struct unionfs *fs, struct orphan *orphan, bool removed);

#endif
