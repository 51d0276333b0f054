/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The operations of the file system, one file for each kind; fuse_lowlevel.h
 * says what each gets and must reply. There is no flush, as the server
 * buffers no data; the kernel stops asking. There is no access:
 * default_permissions. There is no lock: the kernel keeps them, as nobody else
 * has the branches.
 */
#ifndef UNION_OPS_H
#define UNION_OPS_H

#include "union/migrate/room.h"
#include "union/ops/reply.h"
#include "union/view/unionfs.h"

/* All of them. */
extern const struct fuse_lowlevel_ops unionfs_ops;

/*
 * Clear setuid, setgid and file capabilities: somebody who may not keep them
 * changes the file. The setgid bit is cleared if the file runs as its group, or
 * the caller is not of the group. 0 or -errno.
 *
 * @group  of the file, before the change; or OP_GROUP_NOW
 */
#define OP_GROUP_NOW ((gid_t)-1)
int op_kill_privileges(struct request *request, fuse_ino_t ino, int fd,
		       gid_t group);

/* ops_lookup.c */
void op_lookup(fuse_req_t req, fuse_ino_t parent, const char *name);
void op_forget(fuse_req_t req, fuse_ino_t ino, uint64_t count);
void op_forget_multi(fuse_req_t req, size_t count,
		     struct fuse_forget_data *forgets);
void op_readlink(fuse_req_t req, fuse_ino_t ino);
void op_statfs(fuse_req_t req, fuse_ino_t ino);

/* ops_attr.c */
void op_getattr(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *info);
void op_setattr(fuse_req_t req, fuse_ino_t ino, struct stat *st, int to_set,
		struct fuse_file_info *info);

/* ops_open.c */
void op_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *info);
void op_create(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode,
	       struct fuse_file_info *info);
void op_release(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *info);

/* ops_io.c */
void op_read(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset,
	     struct fuse_file_info *info);
void op_write(fuse_req_t req, fuse_ino_t ino, const char *data, size_t size,
	      off_t offset, struct fuse_file_info *info);
void op_fsync(fuse_req_t req, fuse_ino_t ino, int datasync,
	      struct fuse_file_info *info);
void op_fallocate(fuse_req_t req, fuse_ino_t ino, int mode, off_t offset,
		  off_t length, struct fuse_file_info *info);
void op_copy_file_range(fuse_req_t req, fuse_ino_t from_ino, off_t from_offset,
			struct fuse_file_info *from, fuse_ino_t to_ino,
			off_t to_offset, struct fuse_file_info *to,
			size_t length, int flags);
void op_lseek(fuse_req_t req, fuse_ino_t ino, off_t offset, int whence,
	      struct fuse_file_info *info);
/* FITRIM, of any file or directory of the union, is answered: trim.h. */
void op_ioctl(fuse_req_t req, fuse_ino_t ino, unsigned command, void *argument,
	      struct fuse_file_info *info, unsigned flags, const void *in,
	      size_t in_size, size_t out_size);

/* ops_dir.c */
void op_opendir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *info);
void op_readdir(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset,
		struct fuse_file_info *info);
void op_readdirplus(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset,
		    struct fuse_file_info *info);
void op_releasedir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *info);
void op_fsyncdir(fuse_req_t req, fuse_ino_t ino, int datasync,
		 struct fuse_file_info *info);

/* ops_name.c */
void op_mknod(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode,
	      dev_t device);
void op_mkdir(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode);
void op_symlink(fuse_req_t req, const char *target, fuse_ino_t parent,
		const char *name);
void op_link(fuse_req_t req, fuse_ino_t ino, fuse_ino_t new_parent,
	     const char *new_name);
void op_unlink(fuse_req_t req, fuse_ino_t parent, const char *name);
void op_rmdir(fuse_req_t req, fuse_ino_t parent, const char *name);

/* ops_rename.c */
void op_rename(fuse_req_t req, fuse_ino_t parent, const char *name,
	       fuse_ino_t new_parent, const char *new_name, unsigned flags);

/* ops_xattr.c */
void op_setxattr(fuse_req_t req, fuse_ino_t ino, const char *name,
		 const char *value, size_t size, int flags);
void op_getxattr(fuse_req_t req, fuse_ino_t ino, const char *name, size_t size);
void op_listxattr(fuse_req_t req, fuse_ino_t ino, size_t size);
void op_removexattr(fuse_req_t req, fuse_ino_t ino, const char *name);

#endif
