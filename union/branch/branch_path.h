/* SPDX-License-Identifier: Apache-2.0 */
/* Where a directory is, in a branch or around it. */
#ifndef UNION_BRANCH_PATH_H
#define UNION_BRANCH_PATH_H

#include "union/branch/branch.h"

/*
 * Is the directory @fd, which is @path, in the branch or around it on the same
 * file system, by whatever mount either is known?
 */
bool branch_overlaps(const struct branch *branch, int fd, const char *path);

/* Is @path the directory @dir or below it? Both absolute and resolved. */
bool branch_path_is_below(const char *path, const char *dir);

/*
 * Get the path of the directory @fd (may be O_PATH) below the branch: "a/b", ""
 * for its root. @ret: PATH_MAX bytes. -ENOENT when it was removed,
 * -ENAMETOOLONG when its path is longer than PATH_MAX.
 */
int branch_path_of(const struct branch *branch, int fd, char *ret);

#endif
