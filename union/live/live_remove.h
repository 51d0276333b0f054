/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A branch leaves a union that is mounted and in use. Its id is not given
 * again, so inode numbers stay; its descriptors are closed, so its file
 * system can be unmounted.
 */
#ifndef UNION_LIVE_REMOVE_H
#define UNION_LIVE_REMOVE_H

#include "union/view/unionfs.h"

#define LIVE_REMOVE_PATIENCE_MS 10000 /* for requests that use it */

/*
 * Detach @branch. 0, or the branch is as before: -ENOTEMPTY: something is
 * left on it (drain it), or it is the last; -EBUSY: what was removed from it
 * is still open, or requests that use it do not end.
 *
 * One thread at a time, with fs->live held; not one that serves requests.
 */
int live_remove(struct unionfs *fs, struct branch *branch, struct error *err);

/*
 * A server that was killed in the middle of that had a branch which was
 * @identity at @path: there BRANCH_WORK_DIR is none any more.
 */
void live_remove_resume(const char *path,
			const struct branch_identity *identity);

/*
 * End what could not be ended by live_remove(), because requests did not
 * end in time. False: there is nothing left; else to be called again later.
 */
bool live_remove_finish(struct unionfs *fs);

#endif
