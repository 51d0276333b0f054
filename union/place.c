/* SPDX-License-Identifier: Apache-2.0 */
#include "union/place.h"

#include <errno.h>
#include <linux/securebits.h>
#include <sched.h>
#include <sys/fsuid.h>
#include <sys/prctl.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "union/clone_dir.h"
#include "union/dir_fd.h"

int place_thread_setup(void)
{
	/* A umask of its own; and capabilities that a change of the file
	 * system user id leaves alone. */
	if (unshare(CLONE_FS) < 0 ||
	    prctl(PR_SET_SECUREBITS, SECBIT_NO_SETUID_FIXUP, 0, 0, 0) < 0)
		return -errno;
	(void)umask(0);
	return 0;
}

void place_become(fuse_req_t req)
{
	const struct fuse_ctx *context = fuse_req_ctx(req);

	/* These two report no failure and root has none. */
	(void)setfsgid(context->gid);
	(void)setfsuid(context->uid);
	(void)umask(context->umask);
}

void place_become_root(void)
{
	(void)umask(0);
	(void)setfsuid(0);
	(void)setfsgid(0);
}

static unsigned order(struct unionfs *fs, const struct node *parent,
		      struct policy_branch *ret)
{
	struct branch *branch;
	unsigned i;

	for (i = 0; i < fs->branches.count; i++) {
		branch = fs->branches.items[i];
		ret[i] = (struct policy_branch){
			.id = i,
			.flags = branch->flags,
			.has_parent = node_copy_on(parent, i) != NULL,
			.available = branch_available(branch),
		};
	}
	return policy_order(fs->policy, fs->min_free, ret, i);
}

static int make_on(struct unionfs *fs, fuse_req_t req, struct node *parent,
		   unsigned branch, place_make *make, void *context,
		   struct placed *ret)
{
	auto_dir_fd struct dir_fd *dir = NULL;
	int r = clone_dir(fs, parent, branch, &dir);

	if (r < 0)
		return r;
	place_become(req);
	r = make(context, dir->fd);
	place_become_root();
	if (r < 0)
		return r;
	ret->dir = take_ptr(dir);
	ret->branch = branch;
	ret->result = r;
	return 0;
}

int place_new(struct unionfs *fs, fuse_req_t req, struct node *parent,
	      place_make *make, void *context, struct placed *ret)
{
	struct policy_branch branches[BRANCH_MAX];
	unsigned i, n = order(fs, parent, branches);
	int r = -EROFS;

	for (i = 0; i < n; i++) {
		r = make_on(fs, req, parent, branches[i].id, make, context,
			    ret);
		/* The last: of a path that is too long to be copied. */
		if (r != -ENOSPC && r != -EDQUOT && r != -EROFS &&
		    r != -ENAMETOOLONG)
			return r;
		branch_space_changed(fs->branches.items[branches[i].id]);
	}
	return r;
}
