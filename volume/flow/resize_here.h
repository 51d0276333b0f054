/* SPDX-License-Identifier: Apache-2.0 */
/* What follows on this machine when a volume's extents have grown. */
#ifndef VOLUME_RESIZE_HERE_H
#define VOLUME_RESIZE_HERE_H

#include "volume/op/context.h"

/* Attached here for writing, whole: not half, not for reading only. */
bool resize_is_here(const struct operation *op);

/*
 * Where it is attached here: devices and file systems become as large as
 * their extents; new extents are attached, formatted and mounted, and join
 * the live union. Elsewhere: nothing.
 *
 * -EIO: a split is broken here; or the union takes no more branches while it
 * is mounted: they join it at the next mount.
 */
int resize_here(struct operation *op, struct error *err);

#endif
