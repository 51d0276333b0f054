/* SPDX-License-Identifier: Apache-2.0 */
/* Files that are opened, made and closed. */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "union/branch/dir_fd.h"
#include "union/branch/submount.h"
#include "union/change/place.h"
#include "union/open/branch_full.h"
#include "union/open/durable.h"
#include "union/open/open_file.h"
#include "union/open/passthrough.h"
#include "union/ops/ops.h"
#include "union/state/reply_cache.h"
#include "union/state/request.h"
#include "union/view/lookup.h"
#include "union/view/unseen.h"

static int truncate_open(struct request *request, const struct node *node,
			 int fd, int flags)
{
	auto_close int writable = -1;
	int r;

	if ((flags & O_ACCMODE) == O_RDONLY) {
		fd = writable = unionfs_open(request->fs, node, O_WRONLY);
		if (fd < 0)
			return fd;
	}
	if (ftruncate(fd, 0) < 0)
		return -errno;
	open_file_changed(request->fs, node, 0, 0);
	r = request->kills_privileges
		    ? op_kill_privileges(request, node->id, fd, OP_GROUP_NOW)
		    : 0;
	return r < 0 ? r : durable_data(request->fs, fd);
}

/*
 * Open the file of @node. On an append-only file (chattr +a) writers may do no
 * more than append.
 */
static int open_node(struct request *request, const struct node *node,
		     int flags, bool *ret_appends)
{
	struct unionfs *fs = request->fs;
	bool writes = (flags & O_ACCMODE) != O_RDONLY || flags & O_TRUNC;
	struct copy *copy = node_first(node);
	auto_close int fd = -1;
	int r = copy ? 0 : -ESTALE;

	*ret_appends = false;
	if (r == 0 && writes)
		r = unionfs_writable(fs, copy);
	if (r < 0)
		return r;
	fd = unionfs_open(fs, node, (flags & OPEN_FILE_FLAGS) | O_NOFOLLOW);
	*ret_appends = fd == -EPERM && writes && flags & O_APPEND;
	if (*ret_appends)
		fd = unionfs_open(fs, node,
				  (flags & OPEN_FILE_FLAGS) | O_APPEND |
					  O_NOFOLLOW);
	if (fd >= 0 && flags & O_TRUNC)
		r = truncate_open(request, node, fd, flags);
	return r < 0 ? r : take_fd(&fd);
}

void op_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *info)
{
	struct request *request = request_of(req);
	struct unionfs *fs = request->fs;
	struct node *node = op_node(request, ino);
	int32_t backing_id;
	bool appends;
	int fd, r;

	if (!node)
		return;
	fd = open_node(request, node, info->flags, &appends);
	r = fd < 0 ? fd
		   : open_file_new(request, node, fd, appends, info,
				   &backing_id);
	if (r < 0)
		op_reply(request, r);
	else if (op_reply_open(request, NULL, info, backing_id) < 0)
		open_file_close(fs, node, info);
}

struct creation {
	const char *name;
	mode_t mode;
	int flags;
	bool unnamed; /* O_TMPFILE */
};

static int make_new_file(void *context, int dirfd)
{
	const struct creation *new = context;
	int fd;

	if (!new->unnamed) {
		fd = submount_create_none(
			dirfd, new->name,
			(new->flags &(OPEN_FILE_FLAGS | O_EXCL)) | O_NOFOLLOW,
			new->mode & 07777);
		return fd == -EXDEV ? -EBUSY : fd;
	}
	fd = openat(dirfd, ".",
		    (new->flags &OPEN_FILE_FLAGS) | O_TMPFILE | O_CLOEXEC,
		    new->mode & 07777);
	return fd < 0 ? -errno : fd;
}

/*
 * Open a file made by a server that was killed then: it has no descriptor yet.
 */
static int open_made(const struct creation *new, struct placed *placed)
{
	int fd = openat(placed->dir->fd, new->name,
			(new->flags &OPEN_FILE_FLAGS) | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0) {
		dir_fd_put(placed->dir);
		return -errno;
	}
	placed->result = fd;
	return 0;
}

static int place_file(struct unionfs *fs, struct request *request,
		      struct node *dir, struct creation *new,
		      struct placed *ret)
{
	const struct to_place what = {POLICY_CREATE, S_IFREG, make_new_file,
				      new, new->unnamed ? NULL : new->name};
	int r = place_new(fs, request, dir, &what, ret);

	return r == 1 ? open_made(new, ret) : r;
}

/*
 * Keep a file that never had a name as one that was removed: no name will find
 * it again.
 */
static void keep_unnamed(struct unionfs *fs, const struct node *node)
{
	struct copy *copy = node_first(node);
	struct orphan_fd orphan;
	struct handle handle;

	if (!fs->state || !copy)
		return;
	handle = copy_handle(copy);
	orphan = orphan_inode_open(&fs->nodes,
				   unionfs_open_copy(fs, copy, O_PATH));
	orphan_inode_add(&fs->nodes, copy->branch, &handle, &orphan);
}

/* Give the new file a node and an open file: it is the union's now. */
static int adopt_file(struct request *request, const struct placed *placed,
		      struct fuse_file_info *info,
		      struct fuse_entry_param *entry, struct node **ret,
		      int32_t *ret_backing)
{
	struct unionfs *fs = request->fs;
	bool unnamed = request->unnamed;
	struct node *node;
	int r = lookup_made(fs, request, placed->branch, placed->result, "",
			    entry);

	if (r < 0) {
		fd_close(placed->result);
		return r;
	}
	node = node_get(&fs->nodes, entry->ino);
	if (unnamed)
		keep_unnamed(fs, node);
	r = open_file_new(request, node, placed->result, false, info,
			  ret_backing);
	if (r < 0) {
		reply_cache_gains_nothing(request);
		node_forget(&fs->nodes, entry->ino, 1);
		return r;
	}
	entry->attr_timeout = unseen_may_change(fs, request, node)
				      ? unseen_keep_new(fs)
				      : fs->timeout;
	*ret = node;
	return 0;
}

void op_create(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode,
	       struct fuse_file_info *info)
{
	struct request *request = request_of(req);
	struct unionfs *fs = request->fs;
	struct node *dir = op_node(request, parent), *node;
	struct creation new = {name, mode, info->flags, request->unnamed};
	struct fuse_entry_param entry;
	struct placed placed;
	int32_t backing_id;
	int r;

	if (!dir)
		return;
	r = !new.unnamed &&unionfs_hidden(dir, name) ? -EPERM : 0;
	if (r == 0)
		r = place_file(fs, request, dir, &new, &placed);
	if (r < 0) {
		op_reply(request, r);
		return;
	}
	atomic_fetch_add(&fs->stats->creates, 1);
	r = adopt_file(request, &placed, info, &entry, &node, &backing_id);
	dir_fd_put(placed.dir);
	if (r < 0) {
		op_reply(request, r);
		return;
	}
	r = durable_request(fs, request);
	if (r < 0) {
		reply_cache_gains_nothing(request);
		open_file_close(fs, node, info);
		node_forget(&fs->nodes, entry.ino, 1);
		op_reply(request, r);
		return;
	}
	if (op_reply_open(request, &entry, info, backing_id) < 0) {
		open_file_close(fs, node, info);
		node_forget(&fs->nodes, entry.ino, 1);
	}
}

void op_release(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *info)
{
	struct request *request = request_of(req);
	struct unionfs *fs = request->fs;
	struct node *node = node_get(&fs->nodes, ino); /* failed or not */

	if (!node) {
		fuse_reply_err(request->req, ESTALE);
		return;
	}
	open_file_close(fs, node, info);
	fuse_reply_err(request->req, 0);
}
