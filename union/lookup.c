/* SPDX-License-Identifier: Apache-2.0 */
#include "union/lookup.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "union/dir_fd.h"
#include "union/inode_number.h"

#define LOOKUP_TRIES 16 /* a name replaced that often at once is an attack */

int lookup_inode(int dirfd, const char *name, struct stat *ret_st,
		 struct handle *ret_handle)
{
	struct handle before, after;
	struct stat st;
	int i, r;

	for (i = 0; i < LOOKUP_TRIES; i++) {
		r = handle_get(dirfd, name, &before);
		if (r < 0)
			return r;
		if (fstatat(dirfd, name, &st,
			    AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH) < 0)
			return -errno;
		r = handle_get(dirfd, name, &after);
		if (r < 0)
			return r;
		if (handle_equal(&before, &after)) {
			*ret_st = st;
			*ret_handle = after;
			return 0;
		}
	}
	return -ESTALE;
}

static void fill_entry(struct unionfs *fs, struct node *node,
		       const struct stat *st, struct fuse_entry_param *ret)
{
	memset(ret, 0, sizeof(*ret));
	ret->ino = node->id;
	ret->generation = node->generation;
	ret->attr = *st;
	ret->attr_timeout = unionfs_attr_timeout(fs, node);
	ret->entry_timeout = fs->timeout;
}

static int intern_file(struct unionfs *fs, const struct node_found *found,
		       struct stat *st, struct fuse_entry_param *ret)
{
	struct node *node;
	int r = node_intern(&fs->nodes, st->st_mode & S_IFMT,
			    inode_number(found->branch, st->st_ino), found, 1,
			    &node);

	if (r < 0)
		return r;
	unionfs_fill_stat(node, st);
	fill_entry(fs, node, st, ret);
	return 0;
}

/* Others change the branches, too: only the copies found now are there. */
static void drop_lost_copies(struct unionfs *fs, const struct node *node,
			     const struct node_found *found, unsigned count)
{
	struct copy *copy;
	unsigned i;

	for (copy = node_first(node); copy; copy = copy_next(copy)) {
		for (i = 0; i < count && found[i].branch != copy->branch; i++)
			;
		if (i == count ||
		    !handle_equal(&found[i].handle, &copy->handle))
			node_copy_gone(&fs->nodes, copy->branch, &copy->handle,
				       -1);
	}
}

static int intern_dir(struct unionfs *fs, int dirfd, const char *name,
		      const struct node_found *found, unsigned count,
		      struct stat *st, struct fuse_entry_param *ret)
{
	uint64_t ino;
	struct node *node;
	int r = inode_number_read(dirfd, name, &ino);

	if (r == -ENODATA)
		ino = inode_number(found->branch, st->st_ino);
	else if (r < 0)
		return r;
	r = node_intern(&fs->nodes, S_IFDIR, ino, found, count, &node);
	if (r < 0)
		return r;
	if (fs->shared)
		drop_lost_copies(fs, node, found, count);
	r = unionfs_stat(fs, node, st);
	if (r < 0) {
		node_forget(&fs->nodes, node->id, 1);
		return r;
	}
	fill_entry(fs, node, st, ret);
	return 0;
}

/* The copies of a directory, the first of which is known. */
struct dir_search {
	struct node_found *found;
	unsigned count;
	struct stat st; /* of the first */
};

/* Ask one branch. 1: that is all, a file; 0: go on; or -errno. */
static int search_one(struct unionfs *fs, struct copy *dir, const char *name,
		      struct dir_search *search)
{
	struct node_found *found = &search->found[search->count];
	auto_dir_fd struct dir_fd *fd = NULL;
	struct stat st;
	int r = unionfs_dir_fd(fs, dir, &fd);

	if (r >= 0)
		r = lookup_inode(fd->fd, name, &st, &found->handle);
	if (r == -ENOENT || r == -ESTALE)
		return 0;
	if (r < 0)
		return r;
	if (search->count && !S_ISDIR(st.st_mode))
		return 0; /* hidden by a directory on a lower branch */
	found->branch = dir->branch;
	if (!search->count++)
		search->st = st;
	return !S_ISDIR(st.st_mode);
}

int lookup_entry(struct unionfs *fs, struct node *parent, const char *name,
		 struct copy *first, struct fuse_entry_param *ret)
{
	struct node_found found[BRANCH_MAX];
	struct dir_search search = {.found = found};
	auto_dir_fd struct dir_fd *fd = NULL;
	struct copy *copy;
	int r = 0;

	for (copy = first ? first : node_first(parent); copy && !r;
	     copy = copy_next(copy)) {
		if (search.count == BRANCH_MAX)
			break;
		r = search_one(fs, copy, name, &search);
	}
	if (r < 0)
		return r;
	if (!search.count)
		return -ENOENT;
	if (!S_ISDIR(search.st.st_mode))
		return intern_file(fs, found, &search.st, ret);
	copy = node_copy_on(parent, found[0].branch);
	r = copy ? unionfs_dir_fd(fs, copy, &fd) : -ESTALE;
	if (r < 0)
		return r;
	return intern_dir(fs, fd->fd, name, found, search.count, &search.st,
			  ret);
}

int lookup_made(struct unionfs *fs, unsigned branch, int dirfd,
		const char *name, struct fuse_entry_param *ret)
{
	struct node_found found = {.branch = branch};
	struct stat st;
	int r = lookup_inode(dirfd, name, &st, &found.handle);

	if (r < 0)
		return r;
	if (S_ISDIR(st.st_mode))
		return intern_dir(fs, dirfd, name, &found, 1, &st, ret);
	return intern_file(fs, &found, &st, ret);
}

/* The directory @path ("" for the root) on every branch that has it. */
static int find_everywhere(struct unionfs *fs, const char *path,
			   struct node_found *found)
{
	struct stat st = {0};
	unsigned i;
	int r, n = 0;

	for (i = 0; i < fs->branches.count; i++) {
		r = lookup_inode(fs->branches.items[i]->root_fd, path, &st,
				 &found[n].handle);
		if (r == -ENOENT || r == -ENOTDIR)
			continue;
		if (r < 0)
			return r;
		if (S_ISDIR(st.st_mode))
			found[n++].branch = i;
	}
	return n ? n : -ENOENT;
}

int lookup_dir(struct unionfs *fs, unsigned branch, int fd,
	       struct fuse_entry_param *ret)
{
	struct node_found found[BRANCH_MAX];
	auto_close int first = -1;
	char path[PATH_MAX];
	struct stat st;
	int n, r = branch_path_of(fs->branches.items[branch], fd, path);

	n = r < 0 ? r : find_everywhere(fs, path, found);
	if (n < 0)
		return n;
	first = handle_open(fs->branches.items[found[0].branch]->root_fd,
			    &found[0].handle, O_PATH | O_DIRECTORY);
	if (first < 0)
		return first;
	if (fstat(first, &st) < 0)
		return -errno;
	return intern_dir(fs, first, "", found, (unsigned)n, &st, ret);
}

int lookup_all(struct unionfs *fs, struct node *parent, const char *name,
	       struct hit **ret)
{
	unsigned max = fs->branches.count; /* one may be added meanwhile */
	struct hit *hits = calloc(max, sizeof(*hits));
	struct copy *copy;
	unsigned n = 0;
	int r;

	if (!hits)
		return -ENOMEM;
	for (copy = node_first(parent); copy && n < max;
	     copy = copy_next(copy)) {
		hits[n].dir = copy;
		r = unionfs_dir_fd(fs, copy, &hits[n].fd);
		if (r == 0 && fstatat(hits[n].fd->fd, name, &hits[n].st,
				      AT_SYMLINK_NOFOLLOW) == 0) {
			n++;
			continue;
		}
		if (r == 0)
			r = -errno;
		dir_fd_put(hits[n].fd);
		hits[n].fd = NULL;
		if (r != -ENOENT && r != -ESTALE) {
			lookup_hits_done(hits, (int)n);
			return r;
		}
	}
	if (!n)
		free(hits);
	else
		*ret = hits;
	return (int)n;
}

void lookup_hits_done(struct hit *hits, int count)
{
	int i;

	for (i = 0; i < count; i++)
		dir_fd_put(hits[i].fd);
	free(hits);
}
