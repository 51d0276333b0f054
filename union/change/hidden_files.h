/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files that a directory of a lower branch hides. A directory may have to be
 * where such a file is, or the directory that hides it may go. Then the file is
 * not lost and does not appear: it is kept in BRANCH_WORK_DIR as
 * "hidden-N-NAME".
 */
#ifndef UNION_HIDDEN_FILES_H
#define UNION_HIDDEN_FILES_H

#include "union/view/lookup.h"

/* Hide the file @name in the directory @dirfd of @branch so. 0 or -errno. */
int hidden_files_put(const struct branch *branch, int dirfd, const char *name);

/* Do the same, and keep the times of the directory. */
int hidden_files_put_preserving(struct unionfs *fs, const struct branch *branch,
				int dirfd, const char *name);

/*
 * Hide all files among @hits, which lookup_all() found for @name. 0 or -errno.
 */
int hidden_files_put_all(struct unionfs *fs, const struct hit *hits, int count,
			 const char *name);

#endif
