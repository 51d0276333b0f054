/* SPDX-License-Identifier: Apache-2.0 */
/* A file that moves (move.h): the interface between the files that do it. */
#ifndef UNION_MOVED_H
#define UNION_MOVED_H

#include <sys/stat.h>

#include "union/migrate/move.h"
#include "union/migrate/relocate.h"
#include "union/view/preserve_mtime.h"

/* One name of the file, on both branches. */
struct moved_place {
	struct dir_fd *from, *to; /* held */
};

struct moved {
	struct unionfs *fs;
	const struct move_file *move;
	int old_fd, copy_fd; /* of a regular file readable, writable */
	struct stat st;
	struct node *node; /* held; NULL: the kernel does not know it */
	struct moving *moving;
	struct moved_place *places;
	struct preserve_mtime *quietly; /* of each place two: from, to */
	struct move_lock_hold hold;
	struct relocation r;
};

/*
 * Find the node of the file, which may have become known. True: the node is
 * another than before, or the first.
 */
bool moved_find_node(struct moved *m);

/*
 * Is the file in use in a way that pins it to its branch: passed through, or
 * mapped while it was? While the server has files of it open, only choose_way()
 * can have found that it is not. A file the kernel does not know may be mapped
 * by another mount than this one.
 *
 * 0; -EBUSY; or another -errno when that cannot be found out.
 */
int moved_check_pinned(struct moved *m);

/* Has the file these names, and no other? 0, -ESTALE or another -errno. */
int moved_check_names(struct moved *m);

/*
 * May the file move? Called with the gates closed. Files in the way are put
 * aside then. 0 or -errno.
 */
int moved_check(struct moved *m);

/* Make an empty inode of the right type, at its temporary name. 0 or -errno. */
int moved_make_copy(struct moved *m);

/*
 * Copy while others use the file, until little is left. The copying also ends
 * when as much is left as before, because writers are as fast. 0; -EBUSY;
 * another -errno.
 */
int moved_copy_content(struct moved *m);

/* Copy the rest, with the gates closed, and make it durable. 0 or -errno. */
int moved_finish_copy(struct moved *m);

#endif
