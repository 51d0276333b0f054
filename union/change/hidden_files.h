/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files that a directory of a lower branch hides: when a directory has to be
 * where such a file is, or the one that hides it goes, the file is not lost
 * and does not appear: it is kept in BRANCH_WORK_DIR as "hidden-N-NAME".
 */
#ifndef UNION_HIDDEN_FILES_H
#define UNION_HIDDEN_FILES_H

#include "union/view/lookup.h"

/* Put the file @name in the directory @dirfd of @branch aside. 0 or -errno. */
int hidden_files_put(const struct branch *branch, int dirfd, const char *name);

/* The same where the directory is to look as if nothing had changed. */
int hidden_files_put_preserving(struct unionfs *fs, const struct branch *branch,
				int dirfd, const char *name);

/* All files among @hits, what lookup_all() found of @name. 0 or -errno. */
int hidden_files_put_all(struct unionfs *fs, const struct hit *hits, int count,
			 const char *name);

#endif
