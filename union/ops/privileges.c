/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#include "union/change/act_as.h"
#include "union/change/caller.h"
#include "union/ops/ops.h"
#include "union/sys/proc_path.h"

int op_kill_privileges(struct request *request, fuse_ino_t ino, int fd,
		       gid_t group)
{
	char path[PROC_PATH_MAX];
	bool has_capability;
	struct stat st;
	mode_t kill = 0;

	if (fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode))
		return 0;
	proc_path(path, fd, "");
	/* An empty capability counts as none, and stays, as the kernel has
	 * it. */
	has_capability = getxattr(path, "security.capability", NULL, 0) > 0;
	if (!has_capability && !(st.st_mode & (S_ISUID | S_ISGID)))
		return 0;
	act_as_root(); /* a writing thread may be another user:
			* act_as_kept() */
	if (has_capability && removexattr(path, "security.capability") < 0 &&
	    errno != ENODATA && errno != EOPNOTSUPP)
		return -errno;
	if (st.st_mode & S_ISUID)
		kill |= S_ISUID;
	if (group == OP_GROUP_NOW)
		group = st.st_gid;
	if (st.st_mode & S_ISGID &&
	    (st.st_mode & S_IXGRP || !caller_is_in_group(request, group)))
		kill |= S_ISGID;
	if (!kill)
		return 0;
	if (chmod(path, st.st_mode & 07777 & ~kill) < 0)
		return -errno;
	/* The kernel expects another size and other times, not this. */
	(void)fuse_lowlevel_notify_inval_inode(request->fs->session, ino, -1,
					       0);
	return 0;
}
