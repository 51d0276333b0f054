/* SPDX-License-Identifier: Apache-2.0 */
#include "union/recover/unfinished.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/limits.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "union/branch/branch_health.h"
#include "union/branch/branch_path.h"
#include "union/branch/ino_preserve.h"
#include "union/state/state.h"
#include "union/view/preserve_mtime.h"

static bool can_look(const struct unionfs *fs, const struct copy *copy)
{
	return copy->branch < fs->branches.count && branch_usable(copy->branch);
}

static void end_unfinished(struct unionfs *fs, struct copy *copy, bool there)
{
	struct handle handle = copy_handle(copy);

	if (!there)
		node_copy_gone(&fs->nodes, copy->branch, &handle, NULL);
	copy_set(copy, COPY_GOING | COPY_MAKING, false);
}

/*
 * Was the copy removed, before the server that did it could say so? Its
 * directory may be there and be no copy any more: ino_preserve_remove_copy().
 */
static void look_for_going(struct unionfs *fs, struct copy *copy)
{
	struct handle handle = copy_handle(copy);
	uint64_t number = copy_node(copy)->ino;
	const struct branch *branch;
	auto_close int fd = -1;

	if (!can_look(fs, copy))
		return;
	branch = branch_of(fs, copy);
	fd = handle_open(branch->root_fd, &handle, O_PATH);
	if (fd >= 0 || fd == -ESTALE)
		end_unfinished(fs, copy,
			       fd >= 0 && !ino_preserve_is_stub(branch, number,
								&handle));
}

/*
 * Is the directory in its place? One in the work directory is no copy: a sweep
 * could not remove it.
 */
static bool is_in_place(const struct branch *branch, int fd)
{
	char path[PATH_MAX];
	size_t length = strlen(BRANCH_WORK_DIR);

	return branch_path_of(branch, fd, path) == 0 &&
	       (strncmp(path, BRANCH_WORK_DIR, length) != 0 ||
		(path[length] && path[length] != '/'));
}

/*
 * Hide the change of moving it into its place, which is no change of the
 * directory.
 */
static void hide_unfinished_change(struct unionfs *fs, const struct copy *copy,
				   int fd)
{
	struct copy *first = node_first(copy_node(copy));
	struct handle handle = copy_handle(copy);
	struct quiet_change change;
	struct stat shown, st;

	if (!first || preserve_mtime_stat(fs, first, &shown) < 0 ||
	    fstat(fd, &st) < 0)
		return;
	change.shown = shown.st_ctim;
	change.after = st.st_ctim;
	change.modified = st.st_mtim;
	preserve_ctime_change(&fs->nodes, copy->branch, &handle, &change);
}

/*
 * Look for a copy that was being made. A copy that cannot be looked for is
 * found as any other when its branch is back.
 */
static void look_for_making(struct unionfs *fs, struct copy *copy)
{
	struct handle handle = copy_handle(copy);
	auto_close int fd = -1;
	bool there;

	if (can_look(fs, copy))
		fd = handle_open(branch_of(fs, copy)->root_fd, &handle, O_PATH);
	there = fd >= 0 && is_in_place(branch_of(fs, copy), fd);
	if (there)
		hide_unfinished_change(fs, copy, fd);
	end_unfinished(fs, copy, there);
}

void unfinished_copies(struct unionfs *fs)
{
	struct state *state = fs->nodes.state;
	uint64_t i, used = state->header->copies_used;
	struct copy *copy;

	for (i = 0; i < used; i++) {
		copy = &state->copies[i];
		if (!copy->generation)
			continue;
		if (copy_is(copy, COPY_MAKING))
			look_for_making(fs, copy);
		else if (copy_is(copy, COPY_GOING))
			look_for_going(fs, copy);
	}
}
