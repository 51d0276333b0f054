/* SPDX-License-Identifier: Apache-2.0 */
/*
 * File systems and directories that fold names, which take two names for one.
 * The names may differ in case, in how a letter is composed, or in a dot at the
 * end. The kernel and the server keep facts of a name by its bytes. A file with
 * one name on one branch and another on the next would vanish.
 *
 * So a branch that folds is refused. A directory that folds (ext4, f2fs, tmpfs:
 * chattr +F), inside a branch that else does not, is refused by name.
 */
#ifndef UNION_FOLDING_H
#define UNION_FOLDING_H

#include "union/branch/branch.h"

/*
 * Does the branch fold? This is told by its kind, its root's flags, and by
 * looking for names of other spelling. A branch that can be written to has its
 * BRANCH_WORK_DIR, in which a name is made for a moment.
 *
 * 0; -EINVAL with @err.
 */
int folding_check(const struct branch *branch, struct error *err);

/*
 * Can a directory of the branch fold? Where it cannot, none is asked. Call this
 * after the branch was locked, before it is used.
 */
void folding_look(struct branch *branch);

/*
 * Check the directory @fd of @branch; a descriptor with O_PATH costs more. 0;
 * -EOPNOTSUPP: the directory folds, which the log says once.
 */
int folding_ask_dir(int fd);
static inline int folding_check_dir(const struct branch *branch, int fd)
{
	return branch->never_folds ? 0 : folding_ask_dir(fd);
}

#endif
