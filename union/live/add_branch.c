/* SPDX-License-Identifier: Apache-2.0 */
#include "union/live/add_branch.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "union/branch/atime.h"
#include "union/branch/branch_lock.h"
#include "union/branch/branch_path.h"
#include "union/branch/folding.h"
#include "union/branch/intent.h"
#include "union/change/clone_dir.h"
#include "union/change/rename_parts.h"
#include "union/live/kernel_invalidate.h"
#include "union/live/mount_strict.h"
#include "union/migrate/relocate.h"
#include "union/view/state_note.h"

/*
 * Is the branch the union itself, seen by another path: a mount of it
 * elsewhere?
 */
static bool is_the_union(const char *mountpoint, const struct branch *branch)
{
	struct statfs fs;
	struct stat st;

	return fstatfs(branch->root_fd, &fs) == 0 &&
	       fs.f_type == FUSE_SUPER_MAGIC && stat(mountpoint, &st) == 0 &&
	       st.st_dev == branch->device;
}

static int check_branch(const char *mountpoint, struct branch *branch,
			struct error *err)
{
	int r;

	if (branch_path_is_below(branch->path, mountpoint) ||
	    branch_path_is_below(mountpoint, branch->path) ||
	    is_the_union(mountpoint, branch))
		return error_set(err, EINVAL,
				 "mount point '%s' and branch '%s' are one in "
				 "the other",
				 mountpoint, branch->path);
	if (branch->flags & BRANCH_RO)
		return 0;
	r = intent_pending(branch);
	if (r < 0)
		return error_set(err, -r, "branch '%s': read '%s': %s",
				 branch->path, BRANCH_WORK_DIR, strerror(-r));
	if (r > 0)
		return error_set(
			err, EBUSY,
			"branch '%s' has %d renames that a crash interrupted; to "
			"finish them, mount it once with the branches it had then",
			branch->path, r);
	return 0;
}

static int open_new(struct unionfs *fs, const char *mountpoint,
		    const struct branch_spec *spec, struct branch **ret,
		    struct error *err)
{
	int r;

	if (branch_is_absent(spec->path))
		return error_set(err, ENODEV,
				 "branch '%s': its disk is not mounted there: "
				 "it is empty and immutable",
				 spec->path);
	r = branch_open(&fs->branches, spec->path, spec->flags, ret, err);
	if (r < 0)
		return r;
	(*ret)->min_free = spec->min_free;
	r = branch_lock(ret, 1, err);
	if (r == 0) {
		r = atime_begin(&fs->branches, *ret);
		if (r < 0)
			(void)error_set(err, -r,
					"branch '%s' cannot have the union's "
					"access times: %s",
					spec->path, strerror(-r));
	}
	if (r == 0)
		r = check_branch(mountpoint, *ret, err);
	if (r == 0)
		r = folding_check(*ret, err);
	if (r == 0)
		folding_look(*ret);
	if (r == 0) {
		r = mount_strict_look(fs, *ret);
		if (r < 0)
			(void)error_set(err, -r,
					"the union cannot become as strict as "
					"the mount of branch '%s': %s",
					spec->path, strerror(-r));
	}
	if (r < 0) {
		branch_unlock(*ret);
		branch_drop(&fs->branches, *ret);
		return r;
	}
	if (!((*ret)->flags & BRANCH_RO)) {
		clone_dir_sweep(*ret);
		rename_parts_sweep(*ret);
		relocate_sweep(*ret);
	}
	return 0;
}

/* Make the branch's root a copy of the union's; then count the branch. */
static int publish_branch(struct unionfs *fs, struct branch *branch,
			  struct error *err)
{
	struct copy *root = node_first(node_get(&fs->nodes, NODE_ROOT_ID));
	struct handle handle, known;
	unsigned flags = branch->flags;
	int r = root ? handle_get(branch->root_fd, "", &handle) : -ESTALE;

	state_note_branch(fs, branch);
	branch_enter(&fs->branches, branch);
	if (r == 0) {
		known = copy_handle(root);
		r = node_add_copy(&fs->nodes, root->branch, &known, branch->id,
				  &handle);
	}
	if (r < 0) {
		error_set(err, -r, "branch '%s': %s", branch->path,
			  strerror(-r));
		state_drop_branch(fs, branch);
		branch_unlock(branch);
		branch_drop(&fs->branches, branch);
		return r;
	}
	branch_publish(&fs->branches, branch, flags);
	return 0;
}

/*
 * The flags that a person chooses, not those that tell what became of a branch.
 */
#define CHOSEN_FLAGS (BRANCH_LOCAL | BRANCH_RO | BRANCH_NC)

static int check_flags(const struct branch *branch,
		       const struct branch_spec *spec, struct error *err)
{
	unsigned flags = spec->flags & CHOSEN_FLAGS,
		 has = branch->flags & CHOSEN_FLAGS;
	uint64_t min_free = branch->min_free;
	char text[BRANCH_SPEC_WORDS_MAX];
	struct statvfs space;

	/* A file system mounted read-only makes its branch ro by itself. */
	if (fstatvfs(branch->root_fd, &space) == 0 && space.f_flag & ST_RDONLY)
		flags |= has & BRANCH_RO;
	if (flags == has && spec->min_free == min_free)
		return 0;
	return error_set(err, EINVAL,
			 "branch '%s' is there with other flags (%s)",
			 branch->path, branch_spec_format(text, has, min_free));
}

int union_add_branch(struct unionfs *fs, const char *mountpoint,
		     const struct branch_spec *spec, unsigned *ret_id,
		     struct error *err)
{
	struct branch_spec wanted = *spec;
	struct branch *branch = branch_find(&fs->branches, spec->path);
	int r;

	if (fs->read_only && !(wanted.flags & BRANCH_RO))
		wanted.flags |= BRANCH_RO | BRANCH_HELD;
	if (*spec->path != '/')
		return error_set(err, EINVAL,
				 "branch '%s': the path must start with '/'",
				 spec->path);
	if (branch) {
		r = check_flags(branch, &wanted, err);
	} else {
		r = open_new(fs, mountpoint, &wanted, &branch, err);
		if (r == 0)
			r = publish_branch(fs, branch, err);
		if (r == 0)
			log_info("'%s': branch %u is '%s'", mountpoint,
				 branch->id, branch->path);
	}
	if (r == 0 && !branch->shown) {
		r = kernel_invalidate(fs, branch);
		if (r < 0)
			return error_set(err, -r,
					 "branch '%s' was added, but names on "
					 "it may not be seen yet (%s); add it "
					 "once more",
					 branch->path, strerror(-r));
		branch->shown = true;
	}
	if (r == 0)
		*ret_id = branch->id;
	return r;
}
