/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Notes of the union as a whole in the state memory (state.h), for the next
 * server (handover.h). Each function does nothing in a union that does not
 * survive.
 */
#ifndef UNION_STATE_NOTE_H
#define UNION_STATE_NOTE_H

#include "union/view/unionfs.h"

/* Note where the union is to be mounted. */
void state_note_mountpoint(struct unionfs *fs, const char *mountpoint);

/*
 * Note changed branches and policies (by any thread; fs->branch_changes is
 * held, or no other thread is there).
 */
void state_note_settings(struct unionfs *fs);

/*
 * Note a branch that is about to be added, before any node has a copy on it;
 * and drop it again. Threads as above.
 */
void state_note_branch(struct unionfs *fs, struct branch *branch);
void state_drop_branch(struct unionfs *fs, const struct branch *branch);

/* Note that the branch is back, perhaps on another mount. By any thread. */
void state_note_mount(struct unionfs *fs, const struct branch *branch);

/* Note @data, a request FUSE_INIT (any thread). */
void state_note_init_request(struct unionfs *fs, const void *data,
			     size_t length);

/*
 * Note that FUSE_INIT is about to be answered. True: a killed server may have
 * answered it before; the kernel takes one answer.
 */
bool state_note_init(struct unionfs *fs);

#endif
