/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Move a file of any type from its branch to another while the union is used,
 * with all its names at once. Its content with its holes, owner, mode, times,
 * ACLs, extended attributes and st_ino stay. Processes that have it open go on.
 * A file that the kernel passes through to the branch does not move until its
 * last user is gone, and its last mapping.
 *
 * The file is copied while others may write to it, then changed parts are
 * copied again. For the last of these, and the change of names, writers wait
 * (migrate_lock.h). After a crash at any point the file is whole on the one
 * branch or the other (relocate.h).
 */
#ifndef UNION_MIGRATE_FILE_H
#define UNION_MIGRATE_FILE_H

#include "union/sys/copy_data.h"
#include "union/view/unionfs.h"

struct migrate_name {
	struct node *dir; /* held by the caller */
	const char *name;
};

struct migrate_file {
	struct branch *from, *to;
	struct handle file; /* on @from */
	const struct migrate_name *names;
	unsigned count; /* all that the file has; 1 to RELOCATE_NAMES_MAX */
	const struct copy_pace *pace; /* NULL: as fast as it goes */
};

/*
 * Move a file, by a thread that serves no requests and has gone through
 * act_as_thread_setup(). After an error the file is where it was.
 *
 * - 0;
 * - -EBUSY: the file or its directory is in use, try again later;
 * - -ESTALE: those are not its names (any more);
 * - -EEXIST: another file hides it on @to, or would be hidden by it;
 * - -ENOSPC, -EIO and the like of a branch;
 * - the error that @pace returned.
 */
int migrate_file(struct unionfs *fs, const struct migrate_file *move);

#endif
