/* SPDX-License-Identifier: Apache-2.0 */
#include "union/ops/ops.h"

#include <errno.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#include "base/cleanup.h"
#include "union/change/caller.h"
#include "union/change/place.h"
#include "union/open/durable.h"
#include "union/open/passthrough.h"
#include "union/ops/dot_union.h"
#include "union/state/reply_cache.h"
#include "union/state/request.h"
#include "union/sys/proc_path.h"
#include "union/view/unseen.h"

struct node *op_node(fuse_req_t req, fuse_ino_t ino)
{
	struct node *node = node_get(&unionfs_of(req)->nodes, ino);

	if (node && !node_is_failed(node))
		return node;
	/* The control file has attributes only. */
	fuse_reply_err(req, node ? EIO : ino == DOT_UNION_ID ? EPERM : ESTALE);
	return NULL;
}

void op_reply(fuse_req_t req, int r)
{
	if (r >= 0)
		r = durable_request(unionfs_of(req));
	fuse_reply_err(req, r < 0 ? -r : 0);
}

void op_reply_entry(fuse_req_t req, int r, const struct fuse_entry_param *entry)
{
	if (r < 0) {
		fuse_reply_err(req, -r);
		return;
	}
	r = durable_request(unionfs_of(req));
	if (r < 0) {
		reply_cache_gains_nothing();
		if (entry->ino)
			node_forget(&unionfs_of(req)->nodes, entry->ino, 1);
		fuse_reply_err(req, -r);
		return;
	}
	/* The kernel did not take the reply (its caller was interrupted): so
	 * the lookup does not count. */
	if (fuse_reply_entry(req, entry) < 0 && entry->ino)
		node_forget(&unionfs_of(req)->nodes, entry->ino, 1);
}

int op_kill_privileges(fuse_req_t req, fuse_ino_t ino, int fd, gid_t group)
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
	place_become_root(); /* a writing thread may be another user:
			      * place_keep() */
	if (has_capability && removexattr(path, "security.capability") < 0 &&
	    errno != ENODATA && errno != EOPNOTSUPP)
		return -errno;
	if (st.st_mode & S_ISUID)
		kill |= S_ISUID;
	if (group == OP_GROUP_NOW)
		group = st.st_gid;
	if (st.st_mode & S_ISGID &&
	    (st.st_mode & S_IXGRP || !caller_is_in_group(req, group)))
		kill |= S_ISGID;
	if (!kill)
		return 0;
	if (chmod(path, st.st_mode & 07777 & ~kill) < 0)
		return -errno;
	/* The kernel expects another size and other times, not this. */
	(void)fuse_lowlevel_notify_inval_inode(unionfs_of(req)->session, ino,
					       -1, 0);
	return 0;
}

/*
 * Choose what the union needs of the kernel. All of it is in the 32 bits that
 * every libfuse takes from @conn->want; later versions have 64 beside them.
 */
static uint32_t capabilities(const struct unionfs *fs, uint32_t capable,
			     uint32_t want)
{
	/* Only this kernel changes names and data: what it keeps is right. */
	const uint32_t alone = FUSE_CAP_CACHE_SYMLINKS |
			       FUSE_CAP_EXPLICIT_INVAL_DATA;

	want |= FUSE_CAP_ATOMIC_O_TRUNC | FUSE_CAP_EXPORT_SUPPORT;
	want |= FUSE_CAP_DONT_MASK; /* the branch knows of default ACLs */
	want |= FUSE_CAP_READDIRPLUS | FUSE_CAP_READDIRPLUS_AUTO;
	want |= FUSE_CAP_ASYNC_DIO | FUSE_CAP_PARALLEL_DIROPS;
	want |= FUSE_CAP_POSIX_ACL;
	want |= fs->shared ? FUSE_CAP_AUTO_INVAL_DATA : alone;
	want &= ~(fs->shared ? alone : (uint32_t)FUSE_CAP_AUTO_INVAL_DATA);
	want &= ~(uint32_t)FUSE_CAP_WRITEBACK_CACHE;
	want &= ~(uint32_t)FUSE_CAP_HANDLE_KILLPRIV; /* names no writer */
	want &= ~(uint32_t)(FUSE_CAP_SPLICE_READ | FUSE_CAP_SPLICE_WRITE |
			    FUSE_CAP_SPLICE_MOVE);
	want &= ~(uint32_t)(FUSE_CAP_POSIX_LOCKS | FUSE_CAP_FLOCK_LOCKS);
	return want & capable;
}

static void op_init(void *context, struct fuse_conn_info *conn)
{
	struct unionfs *fs = context;

	conn->want = capabilities(fs, conn->capable, conn->want);
	passthrough_init(fs);
	fs->told_of_writes = conn->proto_minor >= UNSEEN_PROTO_MINOR;
	fs->expires = request_current.init_flags & REQUEST_EXPIRE_ONLY;
	if (fs->ready)
		fs->ready(fs);
}

const struct fuse_lowlevel_ops unionfs_ops = {
	.init = op_init,
	.lookup = op_lookup,
	.forget = op_forget,
	.forget_multi = op_forget_multi,
	.getattr = op_getattr,
	.setattr = op_setattr,
	.readlink = op_readlink,
	.mknod = op_mknod,
	.mkdir = op_mkdir,
	.unlink = op_unlink,
	.rmdir = op_rmdir,
	.symlink = op_symlink,
	.rename = op_rename,
	.link = op_link,
	.open = op_open,
	.create = op_create,
	.release = op_release,
	.read = op_read,
	.write = op_write,
	.fsync = op_fsync,
	.opendir = op_opendir,
	.readdir = op_readdir,
	.readdirplus = op_readdirplus,
	.releasedir = op_releasedir,
	.fsyncdir = op_fsyncdir,
	.statfs = op_statfs,
	.setxattr = op_setxattr,
	.getxattr = op_getxattr,
	.listxattr = op_listxattr,
	.removexattr = op_removexattr,
	.fallocate = op_fallocate,
	.copy_file_range = op_copy_file_range,
	.lseek = op_lseek,
	.ioctl = op_ioctl,
};
