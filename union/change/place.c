/* SPDX-License-Identifier: Apache-2.0 */
#include "union/change/place.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "union/branch/branch_health.h"
#include "union/branch/branch_work.h"
#include "union/branch/dir_fd.h"
#include "union/branch/submount.h"
#include "union/change/act_as.h"
#include "union/change/clone_dir.h"
#include "union/change/replay.h"
#include "union/node/names_change.h"
#include "union/sys/immutable.h"
#include "union/view/branch_stats.h"
#include "union/view/name_filter.h"

/* Did a failed call surely make nothing? Else it must not be made twice. */
static bool is_absent(int dirfd, const char *name)
{
	struct stat st;

	return !name || (fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) < 0 &&
			 errno == ENOENT);
}

/* Look after a failure there, or on the branch that a directory came from. */
static void look_after(struct branch *branch)
{
	auto_close int fd = branch_work_dir(branch);

	(void)branch_report(branch, fd);
}

/*
 * May another branch do it? EBUSY: something is mounted there; EMLINK: the
 * directory can have no more directories there.
 */
static bool is_of_the_branch(int r)
{
	return r == -ENOSPC || r == -EDQUOT || r == -EROFS || r == -EBUSY ||
	       r == -EMLINK;
}

/* Make the file on @id. @ret_next: another branch may be tried. */
static int make_on(struct unionfs *fs, struct request *request,
		   struct node *parent, const struct to_place *what,
		   unsigned id, struct placed *ret, bool *ret_next)
{
	struct branch *branch = fs->branches.items[id];
	auto_dir_fd struct dir_fd *dir = NULL;
	int r = clone_dir(fs, parent, id, &dir);

	if (r == -EROFS)
		(void)branch_report(branch, r);
	else if (r < 0)
		look_after(branch);
	/* The path may be too long to be copied, or immutable there. */
	*ret_next = is_of_the_branch(r) || r == -ENAMETOOLONG || r == -EPERM ||
		    !branch_usable(id);
	if (r < 0)
		return r;
	if (what->name)
		name_filter_add(parent, what->name, id);
	names_change_begin(parent);
	act_as_caller(request);
	do
		r = what->make(what->context, dir->fd);
	while (act_as_unlimited(request, r));
	act_as_root();
	if ((r == -EEXIST || r == -EISDIR) && what->name &&
	    submount_is_on(dir->fd, what->name))
		r = -EBUSY; /* it is absent all the same */
	names_change_end(parent, what->name && r >= 0);
	if (r < 0 && what->name && branch_usable(id) &&
	    (!branch_is_failure(r) || is_absent(dir->fd, what->name)))
		name_filter_remove(parent, what->name, id);
	*ret_next = is_of_the_branch(r) ||
		    (r == -EPERM && immutable_is(dir->fd));
	if (branch_report(branch, r) < 0) {
		if (!branch_usable(id))
			*ret_next = is_absent(dir->fd, what->name);
		return r;
	}
	ret->dir = take_ptr(dir);
	ret->branch = id;
	ret->result = r;
	return 0;
}

int place_new(struct unionfs *fs, struct request *request, struct node *parent,
	      const struct to_place *what, struct placed *ret)
{
	const struct policy_branch *branch;
	struct branch_stats stats;
	bool next = true;
	int r = request->again
			? replay_find_made(fs, request, parent, what, ret)
			: 0;

	if (r)
		return r;
	if (what->name)
		replay_note_absent(fs, request, parent, what->name);
	r = branch_any_doubted() ? -EIO : -EROFS;
	branch_stats_begin(&stats, fs, parent,
			   policy_of(&fs->policies, what->function));
	while (next && (branch = branch_stats_next(&stats, fs, parent))) {
		r = make_on(fs, request, parent, what, branch->id, ret, &next);
		if (r < 0)
			branch_space_changed(fs->branches.items[branch->id]);
	}
	return r;
}

void place_everywhere(struct unionfs *fs, const struct node *parent,
		      struct node *made)
{
	const struct policy *policy = policy_of(&fs->policies, POLICY_MKDIR);
	const struct policy_branch *branch;
	struct branch_stats stats;
	struct dir_fd *dir;

	if (policy->choice != POLICY_ALL)
		return;
	branch_stats_begin(&stats, fs, parent, policy);
	while ((branch = branch_stats_next(&stats, fs, parent))) {
		if (!policy_has_room(branch) ||
		    (policy->scope == POLICY_EXISTING && !branch->has_parent))
			continue;
		dir = NULL;
		/*
		 * After an error the copy is not there, as with any other
		 * policy.
		 */
		if (clone_dir(fs, made, branch->id, &dir) == 0)
			dir_fd_put(dir);
	}
}
