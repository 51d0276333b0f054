/* SPDX-License-Identifier: Apache-2.0 */
#include "union/change/remove_dir.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "union/branch/branch_health.h"
#include "union/branch/dir_fd.h"
#include "union/branch/ino_preserve.h"
#include "union/change/hidden_files.h"
#include "union/change/replay.h"
#include "union/node/dir_attr_lock.h"
#include "union/node/names_change.h"
#include "union/sys/empty_dir.h"
#include "union/sys/immutable.h"
#include "union/view/name_filter.h"

/* Flags to open a directory that goes, for processes that have it open. */
#define OPEN_REMOVED (O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)

int remove_dir_check(const struct hit *hits, int count, const char *name)
{
	int i, r = 0;

	for (i = 0; i < count && r == 0; i++)
		if (S_ISDIR(hits[i].st.st_mode))
			r = empty_dir_check(hits[i].fd->fd, name);
	return r;
}

static int remove_dir_copy(struct unionfs *fs, const struct hit *hit,
			   const char *name, bool last)
{
	struct orphan_fd orphan;
	struct handle handle;
	int r = handle_get(hit->fd->fd, name, &handle);

	if (r < 0)
		return r;
	orphan = orphan_inode_open(&fs->nodes,
				   openat(hit->fd->fd, name, OPEN_REMOVED));
	names_change_begin(copy_node(hit->dir));
	r = unlinkat(hit->fd->fd, name, AT_REMOVEDIR) < 0 ? -errno : 0;
	names_change_end(copy_node(hit->dir), r == 0);
	if (r < 0) {
		orphan_inode_done(&orphan);
		return branch_report(branch_of(fs, hit->dir), r);
	}
	name_filter_remove(copy_node(hit->dir), name, hit->dir->branch);
	if (last)
		ino_preserve_end_dir(&fs->branches, orphan.fd);
	node_copy_gone(&fs->nodes, hit->dir->branch, &handle, &orphan);
	return 0;
}

/*
 * Remove the copies, the highest branch first. So the copy that gives the
 * directory its owner and mode goes last.
 */
static int remove_found(struct unionfs *fs, const struct hit *hits, int count,
			const char *name)
{
	int i, r = 0;

	if (!S_ISDIR(hits[0].st.st_mode))
		return -ENOTDIR;
	for (i = 0; i < count && r == 0; i++)
		if (S_ISDIR(hits[i].st.st_mode)) {
			r = unionfs_writable(fs, hits[i].dir);
			if (r == 0 && count > 1)
				r = immutable_check_name(hits[i].fd->fd, name);
		}
	if (r == 0 && count > 1)
		r = remove_dir_check(hits, count, name);
	if (r < 0)
		return r;
	for (i = count - 1; i >= 0; i--) {
		if (!S_ISDIR(hits[i].st.st_mode))
			continue;
		r = remove_dir_copy(fs, &hits[i], name, i == 0);
		if (r < 0)
			return r;
	}
	return 0;
}

/* Hold the node of the hits; NULL: the kernel does not know it. */
static struct node *hold_found(struct unionfs *fs, const struct hit *hits,
			       int count, const char *name)
{
	struct node *node = NULL;
	struct handle handle;
	int i;

	for (i = 0; i < count && !node; i++)
		if (S_ISDIR(hits[i].st.st_mode) &&
		    handle_get(hits[i].fd->fd, name, &handle) == 0)
			node = node_hold(&fs->nodes, hits[i].dir->branch,
					 &handle);
	return node;
}

static int remove_now(struct unionfs *fs, struct request *request,
		      struct node *parent, const char *name)
{
	struct hit *hits;
	int r, n = lookup_needed(fs, parent, name, &hits);

	if (n < 0)
		return n;
	/* A copy left on a failed branch would be the directory once more. */
	r = unionfs_may_have(parent, name) ? -EIO : 0;
	if (r == 0)
		replay_note_hit(request, &hits[0], name);
	if (r == 0)
		r = remove_found(fs, hits, n, name);
	if (r == 0)
		r = hidden_files_put_all(fs, hits, n, name);
	lookup_hits_done(hits, n);
	return r;
}

/* Go on after the directory went before: @hits are files that it hid. */
static int end_again(struct unionfs *fs, struct hit *hits, int count,
		     const char *name)
{
	int r;

	if (count <= 0)
		return 0;
	r = hidden_files_put_all(fs, hits, count, name);
	lookup_hits_done(hits, count);
	return r;
}

int remove_dir(struct unionfs *fs, struct request *request, struct node *parent,
	       const char *name)
{
	struct dir_attr_lock turn;
	struct node *node;
	struct hit *hits = NULL;
	int r, n = lookup_needed(fs, parent, name, &hits);

	if (replay_went(request, hits, n, name))
		return end_again(fs, hits, n, name);
	if (n < 0)
		return n;
	node = hold_found(fs, hits, n, name);
	lookup_hits_done(hits, n);
	if (!node)
		return remove_now(fs, request, parent, name);
	dir_attr_lock_take(&turn, node->id);
	r = remove_now(fs, request, parent, name);
	dir_attr_lock_give(&turn);
	node_let_go(&fs->nodes, node);
	return r;
}
