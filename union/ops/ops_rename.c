/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Renames stay on the branch of the renamed file; the directory it goes to is
 * cloned there. Other branches lose the names, too.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "union/branch/branch_health.h"
#include "union/branch/dir_fd.h"
#include "union/branch/intent.h"
#include "union/change/clone_dir.h"
#include "union/change/orphan_begin.h"
#include "union/change/rename.h"
#include "union/change/rename_parts.h"
#include "union/change/replay.h"
#include "union/node/names_change.h"
#include "union/ops/ops.h"
#include "union/state/reply_cache.h"
#include "union/view/lookup.h"
#include "union/view/name_filter.h"
#include "union/view/subdirs.h"

static int check_rename_writable(const struct rename_args *m)
{
	int i, r = 0;

	for (i = 0; i < m->from_count && r == 0; i++)
		r = unionfs_writable(m->fs, m->from[i].dir);
	for (i = 0; i < m->to_count && r == 0; i++)
		r = unionfs_writable(m->fs, m->to[i].dir);
	return r;
}

/*
 * Refuse a rename of what may be on a failed branch, too. A directory there
 * would keep its name, and a replaced file could come back. A name that is free
 * was looked up before: the kernel knows that it is.
 */
static int check_whole(const struct rename_args *m)
{
	bool from_whole = !S_ISDIR(m->from[0].st.st_mode) &&
			  !(m->flags & RENAME_EXCHANGE);

	if ((!from_whole && unionfs_may_have(m->from_dir, m->from_name)) ||
	    (m->to_count && unionfs_may_have(m->to_dir, m->to_name)))
		return -EIO;
	return 0;
}

static int describe_replace(const struct rename_args *m, int into_fd,
			    struct intent *ret)
{
	int r;

	ret->kind = INTENT_REPLACE;
	ret->other = m->to[0].dir->branch;
	intent_copy_name(ret->to_name, m->to_name);
	r = handle_get(m->from[0].fd->fd, m->from_name, &ret->moved);
	if (r == 0)
		r = handle_get(into_fd, "", &ret->to_dir);
	if (r == 0)
		r = handle_get(m->to[0].fd->fd, "", &ret->other_dir);
	if (r == 0)
		r = handle_get(m->to[0].fd->fd, m->to_name, &ret->replaced);
	return r;
}

/* Remove the replaced file, once the new name is there durably. */
static int let_replaced_go(const struct rename_args *m, int into_fd)
{
	struct branch *branch = branch_of(m->fs, m->from[0].dir);
	struct branch *other = branch_of(m->fs, m->to[0].dir);
	int r = branch_report(
		branch, intent_sync_rename(branch, m->from[0].fd->fd, into_fd));

	if (r == 0 && unlinkat(m->to[0].fd->fd, m->to_name, 0) < 0)
		r = branch_report(other, -errno);
	return r;
}

/* Give the file its old name again. 0: that is durable, too. */
static int take_back_file(const struct rename_args *m, int into_fd)
{
	int from_fd = m->from[0].fd->fd;

	if (renameat2(into_fd, m->to_name, from_fd, m->from_name,
		      RENAME_NOREPLACE) < 0)
		return -errno;
	return intent_sync_rename(branch_of(m->fs, m->from[0].dir), into_fd,
				  from_fd);
}

/* May the replaced file get the name again? It may if it has another name. */
static bool may_come_back(const struct rename_args *m)
{
	return m->to[0].st.st_nlink > 1;
}

/*
 * Rename over a file of another branch. That file may go only when the new one
 * is surely there, so that after a crash at any point the name has the one or
 * the other. The record stays until the replaced file has surely gone.
 */
static int replace_elsewhere(const struct rename_args *m, int into_fd)
{
	struct branch *branch = branch_of(m->fs, m->from[0].dir);
	struct branch *other = branch_of(m->fs, m->to[0].dir);
	struct intent intent = {0};
	uint64_t id = intent_new_id();
	int r = describe_replace(m, into_fd, &intent), sure = 0;

	if (r == 0)
		r = intent_begin(branch, id, &intent, !intent_in_order(branch));
	if (r < 0)
		return r;
	if (renameat(m->from[0].fd->fd, m->from_name, into_fd, m->to_name) <
	    0) {
		r = branch_report(branch, -errno);
	} else {
		r = let_replaced_go(m, into_fd);
		sure = r < 0 ? take_back_file(m, into_fd)
			     : branch_report(other,
					     intent_sync_dir(m->to[0].fd->fd));
	}
	if (sure == 0)
		(void)intent_end(branch, id, may_come_back(m));
	return r;
}

/* Rename the file that is seen at the one name to the other. */
static int rename_seen(const struct rename_args *m, int into_fd)
{
	const struct hit *from = &m->from[0];
	struct orphan orphan = {.orphan.fd = -1};
	int r = 0;

	if (m->to_count)
		orphan_begin(m->fs, &m->to[0], m->to_name, &orphan);
	if (m->to_count && m->to[0].dir->branch != from->dir->branch)
		r = replace_elsewhere(m, into_fd);
	else if (renameat(from->fd->fd, m->from_name, into_fd, m->to_name) < 0)
		r = branch_report(branch_of(m->fs, from->dir), -errno);
	orphan_end(m->fs, &orphan, r == 0);
	return r;
}

/*
 * Rename a file. Files that the names hide are put away before, so that they
 * never appear, and put back if the rename fails. So is a hidden name of the
 * file itself at its new name: a rename of one onto the other would leave both.
 */
static int rename_file(const struct rename_args *m)
{
	size_t max = (size_t)m->from_count + (size_t)m->to_count;
	auto_free struct rename_gone *gone = NULL;
	auto_dir_fd struct dir_fd *into = NULL;
	int i, count = 0, r;

	if (m->to_count && S_ISDIR(m->to[0].st.st_mode))
		return -EISDIR;
	r = clone_dir(m->fs, m->to_dir, m->from[0].dir->branch, &into);
	if (r < 0)
		return r;
	gone = calloc(max, sizeof(*gone));
	if (!gone)
		return -ENOMEM;
	rename_note_names(m);
	if (m->all)
		rename_add_hidden(m->fs, m->from, m->from_count, m->from_name,
				  gone, &count);
	rename_add_hidden(m->fs, m->to, m->to_count, m->to_name, gone, &count);
	for (i = 0; i < count && r == 0; i++)
		r = rename_gone_put(&gone[i]);
	if (r == 0)
		r = rename_seen(m, into->fd);
	rename_gone_end(gone, count, r < 0);
	return r;
}

/* Forget the names that went: the old name of a file, and the replaced file. */
static void forget_file_names(const struct rename_args *m)
{
	int i;

	/* Two names of one file stay both. */
	if (m->to_count && m->from[0].st.st_ino == m->to[0].st.st_ino &&
	    m->from[0].st.st_dev == m->to[0].st.st_dev)
		return;
	for (i = 0; i < (m->all ? m->from_count : 1); i++)
		if (!S_ISDIR(m->from[i].st.st_mode))
			name_filter_remove(m->from_dir, m->from_name,
					   m->from[i].dir->branch);
	for (i = 0; i < m->to_count; i++)
		if (!S_ISDIR(m->to[i].st.st_mode))
			name_filter_remove(m->to_dir, m->to_name,
					   m->to[i].dir->branch);
}

static bool has_copies(const struct rename_args *m)
{
	return S_ISDIR(m->from[0].st.st_mode) || m->flags & RENAME_EXCHANGE;
}

static int rename_found(const struct rename_args *m)
{
	int r;

	if (m->flags & RENAME_NOREPLACE && m->to_count)
		return -EEXIST;
	r = check_rename_writable(m);
	if (r == 0)
		r = check_whole(m);
	if (r < 0)
		return r;
	replay_note_hit(m->request, &m->from[0], m->from_name);
	if (has_copies(m))
		return m->flags & RENAME_EXCHANGE ? rename_exchange(m)
						  : rename_dir(m);
	names_change_begin(m->from_dir);
	names_change_begin(m->to_dir);
	r = rename_file(m);
	subdirs_uncover(m->fs, m->from_dir, m->from, m->from_count);
	subdirs_uncover(m->fs, m->to_dir, m->to, m->to_count);
	names_change_end(m->to_dir, r == 0);
	names_change_end(m->from_dir, r == 0);
	if (r == 0)
		forget_file_names(m);
	return r;
}

static void lose_both(const struct rename_args *m)
{
	lookup_hits_done(m->from, m->from_count);
	if (m->to_count > 0)
		lookup_hits_done(m->to, m->to_count);
}

static int find_both(struct rename_args *m)
{
	m->from_count = lookup_needed(m->fs, m->from_dir, m->from_name,
				      &m->from);
	if (m->from_count < 0)
		return m->from_count;
	if (m->flags & RENAME_EXCHANGE)
		m->to_count = lookup_needed(m->fs, m->to_dir, m->to_name,
					    &m->to);
	else
		m->to_count = lookup_all(m->fs, m->to_dir, m->to_name, &m->to);
	if (m->to_count >= 0)
		return 0;
	lose_both(m);
	return m->to_count;
}

/*
 * Rename after another lookup, while nobody makes copies of directories: a copy
 * made just now would stay where it is.
 */
static int rename_alone(struct rename_args *m)
{
	int r;

	pthread_rwlock_wrlock(&m->fs->tree);
	r = find_both(m);
	if (r == 0) {
		r = rename_found(m);
		lose_both(m);
	}
	pthread_rwlock_unlock(&m->fs->tree);
	return r;
}

/*
 * Did a server rename it that was killed then, and were the journals read
 * since?
 */
static bool was_done(const struct rename_args *m)
{
	struct reply_cache_noted noted;
	struct hit *hits = NULL;
	bool done;
	int n;

	if (!reply_cache_noted(m->request, &noted))
		return false;
	n = lookup_needed(m->fs, m->from_dir, m->from_name, &hits);
	done = replay_went(m->request, hits, n, m->from_name);
	if (n > 0)
		lookup_hits_done(hits, n);
	if (done) {
		subdirs_forget(m->fs, m->from_dir);
		subdirs_forget(m->fs, m->to_dir);
	}
	return done;
}

int rename_name(struct rename_args *m)
{
	bool alone;
	int r;

	if (m->flags & ~(unsigned)(RENAME_NOREPLACE | RENAME_EXCHANGE))
		return -EINVAL;
	if (unionfs_hidden(m->from_dir, m->from_name))
		return -ENOENT;
	if (unionfs_hidden(m->to_dir, m->to_name))
		return -EPERM;
	m->all = policy_of(&m->fs->policies, POLICY_RENAME)->choice ==
		 POLICY_ALL;
	if (was_done(m))
		return 0;
	r = find_both(m);
	if (r < 0)
		return r;
	alone = has_copies(m);
	if (!alone)
		r = rename_found(m);
	lose_both(m);
	return alone ? rename_alone(m) : r;
}

void op_rename(fuse_req_t req, fuse_ino_t parent, const char *name,
	       fuse_ino_t new_parent, const char *new_name, unsigned flags)
{
	struct request *request = request_of(req);
	struct rename_args m = {.fs = request->fs,
				.request = request,
				.from_dir = op_node(request, parent),
				.from_name = name,
				.to_name = new_name,
				.flags = flags};

	if (!m.from_dir)
		return;
	m.to_dir = op_node(request, new_parent);
	if (m.to_dir)
		op_reply(request, rename_name(&m));
}
