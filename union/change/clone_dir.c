/* SPDX-License-Identifier: Apache-2.0 */
#include "union/change/clone_dir.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#include "base/cleanup.h"
#include "union/branch/branch_health.h"
#include "union/branch/branch_path.h"
#include "union/branch/branch_work.h"
#include "union/branch/dir_fd.h"
#include "union/branch/folding.h"
#include "union/branch/ino_preserve.h"
#include "union/branch/submount.h"
#include "union/change/hidden_files.h"
#include "union/node/dir_attr_lock.h"
#include "union/state/thread_branches.h"
#include "union/sys/attrs.h"
#include "union/sys/inode_number.h"
#include "union/sys/proc_path.h"
#include "union/view/name_filter.h"
#include "union/view/preserve_mtime.h"

#define TEMPORARY_MAX (sizeof(BRANCH_WORK_CLONE) + 20)
#define OPEN_STEP     (O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)

static _Atomic uint64_t clone_serial;

/* The directory that has the copy @known on @branch, as it is shown. */
struct source {
	unsigned branch;
	struct handle known;
	int fd;             /* its first copy, O_PATH */
	struct dir_fd *dir; /* holds it, or NULL */
	uint64_t number;    /* st_ino */
	struct stat st;
};

static int source_of_node(struct unionfs *fs, struct node *node,
			  struct source *ret)
{
	struct copy *copy = node_first(node);
	int r = copy ? unionfs_dir_fd(fs, copy, &ret->dir) : -ESTALE;

	if (r < 0)
		return r;
	ret->fd = ret->dir->fd;
	ret->number = node->ino;
	return preserve_mtime_stat(fs, copy, &ret->st);
}

/* Find the source; @fd: that copy. */
static int source_find(struct unionfs *fs, unsigned branch, int fd,
		       const struct handle *known, struct source *ret)
{
	struct node *node = node_hold(&fs->nodes, branch, known);
	int r;

	ret->branch = branch;
	ret->known = *known;
	if (node) {
		r = source_of_node(fs, node, ret);
		node_let_go(&fs->nodes, node);
		return r;
	}
	/* The kernel forgot the directory: the copy at hand will do. */
	ret->fd = fd;
	if (fstat(fd, &ret->st) < 0)
		return -errno;
	if (!ret->st.st_nlink)
		return -ENOENT; /* or it would be there again */
	r = inode_number_read(fd, "", &ret->number);
	if (r == -ENODATA)
		ret->number = branch_number(fs->branches.items[branch],
					    ret->st.st_ino);
	return r == -ENODATA ? 0 : r;
}

static void source_done(struct source *source)
{
	dir_fd_put(source->dir);
}

/* Give the empty directory @to all that @from has but its entries. */
static int copy_attributes(const struct source *from, int to)
{
	int r = attrs_copy(from->fd, &from->st, to);

	if (r == 0)
		r = inode_number_write(to, from->number);
	if (r < 0)
		return r;
	if (futimens(to, (struct timespec[]){from->st.st_atim,
					     from->st.st_mtim}) < 0)
		return -errno;
	return 0;
}

/*
 * Take the turn of the directory @fd of @branch. False: the turn is not needed,
 * as the kernel does not know the directory, so nobody changes it.
 */
static bool take_turn(struct unionfs *fs, const struct branch *branch, int fd,
		      struct dir_attr_lock *turn)
{
	struct handle handle;
	struct node *node = NULL;

	if (handle_get(fd, "", &handle) == 0)
		node = node_hold(&fs->nodes, branch->id, &handle);
	if (!node)
		return false;
	dir_attr_lock_take(turn, node->id);
	return true; /* held until then, so that no other has its id */
}

static void give_turn(struct unionfs *fs, struct dir_attr_lock *turn)
{
	struct node *node = node_get(&fs->nodes, turn->id);

	dir_attr_lock_give(turn);
	node_let_go(&fs->nodes, node);
}

/*
 * Show the finished @temporary as @name, without the kernel's lock of the
 * parent @node (NULL: not known): that may be read just now.
 */
static int show(struct unionfs *fs, const struct branch *to, int work,
		const char *temporary, const struct node *node, int parent,
		const char *name)
{
	int r = 0;

	if (node)
		name_filter_make_begin(fs, node, name, to->id);
	if (renameat2(work, temporary, parent, name, RENAME_NOREPLACE) < 0)
		r = -errno;
	if (node)
		name_filter_make_end(fs, node, name, to->id, r == 0);
	return r;
}

/* Rename it into place; its parent's times stay. */
static int put_in_place(struct unionfs *fs, const struct branch *to, int work,
			const char *temporary, int parent, const char *name)
{
	struct preserve_mtime quietly;
	struct node *node;
	int r = preserve_mtime_begin(fs, to->id, parent, &quietly);

	if (r < 0)
		return r;
	node = node_hold(&fs->nodes, to->id, &quietly.handle);
	r = show(fs, to, work, temporary, node, parent, name);
	if (node)
		node_let_go(&fs->nodes, node);
	preserve_mtime_end(fs, parent, &quietly);
	return r;
}

/* Make a temporary directory, beside any of a killed server. 0 or -errno. */
static int make_temporary(int work, char ret[TEMPORARY_MAX])
{
	do {
		(void)snprintf(ret, TEMPORARY_MAX, BRANCH_WORK_CLONE "%llu",
			       (unsigned long long)clone_serial++); /* fits */
		if (mkdirat(work, ret, 0700) == 0)
			return 0;
	} while (errno == EEXIST);
	return -errno;
}

/* Note that the directory is about to have the copy @fd on @to. */
static int begin_copy(struct unionfs *fs, const struct source *from,
		      const struct branch *to, int fd, struct handle *ret)
{
	struct node *node = node_hold(&fs->nodes, from->branch, &from->known);
	int r = handle_get(fd, "", ret);

	if (r == 0)
		r = node_begin_copy(&fs->nodes, from->branch, &from->known,
				    to->id, ret);
	if (!node)
		return r;
	/* The copy is empty, before anybody can make a file in it. */
	if (r == 0)
		name_filter_begin(fs, node, to->id);
	node_let_go(&fs->nodes, node);
	return r;
}

/* Note that the copy is there, and that the directory did not change. */
static int end_copy(struct unionfs *fs, const struct source *from,
		    const struct branch *to, int fd,
		    const struct handle *handle)
{
	struct quiet_change change = {.shown = from->st.st_ctim};
	struct stat st;

	if (fstat(fd, &st) == 0) {
		change.after = st.st_ctim;
		change.modified = st.st_mtim;
		preserve_ctime_change(&fs->nodes, to->id, handle, &change);
	}
	return node_add_copy(&fs->nodes, from->branch, &from->known, to->id,
			     handle);
}

static int make_clone(struct unionfs *fs, const struct source *from,
		      const struct branch *to, int parent, const char *name)
{
	auto_close int work = branch_work_dir(to), fd = -1;
	char temporary[TEMPORARY_MAX];
	struct handle handle;
	int r = work < 0 ? work : make_temporary(work, temporary);

	if (r < 0)
		return r;
	fd = openat(work, temporary,
		    O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	r = fd < 0 ? -errno : copy_attributes(from, fd);
	if (r == 0)
		r = begin_copy(fs, from, to, fd, &handle);
	if (r == 0) {
		r = put_in_place(fs, to, work, temporary, parent, name);
		if (r < 0)
			node_copy_gone(&fs->nodes, to->id, &handle, NULL);
	}
	if (r < 0)
		(void)unlinkat(work, temporary, AT_REMOVEDIR); /* sweep will */
	else
		r = end_copy(fs, from, to, fd, &handle);
	return r;
}

/* Make the directory @name of @parent on @to, where it was not. */
static int make_copy(struct unionfs *fs, const struct source *from,
		     const struct branch *to, int parent, const char *name)
{
	struct dir_attr_lock turn;
	bool taken = take_turn(fs, to, parent, &turn);
	struct stat st;
	int fd, r = 0;

	if (fstatat(parent, name, &st, AT_SYMLINK_NOFOLLOW) == 0)
		r = hidden_files_put_preserving(fs, to, parent, name);
	else if (errno != ENOENT)
		r = -errno;
	if (r == 0)
		r = make_clone(fs, from, to, parent, name);
	if (taken)
		give_turn(fs, &turn);
	if (r < 0)
		return r;
	atomic_fetch_add(&fs->stats->cloned_directories, 1);
	fd = openat(parent, name, OPEN_STEP);
	return fd < 0 ? -errno : fd;
}

/*
 * Make @name in @parent on @to as the directory @known on @from, and note it
 * before anybody changes that. A descriptor, or -errno.
 */
static int make_as(struct unionfs *fs, const struct branch *from, int from_fd,
		   const struct handle *known, const struct branch *to,
		   int parent, const char *name)
{
	struct dir_attr_lock turn;
	bool taken = take_turn(fs, from, from_fd, &turn);
	struct source source = {.fd = -1};
	int r = source_find(fs, from->id, from_fd, known, &source);

	if (r == 0)
		r = make_copy(fs, &source, to, parent, name);
	if (taken)
		give_turn(fs, &turn);
	source_done(&source);
	return r;
}

/* Adopt a directory that was there as a copy of the same directory. */
static int adopt_dir(struct unionfs *fs, const struct branch *from,
		     const struct handle *known, const struct branch *to,
		     int fd)
{
	struct handle handle;
	int r = handle_get(fd, "", &handle);

	return r < 0 ? r
		     : node_add_copy(&fs->nodes, from->id, known, to->id,
				     &handle);
}

/* Do a step of both walks: into @name, made on @to when it is missing. */
static int step(struct unionfs *fs, const struct branch *from, int *from_fd,
		const struct branch *to, int *to_fd, const char *name)
{
	auto_close int from_next = submount_open_none(*from_fd, name,
						      OPEN_STEP);
	auto_close int to_next = submount_open_none(*to_fd, name, OPEN_STEP);
	int missing = to_next < 0 ? -to_next : 0;
	struct handle known;
	int r = from_next < 0 ? from_next : handle_get(from_next, "", &known);

	if (r == 0 && folding_check_dir(to, *to_fd) < 0)
		return -EOPNOTSUPP;
	if (r == -EXDEV || missing == EXDEV)
		r = -EBUSY; /* something is mounted there */
	else if (r == 0 && missing && missing != ENOENT && missing != ENOTDIR)
		r = -missing;
	else if (r == 0 && missing)
		r = to_next = make_as(fs, from, from_next, &known, to, *to_fd,
				      name);
	else if (r == 0)
		r = adopt_dir(fs, from, &known, to, to_next);
	if (r < 0)
		return r;
	fd_close(*from_fd);
	fd_close(*to_fd);
	*from_fd = take_fd(&from_next);
	*to_fd = take_fd(&to_next);
	return 0;
}

static int clone_path(struct unionfs *fs, const struct branch *from,
		      const struct branch *to, char *path)
{
	auto_close int from_fd = openat(from->root_fd, ".", OPEN_STEP);
	auto_close int to_fd = openat(to->root_fd, ".", OPEN_STEP);
	char *name, *rest = path;
	int r = from_fd < 0 || to_fd < 0 ? -errno : 0;

	/* A root is on every branch, so the path is not empty. */
	while (r == 0 && (name = strsep(&rest, "/")))
		r = step(fs, from, &from_fd, to, &to_fd, name);
	return r;
}

/* Drop attributes that the first copy does not have, but the union's own. */
static void drop_xattrs(int from_fd, int to_fd)
{
	char from[PROC_PATH_MAX], to[PROC_PATH_MAX];
	char names[XATTR_LIST_MAX];
	ssize_t at, size;

	proc_path(from, from_fd, "");
	proc_path(to, to_fd, "");
	size = listxattr(to, names, sizeof(names));
	for (at = 0; at < size; at += (ssize_t)strlen(names + at) + 1)
		if (strcmp(names + at, INODE_NUMBER_XATTR) != 0 &&
		    getxattr(from, names + at, NULL, 0) < 0 && errno == ENODATA)
			(void)removexattr(to, names + at); /* is gone anyway */
}

/*
 * Give a copy the owner, mode and default ACL of the one that is shown. A copy
 * from before the union may have others, and a new file must be as if made in
 * the shown one. Once for each copy, before a file is made in it.
 */
static int align(struct unionfs *fs, struct node *node, struct copy *copy)
{
	auto_dir_fd struct dir_fd *dir = NULL;
	struct source source = {.fd = -1};
	struct preserve_mtime quietly;
	struct dir_attr_lock turn;
	int r = unionfs_dir_fd(fs, copy, &dir);

	dir_attr_lock_take(&turn, node->id);
	if (r == 0)
		r = source_of_node(fs, node, &source);
	if (r == 0)
		r = preserve_mtime_begin(fs, copy->branch, dir->fd, &quietly);
	if (r == 0) {
		drop_xattrs(source.fd, dir->fd);
		r = attrs_copy(source.fd, &source.st, dir->fd);
		preserve_mtime_end(fs, dir->fd, &quietly);
	}
	/* A copy on a failed branch may be the first, which counts. */
	if (r == 0)
		copy_set(copy, COPY_ALIGNED, unionfs_changeable(node) == 0);
	dir_attr_lock_give(&turn);
	source_done(&source);
	return r;
}

static int use_copy(struct unionfs *fs, struct node *node, struct copy *copy,
		    struct dir_fd **ret)
{
	int r = 0;

	if (!copy_is(copy, COPY_ALIGNED)) {
		pthread_mutex_lock(&branch_of(fs, copy)->clone_lock);
		if (copy == node_first(node))
			copy_set(copy, COPY_ALIGNED,
				 unionfs_changeable(node) == 0);
		else if (!copy_is(copy, COPY_ALIGNED) &&
			 unionfs_writable(fs, copy) == 0)
			r = align(fs, node, copy);
		pthread_mutex_unlock(&branch_of(fs, copy)->clone_lock);
	}
	return r < 0 ? r : unionfs_dir_fd(fs, copy, ret);
}

/* Was the copy removed by others, which may change the branches, too? */
static bool was_removed(struct unionfs *fs, struct copy *copy)
{
	auto_dir_fd struct dir_fd *dir = NULL;
	struct handle handle;
	struct stat st;
	int r = unionfs_dir_fd(fs, copy, &dir);

	if (r != -ESTALE &&
	    (r < 0 || fstat(dir->fd, &st) < 0 || st.st_nlink > 0))
		return false;
	handle = copy_handle(copy);
	node_copy_gone(&fs->nodes, copy->branch, &handle, NULL);
	return true;
}

int clone_dir_locked(struct unionfs *fs, struct node *node, unsigned branch,
		     struct dir_fd **ret)
{
	struct copy *copy = node_copy_on(node, branch);
	auto_dir_fd struct dir_fd *dir = NULL;
	struct branch *from, *to;
	char path[PATH_MAX];
	int r;

	if (copy && !(fs->shared && was_removed(fs, copy)))
		return use_copy(fs, node, copy, ret);
	if (!branch_usable(branch))
		return -EIO;
	if (fs->branches.items[branch]->flags & BRANCH_RO)
		return -EROFS;
	copy = node_first(node);
	if (!copy)
		return -ENOENT;
	from = branch_of(fs, copy);
	r = unionfs_dir_fd(fs, copy, &dir);
	if (r == 0)
		r = branch_path_of(from, dir->fd, path);
	if (r < 0)
		return r;
	to = fs->branches.items[branch];
	request_touches_branch(branch);
	pthread_mutex_lock(&to->clone_lock);
	dir_fd_changes_begin_on(branch);
	r = clone_path(fs, from, to, path);
	dir_fd_changes_end_on(branch);
	pthread_mutex_unlock(&to->clone_lock);
	if (r < 0)
		return r;
	copy = node_copy_on(node, branch);
	return copy ? use_copy(fs, node, copy, ret) : -ENOENT;
}

int clone_dir(struct unionfs *fs, struct node *node, unsigned branch,
	      struct dir_fd **ret)
{
	struct copy *copy = node_copy_on(node, branch);
	int r;

	if (copy && !(fs->shared && was_removed(fs, copy)))
		return use_copy(fs, node, copy, ret);
	pthread_rwlock_rdlock(&fs->tree);
	r = clone_dir_locked(fs, node, branch, ret);
	pthread_rwlock_unlock(&fs->tree);
	return r;
}

void clone_dir_sweep(const struct branch *branch)
{
	branch_work_sweep(branch, BRANCH_WORK_CLONE);
}
