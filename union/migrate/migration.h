/* SPDX-License-Identifier: Apache-2.0 */
/* A file that moves (migrate_file.h): the interface between the files that do
 * it. */
#ifndef UNION_MIGRATION_H
#define UNION_MIGRATION_H

#include <sys/stat.h>

#include "union/migrate/migrate_file.h"
#include "union/migrate/relocate.h"
#include "union/view/preserve_mtime.h"

/* One name of the file, on both branches. */
struct migration_place {
	struct dir_fd *from, *to; /* held */
};

struct migration {
	struct unionfs *fs;
	const struct migrate_file *move;
	int old_fd, copy_fd; /* of a regular file readable, writable */
	struct stat st;
	struct node *node; /* held; NULL: the kernel does not know it */
	struct dirty_ranges *dirty;
	struct migration_place *places;
	struct preserve_mtime *quietly; /* of each place two: from, to */
	struct migrate_lock_hold hold;
	struct relocation r;
};

/*
 * Find the node of the file, which may have become known. True: the node is
 * another than before, or the first.
 */
bool migration_find_node(struct migration *m);

/*
 * Is the file in use in a way that pins it to its branch: passed through, or
 * mapped while it was? While the server has files of it open, only choose_way()
 * can have found that it is not. A file the kernel does not know may be mapped
 * by another mount than this one.
 *
 * 0; -EBUSY; or another -errno when that cannot be found out.
 */
int migration_check_pinned(struct migration *m);

/* Has the file these names, and no other? 0, -ESTALE or another -errno. */
int migration_check_names(struct migration *m);

/*
 * May the file migrate? Called with migrate_lock.h closed. Files in the way
 * are hidden then. 0 or -errno.
 */
int migration_check(struct migration *m);

/* Make an empty inode of the right type, at its temporary name. 0 or -errno. */
int migration_make_copy(struct migration *m);

/*
 * Copy while others use the file, until little is left. The copying also ends
 * when as much is left as before, because writers are as fast. 0; -EBUSY;
 * another -errno.
 */
int migration_copy_content(struct migration *m);

/* Copy the rest, with migrate_lock.h closed, and make it durable. 0 or -errno.
 */
int migration_finish_copy(struct migration *m);

#endif
