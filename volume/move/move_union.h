/* SPDX-License-Identifier: Apache-2.0 */
/* A move by a union, shared by its files. */
#ifndef VOLUME_MOVE_UNION_H
#define VOLUME_MOVE_UNION_H

#include "volume/move/move_way.h"

#define MOVE_UNION_STEPS 8 /* for the progress */

/* The split that is being emptied; the other one takes its files. */
struct volume_split *move_emptied(struct operation *op);
struct volume_split *move_taker(struct operation *op);

/* ---- move_union_drain.c ---- */

/*
 * A phase: have the union empty the branch. 0: it has left the union.
 * -EINPROGRESS: the union is at it.
 */
int move_union_empty(struct operation *op, struct error *err);
/* Wait for that, as move_way.wait(). -ENOSPC, -EBUSY: the text says for what.
 */
int move_union_wait(struct operation *op, struct error *err);

#endif
