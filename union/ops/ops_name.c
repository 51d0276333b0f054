/* SPDX-License-Identifier: Apache-2.0 */
/* Names that come and go. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "union/branch/branch_health.h"
#include "union/branch/dir_fd.h"
#include "union/change/act_as.h"
#include "union/change/clone_dir.h"
#include "union/change/orphan_begin.h"
#include "union/change/place.h"
#include "union/change/remove_dir.h"
#include "union/change/replay.h"
#include "union/node/names_change.h"
#include "union/ops/ops.h"
#include "union/state/reply_cache.h"
#include "union/sys/immutable.h"
#include "union/view/lookup.h"
#include "union/view/name_filter.h"
#include "union/view/subdirs.h"

struct thing {
	enum policy_function function;
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

/*
 * Count @change new directories in @dir. A request that comes again may have
 * been counted before: then the count is forgotten.
 */
static void end_subdirs(struct unionfs *fs, struct request *request,
			struct node *dir, int change)
{
	struct reply_cache_noted noted;

	subdirs_end(fs, dir, change);
	if (reply_cache_noted(request, &noted))
		subdirs_forget(fs, dir);
}

/* @type: S_IFMT bits. */
static void make_thing(struct request *request, fuse_ino_t parent,
		       place_make *make, mode_t type, struct thing *new)
{
	struct unionfs *fs = request->fs;
	struct node *dir = op_node(request, parent);
	struct fuse_entry_param entry;
	struct placed placed;
	bool again;
	int r;

	if (!dir)
		return;
	if (type == S_IFDIR)
		subdirs_begin(fs, dir);
	r = unionfs_hidden(dir, new->name)
		    ? -EPERM
		    : place_new(fs, request, dir,
				&(struct to_place){new->function, type, make,
						   new, new->name},
				&placed);
	if (type == S_IFDIR)
		end_subdirs(fs, request, dir, r >= 0);
	if (r < 0) {
		op_reply(request, r);
		return;
	}
	again = r == 1;
	r = lookup_made(fs, request, placed.branch, placed.dir->fd, new->name,
			&entry);
	dir_fd_put(placed.dir);
	if (r == 0 && type == S_IFDIR && !again)
		name_filter_begin(fs, node_get(&fs->nodes, entry.ino),
				  placed.branch);
	if (r == 0 && new->function == POLICY_MKDIR)
		place_everywhere(fs, dir, node_get(&fs->nodes, entry.ino));
	op_reply_entry(request, r, &entry);
}

void op_mknod(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode,
	      dev_t device)
{
	struct request *request = request_of(req);
	struct thing new = {POLICY_MKNOD, name, NULL, mode, device};

	mode_t type = mode & S_IFMT;

	make_thing(request, parent, make_node, type ? type : S_IFREG, &new);
}

void op_mkdir(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode)
{
	struct request *request = request_of(req);
	struct thing new = {POLICY_MKDIR, .name = name, .mode = mode};

	make_thing(request, parent, make_dir, S_IFDIR, &new);
}

void op_symlink(fuse_req_t req, const char *target, fuse_ino_t parent,
		const char *name)
{
	struct request *request = request_of(req);
	struct thing new = {POLICY_SYMLINK, .name = name, .target = target};

	make_thing(request, parent, make_symlink, S_IFLNK, &new);
}

/* Link the file on its own branch, whatever the policy says. */
static int link_file(struct request *request, const struct node *node,
		     struct node *dir, const char *name,
		     struct fuse_entry_param *entry)
{
	struct unionfs *fs = request->fs;
	struct copy *copy = node_first(node);
	auto_dir_fd struct dir_fd *into = NULL;
	auto_close int fd = -1;
	struct handle handle;
	int r = copy ? unionfs_writable(fs, copy) : -ESTALE;

	if (r < 0)
		return r;
	handle = copy_handle(copy);
	fd = unionfs_open(fs, node, O_PATH | O_NOFOLLOW);
	if (fd < 0)
		return fd;
	r = clone_dir(fs, dir, copy->branch, &into);
	if (r < 0)
		return r;
	name_filter_add(dir, name, copy->branch);
	replay_note_absent(fs, request, dir, name);
	names_change_begin(dir);
	act_as_spender(request);
	do
		r = linkat(fd, "", into->fd, name, AT_EMPTY_PATH) < 0 ? -errno
								      : 0;
	while (act_as_unlimited(request, r));
	act_as_root();
	names_change_end(dir, r == 0);
	if (r == -EEXIST && replay_is_linked(request, into->fd, name, &handle))
		r = 0;
	(void)branch_report(branch_of(fs, copy), r);
	if (r < 0 && branch_usable(copy->branch))
		name_filter_remove(dir, name, copy->branch);
	if (r < 0)
		return r;
	return lookup_made(fs, request, copy->branch, into->fd, name, entry);
}

void op_link(fuse_req_t req, fuse_ino_t ino, fuse_ino_t new_parent,
	     const char *new_name)
{
	struct request *request = request_of(req);
	struct node *node = op_node(request, ino);
	struct node *dir = node ? op_node(request, new_parent) : NULL;
	struct fuse_entry_param entry;
	int r;

	if (!dir)
		return;
	r = unionfs_hidden(dir, new_name)
		    ? -EPERM
		    : link_file(request, node, dir, new_name, &entry);
	op_reply_entry(request, r, &entry);
}

static int unlink_one(struct unionfs *fs, const struct hit *hit,
		      const char *name)
{
	if (unlinkat(hit->fd->fd, name, 0) < 0)
		return branch_report(branch_of(fs, hit->dir), -errno);
	name_filter_remove(copy_node(hit->dir), name, hit->dir->branch);
	return 0;
}

/*
 * Unlink the copies from the highest branch down, the one that is seen last, so
 * that a crash in between leaves the union as it was. By a policy other than
 * that of all copies only the seen one goes, and the next appears.
 */
static int unlink_hits(struct unionfs *fs, struct request *request,
		       const struct hit *hits, int count, const char *name)
{
	bool all = policy_of(&fs->policies, POLICY_UNLINK)->choice ==
		   POLICY_ALL;
	struct orphan orphan;
	int i, r = 0;

	if (S_ISDIR(hits[0].st.st_mode))
		return -EISDIR;
	for (i = 0; i < (all ? count : 1) && r == 0; i++) {
		r = unionfs_writable(fs, hits[i].dir);
		if (r == 0 && all && count > 1)
			r = immutable_check_name(hits[i].fd->fd, name);
	}
	if (r < 0)
		return r;
	replay_note_hit(request, &hits[0], name);
	orphan_begin(fs, &hits[0], name, &orphan);
	names_change_begin(copy_node(hits[0].dir));
	for (i = all ? count - 1 : 0; i >= 0 && r == 0; i--)
		if (!S_ISDIR(hits[i].st.st_mode))
			r = unlink_one(fs, &hits[i], name);
	subdirs_uncover(fs, copy_node(hits[0].dir), hits, count);
	names_change_end(copy_node(hits[0].dir), r == 0);
	orphan_end(fs, &orphan, r == 0);
	return r;
}

void op_unlink(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	struct request *request = request_of(req);
	struct unionfs *fs = request->fs;
	struct node *dir = op_node(request, parent);
	struct hit *hits = NULL;
	bool again;
	int n, r = 0;

	if (!dir)
		return;
	n = unionfs_hidden(dir, name) ? -ENOENT
				      : lookup_needed(fs, dir, name, &hits);
	again = replay_went(request, hits, n, name);
	if (n > 0) {
		r = again ? 0 : unlink_hits(fs, request, hits, n, name);
		lookup_hits_done(hits, n);
	}
	op_reply(request, n < 0 && !again ? n : r);
}

void op_rmdir(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	struct request *request = request_of(req);
	struct unionfs *fs = request->fs;
	struct node *dir = op_node(request, parent);
	int r;

	if (!dir)
		return;
	subdirs_begin(fs, dir);
	r = unionfs_hidden(dir, name) ? -ENOENT
				      : remove_dir(fs, request, dir, name);
	end_subdirs(fs, request, dir, r == 0 ? -1 : 0);
	op_reply(request, r);
}
