/* SPDX-License-Identifier: Apache-2.0 */
#include "union/view/state_note.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "union/state/policy_record.h"
#include "union/state/state.h"

void state_note_mountpoint(struct unionfs *fs, const char *mountpoint)
{
	char *into;

	if (!fs->state)
		return;
	into = fs->state->header->mountpoint;
	(void)snprintf(into, PATH_MAX, "%s", mountpoint); /* a real path fits */
}

static void note_mount(struct state_branch *record, const struct branch *branch)
{
	int mount_id = atomic_load(&branch->mount_id);

	if (mount_id > 0) /* else it was not opened yet */
		atomic_store(&record->mount_id, mount_id);
}

static void note_branch(struct state_branch *record, struct branch *branch)
{
	unsigned flags = branch->flags, used = record->used;

	/* Flags that it is given while it is drained have their own note. */
	if (flags & BRANCH_DRAINING)
		flags = (flags & ~(BRANCH_NC | BRANCH_DRAINING)) |
			(record->flags & BRANCH_NC);
	/* A branch takes the place, and the record, of an absent one. */
	if (used && record->flags & BRANCH_ABSENT && !(flags & BRANCH_ABSENT)) {
		atomic_store(&record->used, STATE_BRANCH_NEW);
		used = 0;
	}
	atomic_store(&record->min_free, branch->min_free);
	note_mount(record, branch);
	if (!used) {
		atomic_store(&record->doubted, branch->doubted);
		atomic_store(&record->damaged, branch->damaged);
		branch->record = record;
		record->identity = branch->identity;
		(void)snprintf(record->path, sizeof(record->path), "%s",
			       branch->path); /* a real path fits */
	}
	atomic_store(&record->flags, flags);
	atomic_store(&record->used,
		     branch->shown ? STATE_BRANCH_USED : STATE_BRANCH_NEW);
}

void state_note_branch(struct unionfs *fs, struct branch *branch)
{
	if (fs->state)
		note_branch(&fs->state->branches[branch->id], branch);
}

void state_note_mount(struct unionfs *fs, const struct branch *branch)
{
	if (fs->state)
		note_mount(&fs->state->branches[branch->id], branch);
}

void state_drop_branch(struct unionfs *fs, const struct branch *branch)
{
	if (fs->state && branch->absent)
		note_branch(&fs->state->branches[branch->id], branch->absent);
	else if (fs->state)
		atomic_store(&fs->state->branches[branch->id].used, 0);
}

void state_note_settings(struct unionfs *fs)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	struct state *state = fs->state;
	unsigned i;

	if (!state)
		return;
	pthread_mutex_lock(&lock);
	for (i = 0; i < fs->branches.count; i++)
		note_branch(&state->branches[i], fs->branches.items[i]);
	atomic_store(&state->header->min_free, fs->min_free);
	policy_record(state->header, &fs->policies);
	atomic_store(&state->header->begun, true);
	pthread_mutex_unlock(&lock);
}

void state_note_init_request(struct unionfs *fs, const void *data,
			     size_t length)
{
	struct state_header *header;

	if (!fs->state || length > STATE_INIT_MAX)
		return;
	header = fs->state->header;
	memcpy(header->init, data, length);
	header->init_length = (uint32_t)length;
}

bool state_note_init(struct unionfs *fs)
{
	struct state_header *header = fs->state ? fs->state->header : NULL;

	return header && atomic_exchange(&header->has_init, true);
}
