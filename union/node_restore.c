/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "union/keep.h"
#include "union/node_build.h"
#include "union/node_record.h"
#include "union/state.h"

static int restore_node(struct node_table *table, uint64_t id)
{
	struct state_node *record = &table->state->nodes[id];
	struct node *node;

	if (!record->generation)
		return node_build(table, id, NULL);
	node = calloc(1, sizeof(*node));
	if (!node)
		return -ENOMEM;
	node->id = id;
	node->generation = record->generation;
	node->ino = record->ino;
	node->type = record->type;
	node->lookups = record->lookups;
	node->known_before = true;
	node->subdirs = -1;
	node->moves = record->moves;
	node->backing_id = record->backing_id;
	node->passthrough = node->backing_id != 0;
	node->passed = record->flags & STATE_NODE_PASSED;
	node->uncapped = record->flags & STATE_NODE_UNCAPPED;
	atomic_init(&node->doubt, record->doubt);
	node->buried_token = record->buried;
	atomic_init(&node->buried_fd,
		    node->buried_token ? keep_take(node->buried_token) : -1);
	return node_build(table, id, node);
}

static void restore_quiet(const struct node_table *table, struct copy *copy)
{
	const struct state_quiet *record =
		&table->state->quiet[copy->record - 1];
	struct quiet_change *quiet;

	if (record->generation != copy->node->generation)
		return;
	quiet = malloc(sizeof(*quiet));
	if (!quiet)
		return; /* the change is seen */
	quiet->after.tv_sec = record->after_s;
	quiet->after.tv_nsec = record->after_ns;
	quiet->modified.tv_sec = record->modified_s;
	quiet->modified.tv_nsec = record->modified_ns;
	quiet->shown.tv_sec = record->shown_s;
	quiet->shown.tv_nsec = record->shown_ns;
	atomic_store(&copy->quiet, quiet);
}

/* One of a branch that was never noted is not known to anybody. */
static bool has_branch(struct node_table *table, unsigned branch)
{
	return branch < BRANCH_MAX && table->state->branches[branch].used;
}

static int restore_copy(struct node_table *table, uint32_t place)
{
	struct state_copy *record = &table->state->copies[place];
	struct node *node = node_get(table, record->node);
	struct handle handle = {.length = record->length, .type = record->type};
	struct copy *copy;
	int r;

	if (!record->generation || !node ||
	    node->generation != record->generation ||
	    record->length > HANDLE_MAX || !has_branch(table, record->branch)) {
		atomic_store(&record->generation, 0);
		node_build_free_record(table, place + 1);
		return 0;
	}
	memcpy(handle.data, record->data, record->length);
	r = node_build_copy(table, node, record->branch, &handle, place + 1,
			    &copy);
	if (r < 0)
		return r;
	atomic_store(&copy->gone, record->gone == STATE_COPY_GONE);
	restore_quiet(table, copy);
	return 0;
}

int node_restore(struct node_table *table)
{
	const struct state_header *header = table->state->header;
	uint64_t i, nodes = header->nodes_used, copies = header->copies_used;
	int r = 0;

	if (nodes > STATE_NODE_MAX || copies > STATE_COPY_MAX)
		return -EPROTO;
	if (header->next_generation > table->next_generation)
		table->next_generation = header->next_generation;
	node_build_expect(table, copies);
	for (i = NODE_ROOT_ID; i < nodes && r == 0; i++)
		r = restore_node(table, i);
	if (r == 0)
		node_build_end(table);
	for (i = 0; i < copies && r == 0; i++)
		r = restore_copy(table, (uint32_t)i);
	for (i = NODE_ROOT_ID; i < nodes && r == 0; i++)
		node_build_unused(table, i);
	return r < 0 ? r : node_get(table, NODE_ROOT_ID) ? 0 : -EPROTO;
}
