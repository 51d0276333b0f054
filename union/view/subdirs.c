/* SPDX-License-Identifier: Apache-2.0 */
#include "union/view/subdirs.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "union/branch/dir_fd.h"
#include "union/branch/submount.h"
#include "union/view/merge.h"

void subdirs_begin(struct unionfs *fs, struct node *node)
{
	node_lock(&fs->nodes, node);
	node_dir(node)->subdir_changes++;
	node_dir(node)->subdir_changing++;
	node_unlock(&fs->nodes, node);
}

void subdirs_end(struct unionfs *fs, struct node *node, int change)
{
	struct node_dir *dir = node_dir(node);

	node_lock(&fs->nodes, node);
	dir->subdir_changes++;
	dir->subdir_changing--;
	if (dir->subdirs >= 0)
		dir->subdirs += change;
	node_unlock(&fs->nodes, node);
}

void subdirs_forget(struct unionfs *fs, struct node *node)
{
	node_lock(&fs->nodes, node);
	node_dir(node)->subdir_changes++;
	node_dir(node)->subdirs = -1;
	node_unlock(&fs->nodes, node);
}

void subdirs_uncover(struct unionfs *fs, struct node *node,
		     const struct hit *hits, int count)
{
	int i = 1; /* the first is the file */

	while (i < count && !S_ISDIR(hits[i].st.st_mode))
		i++;
	if (i < count)
		subdirs_forget(fs, node);
}

uint64_t subdirs_mark(struct unionfs *fs, struct node *node)
{
	struct node_dir *dir;
	uint64_t mark;

	if (!S_ISDIR(node->type))
		return 0;
	dir = node_dir(node);
	node_lock(&fs->nodes, node);
	/* No two marks taken during a change are the same. */
	dir->subdir_changes += dir->subdir_changing > 0;
	mark = dir->subdir_changes;
	node_unlock(&fs->nodes, node);
	return mark;
}

/* Count the directories in all copies of @node, a name once. */
static int64_t count(struct unionfs *fs, struct node *node)
{
	struct merge *merge = merge_new(node->id == NODE_ROOT_ID);
	struct copy *copy;
	int64_t n = -1;
	int fd, r = merge ? 0 : -ENOMEM;

	dir_fd_changes_begin();
	for (copy = node_first(node); copy && r == 0; copy = copy_next(copy)) {
		fd = unionfs_open_copy(fs, copy,
				       O_RDONLY | O_DIRECTORY | O_NOATIME);
		r = fd < 0 ? fd
			   : merge_read(merge, fd, copy->branch,
					submount_inside(branch_of(fs, copy)));
		fd_close(fd);
	}
	dir_fd_changes_end();
	if (r == 0)
		n = (int64_t)merge_count_dirs(merge);
	merge_free(merge);
	return n;
}

nlink_t subdirs_links(struct unionfs *fs, struct node *node)
{
	uint64_t mark = subdirs_mark(fs, node);
	struct node_dir *dir = node_dir(node);
	int64_t subdirs;

	node_lock(&fs->nodes, node);
	subdirs = dir->subdirs;
	node_unlock(&fs->nodes, node);
	if (subdirs < 0) {
		subdirs = count(fs, node);
		node_lock(&fs->nodes, node);
		if (dir->subdir_changes == mark && !dir->subdir_changing &&
		    !fs->shared && subdirs < INT32_MAX / 2)
			dir->subdirs = (int32_t)subdirs;
		node_unlock(&fs->nodes, node);
	}
	return subdirs < 0 ? 1 : 2 + (nlink_t)subdirs;
}
