/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opening files, and how the kernel may use them: passed through to the
 * branch, or through its page cache and us. One way for all open files of an
 * inode at a time; the kernel wants that.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "union/dir_fd.h"
#include "union/lookup.h"
#include "union/ops.h"
#include "union/passthrough.h"
#include "union/place.h"
#include "union/request.h"

/*
 * What a caller's open flags mean for our descriptor: offsets and lengths
 * come from the kernel (no O_APPEND), buffers are not aligned (no O_DIRECT),
 * and it syncs itself (no O_SYNC).
 */
#define KEPT_FLAGS (O_ACCMODE | O_CREAT | O_EXCL)

/* A file system that passes nothing through; known after the first try. */
static bool is_refusal(int r)
{
	return r == -ELOOP || r == -EPERM || r == -EOPNOTSUPP || r == -EINVAL ||
	       r == -ENOTTY;
}

/* With the node locked, no file of it open: which way from now on? */
static int choose_way(struct unionfs *fs, struct node *node,
		      struct branch *branch, int fd)
{
	int r;

	node->passthrough = false;
	node->backing_id = 0;
	if (!fs->passthrough || atomic_load(&branch->no_passthrough))
		return 0;
	r = passthrough_open(fs, fd, &node->backing_id);
	if (r == 0)
		node->passthrough = true;
	if (!is_refusal(r))
		return r;
	if (!atomic_exchange(&branch->no_passthrough, true))
		log_warning("branch '%s': the kernel passes nothing through "
			    "to it; its data goes through this process",
			    branch->path);
	return 0;
}

static void lose_file(struct unionfs *fs, struct node *node, struct file *file)
{
	bool shared;

	node_lock(&fs->nodes, node);
	shared = node->passthrough && file->read_write;
	node->opens--;
	node->rw_opens -= file->read_write;
	node->writers -= file->writes;
	if (!node->opens && node->backing_id) {
		passthrough_close(fs, node->backing_id);
		node->backing_id = 0;
	}
	node_unlock(&fs->nodes, node);
	/* What was written by mmap changed size and times unseen. */
	if (shared)
		(void)fuse_lowlevel_notify_inval_inode(fs->session, node->id,
						       -1, 0);
	fd_close(file->fd);
	free(file);
}

/*
 * Count one more open file and fill @info; takes @fd. The reply is to be
 * sent with the backing id returned in @ret_backing.
 */
static int gain_file(struct unionfs *fs, struct node *node, int fd,
		     struct fuse_file_info *info, int32_t *ret_backing)
{
	struct branch *branch = branch_of(fs, node_first(node));
	struct file *file = malloc(sizeof(*file));
	bool first_shared;
	int r = 0;

	if (!file) {
		fd_close(fd);
		return -ENOMEM;
	}
	file->fd = fd;
	file->read_write = (info->flags & O_ACCMODE) == O_RDWR;
	file->writes = (info->flags & O_ACCMODE) != O_RDONLY;
	node_lock(&fs->nodes, node);
	if (!node->opens)
		r = choose_way(fs, node, branch, fd);
	if (r == 0) {
		node->opens++;
		node->rw_opens += file->read_write;
		node->writers += file->writes;
	}
	first_shared = node->passthrough && node->rw_opens == 1 &&
		       file->read_write;
	*ret_backing = node->backing_id;
	info->keep_cache = !node->passthrough && !fs->shared;
	node_unlock(&fs->nodes, node);
	if (r < 0) {
		fd_close(fd);
		free(file);
		return r;
	}
	info->fh = (uintptr_t)file;
	/* From now on attributes are not kept: see unionfs_attr_timeout(). */
	if (first_shared)
		(void)fuse_lowlevel_notify_inval_inode(fs->session, node->id,
						       -1, 0);
	atomic_fetch_add(&fs->stats.opens, 1);
	if (*ret_backing)
		atomic_fetch_add(&fs->stats.passthrough_opens, 1);
	return 0;
}

static int truncate_open(fuse_req_t req, const struct node *node, int fd,
			 int flags)
{
	auto_close int writable = -1;
	int r;

	if ((flags & O_ACCMODE) == O_RDONLY) {
		fd = writable = unionfs_open(unionfs_of(req), node, O_WRONLY);
		if (fd < 0)
			return fd;
	}
	if (ftruncate(fd, 0) < 0)
		return -errno;
	r = request_current.kills_privileges
		    ? op_kill_privileges(req, node->id, fd)
		    : 0;
	return r;
}

static int open_node(fuse_req_t req, const struct node *node, int flags)
{
	struct unionfs *fs = unionfs_of(req);
	bool writes = (flags & O_ACCMODE) != O_RDONLY || flags & O_TRUNC;
	struct copy *copy = node_first(node);
	auto_close int fd = -1;
	int r = copy ? 0 : -ESTALE;

	if (r == 0 && writes)
		r = unionfs_writable(fs, copy);
	if (r < 0)
		return r;
	fd = unionfs_open(fs, node, (flags & O_ACCMODE) | O_NOFOLLOW);
	if (fd >= 0 && flags & O_TRUNC)
		r = truncate_open(req, node, fd, flags);
	return r < 0 ? r : take_fd(&fd);
}

void op_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *info)
{
	struct unionfs *fs = unionfs_of(req);
	struct node *node = op_node(req, ino);
	int32_t backing_id;
	int fd, r;

	if (!node)
		return;
	fd = open_node(req, node, info->flags);
	r = fd < 0 ? fd : gain_file(fs, node, fd, info, &backing_id);
	if (r < 0)
		op_reply(req, r);
	else if (passthrough_reply(req, NULL, info, backing_id) < 0)
		lose_file(fs, node, op_file(info));
}

struct creation {
	const char *name;
	mode_t mode;
	int flags;
	bool unnamed; /* O_TMPFILE */
};

static int make_file(void *context, int dirfd)
{
	const struct creation *new = context;
	int fd;

	if (new->unnamed)
		fd = openat(dirfd, ".",
			    (new->flags &O_ACCMODE) | O_TMPFILE | O_CLOEXEC,
			    new->mode & 07777);
	else
		fd = openat(dirfd, new->name,
			    (new->flags &KEPT_FLAGS) | O_CREAT | O_NOFOLLOW |
				    O_CLOEXEC,
			    new->mode & 07777);

	return fd < 0 ? -errno : fd;
}

/* The new file is the union's: give it a node and an open file. */
static int adopt(struct unionfs *fs, const struct placed *placed,
		 const char *name, struct fuse_file_info *info,
		 struct fuse_entry_param *entry, int32_t *ret_backing)
{
	bool unnamed = request_current.unnamed;
	int r = lookup_made(fs, placed->branch,
			    unnamed ? placed->result : placed->dir->fd,
			    unnamed ? "" : name, entry);

	if (r < 0) {
		fd_close(placed->result);
		return r;
	}
	r = gain_file(fs, node_get(&fs->nodes, entry->ino), placed->result,
		      info, ret_backing);
	if (r < 0)
		node_forget(&fs->nodes, entry->ino, 1);
	return r;
}

void op_create(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode,
	       struct fuse_file_info *info)
{
	struct unionfs *fs = unionfs_of(req);
	struct node *dir = op_node(req, parent), *node;
	struct creation new = {name, mode, info->flags,
			       request_current.unnamed};
	struct fuse_entry_param entry;
	struct placed placed;
	int32_t backing_id;
	int r;

	if (!dir)
		return;
	r = !new.unnamed &&unionfs_hidden(dir, name) ? -EPERM : 0;
	if (r == 0)
		r = place_new(fs, req, dir, make_file, &new, &placed);
	if (r < 0) {
		op_reply(req, r);
		return;
	}
	atomic_fetch_add(&fs->stats.creates, 1);
	r = adopt(fs, &placed, name, info, &entry, &backing_id);
	dir_fd_put(placed.dir);
	if (r < 0) {
		op_reply(req, r);
		return;
	}
	node = node_get(&fs->nodes, entry.ino);
	entry.attr_timeout = unionfs_attr_timeout(fs, node);
	if (passthrough_reply(req, &entry, info, backing_id) < 0) {
		lose_file(fs, node, op_file(info));
		node_forget(&fs->nodes, entry.ino, 1);
	}
}

void op_release(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *info)
{
	struct unionfs *fs = unionfs_of(req);
	struct node *node = op_node(req, ino);

	if (!node)
		return;
	lose_file(fs, node, op_file(info));
	fuse_reply_err(req, 0);
}
