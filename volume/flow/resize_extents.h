/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Carry out, or give up, the plan that volume_plan_grow() has written into the
 * record.
 */
#ifndef VOLUME_RESIZE_EXTENTS_H
#define VOLUME_RESIZE_EXTENTS_H

#include "volume/op/context.h"

/*
 * Make the new extents, then grow the old ones. New extents become part of the
 * volume only once all of this is done. Progress is kept in the record.
 */
int resize_extents(struct operation *op, struct error *err);

/*
 * Give the plan up: the record says how large each old extent is, the new ones
 * are deleted. Those of a silent node stay planned: -EHOSTUNREACH.
 */
int resize_settle(struct operation *op, struct error *err);

#endif
