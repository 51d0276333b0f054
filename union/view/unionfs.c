/* SPDX-License-Identifier: Apache-2.0 */
#include "union/view/unionfs.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "union/branch/branch_health.h"
#include "union/branch/branch_path.h"
#include "union/node/names_change.h"
#include "union/state/state.h"
#include "union/sys/empty_dir.h"
#include "union/sys/inode_number.h"
#include "union/view/name_filter.h"
#include "union/view/preserve_mtime.h"
#include "union/view/subdirs.h"
#include "union/view/unseen.h"

void unionfs_fill_stat(struct unionfs *fs, const struct node *node,
		       struct stat *st)
{
	const struct copy *copy = node_first(node);

	/* A move of the file is no change of it. */
	if (copy && node_moves(node))
		st->st_ctim = preserve_ctime_shown(&fs->nodes, copy, st);
	st->st_ino = unionfs_number(fs, node);
}

uint64_t unionfs_number(const struct unionfs *fs, const struct node *node)
{
	uint64_t shown = fs->numbers.calc == INODE_CALC_PATH
				 ? atomic_load(
					   &fs->nodes.state->shown[node->id])
				 : 0;

	return shown ? shown : inode_shown(&fs->numbers, node->ino);
}

static bool is_itself(const char *name)
{
	return !*name || name_is_dot(name);
}

/* Get the path of @name in @fd, below @branch; @ret: PATH_MAX bytes. */
static int path_of(const struct branch *branch, int fd, const char *name,
		   char *ret)
{
	auto_close int own = -1;
	size_t length;
	int r;

	if (*name && is_itself(name)) {
		own = openat(fd, name, O_PATH | O_DIRECTORY | O_CLOEXEC);
		fd = own;
	}
	r = fd < 0 ? -errno : branch_path_of(branch, fd, ret);
	if (r < 0 || is_itself(name))
		return r;
	length = strlen(ret);
	return snprintf(ret + length, PATH_MAX - length, "%s%s",
			length ? "/" : "", name) < (int)(PATH_MAX - length)
		       ? 0
		       : -ENAMETOOLONG;
}

uint64_t unionfs_number_at(const struct unionfs *fs,
			   const struct branch *branch, int fd,
			   const char *name, uint64_t number)
{
	char path[PATH_MAX];

	return fs->numbers.calc == INODE_CALC_PATH &&
			       path_of(branch, fd, name, path) == 0
		       ? inode_shown_path(&fs->numbers, path)
		       : inode_shown(&fs->numbers, number);
}

void unionfs_number_by_path(const struct unionfs *fs, const struct node *node,
			    const struct branch *branch, int fd,
			    const char *name)
{
	char path[PATH_MAX];
	uint64_t number = 0; /* the old number may be of another node */

	if (path_of(branch, fd, name, path) == 0)
		number = inode_shown_path(&fs->numbers, path);
	atomic_store(&fs->nodes.state->shown[node->id], number);
}

double unionfs_attr_timeout(struct unionfs *fs, const struct request *request,
			    struct node *node)
{
	return S_ISREG(node->type) && unseen_may_change(fs, request, node)
		       ? 0
		       : fs->timeout;
}

static bool later(const struct timespec *a, const struct timespec *b)
{
	return a->tv_sec != b->tv_sec ? a->tv_sec > b->tv_sec
				      : a->tv_nsec > b->tv_nsec;
}

static void merge_times(struct stat *into, const struct stat *one)
{
	if (later(&one->st_mtim, &into->st_mtim))
		into->st_mtim = one->st_mtim;
	if (later(&one->st_ctim, &into->st_ctim))
		into->st_ctim = one->st_ctim;
	if (later(&one->st_atim, &into->st_atim))
		into->st_atim = one->st_atim;
}

static void merge_size(struct stat *into, const struct stat *one)
{
	if (one->st_size > into->st_size)
		into->st_size = one->st_size;
	into->st_blocks += one->st_blocks;
}

/* Get the stat of a removed inode. */
static int stat_buried(const struct node *node, struct stat *ret)
{
	int fd = atomic_load(&node->orphan_fd);

	if (fd < 0)
		return -ESTALE;
	if (fstat(fd, ret) < 0)
		return -errno;
	ret->st_nlink = 0;
	return 0;
}

static int stat_dir(struct unionfs *fs, struct node *node, struct stat *ret)
{
	struct copy *copy;
	struct stat one, sum;
	unsigned count = 0, with_subdirs = 0;
	bool writable = false; /* the first one is */
	nlink_t links = 0;
	int r;

	for (copy = node_first(node); copy; copy = copy_next(copy)) {
		r = preserve_mtime_stat(fs, copy, &one);
		if (r == -ESTALE || !branch_usable(copy->branch))
			continue;
		if (r)
			return r;
		if (!count++) {
			sum = one;
			writable = unionfs_writable(fs, copy) == 0;
		} else {
			merge_size(&sum, &one);
			/* Else times that are set would not be shown. */
			if (!writable || unionfs_writable(fs, copy) == 0)
				merge_times(&sum, &one);
		}
		with_subdirs += one.st_nlink != 2;
		if (one.st_nlink > links)
			links = one.st_nlink;
	}
	if (!count)
		return node_is_failed(node) ? -EIO : stat_buried(node, ret);
	/* The root may have the work directory, which is not to be seen. */
	if (with_subdirs > 1 || node->id == NODE_ROOT_ID)
		links = subdirs_links(fs, node);
	sum.st_nlink = links;
	*ret = sum;
	return 0;
}

/* Get the stat of a file, which is no directory, open as @fd. */
static int stat_open(struct unionfs *fs, const struct node *node, int fd,
		     struct stat *ret)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return branch_report(branch_of(fs, node_first(node)), -errno);
	unionfs_fill_stat(fs, node, &st);
	*ret = st;
	return 0;
}

int unionfs_stat(struct unionfs *fs, struct node *node, struct stat *ret)
{
	auto_close int fd = -1;
	struct stat st;
	int r;

	if (!S_ISDIR(node->type)) {
		fd = unionfs_open(fs, node, O_PATH | O_NOFOLLOW);
		return fd < 0 ? fd : stat_open(fs, node, fd, ret);
	}
	r = stat_dir(fs, node, &st);
	if (r < 0)
		return r;
	st.st_ino = unionfs_number(fs, node);
	*ret = st;
	return 0;
}

int unionfs_attr(struct unionfs *fs, const struct request *request,
		 struct node *node, struct stat *ret, double *ret_timeout)
{
	return unionfs_attr_open(fs, request, node, -1, ret, ret_timeout);
}

int unionfs_attr_open(struct unionfs *fs, const struct request *request,
		      struct node *node, int fd, struct stat *ret,
		      double *ret_timeout)
{
	uint64_t mark = names_change_mark(node),
		 subdirs = subdirs_mark(fs, node);
	/* Before the stat: a writer that comes between is not missed. */
	double timeout = unionfs_attr_timeout(fs, request, node);
	int r = fd < 0 ? unionfs_stat(fs, node, ret)
		       : stat_open(fs, node, fd, ret);

	if (r == 0)
		*ret_timeout = names_change_is_still(node, mark) &&
					       subdirs_mark(fs, node) == subdirs
				       ? timeout
				       : 0;
	return r;
}

int unionfs_writable(const struct unionfs *fs, const struct copy *copy)
{
	const struct branch *branch = branch_of(fs, copy);

	if (!branch_usable(branch->id))
		return -EIO;
	return branch->flags & BRANCH_RO || atomic_load(&branch->turned_ro)
		       ? -EROFS
		       : 0;
}

int unionfs_changeable(const struct node *node)
{
	return node_failed_copy(node, NULL) || node_in_doubt(node) ? -EIO : 0;
}

bool unionfs_may_have(const struct node *parent, const char *name)
{
	const struct copy *copy = NULL;

	if (!branch_any_doubted())
		return false;
	if (node_in_doubt(parent))
		return true;
	while ((copy = node_failed_copy(parent, copy)))
		if (!name || name_filter_may_have(parent, name, copy->branch))
			return true;
	return false;
}

bool unionfs_hides(const char *name)
{
	return strcmp(name, BRANCH_WORK_DIR) == 0 ||
	       strcmp(name, BRANCH_CONTROL_FILE) == 0;
}
