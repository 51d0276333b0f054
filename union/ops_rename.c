/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Renames stay on the branch of what is renamed; the directory it goes to is
 * cloned there. What else of the names is on other branches is removed.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "union/clone_dir.h"
#include "union/dir_fd.h"
#include "union/intent.h"
#include "union/lookup.h"
#include "union/ops.h"

/* One rename: where a name was found and where it goes. */
struct move {
	struct unionfs *fs;
	struct node *from_dir, *to_dir;
	const char *from_name, *to_name;
	struct hit *from, *to;
	int from_count, to_count; /* to_count 0: the target is new */
	unsigned flags;
};

static int check_writable(const struct move *m)
{
	int i;

	for (i = 0; i < m->from_count; i++)
		if (unionfs_writable(m->fs, m->from[i].dir) < 0)
			return -EROFS;
	for (i = 0; i < m->to_count; i++)
		if (unionfs_writable(m->fs, m->to[i].dir) < 0)
			return -EROFS;
	return 0;
}

/* Unlink the files among hits[from..count), the highest branch first. */
static int unlink_hidden(const struct hit *hits, int from, int count,
			 const char *name, unsigned but_branch)
{
	int i;

	for (i = count - 1; i >= from; i--)
		if (!S_ISDIR(hits[i].st.st_mode) &&
		    hits[i].dir->branch != but_branch &&
		    unlinkat(hits[i].fd->fd, name, 0) < 0)
			return -errno;
	return 0;
}

static void copy_name(char *to, const char *from)
{
	(void)snprintf(to, NAME_MAX + 1, "%s", from); /* the kernel's limit */
}

static int describe_replace(const struct move *m, int into_fd,
			    struct intent *ret)
{
	int r;

	ret->kind = INTENT_REPLACE;
	ret->other = m->to[0].dir->branch;
	copy_name(ret->to_name, m->to_name);
	r = handle_get(m->from[0].fd->fd, m->from_name, &ret->moved);
	if (r == 0)
		r = handle_get(into_fd, "", &ret->to_dir);
	if (r == 0)
		r = handle_get(m->to[0].fd->fd, "", &ret->other_dir);
	if (r == 0)
		r = handle_get(m->to[0].fd->fd, m->to_name, &ret->replaced);
	return r;
}

/*
 * Over a file of another branch. It may go only when the new one is surely
 * there, so that after a crash at any point the name has the one or the
 * other.
 */
static int replace_elsewhere(const struct move *m, int into_fd)
{
	const struct branch *branch = branch_of(m->fs, m->from[0].dir);
	struct intent intent = {0};
	uint64_t id = intent_new_id();
	int r = describe_replace(m, into_fd, &intent);

	if (r == 0)
		r = intent_begin(branch, id, &intent, false);
	if (r < 0)
		return r;
	if (renameat(m->from[0].fd->fd, m->from_name, into_fd, m->to_name) < 0)
		r = -errno;
	if (r == 0)
		r = intent_sync_dir(into_fd);
	if (r == 0 && unlinkat(m->to[0].fd->fd, m->to_name, 0) < 0)
		r = -errno;
	intent_end(branch, id);
	return r;
}

static int rename_file(const struct move *m)
{
	unsigned branch = m->from[0].dir->branch;
	auto_dir_fd struct dir_fd *into = NULL;
	int r;

	if (m->to_count && S_ISDIR(m->to[0].st.st_mode))
		return -EISDIR;
	r = clone_dir(m->fs, m->to_dir, branch, &into);
	if (r == 0)
		r = unlink_hidden(m->from, 1, m->from_count, m->from_name,
				  branch);
	if (r == 0)
		r = unlink_hidden(m->to, 1, m->to_count, m->to_name, branch);
	if (r < 0)
		return r;
	if (m->to_count && m->to[0].dir->branch != branch)
		return replace_elsewhere(m, into->fd);
	if (renameat(m->from[0].fd->fd, m->from_name, into->fd, m->to_name) < 0)
		return -errno;
	return 0;
}

static const struct hit *hit_on(const struct hit *hits, int count,
				unsigned branch)
{
	int i;

	for (i = 0; i < count; i++)
		if (hits[i].dir->branch == branch)
			return &hits[i];
	return NULL;
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
		    !hit_on(m->from, m->from_count, m->to[i].dir->branch))
			alone[n++] = m->to[i]; /* borrows the descriptor */
	if (n)
		r = op_remove_dir(m->fs, alone, n, m->to_name);
	free(alone);
	return r;
}

/* One branch's part; the directory it replaces is known to be gone. */
static int rename_part(const struct move *m, const struct hit *from,
		       int into_fd)
{
	const struct hit *to = hit_on(m->to, m->to_count, from->dir->branch);
	struct handle replaced;
	bool replaces = to && handle_get(into_fd, m->to_name, &replaced) == 0;

	if (renameat(from->fd->fd, m->from_name, into_fd, m->to_name) < 0)
		return errno == EEXIST ? -ENOTEMPTY : -errno; /* XFS's word */
	if (replaces)
		node_copy_gone(&m->fs->nodes, from->dir->branch, &replaced);
	return 0;
}

static int rename_parts(const struct move *m, struct dir_fd **into)
{
	int i, r = 0;

	for (i = 0; i < m->from_count && r == 0; i++)
		if (S_ISDIR(m->from[i].st.st_mode))
			r = rename_part(m, &m->from[i], into[i]->fd);
	if (r == 0)
		return 0;
	/* Back to where they were: all or nothing. */
	for (i -= 2; i >= 0; i--)
		if (S_ISDIR(m->from[i].st.st_mode))
			(void)renameat(into[i]->fd, m->to_name,
				       m->from[i].fd->fd, m->from_name);
	return r;
}

static int describe_part(const struct move *m, int i, int into_fd,
			 struct intent *ret)
{
	int r;

	ret->kind = i == 0 ? INTENT_MOVE_ALL : INTENT_MOVE;
	copy_name(ret->from_name, m->from_name);
	copy_name(ret->to_name, m->to_name);
	r = handle_get(m->from[i].fd->fd, m->from_name, &ret->moved);
	if (r == 0)
		r = handle_get(m->from[i].fd->fd, "", &ret->from_dir);
	return r < 0 ? r : handle_get(into_fd, "", &ret->to_dir);
}

/* Write every part down; the first, which makes it count, last. */
static int write_down(const struct move *m, struct dir_fd **into, uint64_t id)
{
	int i, r = 0;

	for (i = m->from_count - 1; i >= 0 && r == 0; i--) {
		struct intent intent = {0};

		if (!S_ISDIR(m->from[i].st.st_mode))
			continue;
		r = describe_part(m, i, into[i]->fd, &intent);
		if (r == 0)
			r = intent_begin(branch_of(m->fs, m->from[i].dir), id,
					 &intent, true);
	}
	return r;
}

static void strike_out(const struct move *m, uint64_t id)
{
	int i;

	for (i = 0; i < m->from_count; i++)
		if (S_ISDIR(m->from[i].st.st_mode))
			intent_end(branch_of(m->fs, m->from[i].dir), id);
}

static int rename_parts_whole(const struct move *m, struct dir_fd **into)
{
	uint64_t id = intent_new_id();
	int i, r = write_down(m, into, id);

	if (r == 0)
		r = rename_parts(m, into);
	for (i = 0; i < m->from_count && r == 0; i++)
		if (S_ISDIR(m->from[i].st.st_mode))
			r = intent_sync_dir(into[i]->fd);
	strike_out(m, id);
	return r;
}

static int rename_dir(const struct move *m)
{
	struct dir_fd *into[BRANCH_MAX] = {NULL};
	int i, r = 0;

	if (m->to_count && !S_ISDIR(m->to[0].st.st_mode))
		return -ENOTDIR;
	for (i = 0; i < m->from_count && r == 0; i++)
		if (S_ISDIR(m->from[i].st.st_mode))
			r = clone_dir_locked(m->fs, m->to_dir,
					     m->from[i].dir->branch, &into[i]);
	if (r == 0)
		r = clear_target(m);
	if (r == 0)
		r = m->from_count == 1 ? rename_parts(m, into)
				       : rename_parts_whole(m, into);
	for (i = 0; i < m->from_count; i++)
		dir_fd_put(into[i]);
	if (r == 0) {
		unionfs_count_subdir(m->fs, m->from_dir, -1);
		if (!m->to_count)
			unionfs_count_subdir(m->fs, m->to_dir, 1);
	}
	return r;
}

/* Only where both are on one and the same branch is it atomic. */
static int exchange(const struct move *m)
{
	if (!m->to_count)
		return -ENOENT;
	if (m->from_count != 1 || m->to_count != 1 ||
	    m->from[0].dir->branch != m->to[0].dir->branch)
		return -EINVAL;
	if (renameat2(m->from[0].fd->fd, m->from_name, m->to[0].fd->fd,
		      m->to_name, RENAME_EXCHANGE) < 0)
		return -errno;
	if (S_ISDIR(m->from[0].st.st_mode) != S_ISDIR(m->to[0].st.st_mode)) {
		bool is_dir = S_ISDIR(m->from[0].st.st_mode);

		unionfs_count_subdir(m->fs, m->from_dir, is_dir ? -1 : 1);
		unionfs_count_subdir(m->fs, m->to_dir, is_dir ? 1 : -1);
	}
	return 0;
}

static int rename_found(const struct move *m)
{
	bool is_dir = S_ISDIR(m->from[0].st.st_mode);
	int r;

	if (m->flags & RENAME_NOREPLACE && m->to_count)
		return -EEXIST;
	r = check_writable(m);
	if (r < 0)
		return r;
	if (!is_dir && !(m->flags & RENAME_EXCHANGE))
		return rename_file(m);
	pthread_rwlock_wrlock(&m->fs->tree);
	r = m->flags & RENAME_EXCHANGE ? exchange(m) : rename_dir(m);
	pthread_rwlock_unlock(&m->fs->tree);
	return r;
}

static int rename_name(struct move *m)
{
	int r;

	if (m->flags & ~(unsigned)(RENAME_NOREPLACE | RENAME_EXCHANGE))
		return -EINVAL;
	if (unionfs_hidden(m->from_dir, m->from_name))
		return -ENOENT;
	if (unionfs_hidden(m->to_dir, m->to_name))
		return -EPERM;
	m->from_count = lookup_all(m->fs, m->from_dir, m->from_name, &m->from);
	if (m->from_count <= 0)
		return m->from_count ? m->from_count : -ENOENT;
	m->to_count = lookup_all(m->fs, m->to_dir, m->to_name, &m->to);
	r = m->to_count < 0 ? m->to_count : rename_found(m);
	lookup_hits_done(m->from, m->from_count);
	if (m->to_count > 0)
		lookup_hits_done(m->to, m->to_count);
	return r;
}

void op_rename(fuse_req_t req, fuse_ino_t parent, const char *name,
	       fuse_ino_t new_parent, const char *new_name, unsigned flags)
{
	struct move m = {.fs = unionfs_of(req),
			 .from_dir = op_node(req, parent),
			 .from_name = name,
			 .to_name = new_name,
			 .flags = flags};

	if (!m.from_dir)
		return;
	m.to_dir = op_node(req, new_parent);
	if (m.to_dir)
		op_reply(req, rename_name(&m));
}
