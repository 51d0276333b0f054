/* SPDX-License-Identifier: Apache-2.0 */
#include "union/recover/leaked_backing_ids.h"

#include "union/open/passthrough.h"
#include "union/state/state.h"

#define LAST 4096 /* numbers looked at: more than there are threads */

/* Set @had for each of the LAST numbers before @end that a node has. */
static void find_had(const struct state *state, int32_t end, bool *had)
{
	const struct node *node;
	uint64_t i, used = state->header->nodes_used;
	int32_t back, id;

	for (i = 0; i < used && i < STATE_NODE_MAX; i++) {
		node = &state->nodes[i];
		if (!node->generation || S_ISDIR(node->type))
			continue;
		id = node->of.file.backing_id;
		back = end - id;
		if (id && back > 0 && back <= LAST)
			had[LAST - back] = true;
	}
}

void leaked_backing_ids_close(struct unionfs *fs)
{
	bool had[LAST] = {false};
	int32_t end, i;

	/* Get one more number, for any file at hand. */
	if (passthrough_open(fs, fs->state->fd, &end) < 0)
		return; /* nothing is passed through */
	passthrough_close(fs, end);
	find_had(fs->state, end, had);
	for (i = end > LAST ? 0 : LAST - end + 1; i < LAST; i++)
		if (!had[i])
			passthrough_close(fs, end - LAST + i);
}
