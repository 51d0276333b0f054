/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The control file: BRANCH_CONTROL_FILE in the root of the union, which no
 * listing shows and nobody opens. Its extended attributes are the settings
 * of the mounted union: all can be read, by everybody, and some set, by root.
 * They are not kept over mounts. docs/union.md has the list.
 */
#ifndef UNION_DOT_UNION_H
#define UNION_DOT_UNION_H

#include <sys/stat.h>
#include <sys/types.h>

#include "union/view/unionfs.h"

#define DOT_UNION_ID     UINT64_MAX /* of its node; no other has it */
#define DOT_UNION_PREFIX "user.union."

/* Is it that name? */
bool dot_union_is(const struct node *parent, const char *name);

/* Its attributes as the kernel gets them. */
void dot_union_stat(const struct unionfs *fs, struct stat *ret);

/*
 * An attribute's value (owned) and length. -ENODATA, -ENOMEM.
 */
ssize_t dot_union_get(struct unionfs *fs, const char *name, char **ret);

/* The names as listxattr(2) has them, owned, and their length. -ENOMEM. */
ssize_t dot_union_list(char **ret);

/*
 * Change a setting. -EINVAL: it is no such value, which the log says more
 * about; -EOPNOTSUPP: it cannot be changed here; -ENODATA: there is none.
 */
int dot_union_set(struct unionfs *fs, const char *name, const char *value,
		  size_t size);

#endif
