/* SPDX-License-Identifier: Apache-2.0 */
#include "union/open/durable.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "union/branch/branch_health.h"
#include "union/state/request.h"

static bool is_wanted(const struct unionfs *fs, uint32_t opcode)
{
	switch (opcode) {
	case FUSE_SYMLINK:
	case FUSE_MKNOD:
	case FUSE_MKDIR:
	case FUSE_UNLINK:
	case FUSE_RMDIR:
	case FUSE_RENAME:
	case FUSE_RENAME2:
	case FUSE_LINK:
	case FUSE_CREATE: return true;
	case FUSE_SETATTR:
	case FUSE_SETXATTR:
	case FUSE_REMOVEXATTR: return fs->syncs;
	default: return false;
	}
}

static int sync_copy(struct unionfs *fs, const struct node *node,
		     const struct copy *copy)
{
	int flags = S_ISDIR(node->type) ? O_DIRECTORY : O_NONBLOCK;
	struct branch *branch = branch_of(fs, copy);
	auto_close int fd = -1;

	/* Devices, pipes, sockets and links cannot be opened without using
	 * them. */
	if (!S_ISDIR(node->type) && !S_ISREG(node->type))
		return syncfs(branch->root_fd) < 0 ? -errno : 0;
	fd = unionfs_open_copy(fs, copy,
			       O_RDONLY | O_NOATIME | O_NOFOLLOW | flags);
	if (fd < 0)
		return fd;
	return branch_report(branch, fsync(fd) < 0 ? -errno : 0);
}

/* Sync all copies of @node: each branch with a name of it has a copy. */
static int sync_node(struct unionfs *fs, const struct node *node)
{
	const struct copy *copy;
	int one, r = 0;

	for (copy = node_first(node); copy; copy = copy_next(copy)) {
		if (!branch_usable(copy->branch))
			continue;
		one = sync_copy(fs, node, copy);
		/* The copy went, or its branch did. */
		if (one == -ESTALE || !branch_usable(copy->branch))
			continue;
		r = r < 0 ? r : one;
	}
	return r;
}

int durable_sync(struct unionfs *fs, const struct request *request)
{
	const struct node *node;
	unsigned i;
	int r = 0;

	if (!is_wanted(fs, request->opcode))
		return 0;
	for (i = 0; i < request->node_count && r == 0; i++) {
		node = node_get(&fs->nodes, request->nodes[i]);
		if (node)
			r = sync_node(fs, node);
	}
	return r;
}

int durable_data(const struct unionfs *fs, int fd)
{
	return fs->syncs && fdatasync(fd) < 0 ? -errno : 0;
}
