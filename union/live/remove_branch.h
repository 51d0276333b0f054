/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A branch leaves a union that is mounted and in use. Its id is not given
 * again, so inode numbers stay; its descriptors are closed, so its file
 * system can be unmounted.
 */
#ifndef UNION_REMOVE_BRANCH_H
#define UNION_REMOVE_BRANCH_H

#include "union/view/unionfs.h"

#define LIVE_REMOVE_PATIENCE_MS 10000 /* for requests that use it */

/*
 * Detach @branch. 0; or an error, and the branch is as before. -ENOTEMPTY:
 * something is left on the branch (drain it), or the branch is the last.
 * -EBUSY: files removed from the branch are still open, or requests that use it
 * do not end.
 *
 * One thread at a time, with fs->branch_changes held; not one that serves
 * requests.
 */
int union_remove_branch(struct unionfs *fs, struct branch *branch,
			struct error *err);

/*
 * Finish the union_remove_branch() of a server that was killed in the middle of
 * it, for the branch that was @identity at @path: remove its BRANCH_WORK_DIR.
 */
void union_remove_branch_resume(const char *path,
				const struct branch_identity *identity);

/*
 * Finish the removals that union_remove_branch() could not, because requests
 * did not end in time. False: nothing is left; true: to be called again later.
 */
bool union_remove_branch_finish(struct unionfs *fs);

#endif
