/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files about single extents (extents.h). */
#ifndef VOLUME_EXTENT_INTERNAL_H
#define VOLUME_EXTENT_INTERNAL_H

#include "volume/extent/extents.h"
#include "volume/op/context.h"

/* Checks both names. */
int extent_client(struct volume_context *ctx, const char *node,
		  const char *name, struct node_client **ret,
		  struct error *err);

/*
 * Get an extent, and check that it may be worked with by hand. -EBUSY: the
 * extent is part of a volume or of a volume's snapshot, and not @force.
 */
int extent_get_free(struct volume_context *ctx, const char *node,
		    const char *name, bool force, struct node_client **client,
		    struct node_extent *ret, struct error *err);

#endif
