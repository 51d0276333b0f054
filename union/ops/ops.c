/* SPDX-License-Identifier: Apache-2.0 */
#include "union/ops/ops.h"

#include "union/open/passthrough.h"
#include "union/view/unseen.h"

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
	uint64_t offered = request_served()->init_flags;

	conn->want = capabilities(fs, conn->capable, conn->want);
	passthrough_init(fs, offered);
	fs->told_of_writes = conn->proto_minor >= UNSEEN_PROTO_MINOR;
	fs->expires = offered & REQUEST_EXPIRE_ONLY;
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
