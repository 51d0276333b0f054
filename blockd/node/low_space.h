/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A thread that looks, now and then, how much of the pools is left. When a
 * pool's rest falls below a mark, the initiators of its extents are told, once
 * (target_export_low_space()). They are told again only after the rest was
 * above the mark.
 */
#ifndef BLOCKD_LOW_SPACE_H
#define BLOCKD_LOW_SPACE_H

#include "base/error.h"
#include "blockd/node/node.h"
#include "target/target.h"

#define LOW_SPACE_LOOK_MS 3000

struct low_space;

/* @percent: of a pool's capacity, 1 to 99. @node, @target: borrowed. */
int low_space_start(struct node *node, struct target *target, unsigned percent,
		    struct low_space **ret, struct error *err);
void low_space_stop(struct low_space *low); /* NULL is fine */

#endif
