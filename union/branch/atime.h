/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Access times of a union that is mounted with noatime, relatime, strictatime
 * or nodiratime. The kernel keeps no access times of a FUSE file system, also
 * where reads are passed through. The mount by which a file is opened on its
 * branch decides. So files to read are opened on a private mount of the
 * branch's root, which has the union's options. Without these options there is
 * no such mount, and files are opened as the branch is mounted.
 */
#ifndef UNION_ATIME_H
#define UNION_ATIME_H

#include "union/branch/branch.h"

/*
 * Set the access times from now on (unionfs.branch_changes held, or no other
 * thread is there). Files that are open stay as they are.
 *
 * @said  of MOUNT_ATTR__ATIME and MOUNT_ATTR_NODIRATIME; the rest is as the
 *        branch's mount has it
 * @set   which of them
 *
 * 0, or -errno: a branch could not be set.
 */
int atime_set(struct branch_table *table, uint64_t said, uint64_t set);

/* Set them for @branch, which is about to be added, or is mounted anew. */
int atime_begin(const struct branch_table *table, struct branch *branch);

/*
 * Close the mount. The first is for a branch that failed: no descriptor may
 * keep its file system, and its root_fd is that of nothing. The second is for a
 * branch that nobody uses any more.
 */
void atime_let_go(struct branch *branch);
void atime_end(struct branch *branch);

/*
 * Open @handle on @branch to read from it, as handle_open() does, so that its
 * access time changes as the union says.
 */
int atime_open(const struct branch *branch, const struct handle *handle,
	       int flags);

/* Has the union access times of its own on @branch? */
static inline bool atime_is_own(const struct branch *branch)
{
	return atomic_load(&branch->own_root) > 0;
}

/*
 * Change the access time of a directory that is read by other means
 * (O_NOATIME).
 */
void atime_touch_dir(const struct branch *branch, const struct handle *handle);

#endif
