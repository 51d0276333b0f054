/* SPDX-License-Identifier: Apache-2.0 */
/* volume_node_observe(): make lost nodes known as lost. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "volume/cluster/node_agent.h"
#include "volume/op/context.h"
#include "volume/op/node_states.h"
#include "volume/op/volume_walk.h"

/* -ESTALE: it was heard of meanwhile, or somebody else said so. */
static int say_lost(struct volume_context *ctx, struct node_state *state,
		    struct error *err)
{
	struct node_record *node = &state->record;
	char text[RECORD_TEXT_SIZE];
	auto_free char *json = NULL;
	struct node_report *report;
	int r;

	(void)snprintf(text, sizeof(text),
		       "%.180s; the machine, its network "
		       "or its keeper is down",
		       state->problem);
	report = node_report_with(node->report, NODE_READY_UNKNOWN,
				  NODE_REASON_LOST, text);
	if (!report)
		return error_set(err, ENOMEM, "out of memory");
	node_report_free(node->report);
	node->report = report;
	r = node_record_encode(node, &json, err);
	return r < 0 ? r
		     : ctx->store->ops->compare_and_swap(
			       ctx->store, RECORD_KIND_NODE, node->name,
			       node->resource_version, json, NULL, err);
}

struct telling {
	struct volume_context *ctx;
	const char *node;
};

/* Tell of the volume's splits there. */
static int tell_splits(void *telling_, const struct volume_record *record,
		       struct error *err)
{
	const struct telling *telling = telling_;
	int r = 0;

	for (size_t s = 0; r == 0 && s < record->n_splits; s++) {
		if (strcmp(record->splits[s].node, telling->node) == 0 &&
		    !record->splits[s].lost)
			r = store_tell(telling->ctx->store, RECORD_KIND_VOLUME,
				       record->name, true, "SplitLost", err,
				       "split %zu is on node %s, which is "
				       "lost: its files cannot be reached",
				       s, telling->node);
	}
	return r;
}

static int tell_lost(struct volume_context *ctx, const struct node_state *state,
		     struct error *err)
{
	struct telling telling = {.ctx = ctx, .node = state->record.name};
	int r = store_tell(ctx->store, RECORD_KIND_NODE, state->record.name,
			   true, "NodeLost", err, "%s",
			   state->record.report->message);

	return r < 0 ? r
		     : volume_walk(ctx, NULL, tell_splits, &telling, NULL, err);
}

int volume_node_observe(struct volume_context *ctx, struct error *err)
{
	struct node_state *states = NULL;
	size_t n = 0;
	int r = node_states_load(ctx, &states, &n, err);

	if (r < 0)
		return r;
	for (size_t i = 0; i < n; i++) {
		const struct node_report *report = states[i].record.report;
		int w;

		/* A node that was not ready before keeps its better reason. */
		if (!states[i].lost || !report ||
		    report->ready != NODE_READY_TRUE)
			continue;
		w = say_lost(ctx, &states[i], err);
		if (w == 0)
			w = tell_lost(ctx, &states[i], err);
		if (w < 0 && w != -ESTALE && w != -ENOENT)
			r = w;
	}
	node_states_free(states, n);
	return r;
}
