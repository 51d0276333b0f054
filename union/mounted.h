/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is mounted inside a branch is no part of it: its names are other file
 * systems', or of this one once more. The handle of such a name is opened on
 * the branch, so it would be another file, or none. So a name that something
 * is mounted on is absent: it is in no listing, and nothing walks through it.
 */
#ifndef UNION_MOUNTED_H
#define UNION_MOUNTED_H

#include "union/branch.h"

/*
 * handle_get() of @name in @dirfd, a directory of @branch; -EXDEV: something
 * is mounted there.
 */
int mounted_handle_get(const struct branch *branch, int dirfd, const char *name,
		       struct handle *ret);

/* Is something mounted on @name in the directory @dirfd? */
bool mounted_is_on(int dirfd, const char *name);

/*
 * openat(2) that is -EXDEV where something is mounted. A descriptor, or -errno.
 * O_CLOEXEC is added. The second makes the file when it is not there.
 */
int mounted_open_none(int dirfd, const char *path, int flags);
int mounted_create_none(int dirfd, const char *name, int flags, mode_t mode);

/*
 * May anything be mounted inside @branch, so that it is worth to ask of each
 * name in a list? It is asked of the kernel's table of mounts when that has
 * changed; if there is no /proc: true.
 */
bool mounted_inside(struct branch *branch);

#endif
