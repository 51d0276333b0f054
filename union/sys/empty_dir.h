/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNION_EMPTY_DIR_H
#define UNION_EMPTY_DIR_H

#include <stdbool.h>

/* Is the directory @name in @dirfd empty? 0; -ENOTEMPTY; -errno. */
int empty_dir_check(int dirfd, const char *name);

/* Is it "." or ".."? */
static inline bool name_is_dot(const char *name)
{
	return name[0] == '.' && (!name[1] || (name[1] == '.' && !name[2]));
}

#endif
