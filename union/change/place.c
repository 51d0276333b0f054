/* SPDX-License-Identifier: Apache-2.0 */
#include "union/change/place.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/securebits.h>
#include <sched.h>
#include <sys/fsuid.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "union/branch/branch_health.h"
#include "union/branch/dir_fd.h"
#include "union/branch/submount.h"
#include "union/change/caller.h"
#include "union/change/clone_dir.h"
#include "union/node/naming.h"
#include "union/sys/immutable.h"
#include "union/view/branch_stats.h"
#include "union/view/name_filter.h"

#define NOBODY 65534 /* a user and a group that own nothing */

/*
 * Have CAP_SYS_RESOURCE in effect for this thread, or not. That capability goes
 * above quotas and into the reserve. False: it is not as wanted.
 */
static bool set_unlimited(bool wanted)
{
	struct __user_cap_header_struct header = {
		.version = _LINUX_CAPABILITY_VERSION_3,
	};
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3];
	uint32_t bit = CAP_TO_MASK(CAP_SYS_RESOURCE);
	struct __user_cap_data_struct *word =
		&data[CAP_TO_INDEX(CAP_SYS_RESOURCE)];

	if (syscall(SYS_capget, &header, data) < 0)
		return false;
	if (!(word->effective & bit) == !wanted)
		return true;
	word->effective ^= bit;
	return syscall(SYS_capset, &header, data) == 0;
}

int place_thread_setup(void)
{
	/* A umask of its own; and capabilities that a change of the file
	 * system user id leaves alone. */
	if (unshare(CLONE_FS) < 0 ||
	    prctl(PR_SET_SECUREBITS, SECBIT_NO_SETUID_FIXUP, 0, 0, 0) < 0)
		return -errno;
	(void)umask(0);
	return place_thread_limited();
}

int place_thread_limited(void)
{
	return set_unlimited(false) ? 0 : -EPERM;
}

void place_thread_unlimited(void)
{
	(void)set_unlimited(true); /* else it goes as far as it may */
}

static _Thread_local uid_t user;   /* as it is now */
static _Thread_local gid_t group;  /* the same */
static _Thread_local bool insists; /* on what CAP_SYS_RESOURCE gives */
static _Thread_local mode_t mask;  /* as it is now */

static void set_mask(mode_t wanted)
{
	if (wanted != mask)
		(void)umask(wanted);
	mask = wanted;
}

static void become(uid_t uid, gid_t gid)
{
	/*
	 * These two report no failure, and with root's rights there is none.
	 * They cost more than a small write.
	 */
	if (gid != group)
		(void)setfsgid(gid);
	if (uid != user)
		(void)setfsuid(uid);
	group = gid;
	user = uid;
}

void place_become(fuse_req_t req)
{
	const struct fuse_ctx *context = fuse_req_ctx(req);

	become(context->uid, context->gid);
	set_mask(context->umask);
}

void place_become_spender(fuse_req_t req)
{
	const struct fuse_ctx *context = fuse_req_ctx(req);

	become(context->uid, context->gid);
}

void place_become_nobody(void)
{
	become(NOBODY, NOBODY);
}

bool place_insists(fuse_req_t req, int r)
{
	if ((r != -EDQUOT && r != -ENOSPC) || insists ||
	    !caller_has(req, CAP_SYS_RESOURCE))
		return false;
	insists = set_unlimited(true);
	return insists;
}

void place_keep(void)
{
	if (insists)
		insists = !set_unlimited(false);
}

void place_become_root(void)
{
	/*
	 * The server's own files are for root alone. So a umask that leaves the
	 * owner's rights may stay, for the next request of that caller.
	 */
	if (mask & S_IRWXU)
		set_mask(0);
	place_keep();
	become(0, 0);
}

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
static int make_on(struct unionfs *fs, fuse_req_t req, struct node *parent,
		   const struct to_place *what, unsigned id, struct placed *ret,
		   bool *ret_next)
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
		name_filter_add(fs, parent, what->name, id);
	naming_begin(parent);
	place_become(req);
	do
		r = what->make(what->context, dir->fd);
	while (place_insists(req, r));
	place_become_root();
	if ((r == -EEXIST || r == -EISDIR) && what->name &&
	    submount_is_on(dir->fd, what->name))
		r = -EBUSY; /* it is absent all the same */
	naming_end(parent, what->name && r >= 0);
	if (r < 0 && what->name && branch_usable(id) &&
	    (!branch_is_failure(r) || is_absent(dir->fd, what->name)))
		name_filter_remove(fs, parent, what->name, id);
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

int place_new(struct unionfs *fs, fuse_req_t req, struct node *parent,
	      const struct to_place *what, struct placed *ret)
{
	const struct policy_branch *branch;
	struct branch_stats survey;
	int r = branch_any_doubted() ? -EIO : -EROFS;
	bool next = true;

	branch_stats_begin(&survey, fs, parent,
			   policy_of(&fs->policies, what->function));
	branch_stats_filter(&survey);
	while (next && (branch = branch_stats_next(&survey, fs, parent))) {
		r = make_on(fs, req, parent, what, branch->id, ret, &next);
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
	struct branch_stats survey;
	struct dir_fd *dir;

	if (policy->choice != POLICY_ALL)
		return;
	branch_stats_begin(&survey, fs, parent, policy);
	branch_stats_filter(&survey);
	while ((branch = branch_stats_next(&survey, fs, parent))) {
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
