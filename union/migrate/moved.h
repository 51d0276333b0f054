/* SPDX-License-Identifier: Apache-2.0 */
/* A file that moves (move.h), between the files that do it. */
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
 * Find the node of the file, which may have become known. True when it is
 * another than before, or the first.
 */
bool moved_find_node(struct moved *m);

/*
 * Is it in use in a way that pins it to its branch: passed through, or mapped
 * while it was? While our own files of it are open, only choose_way() can
 * have found that it is not. A file the kernel does not know may be mapped
 * by another mount than this one.
 *
 * 0; -EBUSY; or another -errno when that cannot be found out.
 */
int moved_check_pinned(struct moved *m);

/* Has the file these names, and no other? 0, -ESTALE or another -errno. */
int moved_check_names(struct moved *m);

/*
 * With the gates closed: may it move? What would be in the way is put aside
 * then. 0 or -errno.
 */
int moved_check(struct moved *m);

/* An empty inode of the right type, at its temporary name. 0 or -errno. */
int moved_make_copy(struct moved *m);

/*
 * Copy while others go on with it, until little is left; or as much as before,
 * because they are as fast as we are. 0; -EBUSY; another -errno.
 */
int moved_copy_content(struct moved *m);

/* What is left, with the gates closed; then it is durable. 0 or -errno. */
int moved_finish_copy(struct moved *m);

#endif
