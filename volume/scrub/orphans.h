/* SPDX-License-Identifier: Apache-2.0 */
/* The search of volume_orphans() and of the scrub (volume/scrub/scrub.h). */
#ifndef VOLUME_ORPHANS_H
#define VOLUME_ORPHANS_H

#include "volume/op/context.h"

struct orphans_found {
	struct orphan *orphans; /* owned */
	size_t n;
	struct name_list asked; /* nodes that answered; owned */
	size_t unreachable;     /* nodes that did not */
};

/*
 * Compare all records with all nodes that answer. Each finding is confirmed by
 * its record as it is after the nodes were asked. So an extent that is made,
 * moved or deleted meanwhile is no orphan.
 *
 * @ret  orphans_found_done()
 *
 * -EUCLEAN: a record cannot be read, so its extents cannot be told apart.
 */
int orphans_find(struct volume_context *ctx, struct orphans_found *ret,
		 struct error *err);
void orphans_found_done(struct orphans_found *found);

#endif
