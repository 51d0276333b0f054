/* SPDX-License-Identifier: Apache-2.0 */
#include "union/node/forgotten.h"

#include <stdlib.h>

bool forgotten_ring_add(struct forgotten_ring *forgotten,
			const struct forgotten_node *one,
			struct forgotten_node *ret)
{
	*ret = (struct forgotten_node){0};
	if (forgotten->max == FORGOTTEN_ALL)
		return true;
	if (!forgotten->ring && forgotten->max)
		forgotten->ring = calloc(forgotten->max, sizeof(*one));
	if (!forgotten->ring)
		return false;
	*ret = forgotten->ring[forgotten->at];
	forgotten->ring[forgotten->at] = *one;
	forgotten->at = (forgotten->at + 1) % forgotten->max;
	return true;
}

void forgotten_ring_done(struct forgotten_ring *forgotten)
{
	free(forgotten->ring);
	forgotten->ring = NULL;
}
