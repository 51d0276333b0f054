/* SPDX-License-Identifier: Apache-2.0 */
#include "union/clone_dir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#include "base/cleanup.h"
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

/* What the clone of the directory @fd answers to as its inode number. */
static int number_of(unsigned branch, int fd, const struct stat *st,
		     uint64_t *ret)
{
	int r = inode_number_read(fd, "", ret);

	if (r != -ENODATA)
		return r;
	*ret = inode_number(branch, st->st_ino);
	return 0;
}

/* Give the empty directory @to all that @from has but its entries. */
static int copy_attributes(unsigned from_branch, int from, int to)
{
	struct stat st;
	uint64_t number;
	int r;

	if (fstat(from, &st) < 0)
		return -errno;
	if (fchown(to, st.st_uid, st.st_gid) < 0)
		return -errno;
	r = copy_xattrs(from, to);
	if (r == 0)
		r = number_of(from_branch, from, &st, &number);
	if (r == 0)
		r = inode_number_write(to, number);
	if (r < 0)
		return r;
	if (fchmod(to, st.st_mode & 07777) < 0 ||
	    futimens(to, (struct timespec[]){st.st_atim, st.st_mtim}) < 0)
		return -errno;
	return 0;
}

/* Show the finished @temporary as @name: its parent's times stay. */
static int put_in_place(int work, const char *temporary, int parent,
			const char *name)
{
	struct stat st;

	if (fstat(parent, &st) < 0 ||
	    renameat2(work, temporary, parent, name, RENAME_NOREPLACE) < 0)
		return -errno;
	/* The union's directory did not change. A wrong time is no harm. */
	(void)utimensat(parent, "", (struct timespec[]){st.st_atim, st.st_mtim},
			AT_EMPTY_PATH);
	return 0;
}

static int make_clone(const struct branch *from, int from_fd,
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
	r = fd < 0 ? -errno : copy_attributes(from->id, from_fd, fd);
	if (r == 0)
		r = put_in_place(work, temporary, parent, name);
	if (r < 0)
		(void)unlinkat(work, temporary, AT_REMOVEDIR); /* sweep will */
	return r;
}

/* One step of both walks: into @name, made on @to when it is missing. */
static int step(struct unionfs *fs, const struct branch *from, int *from_fd,
		const struct branch *to, int *to_fd, const char *name)
{
	auto_close int from_next = openat(*from_fd, name, OPEN_STEP);
	auto_close int to_next = -1;
	struct handle from_handle, to_handle;
	int r = from_next < 0 ? -errno : 0;

	if (r < 0)
		return r;
	to_next = openat(*to_fd, name, OPEN_STEP);
	if (to_next < 0 && errno == ENOENT) {
		r = make_clone(from, from_next, to, *to_fd, name);
		if (r < 0)
			return r;
		atomic_fetch_add(&fs->stats.cloned_directories, 1);
		to_next = openat(*to_fd, name, OPEN_STEP);
	}
	if (to_next < 0)
		return -errno;
	r = handle_get(from_next, "", &from_handle);
	if (r == 0)
		r = handle_get(to_next, "", &to_handle);
	if (r == 0)
		r = node_add_copy(&fs->nodes, from->id, &from_handle, to->id,
				  &to_handle);
	fd_close(*from_fd);
	fd_close(*to_fd);
	*from_fd = take_fd(&from_next);
	*to_fd = take_fd(&to_next);
	return r;
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

int clone_dir_locked(struct unionfs *fs, struct node *node, unsigned branch,
		     struct dir_fd **ret)
{
	struct copy *copy = node_copy_on(node, branch);
	auto_dir_fd struct dir_fd *dir = NULL;
	struct branch *from;
	char path[PATH_MAX];
	int r;

	if (copy)
		return unionfs_dir_fd(fs, copy, ret);
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
	return copy ? unionfs_dir_fd(fs, copy, ret) : -ENOENT;
}

int clone_dir(struct unionfs *fs, struct node *node, unsigned branch,
	      struct dir_fd **ret)
{
	struct copy *copy = node_copy_on(node, branch);
	int r;

	if (copy)
		return unionfs_dir_fd(fs, copy, ret);
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
