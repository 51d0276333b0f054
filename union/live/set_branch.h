/* SPDX-License-Identifier: Apache-2.0 */
/* Mode, locality and minimum of a branch, changed while it is used. */
#ifndef UNION_SET_BRANCH_H
#define UNION_SET_BRANCH_H

#include "union/config/branch_spec.h"
#include "union/view/unionfs.h"

/*
 * Give @branch the words of @spec, all of them: a word that is missing is as if
 * it had never been said. Files that are open for writing stay so. 0, or -errno
 * and @err. -EROFS: the branch's file system is mounted read-only. -EBUSY: the
 * branch is being drained, or has renames to finish that a crash left while it
 * was read-only.
 */
int union_set_branch(struct branch *branch, const struct branch_spec *spec,
		     struct error *err);

#endif
