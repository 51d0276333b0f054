/* SPDX-License-Identifier: Apache-2.0 */
/* A directory is renamed on every branch that has a copy of it. */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "union/branch/dir_fd.h"
#include "union/branch/ino_preserve.h"
#include "union/change/clone_dir.h"
#include "union/change/hidden_files.h"
#include "union/change/remove_dir.h"
#include "union/change/rename.h"
#include "union/change/rename_parts.h"
#include "union/node/names_change.h"
#include "union/sys/immutable.h"
#include "union/view/name_filter.h"
#include "union/view/preserve_mtime.h"
#include "union/view/subdirs.h"

/* A copy of the target, which goes, replaced or not. */
struct target {
	unsigned branch;
	struct handle handle;
	struct orphan_fd orphan;
};

/* A rename of all copies. */
struct parts {
	const struct rename_args *m;
	struct rename_part parts[BRANCH_MAX];
	struct rename_gone gone[BRANCH_MAX];
	struct target targets[BRANCH_MAX]; /* of gone[] */
	int count, gone_count;
	/* The directories that change: two for each part, and those of gone */
	struct preserve_mtime quietly[3 * BRANCH_MAX];
	int fds[3 * BRANCH_MAX];
	int quiet_count;
};

/* Begin quietly: a failed rename is not to be seen. */
static int be_quiet(struct parts *p, unsigned branch, int fd)
{
	int n = p->quiet_count, r;

	r = preserve_mtime_begin(p->m->fs, branch, fd, &p->quietly[n]);
	if (r == 0)
		p->fds[p->quiet_count++] = fd;
	return r;
}

static void end_quiet(struct parts *p)
{
	while (p->quiet_count) {
		p->quiet_count--;
		preserve_mtime_end(p->m->fs, p->fds[p->quiet_count],
				   &p->quietly[p->quiet_count]);
	}
}

/*
 * Find a copy that may not be changed before the first of several is changed. A
 * name once in an append-only directory stays there.
 */
static int check_steady(const struct rename_args *m, int dir_fd,
			const char *name, int into_fd)
{
	if (m->from_count + m->to_count < 2)
		return 0;
	if (into_fd >= 0 && immutable_is(into_fd))
		return -EPERM;
	return immutable_check_name(dir_fd, name);
}

static int add_target(struct parts *p, const struct hit *hit)
{
	const struct rename_args *m = p->m;
	struct target *target = &p->targets[p->gone_count];
	int r = check_steady(m, hit->fd->fd, m->to_name, -1);

	if (r == 0)
		r = handle_get(hit->fd->fd, m->to_name, &target->handle);
	if (r == 0)
		r = be_quiet(p, hit->dir->branch, hit->fd->fd);
	if (r < 0)
		return r;
	target->branch = hit->dir->branch;
	target->orphan = orphan_inode_open(
		&m->fs->nodes,
		openat(hit->fd->fd, m->to_name,
		       O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
	p->gone[p->gone_count++] = (struct rename_gone){
		.branch = branch_of(m->fs, hit->dir),
		.dir_fd = hit->fd->fd,
		.name = m->to_name,
		.replaced = true,
	};
	return 0;
}

static int add_dir_part(struct parts *p, const struct hit *from, int into_fd)
{
	const struct rename_args *m = p->m;
	int r = check_steady(m, from->fd->fd, m->from_name, into_fd);

	if (r == 0)
		r = be_quiet(p, from->dir->branch, from->fd->fd);
	if (r == 0)
		r = be_quiet(p, from->dir->branch, into_fd);
	p->parts[p->count++] = (struct rename_part){
		.branch = branch_of(m->fs, from->dir),
		.from_fd = from->fd->fd,
		.from_name = m->from_name,
		.to_fd = into_fd,
		.to_name = m->to_name,
	};
	return r;
}

static int add_all(struct parts *p, struct dir_fd **into)
{
	const struct rename_args *m = p->m;
	int i, r = 0;

	for (i = 0; i < m->from_count && r == 0; i++)
		if (S_ISDIR(m->from[i].st.st_mode)) {
			assert(into[i]);
			r = add_dir_part(p, &m->from[i], into[i]->fd);
		}
	for (i = 0; i < m->to_count && r == 0; i++)
		if (S_ISDIR(m->to[i].st.st_mode))
			r = add_target(p, &m->to[i]);
	return r;
}

/* End the targets, the highest branch first: the lowest one remains. */
static void end_targets(struct parts *p, bool gone)
{
	struct unionfs *fs = p->m->fs;
	struct target *target;
	int i;

	for (i = p->gone_count - 1; i >= 0; i--) {
		target = &p->targets[i];
		if (!gone) {
			orphan_inode_done(&target->orphan);
			continue;
		}
		name_filter_remove(p->m->to_dir, p->m->to_name, target->branch);
		if (i == 0)
			ino_preserve_end_dir(&fs->branches, target->orphan.fd);
		node_copy_gone(&fs->nodes, target->branch, &target->handle,
			       &target->orphan);
	}
}

/* Forget the old names, which no branch has any more. */
static void forget_dir_names(const struct rename_args *m)
{
	int i;

	for (i = 0; i < m->from_count; i++)
		if (S_ISDIR(m->from[i].st.st_mode))
			name_filter_remove(m->from_dir, m->from_name,
					   m->from[i].dir->branch);
}

static int do_dir_parts(struct parts *p)
{
	const struct rename_args *m = p->m;
	int r;

	subdirs_begin(m->fs, m->from_dir);
	subdirs_begin(m->fs, m->to_dir);
	names_change_begin(m->from_dir);
	names_change_begin(m->to_dir);
	r = rename_parts_do(p->parts, p->count, p->gone, p->gone_count);
	names_change_end(m->to_dir, r == 0);
	names_change_end(m->from_dir, r == 0);
	subdirs_end(m->fs, m->from_dir, r == 0 ? -1 : 0);
	subdirs_end(m->fs, m->to_dir, r == 0 && !m->to_count);
	return r;
}

static int rename_copies(const struct rename_args *m, struct dir_fd **into)
{
	auto_free struct parts *p = calloc(1, sizeof(*p));
	int r;

	if (!p)
		return -ENOMEM;
	p->m = m;
	r = add_all(p, into);
	if (r == 0)
		r = do_dir_parts(p);
	end_quiet(p);
	if (r == 0)
		forget_dir_names(m);
	end_targets(p, r == 0);
	return r;
}

/* Hide files below either name: they must not appear or be in the way. */
static int keep_both_hidden(const struct rename_args *m)
{
	int r = hidden_files_put_all(m->fs, m->from, m->from_count,
				     m->from_name);

	return r < 0 ? r
		     : hidden_files_put_all(m->fs, m->to, m->to_count,
					    m->to_name);
}

int rename_dir(const struct rename_args *m)
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
	if (r == 0)
		r = remove_dir_check(m->to, m->to_count, m->to_name);
	if (r == 0)
		r = keep_both_hidden(m);
	if (r == 0)
		r = rename_copies(m, into);
	for (i = 0; i < m->from_count; i++)
		dir_fd_put(into[i]);
	return r;
}
