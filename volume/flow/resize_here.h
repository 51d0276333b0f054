/* SPDX-License-Identifier: Apache-2.0 */
/* Steps on this machine after a volume's extents have grown. */
#ifndef VOLUME_RESIZE_HERE_H
#define VOLUME_RESIZE_HERE_H

#include "volume/op/context.h"

/* Tell whether the whole volume is attached here for writing. */
bool resize_is_here(const struct operation *op);

/*
 * Grow devices and file systems to their extents, if the volume is attached
 * here. New extents are attached, formatted and mounted, and join the mounted
 * union.
 *
 * -EIO: a split is broken here, or the union takes no more branches while it is
 * mounted: they join at the next mount.
 */
int resize_here(struct operation *op, struct error *err);

#endif
