/* SPDX-License-Identifier: Apache-2.0 */
#include "union/migrate/drain_dir.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "union/branch/branch_health.h"
#include "union/branch/dir_fd.h"
#include "union/branch/ino_preserve.h"
#include "union/change/clone_dir.h"
#include "union/change/hidden_files.h"
#include "union/state/reply_cache.h"
#include "union/sys/inode_number.h"
#include "union/view/btime.h"
#include "union/view/preserve_mtime.h"

#define NO_NEW (BRANCH_RO | BRANCH_NC | BRANCH_DRAINING | BRANCH_GONE)

struct candidate {
	struct branch *branch;
	uint64_t available;
	bool fits;
	bool same_place; /* it is to take over what the other has */
};

static int compare_names(const void *a, const void *b)
{
	const struct candidate *one = a, *other = b;

	if (one->fits != other->fits)
		return one->fits ? -1 : 1;
	if (one->same_place != other->same_place)
		return one->same_place ? -1 : 1;
	if (one->available != other->available)
		return one->available > other->available ? -1 : 1;
	return (int)one->branch->id - (int)other->branch->id;
}

static uint64_t min_free(const struct unionfs *fs, const struct branch *branch)
{
	uint64_t own = atomic_load(&branch->min_free);

	return own == BRANCH_MIN_FREE_UNION ? fs->min_free : own;
}

static struct candidate weigh(const struct unionfs *fs, struct branch *branch,
			      const struct branch *but, uint64_t need)
{
	struct branch_space space;

	branch_space(branch, clock_ms(), &space);
	return (struct candidate){
		.branch = branch,
		.same_place = branch->place == but->place,
		.available = space.available,
		.fits = space.available > need + min_free(fs, branch),
	};
}

struct branch *drain_target(struct unionfs *fs, const struct branch *but,
			    uint64_t need, bool elsewhere, unsigned i)
{
	struct candidate found[BRANCH_MAX] = {0};
	unsigned id, n = 0, count = fs->branches.count;
	struct branch *branch;

	for (id = 0; id < count; id++) {
		branch = fs->branches.items[id];
		if (branch == but || branch->flags & NO_NEW ||
		    !branch_is_well(branch) ||
		    (elsewhere && branch_shares_space(branch, but)))
			continue;
		found[n++] = weigh(fs, branch, but, need);
	}
	if (n)
		qsort(found, n, sizeof(found[0]), compare_names);
	return i < n ? found[i].branch : NULL;
}

/* Get the first copy that is not on @branch. */
static struct copy *first_other(const struct node *node, unsigned branch)
{
	struct copy *copy = node_first(node);

	while (copy && copy->branch == branch)
		copy = copy_next(copy);
	return copy;
}

/* Make a copy on another branch, as the one that is seen. */
static int make_other(struct unionfs *fs, const struct branch *branch,
		      struct node *node)
{
	struct copy *copy = first_other(node, branch->id);
	struct branch *to = copy ? branch_of(fs, copy) : NULL;
	unsigned i = 0;
	int r;

	do {
		struct dir_fd *dir = NULL;

		if (!copy)
			to = drain_target(fs, branch, 0, false, i++);
		if (!to)
			return -ENOSPC;
		r = clone_dir(fs, node, to->id, &dir);
		dir_fd_put(dir);
	} while (!copy && (r == -ENOSPC || r == -EDQUOT || r == -EROFS));
	return r;
}

/* Keep the time of birth. Without room, that of the other copy counts. */
static void keep_dir_birth(struct unionfs *fs, struct node *node, int fd)
{
	struct timespec birth;

	if (btime_of(fs, node, &birth) == 0)
		(void)btime_write(fd, &birth);
}

/* Give the copy that is seen from now on the old number and times. */
static int hand_dir_over(struct unionfs *fs, const struct branch *branch,
			 struct node *node)
{
	struct copy *copy = first_other(node, branch->id);
	auto_dir_fd struct dir_fd *dir = NULL;
	struct preserve_mtime quietly;
	struct stat st;
	uint64_t number;
	int r = copy ? unionfs_stat(fs, node, &st) : -EBUSY;

	if (r == 0 && unionfs_writable(fs, copy) < 0)
		return 0;
	if (r == 0)
		r = unionfs_dir_fd(fs, copy, &dir);
	if (r < 0)
		return r;
	assert(dir);
	r = preserve_mtime_begin(fs, copy->branch, dir->fd, &quietly);
	if (r < 0)
		return r;
	if (node->id != NODE_ROOT_ID &&
	    inode_number_read(dir->fd, "", &number) == -ENODATA)
		r = inode_number_write(dir->fd, node->ino);
	if (node->id != NODE_ROOT_ID)
		keep_dir_birth(fs, node, dir->fd);
	preserve_mtime_show(&quietly, &st);
	preserve_mtime_end(fs, dir->fd, &quietly);
	return r;
}

/* Keep files as hidden that the copy hides, and the next one does not. */
static int keep_lower_hidden(struct unionfs *fs, const struct branch *branch,
			     struct node *parent, const struct node *node,
			     const char *name)
{
	const struct copy *next = first_other(node, branch->id);
	struct copy *copy;
	struct stat st;
	int r = next ? 0 : -EBUSY;

	for (copy = node_first(parent); copy && r == 0;
	     copy = copy_next(copy)) {
		auto_dir_fd struct dir_fd *dir = NULL;

		if (copy->branch >= next->branch)
			break;
		if (copy->branch == branch->id)
			continue;
		r = unionfs_dir_fd(fs, copy, &dir);
		if (r == 0 &&
		    fstatat(dir->fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
		    !S_ISDIR(st.st_mode))
			r = hidden_files_put_preserving(fs, branch_of(fs, copy),
							dir->fd, name);
	}
	return r;
}

/* Check a copy again: it may be renamed or listed since its files moved. */
static int check_copy(struct unionfs *fs, const struct copy *copy,
		      struct node *parent, int parent_fd, const char *name)
{
	struct handle found;
	bool listed;

	node_lock(&fs->nodes, parent);
	listed = node_dir(parent)->streams > 0;
	node_unlock(&fs->nodes, parent);
	return listed || handle_get(parent_fd, name, &found) < 0 ||
			       !copy_has(copy, &found)
		       ? -EBUSY
		       : 0;
}

/* Remove the copy, with migrate_lock.h closed and fs->tree held. */
static int remove_drained_copy(struct unionfs *fs, const struct branch *branch,
			       struct node *parent, int parent_fd,
			       struct node *node, const char *name)
{
	struct copy *copy = node_copy_on(node, branch->id);
	struct preserve_mtime quietly;
	struct handle handle;
	int r = copy ? check_copy(fs, copy, parent, parent_fd, name) : -EBUSY;

	if (r == 0)
		r = keep_lower_hidden(fs, branch, parent, node, name);
	if (r == 0)
		r = hand_dir_over(fs, branch, node);
	if (r == 0)
		r = preserve_mtime_begin(fs, branch->id, parent_fd, &quietly);
	if (r < 0)
		return r;
	handle = copy_handle(copy);
	copy_set(copy, COPY_GOING, true);
	r = ino_preserve_remove_copy(branch, parent_fd, name, node->ino);
	if (r == 0)
		node_copy_gone(&fs->nodes, branch->id, &handle, NULL);
	copy_set(copy, COPY_GOING, false);
	preserve_mtime_end(fs, parent_fd, &quietly);
	return r;
}

int drain_dir(struct unionfs *fs, struct branch *branch, struct node *parent,
	      int parent_fd, struct node *node, const char *name)
{
	const uint64_t ids[] = {parent->id, node->id};
	struct migrate_lock_hold hold;
	int r = make_other(fs, branch, node);

	if (r == 0)
		r = reply_cache_is_waiting(fs->reply_cache)
			    ? -EBUSY
			    : migrate_lock_close(&fs->migrate_lock, ids, 2,
						 &hold);
	if (r < 0)
		return r;
	pthread_rwlock_wrlock(&fs->tree);
	r = remove_drained_copy(fs, branch, parent, parent_fd, node, name);
	pthread_rwlock_unlock(&fs->tree);
	migrate_lock_open(&hold);
	return r;
}

int drain_root(struct unionfs *fs, struct branch *branch)
{
	const uint64_t ids[] = {NODE_ROOT_ID};
	struct node *root = node_get(&fs->nodes, NODE_ROOT_ID);
	struct copy *copy = node_copy_on(root, branch->id);
	struct migrate_lock_hold hold;
	struct handle handle;
	int r;

	if (!copy)
		return 0;
	handle = copy_handle(copy);
	r = first_other(root, branch->id) ? make_other(fs, branch, root)
					  : -ENOTEMPTY;
	if (r == 0)
		r = reply_cache_is_waiting(fs->reply_cache)
			    ? -EBUSY
			    : migrate_lock_close(&fs->migrate_lock, ids, 1,
						 &hold);
	if (r < 0)
		return r;
	pthread_rwlock_wrlock(&fs->tree);
	r = hand_dir_over(fs, branch, root);
	if (r == 0)
		node_copy_gone(&fs->nodes, branch->id, &handle, NULL);
	pthread_rwlock_unlock(&fs->tree);
	migrate_lock_open(&hold);
	return r;
}
