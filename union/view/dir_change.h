/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One change of a directory on all its copies, or on none. Copies that cannot
 * be changed are looked for before the first change. After a later error the
 * changed copies are changed back. A copy on a branch that is read-only takes
 * no part: unionfs_writable().
 */
#ifndef UNION_DIR_CHANGE_H
#define UNION_DIR_CHANGE_H

#include "union/view/unionfs.h"

struct dir_change {
	struct unionfs *fs;
	const char *xattr; /* that changes; NULL: owner, mode and times */
	unsigned count;
	struct dir_change_copy *copies; /* NULL: there is one, or no file */
};

/*
 * Begin a change.
 *
 * @node   a directory, or a file, for which nothing is done
 * @xattr  borrowed
 * @now    nothing but times changes, to the present one
 *
 * 0; -EPERM: a copy is immutable or append-only; -ENOMEM.
 */
int dir_change_begin(struct dir_change *change, struct unionfs *fs,
		     const struct node *node, const char *xattr, bool now);

/* Note @copy, which is @fd, before it is changed. 0 or -errno. */
int dir_change_note(struct dir_change *change, struct copy *copy, int fd);

/* End with the result @r: after an error all copies are changed back. */
void dir_change_end(struct dir_change *change, int r);

#endif
