/* SPDX-License-Identifier: Apache-2.0 */
/* What resize_plan() has written into the record, done or given up. */
#ifndef VOLUME_RESIZE_EXTENTS_H
#define VOLUME_RESIZE_EXTENTS_H

#include "volume/op/context.h"

/*
 * Make the new extents, then make the old ones larger; only when all is there
 * do the new ones become part of the volume. What is done is in the record.
 */
int resize_extents(struct operation *op, struct error *err);

/*
 * Give the plan up: the record says how large each old extent is, the new ones
 * are deleted. What lies on a silent node stays planned: -EHOSTUNREACH.
 */
int resize_settle(struct operation *op, struct error *err);

#endif
