/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VOLUME_RESIZE_PLAN_H
#define VOLUME_RESIZE_PLAN_H

#include "volume/op/context.h"

/*
 * Ask the nodes for their capacity, and plan in the record how the volume
 * becomes @capacity bytes: grow_to of splits, and planned splits after them.
 * The volume's nodes have to answer; other nodes are counted in if they answer.
 *
 * -ENOSPC: nothing was changed.
 */
int resize_plan(struct operation *op, uint64_t capacity, struct error *err);

/* The record has a plan that is not done yet. */
bool resize_planned(const struct volume_record *record);

#endif
