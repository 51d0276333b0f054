/* SPDX-License-Identifier: Apache-2.0 */
/* May a file move? */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "union/branch/dir_fd.h"
#include "union/change/hidden_files.h"
#include "union/migrate/migration.h"
#include "union/sys/file_in_use.h"

int migration_check_pinned(struct migration *m)
{
	struct node *node = m->node;
	int r;

	if (!m->fs->passthrough || !S_ISREG(m->st.st_mode))
		return 0;
	if (!node) {
		r = file_in_use(m->old_fd);
		return r == -EBUSY ? r : 0;
	}
	node_lock(&m->fs->nodes, node);
	if (node_file(node)->opens)
		r = node->passthrough || node->passed ? -EBUSY : 0;
	else
		r = file_in_use(m->old_fd);
	if (r == 0)
		node->passed = false;
	else if (r != -EBUSY && !node->passed)
		r = 0;
	node_unlock(&m->fs->nodes, node);
	return r;
}

static bool is_being_listed(struct migration *m)
{
	bool listed = false;
	unsigned i;

	for (i = 0; i < m->move->count && !listed; i++) {
		node_lock(&m->fs->nodes, m->move->names[i].dir);
		listed = node_dir(m->move->names[i].dir)->streams > 0;
		node_unlock(&m->fs->nodes, m->move->names[i].dir);
	}
	return listed;
}

int migration_check_names(struct migration *m)
{
	struct handle found;
	struct stat st;
	unsigned i;

	for (i = 0; i < m->move->count; i++)
		if (handle_get(m->r.names[i].from_fd, m->r.names[i].name,
			       &found) < 0 ||
		    !handle_equal(&found, &m->move->file))
			return -ESTALE;
	if (fstat(m->old_fd, &st) < 0)
		return -errno;
	return st.st_nlink == m->move->count ? 0 : -ESTALE;
}

/*
 * Check other files of the name @i. A file that this one hides must not appear,
 * nor be in the way. A file that hides this one must go on to do so.
 *
 * @clear  keep such files as hidden ones
 */
static int check_others(struct migration *m, unsigned i, bool clear)
{
	unsigned from = m->move->from->id, to = m->move->to->id;
	const char *name = m->r.names[i].name;
	bool hidden = false;
	struct copy *copy;
	struct stat st;
	int r = 0;

	for (copy = node_first(m->move->names[i].dir); copy && r == 0;
	     copy = copy_next(copy)) {
		auto_dir_fd struct dir_fd *dir = NULL;

		if (copy->branch == from ||
		    (copy->branch > to && !hidden && copy->branch > from))
			continue;
		r = unionfs_dir_fd(m->fs, copy, &dir);
		if (r < 0)
			return r;
		if (fstatat(dir->fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
			if (errno != ENOENT)
				return -errno;
			continue;
		}
		if (copy->branch < from) { /* the lowest first */
			if (!hidden && to < copy->branch)
				return -EEXIST;
			hidden = true;
		}
		if (hidden ? copy->branch == to : S_ISDIR(st.st_mode))
			return -EEXIST;
		if (!hidden && clear)
			r = hidden_files_put_preserving(
				m->fs, branch_of(m->fs, copy), dir->fd, name);
	}
	return r;
}

int migration_check(struct migration *m)
{
	unsigned i, flags = m->move->to->flags;
	int r;

	if (flags & (BRANCH_RO | BRANCH_NC | BRANCH_DRAINING | BRANCH_GONE))
		return -EROFS;
	if (m->move->from->flags & (BRANCH_RO | BRANCH_GONE))
		return -EROFS;
	if (is_being_listed(m))
		return -EBUSY;
	r = migration_check_pinned(m);
	if (r == 0)
		r = migration_check_names(m);
	for (i = 0; i < m->move->count && r == 0; i++)
		r = check_others(m, i, false);
	for (i = 0; i < m->move->count && r == 0; i++)
		r = check_others(m, i, true);
	return r;
}
