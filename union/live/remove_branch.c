/* SPDX-License-Identifier: Apache-2.0 */
#include "union/live/remove_branch.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "union/branch/atime.h"
#include "union/branch/branch_lock.h"
#include "union/live/mount_strict.h"
#include "union/migrate/drain_dir.h"
#include "union/sys/empty_dir.h"
#include "union/view/state_note.h"

#define FINISH_PATIENCE_MS 100 /* of a thread that has others to watch */

/* Is this a hidden file, which belongs to a user: see hidden_files.h. */
static bool is_a_users(const char *name)
{
	return strncmp(name, "hidden-", 7) == 0;
}

/*
 * Call @function for the names in the directory @path in @root; stop at the
 * first that it says true of, and give its name (NAME_MAX + 1 bytes).
 * 1: there is one; 0; -errno.
 */
static int find_name(int root, const char *path,
		     bool (*function)(int fd, const char *name), char *ret)
{
	int r = 0, fd = openat(root, path,
			       O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NOATIME |
				       O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *entry;

	if (!dir) {
		r = errno == ENOENT ? 0 : -errno;
		fd_close(fd);
		return r;
	}
	while (r == 0 && (errno = 0, entry = readdir(dir))) {
		if (name_is_dot(entry->d_name) || !function(fd, entry->d_name))
			continue;
		(void)snprintf(ret, NAME_MAX + 1, "%s",
			       entry->d_name); /* fits */
		r = 1;
	}
	if (r == 0)
		r = -errno;
	(void)closedir(dir);
	return r;
}

static bool is_content(int fd, const char *name)
{
	(void)fd;
	return strcmp(name, BRANCH_WORK_DIR) != 0;
}

static bool is_kept(int fd, const char *name)
{
	(void)fd;
	return is_a_users(name);
}

static bool remove_ours(int fd, const char *name)
{
	/* A name that stays does no harm. */
	if (!is_a_users(name) && unlinkat(fd, name, 0) < 0)
		(void)unlinkat(fd, name, AT_REMOVEDIR);
	return false;
}

static int check_empty(const struct branch *branch, struct error *err)
{
	char name[NAME_MAX + 1] = "";
	int r = find_name(branch->root_fd, ".", is_content, name);

	if (r == 1)
		return error_set(err, ENOTEMPTY,
				 "branch '%s' is not empty ('%s' is on it): "
				 "drain it",
				 branch->path, name);
	if (r == 0)
		r = find_name(branch->root_fd, BRANCH_WORK_DIR, is_kept, name);
	if (r == 1)
		return error_set(err, ENOTEMPTY,
				 "branch '%s': '" BRANCH_WORK_DIR "/%s' was a "
				 "file that others hid; move it away by hand",
				 branch->path, name);
	return r < 0 ? error_set(err, -r, "read branch '%s': %s", branch->path,
				 strerror(-r))
		     : 0;
}

static void count_node(void *context, const struct node *node)
{
	if (node->id != NODE_ROOT_ID)
		++*(unsigned *)context;
}

/* Removed files and directories that the kernel still knows. */
static int check_unused(struct unionfs *fs, const struct branch *branch,
			struct error *err)
{
	unsigned n = 0;

	node_each_on(&fs->nodes, branch->id, count_node, &n);
	return n ? error_set(err, EBUSY,
			     "branch '%s': %u files that were removed from it "
			     "are still in use",
			     branch->path, n)
		 : 0;
}

static int say(const struct branch *branch, int r, struct error *err)
{
	if (r == -ENOTEMPTY)
		return error_set(err, ENOTEMPTY, "branch '%s' is the last one",
				 branch->path);
	return error_set(err, -r, "branch '%s' is in use: %s", branch->path,
			 strerror(-r));
}

static void remove_work_dir(int root)
{
	char name[NAME_MAX + 1];

	(void)find_name(root, BRANCH_WORK_DIR, remove_ours, name);
	/* Somebody may have put something there. */
	(void)unlinkat(root, BRANCH_WORK_DIR, AT_REMOVEDIR);
}

/*
 * Leave a branch that nobody uses any more. A mark that stays would drain it
 * one day.
 */
static void leave_branch(struct unionfs *fs, struct branch *branch)
{
	remove_work_dir(branch->root_fd);
	branch_unlock(branch);
	fd_close(branch->root_fd);
	atime_end(branch);
	branch->root_fd = -1;
	atomic_fetch_and(&branch->flags, ~BRANCH_LEAVING);
	state_note_settings(fs);
}

void union_remove_branch_resume(const char *path,
				const struct branch_identity *identity)
{
	auto_close int root = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct branch_identity found;

	if (root >= 0 && branch_identity_get(root, &found) == 0 &&
	    branch_identity_equal(&found, identity))
		remove_work_dir(root);
}

bool union_remove_branch_finish(struct unionfs *fs)
{
	struct branch *branch;
	bool left = false;
	unsigned i;

	for (i = 0; i < fs->branches.count; i++) {
		branch = fs->branches.items[i];
		if (!atomic_load(&branch->to_close))
			continue;
		if (pthread_mutex_trylock(&fs->branch_changes) != 0)
			return true;
		if (migrate_lock_drain(&fs->migrate_lock, FINISH_PATIENCE_MS) <
		    0)
			left = true;
		else if (atomic_exchange(&branch->to_close, false))
			leave_branch(fs, branch);
		pthread_mutex_unlock(&fs->branch_changes);
	}
	return left;
}

int union_remove_branch(struct unionfs *fs, struct branch *branch,
			struct error *err)
{
	const unsigned closed = BRANCH_NC | BRANCH_DRAINING;
	/* From here on nothing new gets there. */
	unsigned added = closed & ~atomic_fetch_or(&branch->flags, closed);
	int r;

	r = migrate_lock_drain(&fs->migrate_lock, LIVE_REMOVE_PATIENCE_MS);
	if (r < 0)
		r = say(branch, r, err);
	if (r == 0)
		r = check_empty(branch, err);
	node_drop_asleep(&fs->nodes, branch->id);
	if (r == 0)
		r = check_unused(fs, branch, err);
	if (r == 0) {
		r = drain_root(fs, branch);
		if (r < 0)
			r = say(branch, r, err);
	}
	if (r < 0) {
		/* Only the flags set here: others may have changed
		 * meanwhile. */
		atomic_fetch_and(&branch->flags, ~added);
		return r;
	}
	atomic_fetch_or(&branch->flags,
			BRANCH_RO | BRANCH_GONE | BRANCH_LEAVING);
	atomic_fetch_and(&branch->flags, ~BRANCH_DRAINING);
	state_note_settings(fs);
	/* Every request that met the branch before has ended then, or holds no
	 * descriptor of it. */
	if (migrate_lock_drain(&fs->migrate_lock, LIVE_REMOVE_PATIENCE_MS) == 0)
		leave_branch(fs, branch);
	else
		atomic_store(&branch->to_close, true);
	(void)mount_strict_look(fs, NULL); /* stricter than it needs: no harm */
	return 0;
}
