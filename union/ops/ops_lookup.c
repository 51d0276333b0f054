/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stddef.h>
#include <string.h>

#include "base/cleanup.h"
#include "union/branch/dir_fd.h"
#include "union/ops/dot_union.h"
#include "union/ops/ops.h"
#include "union/state/reply_cache.h"
#include "union/sys/empty_dir.h"
#include "union/view/lookup.h"
#include "union/view/name_filter.h"

/*
 * Look up "." of an inode that the kernel knows only by a handle it gave out.
 */
static int lookup_self(struct unionfs *fs, struct request *request,
		       struct node *node, struct fuse_entry_param *ret)
{
	struct copy *copy = node_first(node);
	struct node_found found;
	struct node *same;
	int r;

	if (!copy)
		return -ESTALE;
	memset(ret, 0, sizeof(*ret));
	r = unionfs_attr(fs, request, node, &ret->attr, &ret->attr_timeout);
	if (r < 0)
		return r;
	/* The file was removed, and nobody has it: else the kernel would not
	 * ask. */
	if (!ret->attr.st_nlink)
		return -ESTALE;
	found.branch = copy->branch;
	found.handle = copy_handle(copy);
	r = node_intern(&fs->nodes, node->type, node->ino, &found, 1, &same);
	if (r < 0)
		return r;
	reply_cache_gains_node(request, same->id);
	ret->ino = same->id;
	ret->generation = lookup_generation(same);
	ret->entry_timeout = fs->timeout;
	return 0;
}

static int lookup_parent(struct unionfs *fs, struct request *request,
			 struct node *node, struct fuse_entry_param *ret)
{
	struct copy *copy = node_first(node);
	auto_dir_fd struct dir_fd *dir = NULL;
	auto_close int up = -1;
	int r = copy ? unionfs_dir_fd(fs, copy, &dir) : -ESTALE;

	if (r < 0)
		return r;
	if (node->id == NODE_ROOT_ID)
		return lookup_self(fs, request, node, ret);
	up = openat(dir->fd, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (up < 0)
		return -errno;
	pthread_rwlock_rdlock(&fs->tree);
	r = lookup_dir(fs, request, copy->branch, up, ret);
	pthread_rwlock_unlock(&fs->tree);
	return r;
}

/*
 * Look up a directory that an earlier mount knew by one of its copies: the
 * others are found.
 */
static int lookup_saved_dir(struct unionfs *fs, struct request *request,
			    struct node *node, struct fuse_entry_param *ret)
{
	struct copy *copy = node_first(node);
	auto_dir_fd struct dir_fd *dir = NULL;
	int r = copy ? unionfs_dir_fd(fs, copy, &dir) : -ESTALE;

	if (r < 0)
		return r;
	pthread_rwlock_rdlock(&fs->tree);
	r = lookup_dir(fs, request, copy->branch, dir->fd, ret);
	pthread_rwlock_unlock(&fs->tree);
	return r == -ENOENT ? -ESTALE : r;
}

static bool is_saved_dir(const struct node *node)
{
	return S_ISDIR(node->type) && node->known_before &&
	       node->id != NODE_ROOT_ID;
}

/*
 * Look up "." or ".." of an inode of which somebody has a handle. The kernel
 * may have forgotten the inode, and another thread may serve its FORGET just
 * now.
 */
static void lookup_of_handle(struct request *request, fuse_ino_t ino,
			     bool parent)
{
	struct unionfs *fs = request->fs;
	struct node *node = node_hold_id(&fs->nodes, ino);
	struct fuse_entry_param entry;
	int r;

	if (!node)
		r = -ESTALE;
	else if (node_is_failed(node))
		r = -EIO;
	else
		r = parent ? lookup_parent(fs, request, node, &entry)
		    : is_saved_dir(node)
			    ? lookup_saved_dir(fs, request, node, &entry)
			    : lookup_self(fs, request, node, &entry);
	if (node)
		node_let_go(&fs->nodes, node);
	op_reply_entry(request, r, &entry);
}

static int lookup_dot_union(const struct unionfs *fs,
			    struct fuse_entry_param *ret)
{
	memset(ret, 0, sizeof(*ret));
	ret->ino = DOT_UNION_ID;
	dot_union_stat(fs, &ret->attr);
	ret->attr_timeout = ret->entry_timeout = fs->timeout;
	return 0;
}

void op_lookup(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	struct request *request = request_of(req);
	struct unionfs *fs = request->fs;
	struct fuse_entry_param entry;
	struct node *node;
	int r;

	atomic_fetch_add_explicit(&fs->stats->lookups, 1, memory_order_relaxed);
	if (name_is_dot(name)) {
		lookup_of_handle(request, parent, name[1]);
		return;
	}
	node = op_node(request, parent);
	if (!node)
		return;
	if (dot_union_is(node, name))
		r = lookup_dot_union(fs, &entry);
	else if (unionfs_hidden(node, name))
		r = -ENOENT;
	else {
		r = lookup_entry(fs, request, node, name, NULL, &entry);
		name_filter_learn(fs, node);
	}
	if (r == -ENOENT) {
		/* Number 0: the kernel may remember that the name is absent. */
		memset(&entry, 0, sizeof(entry));
		entry.entry_timeout = fs->timeout;
		r = 0;
	}
	op_reply_entry(request, r, &entry);
}

void op_forget(fuse_req_t req, fuse_ino_t ino, uint64_t count)
{
	struct request *request = request_of(req);
	node_forget(&request->fs->nodes, ino, count);
	fuse_reply_none(request->req);
}

void op_forget_multi(fuse_req_t req, size_t count,
		     struct fuse_forget_data *forgets)
{
	struct request *request = request_of(req);
	size_t i;

	for (i = 0; i < count; i++)
		node_forget(&request->fs->nodes, forgets[i].ino,
			    forgets[i].nlookup);
	fuse_reply_none(request->req);
}

void op_readlink(fuse_req_t req, fuse_ino_t ino)
{
	struct request *request = request_of(req);
	struct node *node = op_node(request, ino);
	auto_close int fd = -1;
	char target[PATH_MAX];
	ssize_t n;

	if (!node)
		return;
	fd = unionfs_open_link(request->fs, node);
	if (fd < 0) {
		op_reply(request, fd);
		return;
	}
	n = readlinkat(fd, "", target, sizeof(target) - 1);
	if (n < 0) {
		fuse_reply_err(request->req, errno);
		return;
	}
	target[n] = '\0';
	fuse_reply_readlink(request->req, target);
}

void op_statfs(fuse_req_t req, fuse_ino_t ino)
{
	struct request *request = request_of(req);
	struct statvfs space;
	const struct unionfs *fs = request->fs;
	int r = branch_table_statvfs(&fs->branches, fs->statfs_ignore, &space);

	(void)ino;
	if (r < 0)
		op_reply(request, r);
	else
		fuse_reply_statfs(request->req, &space);
}
