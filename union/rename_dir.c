/* SPDX-License-Identifier: Apache-2.0 */
/* A directory is renamed on every branch that has a copy of it. */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "union/aside.h"
#include "union/clone_dir.h"
#include "union/dir_fd.h"
#include "union/names.h"
#include "union/naming.h"
#include "union/number_keep.h"
#include "union/remove_dir.h"
#include "union/rename.h"
#include "union/rename_parts.h"
#include "union/subdirs.h"

static bool is_renamed_on(const struct move *m, unsigned branch)
{
	const struct hit *from = rename_hit_on(m->from, m->from_count, branch);

	return from && S_ISDIR(from->st.st_mode);
}

/* Remove the target directory where the source is not, so is not replaced. */
static int clear_target(const struct move *m)
{
	struct hit *alone = calloc((size_t)m->to_count + 1, sizeof(*alone));
	int i, n = 0, r = 0;

	if (!alone)
		return -ENOMEM;
	for (i = 0; i < m->to_count; i++)
		if (S_ISDIR(m->to[i].st.st_mode) &&
		    !is_renamed_on(m, m->to[i].dir->branch))
			alone[n++] = m->to[i]; /* borrows the descriptor */
	if (n)
		r = remove_dir_found(m->fs, alone, n, m->to_name);
	free(alone);
	return r;
}

/* On the branches of @parts: what is there now will be replaced. */
struct replaced {
	unsigned branch;
	struct handle handle;
	struct buried buried;
};

static bool describe_replaced(const struct move *m, const struct hit *from,
			      int into_fd, struct replaced *ret)
{
	if (!rename_hit_on(m->to, m->to_count, from->dir->branch) ||
	    handle_get(into_fd, m->to_name, &ret->handle) < 0)
		return false;
	ret->branch = from->dir->branch;
	ret->buried = node_buried(
		&m->fs->nodes,
		openat(into_fd, m->to_name,
		       O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
	return true;
}

/*
 * No branch has the old name any more; what was replaced was there once, too.
 * Where it was not replaced its removal has said so.
 */
static void forget_names(const struct move *m, const struct replaced *replaced,
			 int gone)
{
	int i;

	for (i = 0; i < m->from_count; i++)
		if (S_ISDIR(m->from[i].st.st_mode))
			names_remove(m->fs, m->from_dir, m->from_name,
				     m->from[i].dir->branch);
	for (i = 0; i < gone; i++)
		names_remove(m->fs, m->to_dir, m->to_name, replaced[i].branch);
}

static int rename_parts_of(const struct move *m, struct dir_fd **into)
{
	struct rename_part parts[BRANCH_MAX];
	struct replaced replaced[BRANCH_MAX];
	int i, n = 0, gone = 0, r;

	for (i = 0; i < m->from_count; i++) {
		const struct hit *from = &m->from[i];

		if (!S_ISDIR(from->st.st_mode))
			continue;
		assert(into[i]);
		gone += describe_replaced(m, from, into[i]->fd,
					  &replaced[gone]);
		parts[n++] = (struct rename_part){
			.branch = branch_of(m->fs, from->dir),
			.from_fd = from->fd->fd,
			.from_name = m->from_name,
			.to_fd = into[i]->fd,
			.to_name = m->to_name,
		};
	}
	naming_begin(m->from_dir);
	naming_begin(m->to_dir);
	r = rename_parts_do(parts, n);
	naming_end(m->to_dir, true);
	naming_end(m->from_dir, true);
	if (r == 0)
		forget_names(m, replaced, gone);
	/* The highest branch first: what remains is that of the lowest. */
	for (i = gone - 1; i >= 0; i--) {
		if (r == 0 && i == 0)
			number_keep_end_dir(&m->fs->branches,
					    replaced[i].buried.fd);
		if (r == 0)
			node_copy_gone(&m->fs->nodes, replaced[i].branch,
				       &replaced[i].handle,
				       &replaced[i].buried);
		else
			node_buried_done(&replaced[i].buried);
	}
	return r;
}

/* Files that either name hides must neither appear nor be in the way. */
static int put_hidden_aside(const struct move *m)
{
	int r = aside_put_all(m->fs, m->from, m->from_count, m->from_name);

	return r < 0 ? r : aside_put_all(m->fs, m->to, m->to_count, m->to_name);
}

int rename_dir(const struct move *m)
{
	struct dir_fd *into[BRANCH_MAX] = {NULL};
	int i, r = 0;

	if (m->to_count && !S_ISDIR(m->to[0].st.st_mode))
		return -ENOTDIR;
	for (i = 0; i < m->from_count && r == 0; i++)
		if (S_ISDIR(m->from[i].st.st_mode))
			r = clone_dir_locked(m->fs, m->to_dir,
					     m->from[i].dir->branch, &into[i]);
	rename_note_names(m);
	/* All of it, before any of it goes or is renamed. */
	if (r == 0 && m->to_count && m->from_count + m->to_count > 2)
		r = remove_dir_check(m->to, m->to_count, m->to_name);
	if (r == 0)
		r = clear_target(m);
	if (r == 0)
		r = put_hidden_aside(m);
	subdirs_begin(m->fs, m->from_dir);
	subdirs_begin(m->fs, m->to_dir);
	if (r == 0)
		r = rename_parts_of(m, into);
	subdirs_end(m->fs, m->from_dir, r == 0 ? -1 : 0);
	subdirs_end(m->fs, m->to_dir, r == 0 && !m->to_count);
	for (i = 0; i < m->from_count; i++)
		dir_fd_put(into[i]);
	return r;
}
