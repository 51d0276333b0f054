/* SPDX-License-Identifier: Apache-2.0 */
/*
 * File systems and directories that fold names: they take two for one that
 * differ in case, in how a letter is composed, or in a dot at the end. The
 * kernel, and we, keep what was said of a name by its bytes: a file that has
 * one name there and another here would vanish. So a branch that folds is
 * refused, and a directory that does (ext4, f2fs, tmpfs: chattr +F), inside a
 * branch that else does not, is refused by name.
 */
#ifndef UNION_FOLDING_H
#define UNION_FOLDING_H

#include "union/branch/branch.h"

/*
 * Does the branch fold? By its kind, its root's flags, and what it finds by
 * other names than those that are there. One that can be written to has its
 * BRANCH_WORK_DIR, in which a name is made for a moment.
 *
 * 0; -EINVAL with @err.
 */
int folding_check(const struct branch *branch, struct error *err);

/*
 * Can a directory of the branch fold? Where it cannot, none is asked. For who
 * has locked it, before it is used.
 */
void folding_look(struct branch *branch);

/*
 * 0; -EOPNOTSUPP: the directory @fd of @branch folds, which the log says once.
 * It may be O_PATH, which costs more.
 */
int folding_check_dir(const struct branch *branch, int fd);

#endif
