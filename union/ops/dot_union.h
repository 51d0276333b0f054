/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The control file: BRANCH_CONTROL_FILE in the root of the union. No listing
 * shows it and nobody opens it. Its extended attributes are the settings of the
 * mounted union: everybody can read all of them, and root can set some. They
 * are not kept over mounts. docs/union.md has the list.
 */
#ifndef UNION_DOT_UNION_H
#define UNION_DOT_UNION_H

#include <sys/stat.h>
#include <sys/types.h>

#include "union/view/unionfs.h"

#define DOT_UNION_ID     UINT64_MAX /* of its node; no other has it */
#define DOT_UNION_PREFIX "user.union."

/* Is @name in @parent the control file? */
bool dot_union_is(const struct node *parent, const char *name);

/* Fill in the control file's attributes as the kernel gets them. */
void dot_union_stat(const struct unionfs *fs, struct stat *ret);

/* Get an attribute's value (owned) and length. -ENODATA, -ENOMEM. */
ssize_t dot_union_get(struct unionfs *fs, const char *name, char **ret);

/*
 * List the names as listxattr(2) does, owned, and return their length. -ENOMEM.
 */
ssize_t dot_union_list(char **ret);

/*
 * Change a setting. -EINVAL: the setting has no such value, of which the log
 * says more. -EOPNOTSUPP: the setting cannot be changed here. -ENODATA: there
 * is no such setting.
 */
int dot_union_set(struct unionfs *fs, const char *name, const char *value,
		  size_t size);

#endif
