/* SPDX-License-Identifier: Apache-2.0 */
#include "union/open/open_restore.h"

#include <errno.h>

#include "union/open/open_dir.h"
#include "union/open/open_file.h"
#include "union/state/state.h"

void open_drop(struct unionfs *fs, uint64_t number)
{
	const struct state_open *record = &fs->state->opens[open_place(number)];
	const struct fuse_file_info info = {.fh = number};
	struct node *node;

	if (atomic_load(&record->number) != number)
		return;
	node = node_get(&fs->nodes, record->node);
	if (record->flags & STATE_OPEN_DIR)
		open_dir_close(fs, &info);
	else if (node && node->generation == record->generation)
		open_file_close(fs, node, &info);
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
