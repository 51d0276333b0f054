/* SPDX-License-Identifier: Apache-2.0 */
#include "union/node/node_sleep.h"

#include <stdlib.h>

bool node_sleepers_add(struct node_sleepers *sleepers,
		       const struct node_sleeper *one, struct node_sleeper *ret)
{
	*ret = (struct node_sleeper){0};
	if (sleepers->max == NODE_SLEEP_ALL)
		return true;
	if (!sleepers->ring && sleepers->max)
		sleepers->ring = calloc(sleepers->max, sizeof(*one));
	if (!sleepers->ring)
		return false;
	*ret = sleepers->ring[sleepers->at];
	sleepers->ring[sleepers->at] = *one;
	sleepers->at = (sleepers->at + 1) % sleepers->max;
	return true;
}

void node_sleepers_done(struct node_sleepers *sleepers)
{
	free(sleepers->ring);
	sleepers->ring = NULL;
}
