/* SPDX-License-Identifier: Apache-2.0 */
/* The copies on the branches from which an open directory is read. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "union/branch/atime.h"
#include "union/branch/branch_health.h"
#include "union/branch/submount.h"
#include "union/open/open_dir.h"
#include "union/state/thread_branches.h"
#include "union/sys/dir_offset.h"

void dir_parts_close(struct dir_part *parts, unsigned count)
{
	while (count)
		fd_close(parts[--count].fd);
	free(parts);
}

static int open_part(struct unionfs *fs, const struct dir *dir,
		     const struct copy *copy)
{
	bool quiet = dir->quiet || atime_is_own(branch_of(fs, copy));

	return unionfs_open_copy(
		fs, copy, O_RDONLY | O_DIRECTORY | (quiet ? O_NOATIME : 0));
}

/* Open a directory that was removed: the kernel lists nothing in it. */
static int open_buried(const struct node *node, struct dir *dir)
{
	int fd = atomic_load(&node->orphan_fd);

	if (fd >= 0)
		fd = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return -ENOENT;
	dir->parts[dir->count++] = (struct dir_part){node_copies(node), fd};
	return 0;
}

static int open_parts(struct unionfs *fs, const struct node *node,
		      struct dir *dir)
{
	unsigned max = fs->branches.count; /* a branch may be added meanwhile */
	struct copy *copy;
	int fd;

	dir->generation = fs->generation;
	dir->parts = calloc(max, sizeof(*dir->parts));
	if (!dir->parts)
		return -ENOMEM;
	for (copy = node_first(node); copy; copy = copy_next(copy)) {
		if (dir->count == max)
			break;
		fd = open_part(fs, dir, copy);
		if (fd == -ESTALE || (fd < 0 && !branch_usable(copy->branch)))
			continue;
		if (fd < 0)
			return fd;
		dir->parts[dir->count++] = (struct dir_part){copy, fd};
	}
	dir->lacking = unionfs_may_have(node, NULL);
	if (dir->count)
		return 0;
	return dir->lacking ? -EIO : open_buried(node, dir);
}

int dir_parts_open(struct unionfs *fs, const struct node *node, struct dir *dir)
{
	int r = open_parts(fs, node, dir);

	if (r < 0) {
		dir_parts_close(take_ptr(dir->parts), dir->count);
		dir->count = 0;
	}
	return r;
}

/* Open the parts anew, to be read from the start. */
static int reopen_parts(struct unionfs *fs, const struct node *node,
			struct dir *dir)
{
	struct dir fresh = {.quiet = dir->quiet}; /* for dir_parts_open() */
	int r = dir_parts_open(fs, node, &fresh);

	if (r < 0)
		return r;
	dir_parts_close(dir->parts, dir->count);
	dir->parts = fresh.parts;
	dir->count = fresh.count;
	dir->generation = fresh.generation;
	dir->lacking = fresh.lacking;
	merge_free(dir->merge);
	dir->merge = NULL;
	dir->used = dir->at = 0;
	return 0;
}

static bool dir_has_part(const struct dir *dir, unsigned branch)
{
	unsigned i;

	for (i = 0; i < dir->count; i++)
		if (dir->parts[i].copy->branch == branch)
			return true;
	return false;
}

/* Has @dir all copies? Files may have moved to a copy that was made later. */
static bool has_all_parts(const struct node *node, const struct dir *dir)
{
	const struct copy *copy;

	for (copy = node_first(node); copy; copy = copy_next(copy))
		if (!dir_has_part(dir, copy->branch))
			return false;
	return true;
}

/* Add the names of new branches, after all that is in the merge. */
static int extend_merge(struct unionfs *fs, const struct node *node,
			struct dir *dir)
{
	unsigned generation = fs->generation, max = fs->branches.count;
	struct dir_part *parts = reallocarray(dir->parts, max,
					      sizeof(*dir->parts));
	struct copy *copy;
	int fd, r = 0;

	if (!parts)
		return -ENOMEM;
	dir->parts = parts;
	for (copy = node_first(node); copy && r == 0; copy = copy_next(copy)) {
		if (dir->count == max)
			break;
		if (dir_has_part(dir, copy->branch))
			continue;
		fd = open_part(fs, dir, copy);
		if (fd == -ESTALE || (fd < 0 && !branch_usable(copy->branch)))
			continue;
		if (fd < 0)
			return fd;
		dir->parts[dir->count++] = (struct dir_part){copy, fd};
		r = merge_read(dir->merge, fd, copy->branch,
			       submount_inside(branch_of(fs, copy)));
	}
	if (r == 0)
		dir->generation = generation;
	return r;
}

static int sync_one(int fd, bool datasync)
{
	return (datasync ? fdatasync(fd) : fsync(fd)) < 0 ? -errno : 0;
}

/*
 * Sync the copies that were made since @dir was opened, as names may be there.
 */
static int sync_later_copies(struct unionfs *fs, const struct node *node,
			     const struct dir *dir, bool datasync)
{
	const struct copy *lost = NULL;
	struct copy *copy;
	int r = 0, one;

	for (copy = node_first(node); copy; copy = copy_next(copy)) {
		auto_close int fd = -1;

		if (dir_has_part(dir, copy->branch))
			continue;
		one = fd = unionfs_open_copy(fs, copy, O_RDONLY | O_DIRECTORY);
		if (fd >= 0)
			one = sync_one(fd, datasync);
		if (one < 0 && one != -ESTALE && r == 0)
			r = one;
	}
	/* A copy that had failed when @dir was opened is known to be
	 * missing. */
	while (!dir->lacking && (lost = node_failed_copy(node, lost)))
		if (!dir_has_part(dir, lost->branch))
			r = -EIO;
	return r;
}

int dir_parts_sync(struct unionfs *fs, const struct node *node,
		   const struct dir *dir, bool datasync)
{
	unsigned i;
	int r = 0, one;

	for (i = 0; i < dir->count; i++) {
		request_touches_branch(dir->parts[i].copy->branch);
		one = sync_one(dir->parts[i].fd, datasync);
		if (one < 0 && r == 0)
			r = one;
	}
	one = sync_later_copies(fs, node, dir, datasync);
	return r < 0 ? r : one;
}

int dir_parts_refresh(struct unionfs *fs, const struct node *node,
		      struct dir *dir, int64_t offset)
{
	if (dir->generation == fs->generation &&
	    (offset || has_all_parts(node, dir)))
		return 0;
	if (offset && !dir_offset_is_merged(offset)) {
		dir->outdated = true;
		return 0;
	}
	return offset && dir->merge ? extend_merge(fs, node, dir)
				    : reopen_parts(fs, node, dir);
}
