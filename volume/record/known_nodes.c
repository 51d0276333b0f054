/* SPDX-License-Identifier: Apache-2.0 */
#include "volume/record/known_nodes.h"

#include <stdlib.h>

void known_nodes_unref(struct known_nodes *known)
{
	if (!known || atomic_fetch_sub(&known->refs, 1) > 1)
		return;
	for (size_t i = 0; i < known->count; i++) {
		labels_done(&known->items[i].labels);
		free(known->items[i].problem);
		free(known->items[i].pools);
	}
	free(known->items);
	free(known);
}
