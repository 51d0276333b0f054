/* SPDX-License-Identifier: Apache-2.0 */
#include "union/live/set_branch.h"

#include <errno.h>

#include "union/branch/branch_lock.h"
#include "union/branch/intent.h"

#define WORDS (BRANCH_LOCAL | BRANCH_RO | BRANCH_NC | BRANCH_HELD)

int union_set_branch(struct branch *branch, const struct branch_spec *spec,
		     struct error *err)
{
	struct statvfs space;
	unsigned flags, wanted;
	int r;

	if (branch->flags & BRANCH_DRAINING)
		return error_set(
			err, EBUSY,
			"branch '%s' is being drained; stop that first",
			branch->path);
	if (!(spec->flags & BRANCH_RO) &&
	    fstatvfs(branch->root_fd, &space) == 0 && space.f_flag & ST_RDONLY)
		return error_set(err, EROFS,
				 "the file system of branch '%s' is mounted "
				 "read-only",
				 branch->path);
	if (branch->flags & BRANCH_RO && !(spec->flags & BRANCH_RO)) {
		r = branch_lock_to_write(branch, err);
		if (r < 0)
			return r;
	}
	if (branch->flags & BRANCH_RO && !(spec->flags & BRANCH_RO) &&
	    intent_pending(branch) > 0)
		return error_set(err, EBUSY,
				 "branch '%s' has unfinished renames of a "
				 "crash; the next mount with it writable "
				 "finishes them",
				 branch->path);
	atomic_store(&branch->min_free, spec->min_free);
	flags = branch->flags;
	do
		wanted = (flags & ~WORDS) | (spec->flags & WORDS);
	while (!atomic_compare_exchange_weak(&branch->flags, &flags, wanted));
	return 0;
}
