/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Only what is in a directory that both the kernel knows and the new branch
 * has can be stale, so the branch's tree is walked from the root into known
 * directories, and no other.
 *
 * Why no request that runs meanwhile leaves something stale behind: the
 * kernel holds a directory's lock while it looks a name up in it or reads
 * it, and takes that lock to invalidate a name. So an invalidation waits for
 * every answer that was made without the new copy, and what is asked after
 * it meets the copy. Listings are dropped after the names for that reason.
 */
#include "union/live/kernel_invalidate.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "union/branch/branch_health.h"
#include "union/branch/branch_try.h"
#include "union/branch/dir_fd.h"
#include "union/sys/empty_dir.h"
#include "union/view/lookup.h"
#include "union/view/subdirs.h"

/* A known directory that is on the new branch, too. */
struct shared {
	struct node *node; /* held */
	struct handle handle;
};

struct walk {
	struct unionfs *fs;
	struct branch *branch;
	bool again; /* the branch was there before, and may have lost changes */
	struct shared *items;
	size_t count, size;
};

/* Visit one name of a directory. 0: go on. */
typedef int visit(struct walk *walk, const struct shared *dir, int fd,
		  const char *name, bool may_be_dir);

static int add_shared(struct walk *walk, struct node *node,
		      const struct handle *handle)
{
	size_t size = walk->size ? walk->size * 2 : 64;
	struct shared *bigger;

	if (walk->count == walk->size) {
		bigger = reallocarray(walk->items, size, sizeof(*bigger));
		if (!bigger) {
			node_let_go(&walk->fs->nodes, node);
			return -ENOMEM;
		}
		walk->items = bigger;
		walk->size = size;
	}
	walk->items[walk->count++] = (struct shared){node, *handle};
	return 0;
}

/*
 * Find @name on the other branches. 1, and the copy of @node it is in with its
 * attributes and handle; 0: it is on none; -errno.
 */
static int find_elsewhere(const struct walk *walk, const struct node *node,
			  const char *name, struct copy **ret_copy,
			  struct stat *ret_st, struct handle *ret_handle)
{
	struct copy *copy;
	int r;

	for (copy = node_first(node); copy; copy = copy_next(copy)) {
		auto_dir_fd struct dir_fd *dir = NULL;

		if (copy->branch == walk->branch->id)
			continue;
		r = unionfs_dir_fd(walk->fs, copy, &dir);
		if (r == 0)
			r = lookup_inode(branch_of(walk->fs, copy), dir->fd,
					 name, ret_st, ret_handle);
		if (r == 0) {
			*ret_copy = copy;
			return 1;
		}
		if (r != -ENOENT && r != -ESTALE)
			return r;
	}
	return 0;
}

/* Find the known directory @name in @dir, held; NULL: there is none. */
static struct node *known_dir(struct walk *walk, const struct shared *dir,
			      const char *name, unsigned *ret_branch,
			      struct handle *ret_handle)
{
	struct copy *copy;
	struct stat st;

	if (find_elsewhere(walk, dir->node, name, &copy, &st, ret_handle) !=
		    1 ||
	    !S_ISDIR(st.st_mode))
		return NULL;
	*ret_branch = copy->branch;
	return node_hold(&walk->fs->nodes, copy->branch, ret_handle);
}

/* Visit a directory of the branch alone, known from before. */
static int visit_own(struct walk *walk, int fd, const char *name)
{
	struct handle handle;
	struct node *node;
	struct stat st;
	int r = lookup_inode(walk->branch, fd, name, &st, &handle);

	if (r < 0 || !S_ISDIR(st.st_mode))
		return r == -ENOENT ? 0 : r;
	node = node_hold(&walk->fs->nodes, walk->branch->id, &handle);
	return node ? add_shared(walk, node, &handle) : 0;
}

/* First round: a known directory gets its copy, and is walked in turn. */
static int visit_known(struct walk *walk, const struct shared *dir, int fd,
		       const char *name, bool may_be_dir)
{
	struct handle known, handle;
	struct node *node;
	struct stat st;
	unsigned branch;
	int r;

	if (!may_be_dir)
		return 0;
	node = known_dir(walk, dir, name, &branch, &known);
	if (!node)
		return walk->again ? visit_own(walk, fd, name) : 0;
	r = lookup_inode(walk->branch, fd, name, &st, &handle);
	if (r == 0 && S_ISDIR(st.st_mode)) {
		r = node_add_copy(&walk->fs->nodes, branch, &known,
				  walk->branch->id, &handle);
		if (r == 0)
			return add_shared(walk, node, &handle);
	}
	node_let_go(&walk->fs->nodes, node);
	return r == -ENOENT ? 0 : r;
}

/* Has what the kernel may know as @name not changed? */
static bool is_still_so(struct walk *walk, const struct shared *dir,
			const char *name)
{
	struct handle handle;
	struct copy *copy;
	struct node *node;
	struct stat st;
	bool same;

	if (find_elsewhere(walk, dir->node, name, &copy, &st, &handle) != 1)
		return false;
	if (!S_ISDIR(st.st_mode))
		/* The file of the lower branch hides what this branch has. */
		return copy->branch < walk->branch->id;
	node = node_hold(&walk->fs->nodes, copy->branch, &handle);
	if (!node)
		return false;
	same = node_copy_on(node, walk->branch->id) != NULL;
	node_let_go(&walk->fs->nodes, node);
	return same;
}

/*
 * Have the kernel ask for @name anew. Unlike an invalidation, this leaves alone
 * what is mounted on the name, if the name is still the same.
 */
static int expire(const struct walk *walk, uint64_t parent, const char *name)
{
	struct fuse_notify_inval_entry_out out = {
		.parent = parent,
		.namelen = (uint32_t)strlen(name),
		.flags = FUSE_EXPIRE_ONLY,
	};
	struct fuse_out_header header = {.error = FUSE_NOTIFY_INVAL_ENTRY};
	struct iovec iov[] = {
		{&header, sizeof(header)},
		{&out, sizeof(out)},
		{(void *)(uintptr_t)name, out.namelen + 1},
	};

	header.len = (uint32_t)(sizeof(header) + sizeof(out) + out.namelen + 1);
	return writev(fuse_session_fd(walk->fs->session), iov, 3) < 0 ? -errno
								      : 0;
}

/* Second round: the kernel takes the name for absent no more. */
static int visit_stale(struct walk *walk, const struct shared *dir, int fd,
		       const char *name, bool may_be_dir)
{
	int r = 0;

	(void)fd;
	if (is_still_so(walk, dir, name))
		return 0;
	if (walk->again && walk->fs->expires)
		r = expire(walk, dir->node->id, name);
	else if (!walk->again || !may_be_dir)
		r = fuse_lowlevel_notify_inval_entry(
			walk->fs->session, dir->node->id, name, strlen(name));
	return r == -ENOENT ? 0 : r; /* it did not know the name */
}

/*
 * Pass over damage on a branch that works. A damaged file or directory is EIO
 * to its callers, and nothing of it can be shown; the rest of the branch is
 * shown.
 */
static int unless_damaged(const struct walk *walk, int r)
{
	if (!branch_is_failure(r) || branch_try(walk->branch) < 0)
		return r;
	log_warning("branch '%s': a file or directory on it cannot be read "
		    "(%s): it is passed over",
		    walk->branch->path, strerror(-r));
	return 0;
}

static int each_name(struct walk *walk, const struct shared *shared,
		     visit *function)
{
	const struct shared dir = *shared; /* the list may move */
	int r = 0, fd = handle_open(walk->branch->root_fd, &dir.handle,
				    O_RDONLY | O_DIRECTORY | O_NOATIME);
	const struct dirent *entry;
	DIR *stream;

	if (fd < 0) /* -ESTALE: removed meanwhile */
		return fd == -ESTALE ? 0 : unless_damaged(walk, fd);
	stream = fdopendir(fd);
	if (!stream) {
		r = -errno;
		fd_close(fd);
		return r;
	}
	while (r == 0 && (errno = 0, entry = readdir(stream))) {
		if (name_is_dot(entry->d_name) ||
		    unionfs_hidden(dir.node, entry->d_name))
			continue;
		r = function(walk, &dir, fd, entry->d_name,
			     entry->d_type == DT_DIR ||
				     entry->d_type == DT_UNKNOWN);
		r = unless_damaged(walk, r);
	}
	if (r == 0 && !entry)
		r = unless_damaged(walk, -errno);
	(void)closedir(stream);
	return r;
}

static int add_root(struct walk *walk)
{
	struct handle handle;
	struct node *node;
	int r = handle_get(walk->branch->root_fd, "", &handle);

	if (r < 0)
		return r;
	node = node_hold(&walk->fs->nodes, walk->branch->id, &handle);
	return node ? add_shared(walk, node, &handle) : -ESTALE;
}

/*
 * Add the copies of known directories. No directory is renamed meanwhile, so a
 * path is the same on all branches.
 */
static int add_copies(struct walk *walk)
{
	size_t i;
	int r;

	pthread_rwlock_rdlock(&walk->fs->tree);
	r = add_root(walk);
	for (i = 0; i < walk->count && r == 0; i++)
		r = each_name(walk, &walk->items[i], visit_known);
	pthread_rwlock_unlock(&walk->fs->tree);
	if (r == 0) /* readers of a directory must look again */
		atomic_fetch_add(&walk->fs->generation, 1);
	return r;
}

/*
 * Invalidate what is stale in @dir. No lock is held: the kernel may wait for a
 * request that needs it.
 */
static int invalidate(struct walk *walk, const struct shared *dir)
{
	int r = each_name(walk, dir, visit_stale);

	if (r < 0)
		return r;
	subdirs_forget(walk->fs, dir->node);
	r = fuse_lowlevel_notify_inval_inode(walk->fs->session, dir->node->id,
					     0, 0);
	return r == -ENOENT ? 0 : r;
}

static int kernel_invalidate_walk(struct unionfs *fs, struct branch *branch,
				  bool again)
{
	/* A branch may come back while another is added. */
	static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;
	struct walk walk = {.fs = fs, .branch = branch, .again = again};
	size_t i;
	int r;

	pthread_mutex_lock(&one_at_a_time);
	r = add_copies(&walk);
	for (i = 0; i < walk.count && r == 0; i++)
		r = invalidate(&walk, &walk.items[i]);
	pthread_mutex_unlock(&one_at_a_time);
	for (i = 0; i < walk.count; i++)
		node_let_go(&fs->nodes, walk.items[i].node);
	free(walk.items);
	return r;
}

int kernel_invalidate(struct unionfs *fs, struct branch *branch)
{
	return kernel_invalidate_walk(fs, branch, false);
}

int kernel_invalidate_again(struct unionfs *fs, struct branch *branch)
{
	return kernel_invalidate_walk(fs, branch, true);
}
