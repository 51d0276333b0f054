/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A file, of whatever type, goes from its branch to another while the union
 * is used, with all its names at once: content with its holes, owner, mode,
 * times, ACLs and extended attributes, st_ino. Who has it open goes on, unless
 * the kernel passes it through to the branch: such a file does not move until
 * its last user is gone, and its last mapping.
 *
 * It is copied while others may write to it, then what they changed is copied
 * again; for the last of that, and the change of names, they wait
 * (move_lock.h). After a crash at any point it is whole on the one branch or
 * the other (relocate.h).
 */
#ifndef UNION_MOVE_H
#define UNION_MOVE_H

#include "union/sys/copy_data.h"
#include "union/view/unionfs.h"

struct move_name {
	struct node *dir; /* held by the caller */
	const char *name;
};

struct move_file {
	struct branch *from, *to;
	struct handle file; /* on @from */
	const struct move_name *names;
	unsigned count; /* all that the file has; 1 to RELOCATE_NAMES_MAX */
	const struct copy_pace *pace; /* NULL: as fast as it goes */
};

/*
 * Called by a thread that serves no requests and has gone through
 * place_thread_setup().
 *
 * 0; -EBUSY: it or its directory is in use, try again later; -ESTALE: those
 * are not its names (any more); -EEXIST: what is on the branches hides it
 * there, or would be hidden by it; -ENOSPC, -EIO and the like of a branch; what
 * @pace returned. After an error it is where it was.
 */
int move_file(struct unionfs *fs, const struct move_file *move);

#endif
