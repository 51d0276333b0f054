/* SPDX-License-Identifier: Apache-2.0 */
#include "union/open/open_record.h"

#include <errno.h>

#include "union/open/open_dir.h"
#include "union/open/open_file.h"
#include "union/state/state.h"

static struct state_open *record_of(const struct unionfs *fs, uint64_t number)
{
	return &fs->state->opens[open_place(number)];
}

void open_record_new(struct unionfs *fs, uint64_t number,
		     const struct node *node, uint32_t flags)
{
	_Atomic uint64_t *used;
	struct state_open *record;
	uint64_t known, above = open_place(number) + 1;

	if (!fs->state)
		return;
	used = &fs->state->header->opens_used;
	known = atomic_load(used);
	while (known < above &&
	       !atomic_compare_exchange_weak(used, &known, above))
		;
	record = record_of(fs, number);
	record->node = node->id;
	record->generation = node->generation;
	record->flags = flags;
	atomic_store(&record->number, number);
}

void open_record_end(struct unionfs *fs, uint64_t number)
{
	if (fs->state && number)
		atomic_store(&record_of(fs, number)->number, 0);
}

void open_record_drop(struct unionfs *fs, uint64_t number)
{
	const struct state_open *record = record_of(fs, number);
	struct node *node;

	if (atomic_load(&record->number) != number)
		return;
	node = node_get(&fs->nodes, record->node);
	if (record->flags & STATE_OPEN_DIR)
		open_dir_drop(fs, number);
	else if (node && node->generation == record->generation)
		open_file_drop(fs, number, node);
}

static int restore_one(struct unionfs *fs, uint64_t place)
{
	struct state_open *record = &fs->state->opens[place];
	uint64_t number = atomic_load(&record->number);
	struct node *node = number ? node_get(&fs->nodes, record->node) : NULL;

	if (!node || node->generation != record->generation ||
	    open_place(number) != place) {
		atomic_store(&record->number, 0);
		return 0;
	}
	return record->flags & STATE_OPEN_DIR
		       ? open_dir_restore(fs, number, node, record->flags)
		       : open_file_restore(fs, number, node, record->flags);
}

int open_restore(struct unionfs *fs)
{
	uint64_t i, used = fs->state->header->opens_used;
	int r = 0;

	if (used > STATE_OPEN_MAX)
		return -EPROTO;
	for (i = 1; i < used && r == 0; i++)
		r = restore_one(fs, i);
	return r;
}
