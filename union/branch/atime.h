/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Access times of a union that is mounted with noatime, relatime, strictatime
 * or nodiratime. The kernel keeps no access times of a FUSE file system, also
 * where it passes reads through: the mount by which a file is opened on its
 * branch decides. So what is read is opened on a mount of the branch's root
 * that nobody else sees, and which has what the union has. Without these
 * options it is opened as the branch is mounted, and that has no such mount.
 */
#ifndef UNION_ATIME_H
#define UNION_ATIME_H

#include "union/branch/branch.h"

/*
 * From now on (unionfs.live held, or nobody else is there). What is open stays
 * as it is.
 *
 * @said  of MOUNT_ATTR__ATIME and MOUNT_ATTR_NODIRATIME; the rest is as the
 *        branch's mount has it
 * @set   which of them
 *
 * 0, or -errno: some branch has it not.
 */
int atime_set(struct branch_table *table, uint64_t said, uint64_t set);

/* @branch is about to be one, or is mounted anew. The same. */
int atime_begin(const struct branch_table *table, struct branch *branch);

/*
 * No descriptor keeps the branch's file system: it failed, and its root_fd is
 * that of nothing. Or nobody uses it any more.
 */
void atime_let_go(struct branch *branch);
void atime_end(struct branch *branch);

/*
 * As handle_open() of @handle on @branch, to read from it: so that its access
 * time changes as the union says.
 */
int atime_open(const struct branch *branch, const struct handle *handle,
	       int flags);

/* Has the union access times of its own on @branch? */
bool atime_is_own(const struct branch *branch);

/* A directory is read by other means (O_NOATIME): its time changes here. */
void atime_touch_dir(const struct branch *branch, const struct handle *handle);

#endif
