/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptors and stat of copies on their branches. */
#include "union/view/unionfs.h"

#include <errno.h>
#include <fcntl.h>

#include "base/cleanup.h"
#include "union/branch/atime.h"
#include "union/branch/branch_health.h"
#include "union/branch/dir_fd.h"
#include "union/branch/folding.h"
#include "union/state/thread_branches.h"

/* Only a descriptor open for reading tells whether it folds. */
static int open_dirs(const struct branch *branch)
{
	return branch->never_folds ? O_PATH : O_RDONLY;
}

int unionfs_dir_fd(struct unionfs *fs, struct copy *copy, struct dir_fd **ret)
{
	struct branch *branch = branch_of(fs, copy);
	auto_dir_fd struct dir_fd *dir = NULL;
	int r;

	request_touches_branch(branch->id);
	r = branch_usable(branch->id)
		    ? branch_report(branch, dir_fd_get(copy, branch->root_fd,
						       open_dirs(branch), &dir))
		    : -EIO;
	if (r == 0)
		r = folding_check_dir(branch, dir->fd);
	if (r == 0)
		*ret = take_ptr(dir);
	/* The branch failed meanwhile: the error of its root does not count. */
	return r < 0 && !branch_usable(branch->id) ? -EIO : r;
}

int unionfs_stat_copy(struct unionfs *fs, struct copy *copy, struct stat *ret)
{
	struct branch *branch = branch_of(fs, copy);
	int r;

	request_touches_branch(branch->id);
	r = branch_usable(branch->id)
		    ? branch_report(branch, dir_fd_stat(copy, branch->root_fd,
							open_dirs(branch),
							!fs->shared, ret))
		    : -EIO;
	return r < 0 && !branch_usable(branch->id) ? -EIO : r;
}

static int open_by_handle(struct unionfs *fs, const struct copy *copy,
			  int flags, bool reads)
{
	struct branch *branch = branch_of(fs, copy);
	struct handle handle = copy_handle(copy);
	int r;

	request_touches_branch(branch->id);
	r = branch_usable(branch->id)
		    ? branch_report(branch,
				    reads ? atime_open(branch, &handle, flags)
					  : handle_open(branch->root_fd,
							&handle, flags))
		    : -EIO;

	if (r >= 0 && flags & O_DIRECTORY && !(flags & O_PATH) &&
	    folding_check_dir(branch, r) < 0) {
		fd_close(r);
		r = -EOPNOTSUPP;
	}
	return r < 0 && !branch_usable(branch->id) ? -EIO : r;
}

int unionfs_open_copy(struct unionfs *fs, const struct copy *copy, int flags)
{
	/* Mounts inside are seen by the branch's own mount only. */
	return open_by_handle(fs, copy, flags,
			      !(flags & (O_PATH | O_DIRECTORY)));
}

int unionfs_open_link(struct unionfs *fs, const struct node *node)
{
	struct copy *copy = node_first(node);

	return copy ? open_by_handle(fs, copy, O_PATH | O_NOFOLLOW, true)
		    : -ESTALE;
}

int unionfs_open(struct unionfs *fs, const struct node *node, int flags)
{
	struct copy *copy = node_first(node);

	return copy ? unionfs_open_copy(fs, copy, flags) : -ESTALE;
}
