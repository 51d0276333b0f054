/* SPDX-License-Identifier: Apache-2.0 */
#include "union/clone_dir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#include "base/cleanup.h"
#include "union/aside.h"
#include "union/dir_fd.h"
#include "union/inode_number.h"
#include "union/proc_path.h"

#define WORK_PREFIX "clone-"
#define OPEN_STEP   (O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)

/* Two requests must not make the same directory at once. */
static pthread_mutex_t clone_lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t clone_serial; /* guarded by it */

static int copy_xattr(const char *from, const char *to, const char *name)
{
	ssize_t size = getxattr(from, name, NULL, 0);
	auto_free char *value = size < 0 ? NULL : malloc((size_t)size + 1);

	if (size >= 0 && !value)
		return -ENOMEM;
	if (size >= 0)
		size = getxattr(from, name, value, (size_t)size);
	if (size < 0)
		return errno == ENODATA ? 0 : -errno;
	if (setxattr(to, name, value, (size_t)size, 0) == 0)
		return 0;
	/* Access rules must come along; a label this branch cannot keep
	 * need not. */
	if (errno == EOPNOTSUPP && strncmp(name, "system.posix_acl", 16) != 0)
		return 0;
	return -errno;
}

static int copy_xattrs(int from_fd, int to_fd)
{
	char from[PROC_PATH_MAX], to[PROC_PATH_MAX];
	auto_free char *names = NULL;
	ssize_t at, size;
	int r = 0;

	proc_path(from, from_fd, "");
	proc_path(to, to_fd, "");
	size = listxattr(from, NULL, 0);
	if (size <= 0)
		return size < 0 && errno != EOPNOTSUPP ? -errno : 0;
	names = malloc((size_t)size);
	if (!names)
		return -ENOMEM;
	size = listxattr(from, names, (size_t)size);
	if (size < 0)
		return -errno;
	for (at = 0; at < size && r == 0; at += (ssize_t)strlen(names + at) + 1)
		r = copy_xattr(from, to, names + at);
	return r;
}

/* The directory as it is shown: its first copy. */
struct source {
	unsigned branch;
	int fd;             /* O_PATH */
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
	ret->branch = copy->branch;
	ret->fd = ret->dir->fd;
	ret->number = node->ino;
	if (fstat(ret->fd, &ret->st) < 0)
		return -errno;
	ret->st.st_ctim = node_shown_ctime(&fs->nodes, copy, &ret->st.st_ctim);
	return 0;
}

/* @fd: a copy of it, on @branch, whose handle is @known. */
static int source_find(struct unionfs *fs, unsigned branch, int fd,
		       const struct handle *known, struct source *ret)
{
	struct node *node = node_hold(&fs->nodes, branch, known);
	int r;

	if (node) {
		r = source_of_node(fs, node, ret);
		node_forget(&fs->nodes, node->id, 1);
		return r;
	}
	/* The kernel forgot it: the copy at hand will do. */
	ret->branch = branch;
	ret->fd = fd;
	if (fstat(fd, &ret->st) < 0)
		return -errno;
	r = inode_number_read(fd, "", &ret->number);
	if (r == -ENODATA)
		ret->number = inode_number(branch, ret->st.st_ino);
	return r == -ENODATA ? 0 : r;
}

static void source_done(struct source *source)
{
	dir_fd_put(source->dir);
}

/* Owner, mode, ACLs and all other extended attributes. */
static int copy_access(const struct source *from, int to)
{
	char path[PROC_PATH_MAX];
	int r;

	if (fchownat(to, "", from->st.st_uid, from->st.st_gid, AT_EMPTY_PATH) <
	    0)
		return -errno;
	r = copy_xattrs(from->fd, to);
	if (r < 0)
		return r;
	proc_path(path, to, "");
	return chmod(path, from->st.st_mode & 07777) < 0 ? -errno : 0;
}

/* Give the empty directory @to all that @from has but its entries. */
static int copy_attributes(const struct source *from, int to)
{
	int r = copy_access(from, to);

	if (r == 0)
		r = inode_number_write(to, from->number);
	if (r < 0)
		return r;
	if (futimens(to, (struct timespec[]){from->st.st_atim,
					     from->st.st_mtim}) < 0)
		return -errno;
	return 0;
}

/* What changes in the copy @fd of a directory, and is not to be seen. */
struct quietly {
	struct handle handle;
	struct quiet_change change;
	struct timespec times[2]; /* access, modification */
};

static int quietly_begin(struct unionfs *fs, unsigned branch, int fd,
			 struct quietly *ret)
{
	struct copy *copy = NULL;
	struct node *node;
	struct stat st;
	int r = handle_get(fd, "", &ret->handle);

	if (r < 0)
		return r;
	if (fstat(fd, &st) < 0)
		return -errno;
	ret->times[0] = st.st_atim;
	ret->times[1] = st.st_mtim;
	ret->change.shown = st.st_ctim;
	node = node_hold(&fs->nodes, branch, &ret->handle);
	if (node)
		copy = node_copy_on(node, branch);
	if (copy)
		ret->change.shown = node_shown_ctime(&fs->nodes, copy,
						     &st.st_ctim);
	if (node)
		node_forget(&fs->nodes, node->id, 1);
	return 0;
}

static void quietly_end(struct unionfs *fs, unsigned branch, int fd,
			struct quietly *quietly)
{
	struct stat st;

	/* A wrong time is no harm. */
	(void)utimensat(fd, "", quietly->times, AT_EMPTY_PATH);
	if (fstat(fd, &st) < 0)
		return;
	quietly->change.after = st.st_ctim;
	node_change_quietly(&fs->nodes, branch, &quietly->handle,
			    &quietly->change);
}

/* Show the finished @temporary as @name: its parent's times stay. */
static int put_in_place(struct unionfs *fs, const struct branch *to, int work,
			const char *temporary, int parent, const char *name)
{
	struct quietly quietly;
	int r = quietly_begin(fs, to->id, parent, &quietly);

	if (r == 0 &&
	    renameat2(work, temporary, parent, name, RENAME_NOREPLACE) < 0)
		r = -errno;
	if (r == 0)
		quietly_end(fs, to->id, parent, &quietly);
	return r;
}

static int make_clone(struct unionfs *fs, const struct source *from,
		      const struct branch *to, int parent, const char *name)
{
	auto_close int work = branch_work_dir(to), fd = -1;
	char temporary[sizeof(WORK_PREFIX) + 20];
	int r;

	if (work < 0)
		return work;
	(void)snprintf(temporary, sizeof(temporary), WORK_PREFIX "%llu",
		       (unsigned long long)clone_serial++); /* fits */
	if (mkdirat(work, temporary, 0700) < 0)
		return -errno;
	fd = openat(work, temporary,
		    O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	r = fd < 0 ? -errno : copy_attributes(from, fd);
	if (r == 0)
		r = put_in_place(fs, to, work, temporary, parent, name);
	if (r < 0)
		(void)unlinkat(work, temporary, AT_REMOVEDIR); /* sweep will */
	return r;
}

/* The directory @name of @parent on @to, made when it is missing. */
static int open_or_make(struct unionfs *fs, const struct source *from,
			const struct branch *to, int parent, const char *name,
			bool *ret_made)
{
	int fd = openat(parent, name, OPEN_STEP), r = 0;

	*ret_made = false;
	if (fd >= 0)
		return fd;
	if (errno == ENOTDIR)
		r = aside_put(to, parent, name);
	else if (errno != ENOENT)
		r = -errno;
	if (r == 0)
		r = make_clone(fs, from, to, parent, name);
	if (r < 0)
		return r;
	atomic_fetch_add(&fs->stats.cloned_directories, 1);
	*ret_made = true;
	fd = openat(parent, name, OPEN_STEP);
	return fd < 0 ? -errno : fd;
}

/* The copy @fd, made just now, is the directory's that has @known. */
static int adopt(struct unionfs *fs, const struct source *from,
		 const struct handle *known, const struct branch *to, int fd,
		 bool made)
{
	struct quiet_change change = {.shown = from->st.st_ctim};
	struct handle handle;
	struct stat st;
	int r = handle_get(fd, "", &handle);

	if (r == 0)
		r = node_add_copy(&fs->nodes, from->branch, known, to->id,
				  &handle);
	if (r < 0 || !made || fstat(fd, &st) < 0)
		return r;
	change.after = st.st_ctim;
	node_change_quietly(&fs->nodes, to->id, &handle, &change);
	return 0;
}

/* One step of both walks: into @name, made on @to when it is missing. */
static int step(struct unionfs *fs, const struct branch *from, int *from_fd,
		const struct branch *to, int *to_fd, const char *name)
{
	auto_close int from_next = openat(*from_fd, name, OPEN_STEP);
	auto_close int to_next = -1;
	struct source source = {.fd = -1};
	struct handle known;
	bool made = false;
	int r = from_next < 0 ? -errno : handle_get(from_next, "", &known);

	if (r == 0)
		r = source_find(fs, from->id, from_next, &known, &source);
	if (r == 0)
		r = to_next = open_or_make(fs, &source, to, *to_fd, name,
					   &made);
	source.branch = from->id;
	if (r >= 0)
		r = adopt(fs, &source, &known, to, to_next, made);
	source_done(&source);
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

/* Extended attributes that the first copy does not have, ours not counted. */
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
 * A copy that was there before the union may have another owner, mode or
 * default ACL than the one that is shown: what is made in it must be as if
 * it were made there. Once for each copy, before something is made in it.
 */
static int align(struct unionfs *fs, struct node *node, struct copy *copy)
{
	auto_dir_fd struct dir_fd *dir = NULL;
	struct source source = {.fd = -1};
	struct quietly quietly;
	int r = unionfs_dir_fd(fs, copy, &dir);

	if (r == 0)
		r = source_of_node(fs, node, &source);
	if (r == 0)
		r = quietly_begin(fs, copy->branch, dir->fd, &quietly);
	if (r == 0) {
		drop_xattrs(source.fd, dir->fd);
		r = copy_access(&source, dir->fd);
		quietly_end(fs, copy->branch, dir->fd, &quietly);
	}
	source_done(&source);
	if (r == 0)
		atomic_store(&copy->aligned, true);
	return r;
}

static int use_copy(struct unionfs *fs, struct node *node, struct copy *copy,
		    struct dir_fd **ret)
{
	int r = 0;

	if (!atomic_load(&copy->aligned)) {
		pthread_mutex_lock(&clone_lock);
		if (copy == node_first(node))
			atomic_store(&copy->aligned, true);
		else if (!atomic_load(&copy->aligned) &&
			 unionfs_writable(fs, copy) == 0)
			r = align(fs, node, copy);
		pthread_mutex_unlock(&clone_lock);
	}
	return r < 0 ? r : unionfs_dir_fd(fs, copy, ret);
}

/* On branches that others change, too, a copy may be gone. */
static bool was_removed(struct unionfs *fs, struct copy *copy)
{
	auto_dir_fd struct dir_fd *dir = NULL;
	struct stat st;
	int r;

	if (!fs->shared)
		return false;
	r = unionfs_dir_fd(fs, copy, &dir);
	if (r != -ESTALE &&
	    (r < 0 || fstat(dir->fd, &st) < 0 || st.st_nlink > 0))
		return false;
	node_copy_gone(&fs->nodes, copy->branch, &copy->handle, -1);
	return true;
}

int clone_dir_locked(struct unionfs *fs, struct node *node, unsigned branch,
		     struct dir_fd **ret)
{
	struct copy *copy = node_copy_on(node, branch);
	auto_dir_fd struct dir_fd *dir = NULL;
	struct branch *from;
	char path[PATH_MAX];
	int r;

	if (copy && !was_removed(fs, copy))
		return use_copy(fs, node, copy, ret);
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
	pthread_mutex_lock(&clone_lock);
	r = clone_path(fs, from, fs->branches.items[branch], path);
	pthread_mutex_unlock(&clone_lock);
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

	if (copy && !was_removed(fs, copy))
		return use_copy(fs, node, copy, ret);
	pthread_rwlock_rdlock(&fs->tree);
	r = clone_dir_locked(fs, node, branch, ret);
	pthread_rwlock_unlock(&fs->tree);
	return r;
}

void clone_dir_sweep(const struct branch *branch)
{
	int fd = openat(branch->root_fd, BRANCH_WORK_DIR,
			O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *entry;

	if (!dir) {
		fd_close(fd);
		return;
	}
	while ((entry = readdir(dir)))
		if (strncmp(entry->d_name, WORK_PREFIX, strlen(WORK_PREFIX)) ==
		    0)
			(void)unlinkat(dirfd(dir), entry->d_name,
				       AT_REMOVEDIR); /* is empty */
	(void)closedir(dir);
}
