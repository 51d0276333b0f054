/* SPDX-License-Identifier: Apache-2.0 */
/* Names that come and go. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "union/aside.h"
#include "union/bury.h"
#include "union/clone_dir.h"
#include "union/dir_fd.h"
#include "union/lookup.h"
#include "union/ops.h"
#include "union/place.h"

/* What is about to go, for who still has it open. */
#define OPEN_REMOVED (O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)

struct thing {
	const char *name;
	const char *target; /* of a symbolic link */
	mode_t mode;
	dev_t device;
};

static int make_node(void *context, int dirfd)
{
	const struct thing *new = context;

	return mknodat(dirfd, new->name, new->mode, new->device) < 0 ? -errno
								     : 0;
}

static int make_dir(void *context, int dirfd)
{
	const struct thing *new = context;

	return mkdirat(dirfd, new->name, new->mode & 07777) < 0 ? -errno : 0;
}

static int make_symlink(void *context, int dirfd)
{
	const struct thing *new = context;

	return symlinkat(new->target, dirfd, new->name) < 0 ? -errno : 0;
}

static void make_thing(fuse_req_t req, fuse_ino_t parent, place_make *make,
		       struct thing *new)
{
	struct unionfs *fs = unionfs_of(req);
	struct node *dir = op_node(req, parent);
	struct fuse_entry_param entry;
	struct placed placed;
	int r;

	if (!dir)
		return;
	r = unionfs_hidden(dir, new->name) ? -EPERM : 0;
	if (r == 0)
		r = place_new(fs, req, dir, make, new, &placed);
	if (r < 0) {
		op_reply(req, r);
		return;
	}
	if (make == make_dir)
		unionfs_count_subdir(fs, dir, 1);
	r = lookup_made(fs, placed.branch, placed.dir->fd, new->name, &entry);
	dir_fd_put(placed.dir);
	op_reply_entry(req, r, &entry);
}

void op_mknod(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode,
	      dev_t device)
{
	struct thing new = {name, NULL, mode, device};

	make_thing(req, parent, make_node, &new);
}

void op_mkdir(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode)
{
	struct thing new = {.name = name, .mode = mode};

	make_thing(req, parent, make_dir, &new);
}

void op_symlink(fuse_req_t req, const char *target, fuse_ino_t parent,
		const char *name)
{
	struct thing new = {.name = name, .target = target};

	make_thing(req, parent, make_symlink, &new);
}

/* On the branch of the file, whatever the policy says. */
static int link_file(struct unionfs *fs, const struct node *node,
		     struct node *dir, const char *name,
		     struct fuse_entry_param *entry)
{
	struct copy *copy = node_first(node);
	auto_dir_fd struct dir_fd *into = NULL;
	auto_close int fd = -1;
	int r = copy ? unionfs_writable(fs, copy) : -ESTALE;

	if (r < 0)
		return r;
	fd = unionfs_open(fs, node, O_PATH | O_NOFOLLOW);
	if (fd < 0)
		return fd;
	r = clone_dir(fs, dir, copy->branch, &into);
	if (r < 0)
		return r;
	if (linkat(fd, "", into->fd, name, AT_EMPTY_PATH) < 0)
		return -errno;
	return lookup_made(fs, copy->branch, into->fd, name, entry);
}

void op_link(fuse_req_t req, fuse_ino_t ino, fuse_ino_t new_parent,
	     const char *new_name)
{
	struct unionfs *fs = unionfs_of(req);
	struct node *node = op_node(req, ino);
	struct node *dir = node ? op_node(req, new_parent) : NULL;
	struct fuse_entry_param entry;
	int r;

	if (!dir)
		return;
	r = unionfs_hidden(dir, new_name)
		    ? -EPERM
		    : link_file(fs, node, dir, new_name, &entry);
	op_reply_entry(req, r, &entry);
}

/*
 * The highest branch first: the copy that is seen, the lowest, goes last, so
 * that a crash in between leaves the union as it was.
 */
static int unlink_all(struct unionfs *fs, const struct hit *hits, int count,
		      const char *name)
{
	struct bury bury;
	int i, r = 0;

	if (S_ISDIR(hits[0].st.st_mode))
		return -EISDIR;
	for (i = 0; i < count; i++)
		if (unionfs_writable(fs, hits[i].dir) < 0)
			return -EROFS;
	bury_begin(&hits[0], name, &bury);
	for (i = count - 1; i >= 0 && r == 0; i--)
		if (!S_ISDIR(hits[i].st.st_mode) &&
		    unlinkat(hits[i].fd->fd, name, 0) < 0)
			r = -errno;
	bury_end(fs, &bury, r == 0);
	return r;
}

void op_unlink(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	struct unionfs *fs = unionfs_of(req);
	struct node *dir = op_node(req, parent);
	struct hit *hits;
	int n, r = -ENOENT;

	if (!dir)
		return;
	n = unionfs_hidden(dir, name) ? 0 : lookup_all(fs, dir, name, &hits);
	if (n > 0) {
		r = unlink_all(fs, hits, n, name);
		lookup_hits_done(hits, n);
	}
	op_reply(req, n < 0 ? n : r);
}

static int check_copy_empty(int dirfd, const char *name)
{
	int fd = openat(dirfd, name,
			O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *entry;
	int n = 0, r;

	if (!dir) {
		r = -errno;
		fd_close(fd);
		return r;
	}
	errno = 0;
	while ((entry = readdir(dir)))
		n += strcmp(entry->d_name, ".") != 0 &&
		     strcmp(entry->d_name, "..") != 0;
	r = n ? -ENOTEMPTY : -errno;
	(void)closedir(dir);
	return r;
}

int op_check_empty(const struct hit *hits, int count, const char *name)
{
	int i, r = 0;

	for (i = 0; i < count && r == 0; i++)
		if (S_ISDIR(hits[i].st.st_mode))
			r = check_copy_empty(hits[i].fd->fd, name);
	return r;
}

static int remove_copy(struct unionfs *fs, const struct hit *hit,
		       const char *name)
{
	auto_close int fd = openat(hit->fd->fd, name, OPEN_REMOVED);
	struct handle handle;
	int r = handle_get(hit->fd->fd, name, &handle);

	if (r < 0)
		return r;
	if (unlinkat(hit->fd->fd, name, AT_REMOVEDIR) < 0)
		return -errno;
	node_copy_gone(&fs->nodes, hit->dir->branch, &handle, take_fd(&fd));
	return 0;
}

/*
 * The highest branch first, so that the copy that gives the directory its
 * owner and mode goes last.
 */
int op_remove_dir(struct unionfs *fs, const struct hit *hits, int count,
		  const char *name)
{
	int i, r = 0;

	if (!S_ISDIR(hits[0].st.st_mode))
		return -ENOTDIR;
	for (i = 0; i < count; i++)
		if (S_ISDIR(hits[i].st.st_mode) &&
		    unionfs_writable(fs, hits[i].dir) < 0)
			return -EROFS;
	if (count > 1)
		r = op_check_empty(hits, count, name);
	if (r < 0)
		return r;
	for (i = count - 1; i >= 0; i--) {
		if (!S_ISDIR(hits[i].st.st_mode))
			continue;
		r = remove_copy(fs, &hits[i], name);
		if (r < 0)
			return r;
	}
	return 0;
}

void op_rmdir(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	struct unionfs *fs = unionfs_of(req);
	struct node *dir = op_node(req, parent);
	struct hit *hits;
	int n, r = -ENOENT;

	if (!dir)
		return;
	n = unionfs_hidden(dir, name) ? 0 : lookup_all(fs, dir, name, &hits);
	if (n > 0) {
		r = op_remove_dir(fs, hits, n, name);
		if (r == 0)
			r = aside_put_all(fs, hits, n, name);
		lookup_hits_done(hits, n);
	}
	if (n > 0 && r == 0)
		unionfs_count_subdir(fs, dir, -1);
	op_reply(req, n < 0 ? n : r);
}
