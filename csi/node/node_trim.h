/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The volumes that are mounted on this node are trimmed (volume_trim_here())
 * every so often: a thread that sleeps in between. The first time comes after
 * a random part of the period, so that the nodes of a cluster do it at
 * different times.
 */
#ifndef CSI_NODE_TRIM_H
#define CSI_NODE_TRIM_H

#include <stdint.h>

#include "base/error.h"
#include "volume/volume.h"

struct node_trim;

/* @period_s  seconds; 0: never, then *@ret is NULL. @volumes is borrowed. */
int node_trim_start(struct volume_context *volumes, uint64_t period_s,
		    struct node_trim **ret, struct error *err);
/* Waits for a volume that is being trimmed. NULL is fine. */
void node_trim_stop(struct node_trim *trim);

#endif
