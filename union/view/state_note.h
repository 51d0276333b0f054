/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the state memory (state.h) has of the union as a whole, for the next
 * server (handover.h). Each does nothing in a union that does not survive.
 */
#ifndef UNION_STATE_NOTE_H
#define UNION_STATE_NOTE_H

#include "union/view/unionfs.h"

/* It is to be mounted there. */
void state_note_mountpoint(struct unionfs *fs, const char *mountpoint);

/*
 * Branches and policies were changed (by any thread; fs->live is held or
 * nobody else is there).
 */
void state_note_settings(struct unionfs *fs);

/*
 * This branch is about to be one, before any node has a copy on it; and it is
 * none after all. As above.
 */
void state_note_branch(struct unionfs *fs, struct branch *branch);
void state_drop_branch(struct unionfs *fs, const struct branch *branch);

/* It is back, on another mount maybe. By any thread. */
void state_note_mount(struct unionfs *fs, const struct branch *branch);

/* This is a request (any thread). */
void state_note_request(struct unionfs *fs, const void *data, size_t length);

/*
 * FUSE_INIT is about to be answered: from now on it may have been. True: it may
 * have been before, by a server that was killed; the kernel takes one answer.
 */
bool state_note_init(struct unionfs *fs);

#endif
