/* SPDX-License-Identifier: Apache-2.0 */
/* Directories that are opened, read and closed. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>

#include "union/open/open_dir.h"
#include "union/ops/ops.h"
#include "union/state/state.h"

void op_opendir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *info)
{
	struct request *request = request_of(req);
	struct unionfs *fs = request->fs;
	struct node *node = op_node(request, ino);
	struct dir *dir;
	int r;

	if (!node)
		return;
	dir = open_dir_new(fs, node,
			   info->flags & O_NOATIME ? STATE_OPEN_QUIET : 0);
	if (!dir) {
		fuse_reply_err(request->req, ENOMEM);
		return;
	}
	r = dir_parts_open(fs, node, dir);
	if (r == 0) {
		info->fh = open_table_add(&fs->opened, request, &dir->item,
					  node);
		r = info->fh ? 0 : -ENOMEM;
	}
	if (r < 0) {
		open_item_put(&dir->item);
		op_reply(request, r);
		return;
	}
	/* The kernel may keep the list: it sees every change of it. */
	info->cache_readdir = !fs->shared && !dir->lacking;
	info->keep_cache = !fs->shared;
	if (fuse_reply_open(request->req, info) < 0)
		open_dir_close(fs, info);
}

void op_releasedir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *info)
{
	struct request *request = request_of(req);
	(void)ino; /* failed or not */
	open_dir_close(request->fs, info);
	fuse_reply_err(request->req, 0);
}

void op_fsyncdir(fuse_req_t req, fuse_ino_t ino, int datasync,
		 struct fuse_file_info *info)
{
	struct request *request = request_of(req);
	struct dir *dir = open_dir_of(request->fs, info);
	int r = 0;

	(void)ino;
	if (!dir) {
		fuse_reply_err(request->req, EBADF);
		return;
	}
	open_item_use(request, &dir->item);
	pthread_mutex_lock(&dir->lock);
	if (!dir->count)
		r = dir_parts_open(dir->fs, dir->node, dir);
	if (r == 0)
		r = dir_parts_sync(dir->fs, dir->node, dir, datasync);
	pthread_mutex_unlock(&dir->lock);
	op_reply(request, r);
}

static int list_parts(struct dir_listing *list, struct dir *dir, int64_t offset)
{
	struct unionfs *fs = list->request->fs;
	int r = dir->count ? 0 : dir_parts_open(fs, list->node, dir);

	if (r == 0)
		r = dir_parts_refresh(fs, list->node, dir, offset);
	if (r < 0)
		return r;
	r = dir_read(list, dir, offset);
	/* A caller that removes files missing in a list must not believe this
	 * one. */
	if (r >= 0 && !list->used && dir->lacking && !fs->lists_quietly)
		r = -EIO;
	return r;
}

static void reply_list(struct dir_listing *list, struct dir *dir, off_t offset)
{
	struct request *request = list->request;
	int r;

	if (!list->data || offset < 0) {
		fuse_reply_err(request->req, list->data ? EINVAL : ENOMEM);
		return;
	}
	pthread_mutex_lock(&dir->lock);
	r = list_parts(list, dir, offset);
	open_dir_note_stream(dir, dir->at < dir->used);
	pthread_mutex_unlock(&dir->lock);
	/* An error after some entries comes again at the next call. */
	if (r < 0 && !list->used)
		op_reply(request, r);
	else
		fuse_reply_buf(request->req, list->data, list->used);
}

static void list_dir(struct request *request, fuse_ino_t ino, size_t size,
		     off_t offset, const struct fuse_file_info *info, bool plus)
{
	struct dir_listing list = {.request = request,
				   .node = op_node(request, ino),
				   .plus = plus,
				   .size = size};
	struct dir *dir;

	if (!list.node)
		return;
	dir = open_dir_of(request->fs, info);
	if (!dir) {
		fuse_reply_err(request->req, EBADF);
		return;
	}
	open_item_use(request, &dir->item);
	list.data = malloc(size);
	reply_list(&list, dir, offset);
	free(list.data);
}

void op_readdir(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset,
		struct fuse_file_info *info)
{
	struct request *request = request_of(req);
	list_dir(request, ino, size, offset, info, false);
}

void op_readdirplus(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset,
		    struct fuse_file_info *info)
{
	struct request *request = request_of(req);
	list_dir(request, ino, size, offset, info, true);
}
