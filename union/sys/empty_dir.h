/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNION_EMPTY_DIR_H
#define UNION_EMPTY_DIR_H

/* Is the directory @name in @dirfd empty? 0; -ENOTEMPTY; -errno. */
int empty_dir_check(int dirfd, const char *name);

#endif
