/* SPDX-License-Identifier: Apache-2.0 */
#include "union/view/lookup.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "union/branch/branch_health.h"
#include "union/branch/branch_path.h"
#include "union/branch/dir_fd.h"
#include "union/branch/ino_preserve.h"
#include "union/branch/submount.h"
#include "union/state/reply_cache.h"
#include "union/sys/inode_number.h"
#include "union/view/lookup_policy.h"
#include "union/view/name_filter.h"

#define LOOKUP_TRIES   16 /* a name replaced that often at once is an attack */
#define LOOKUP_SLACK_S 2  /* by which times of files may differ from ours */

/*
 * Is @st of the inode of @handle? @st was asked for after @handle, and that
 * after @since_s. An inode with that number that has not changed since was
 * there then. False: not sure.
 */
static bool is_surely_of(const struct handle *handle, const struct stat *st,
			 int64_t since_s)
{
	uint64_t ino;

	return handle_ino(handle, &ino) && ino == st->st_ino &&
	       st->st_ctim.tv_sec < since_s - LOOKUP_SLACK_S;
}

int lookup_inode(const struct branch *branch, int dirfd, const char *name,
		 struct stat *ret_st, struct handle *ret_handle)
{
	struct handle before, after;
	struct stat st;
	int64_t since_s;
	int i, r;

	for (i = 0; i < LOOKUP_TRIES; i++) {
		since_s = *name ? clock_wall_s() : 0;
		r = submount_handle_get(branch, dirfd, name, &before);
		if (r < 0)
			return r == -EXDEV ? -ENOENT : r;
		if (fstatat(dirfd, name, &st,
			    AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH) < 0)
			return -errno;
		if (*name && !is_surely_of(&before, &st, since_s)) {
			r = handle_get(dirfd, name, &after);
			if (r < 0)
				return r;
			if (!handle_equal(&before, &after))
				continue;
		}
		*ret_st = st;
		*ret_handle = before;
		return 0;
	}
	return -ESTALE;
}

static void fill_entry(struct unionfs *fs, struct request *request,
		       struct node *node, const struct stat *st,
		       double attr_timeout, struct fuse_entry_param *ret)
{
	reply_cache_gains_node(request, node->id);
	memset(ret, 0, sizeof(*ret));
	ret->ino = node->id;
	ret->generation = lookup_generation(node);
	ret->attr = *st;
	ret->attr_timeout = attr_timeout;
	ret->entry_timeout = fs->timeout;
}

static int intern_file(struct unionfs *fs, struct request *request, int dirfd,
		       const char *name, const struct node_found *found,
		       struct stat *st, struct fuse_entry_param *ret)
{
	struct node *node;
	uint64_t ino;
	struct branch *branch = fs->branches.items[found->branch];
	int r = branch_report(branch, ino_preserve_read(branch, dirfd, name,
							st->st_ino, &ino));

	if (r == 0)
		r = node_intern(&fs->nodes, st->st_mode & S_IFMT, ino, found, 1,
				&node);
	if (r)
		return r;
	unionfs_found_at(fs, node, branch, dirfd, name);
	unionfs_fill_stat(fs, node, st);
	fill_entry(fs, request, node, st,
		   *name ? unionfs_attr_timeout(fs, request, node) : 0, ret);
	return 0;
}

/* Others change the branches, too: only the copies found now are there. */
static void drop_lost_copies(struct unionfs *fs, const struct node *node,
			     const struct node_found *found, unsigned count)
{
	struct handle lost;
	struct copy *copy;
	unsigned i;

	for (copy = node_first(node); copy; copy = copy_next(copy)) {
		for (i = 0; i < count && found[i].branch != copy->branch; i++)
			;
		if (i < count && copy_has(copy, &found[i].handle))
			continue;
		lost = copy_handle(copy);
		node_copy_gone(&fs->nodes, copy->branch, &lost, NULL);
	}
}

static int intern_dir(struct unionfs *fs, struct request *request, int dirfd,
		      const char *name, const struct node_found *found,
		      unsigned count, bool doubted, struct stat *st,
		      struct fuse_entry_param *ret)
{
	struct branch *branch = fs->branches.items[found->branch];
	uint64_t ino;
	struct node *node;
	double timeout;
	int r = branch_report(branch, inode_number_read(dirfd, name, &ino));

	if (r == -ENODATA)
		ino = branch_number(branch, st->st_ino);
	else if (r < 0)
		return r;
	r = node_intern_doubted(&fs->nodes, S_IFDIR, ino, found, count, doubted,
				&node);
	if (r < 0)
		return r;
	if (fs->shared)
		drop_lost_copies(fs, node, found, count);
	unionfs_found_at(fs, node, branch, dirfd, name);
	r = unionfs_attr(fs, request, node, st, &timeout);
	if (r < 0) {
		node_forget(&fs->nodes, node->id, 1);
		return r;
	}
	fill_entry(fs, request, node, st, timeout, ret);
	return 0;
}

/* The copies of a directory, the first of which is known. */
struct dir_search {
	struct node_found *found;
	unsigned count;
	bool damaged;   /* a copy of the directory, or a name in it */
	struct stat st; /* of the first */
};

/* Ask one branch. 1: found a file, which ends it; 0: go on; or -errno. */
static int search_one(struct unionfs *fs, struct copy *dir, const char *name,
		      struct dir_search *search)
{
	struct node_found *found = &search->found[search->count];
	auto_dir_fd struct dir_fd *fd = NULL;
	struct stat st;
	int r = unionfs_dir_fd(fs, dir, &fd);

	if (r >= 0)
		r = branch_report(branch_of(fs, dir),
				  lookup_inode(branch_of(fs, dir), fd->fd, name,
					       &st, &found->handle));
	if (r == -ENOENT || r == -ESTALE || !branch_usable(dir->branch))
		return 0;
	if (branch_is_failure(r)) {
		search->damaged = true;
		return 0;
	}
	if (r < 0)
		return r;
	name_filter_confirm(copy_node(dir), name, dir->branch);
	if (search->count && !S_ISDIR(st.st_mode))
		return 0; /* hidden by a directory on a lower branch */
	found->branch = dir->branch;
	if (!search->count++)
		search->st = st;
	return !S_ISDIR(st.st_mode);
}

/* Count the first @count branches that are in @set. */
static unsigned count_in(const uint64_t *set, unsigned count)
{
	unsigned i, n = 0;

	for (i = 0; i < count / 64; i++)
		n += (unsigned)__builtin_popcountll(set[i]);
	if (count % 64)
		n += (unsigned)__builtin_popcountll(
			set[i] & ((UINT64_C(1) << count % 64) - 1));
	return n;
}

/*
 * Get the branches that may have @name: see name_filter_where(). Returns how
 * many.
 */
static unsigned ask_names(const struct unionfs *fs, const struct node *parent,
			  const char *name, uint64_t where[BRANCH_MAX / 64])
{
	unsigned count = fs->branches.count;

	name_filter_where(parent, count, name, where);
	return count_in(where, count);
}

/* Another device: a mount is there, or a subvolume. */
static int hit_stat(struct branch *branch, struct hit *hit, const char *name)
{
	if (fstatat(hit->fd->fd, name, &hit->st, AT_SYMLINK_NOFOLLOW) < 0)
		return branch_report(branch, -errno);
	return (hit->st.st_dev != branch->device ||
		hit->st.st_ino == SUBMOUNT_PLACEHOLDER) &&
			       submount_is_on(hit->fd->fd, name)
		       ? -ENOENT
		       : 0;
}

/* Gather the hits, the lowest first; see lookup_all(). */
static int gather(struct unionfs *fs, const struct node *parent,
		  const char *name, struct hit **ret)
{
	uint64_t where[BRANCH_MAX / 64];
	struct hit *hits;
	struct copy *copy;
	unsigned left, n = 0;
	int r;

	left = ask_names(fs, parent, name, where);
	hits = calloc(left + 1, sizeof(*hits)); /* none is no failure */
	if (!hits)
		return -ENOMEM;
	for (copy = node_first(parent); copy && left; copy = copy_next(copy)) {
		if (!name_filter_is_in(where, copy->branch))
			continue;
		left--;
		hits[n].dir = copy;
		r = unionfs_dir_fd(fs, copy, &hits[n].fd);
		if (r == 0)
			r = hit_stat(branch_of(fs, copy), &hits[n], name);
		if (r == 0) {
			n++;
			continue;
		}
		dir_fd_put(hits[n].fd);
		hits[n].fd = NULL;
		if (r < 0 && r != -ENOENT && r != -ESTALE &&
		    branch_usable(copy->branch)) {
			lookup_hits_done(hits, (int)n);
			return r;
		}
	}
	if (n) {
		*ret = hits;
		return (int)n;
	}
	free(hits);
	return 0;
}

/* Ask the branches in their order, until one has a file. */
static int search_lowest(struct unionfs *fs, struct node *parent,
			 const char *name, struct copy *first,
			 struct dir_search *search)
{
	uint64_t where[BRANCH_MAX / 64];
	unsigned left = ask_names(fs, parent, name, where);
	struct copy *copy;
	int r = 0;

	for (copy = first ? first : node_first(parent); copy && left && !r;
	     copy = copy_next(copy)) {
		if (search->count == BRANCH_MAX)
			break;
		if (!name_filter_is_in(where, copy->branch))
			continue;
		left--;
		r = search_one(fs, copy, name, search);
	}
	return r;
}

/* Ask all, and then a policy which of several files it is. */
static int search_by_policy(struct unionfs *fs, struct node *parent,
			    const char *name, struct dir_search *search)
{
	struct hit *hits;
	int i, r = 0, n = gather(fs, parent, name, &hits);

	if (n <= 0)
		return n;
	lookup_policy_order(fs, hits, n, NULL);
	for (i = 0; i < n && !r; i++)
		r = search_one(fs, hits[i].dir, name, search);
	lookup_hits_done(hits, n);
	return r;
}

int lookup_entry(struct unionfs *fs, struct request *request,
		 struct node *parent, const char *name, struct copy *first,
		 struct fuse_entry_param *ret)
{
	struct node_found found[BRANCH_MAX];
	struct dir_search search = {.found = found};
	auto_dir_fd struct dir_fd *fd = NULL;
	struct copy *copy;
	bool doubt;
	int r;

	r = lookup_policy_is_lowest(fs)
		    ? search_lowest(fs, parent, name, first, &search)
		    : search_by_policy(fs, parent, name, &search);
	if (r < 0)
		return r;
	/*
	 * Look again after all were asked: a branch may have failed meanwhile.
	 */
	doubt = unionfs_may_have(parent, name);
	if (!search.count)
		return doubt || search.damaged ? -EIO : -ENOENT;
	/* Else the copy on the damaged branch would not be known. */
	if (search.damaged && S_ISDIR(search.st.st_mode))
		return -EIO;
	copy = node_copy_on(parent, found[0].branch);
	r = copy ? unionfs_dir_fd(fs, copy, &fd) : -ESTALE;
	if (r < 0)
		return r;
	if (!S_ISDIR(search.st.st_mode))
		return intern_file(fs, request, fd->fd, name, found, &search.st,
				   ret);
	return intern_dir(fs, request, fd->fd, name, found, search.count, doubt,
			  &search.st, ret);
}

int lookup_made(struct unionfs *fs, struct request *request, unsigned branch,
		int dirfd, const char *name, struct fuse_entry_param *ret)
{
	struct node_found found = {.branch = branch};
	struct stat st;
	int r = lookup_inode(fs->branches.items[branch], dirfd, name, &st,
			     &found.handle);

	if (r < 0)
		return r;
	if (S_ISDIR(st.st_mode))
		return intern_dir(fs, request, dirfd, name, &found, 1, false,
				  &st, ret);
	return intern_file(fs, request, dirfd, name, &found, &st, ret);
}

/*
 * The directory @path ("" for the root) of a branch. A symbolic link does not
 * count: a directory of another branch hides it.
 */
static int open_dir_on(const struct branch *branch, const char *path)
{
	struct open_how how = {
		.flags = O_PATH | O_DIRECTORY | O_CLOEXEC,
		.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS |
			   RESOLVE_NO_XDEV,
	};
	long fd = syscall(SYS_openat2, branch->root_fd, *path ? path : ".",
			  &how, sizeof(how));

	if (fd >= 0)
		return (int)fd;
	return errno == ELOOP || errno == ENOTDIR || errno == EXDEV ? -ENOENT
								    : -errno;
}

static int find_on(const struct branch *branch, const char *path,
		   struct handle *ret)
{
	auto_close int fd = open_dir_on(branch, path);
	struct stat st;

	return fd < 0 ? fd : lookup_inode(branch, fd, "", &st, ret);
}

/* Find the directory @path ("" for the root) on every branch with it. */
static int find_everywhere(struct unionfs *fs, const char *path,
			   struct node_found *found)
{
	unsigned i;
	int r, n = 0;

	for (i = 0; i < fs->branches.count; i++) {
		if (!branch_usable(i) ||
		    fs->branches.items[i]->flags & BRANCH_GONE)
			continue;
		r = branch_report(
			fs->branches.items[i],
			find_on(fs->branches.items[i], path, &found[n].handle));
		if (r == -ENOENT || !branch_usable(i))
			continue;
		if (r < 0)
			return r;
		found[n++].branch = i;
	}
	if (n)
		return n;
	return branch_any_doubted() ? -EIO : -ENOENT;
}

/*
 * Is the directory @fd still at @path? Then it was there all the time. Copies
 * found there meanwhile are its own, not of a directory made in its place.
 */
static bool is_still_at(const struct branch *branch, int fd, const char *path)
{
	char now[PATH_MAX];

	return branch_path_of(branch, fd, now) == 0 && strcmp(now, path) == 0;
}

int lookup_dir(struct unionfs *fs, struct request *request, unsigned branch,
	       int fd, struct fuse_entry_param *ret)
{
	struct node_found found[BRANCH_MAX];
	auto_close int first = -1;
	char path[PATH_MAX];
	struct stat st;
	int n, r = branch_path_of(fs->branches.items[branch], fd, path);

	n = r < 0 ? r : find_everywhere(fs, path, found);
	if (n < 0)
		return n;
	if (!is_still_at(fs->branches.items[branch], fd, path))
		return -ENOENT;
	first = handle_open(fs->branches.items[found[0].branch]->root_fd,
			    &found[0].handle, O_PATH | O_DIRECTORY);
	if (first < 0)
		return first;
	if (fstat(first, &st) < 0)
		return -errno;
	return intern_dir(fs, request, first, "", found, (unsigned)n, false,
			  &st, ret);
}

int lookup_all(struct unionfs *fs, const struct node *parent, const char *name,
	       struct hit **ret)
{
	int n = gather(fs, parent, name, ret);

	if (n > 1)
		lookup_policy_order(fs, *ret, n, name);
	return n;
}

int lookup_needed(struct unionfs *fs, const struct node *parent,
		  const char *name, struct hit **ret)
{
	int n = lookup_all(fs, parent, name, ret);

	if (n)
		return n;
	return unionfs_may_have(parent, name) ? -EIO : -ENOENT;
}

void lookup_hits_done(struct hit *hits, int count)
{
	int i;

	for (i = 0; i < count; i++)
		dir_fd_put(hits[i].fd);
	free(hits);
}
