/* SPDX-License-Identifier: Apache-2.0 */
#include "union/node_record.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "union/node_build.h"
#include "union/state.h"

/* The next that is free; the table's lock is held. 0: none. */
static uint32_t take_record(struct node_table *table)
{
	struct state_header *header = table->state->header;
	uint64_t used;

	if (table->free_record_count)
		return table->free_records[--table->free_record_count];
	used = atomic_load(&header->copies_used);
	if (used == STATE_COPY_MAX)
		return 0;
	atomic_store(&header->copies_used, used + 1);
	return (uint32_t)used + 1;
}

/* One that cannot be noted is not used again, nothing else. */
static void give_record(struct node_table *table, uint32_t record)
{
	uint64_t size = table->free_record_size ? table->free_record_size * 2
						: 256;
	uint32_t *bigger;

	if (table->free_record_count == table->free_record_size) {
		bigger = reallocarray(table->free_records, size,
				      sizeof(*bigger));
		if (!bigger)
			return;
		table->free_records = bigger;
		table->free_record_size = size;
	}
	table->free_records[table->free_record_count++] = record;
}

void node_build_free_record(struct node_table *table, uint32_t record)
{
	give_record(table, record);
}

static struct state_copy *record_of(const struct node_table *table,
				    const struct copy *copy)
{
	return &table->state->copies[copy->record - 1];
}

int node_record_copy(struct node_table *table, struct copy *copy)
{
	struct state_copy *record;

	if (!table->state)
		return 0;
	copy->record = take_record(table);
	if (!copy->record)
		return -ENOMEM;
	record = record_of(table, copy);
	record->node = copy->node->id;
	record->type = copy->handle.type;
	record->branch = (uint16_t)copy->branch;
	record->length = (uint8_t)copy->handle.length;
	atomic_store(&record->gone, 0);
	memcpy(record->data, copy->handle.data, copy->handle.length);
	atomic_store(&record->generation, copy->node->generation);
	return 0;
}

void node_record_new(struct node_table *table, const struct node *node)
{
	struct state_node *record;
	struct state_header *header;

	if (!table->state)
		return;
	header = table->state->header;
	atomic_store(&header->next_generation, table->next_generation);
	record = &table->state->nodes[node->id];
	record->ino = node->ino;
	record->type = node->type;
	atomic_store(&record->lookups, node->lookups);
	atomic_store(&record->buried, 0);
	atomic_store(&record->backing_id, 0);
	atomic_store(&record->moves, 0);
	atomic_store(&record->flags, 0);
	atomic_store(&record->doubt, atomic_load(&node->doubt));
	if (node->id >= atomic_load(&header->nodes_used))
		atomic_store(&header->nodes_used, node->id + 1);
	atomic_store(&record->generation, node->generation);
}

void node_record_lookups(struct node_table *table, const struct node *node)
{
	if (table->state)
		atomic_store(&table->state->nodes[node->id].lookups,
			     node->lookups);
}

void node_record_end(struct node_table *table, const struct node *node)
{
	if (table->state)
		atomic_store(&table->state->nodes[node->id].generation, 0);
}

void node_record_copy_end(struct node_table *table, const struct copy *copy)
{
	if (!table->state || !copy->record)
		return;
	atomic_store(&record_of(table, copy)->generation, 0);
	give_record(table, copy->record);
}

void node_record_buried(struct node_table *table, const struct node *node)
{
	if (table->state)
		atomic_store(&table->state->nodes[node->id].buried,
			     node->buried_token);
}

void node_record_gone(struct node_table *table, const struct copy *copy)
{
	if (table->state)
		atomic_store(&record_of(table, copy)->gone, STATE_COPY_GONE);
}

void node_record_going(struct node_table *table, const struct copy *copy,
		       bool going)
{
	if (table->state)
		atomic_store(&record_of(table, copy)->gone,
			     going ? STATE_COPY_GOING : 0);
}

void node_record_use(struct node_table *table, const struct node *node)
{
	struct state_node *record;

	if (!table->state)
		return;
	record = &table->state->nodes[node->id];
	atomic_store(&record->backing_id, node->backing_id);
	atomic_store(&record->moves, node->moves);
	atomic_store(&record->flags,
		     (node->passed ? STATE_NODE_PASSED : 0) |
			     (node->uncapped ? STATE_NODE_UNCAPPED : 0));
}

void node_record_quiet(struct node_table *table, const struct copy *copy,
		       const struct quiet_change *change)
{
	struct state_quiet *record;

	if (!table->state)
		return;
	record = &table->state->quiet[copy->record - 1];
	/* One that is changed is none in between: the time is seen. */
	atomic_store(&record->generation, 0);
	record->after_s = change->after.tv_sec;
	record->after_ns = (uint32_t)change->after.tv_nsec;
	record->modified_s = change->modified.tv_sec;
	record->modified_ns = (uint32_t)change->modified.tv_nsec;
	record->shown_s = change->shown.tv_sec;
	record->shown_ns = (uint32_t)change->shown.tv_nsec;
	atomic_store(&record->generation, copy->node->generation);
}
