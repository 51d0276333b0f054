/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "union/branch/branch_health.h"
#include "union/branch/dir_fd.h"
#include "union/change/act_as.h"
#include "union/migrate/nudge.h"
#include "union/node/dir_attr_lock.h"
#include "union/open/durable.h"
#include "union/open/open_file.h"
#include "union/ops/dot_union.h"
#include "union/ops/ops.h"
#include "union/state/reply_cache.h"
#include "union/state/request.h"
#include "union/sys/proc_path.h"
#include "union/sys/statx.h"
#include "union/view/btime.h"
#include "union/view/dir_change.h"
#include "union/view/unseen.h"

/* Reply as the kernel asked; @birth is NULL when nobody knows it. */
static void reply_stat(struct request *request, const struct stat *st,
		       const struct timespec *birth, double timeout)
{
	struct statx_out out;

	if (!request->wants_birth) {
		fuse_reply_attr(request->req, st, timeout);
		return;
	}
	statx_encode(st, birth, timeout, &out);
	fuse_reply_buf(request->req, (const char *)&out, sizeof(out));
}

/*
 * Reply with the attributes of @node.
 *
 * @fd     of the file, which may be O_PATH; -1: it is to be opened
 * @asked  the request asked for nothing else: then an answer that tells nothing
 *         new is kept a little also when it may be outdated unseen
 */
static void reply_attr(struct request *request, struct node *node, int fd,
		       bool asked)
{
	struct unionfs *fs = request->fs;
	bool known = false;
	struct timespec birth;
	struct stat st;
	double timeout;
	int r = unionfs_attr_open(fs, request, node, fd, &st, &timeout);

	if (r == 0 && asked && timeout == 0 && S_ISREG(node->type))
		timeout = unseen_keep(fs, node, &st);
	if (r == 0 && request->wants_birth)
		known = (fd < 0 ? btime_of(fs, node, &birth)
				: btime_read(fd, &birth)) == 0;
	if (r < 0)
		op_reply(request, r);
	else
		reply_stat(request, &st, known ? &birth : NULL, timeout);
}

void op_getattr(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *info)
{
	struct request *request = request_of(req);
	struct unionfs *fs = request->fs;
	struct timespec birth;
	struct node *node;
	struct stat st;
	double timeout;
	bool known;
	int fd;

	if (ino == DOT_UNION_ID) {
		dot_union_stat(fs, &st);
		reply_stat(request, &st, NULL, fs->timeout);
		return;
	}
	node = op_node(request, ino);
	if (!node)
		return;
	if (!info || S_ISDIR(node->type)) {
		reply_attr(request, node, -1, true);
		return;
	}
	timeout = unionfs_attr_timeout(fs, request, node);
	fd = open_file_fd(fs, request, node, info);
	if (fd < 0 || fstat(fd, &st) < 0) {
		op_reply(request, fd < 0 ? fd : -errno);
		return;
	}
	unionfs_fill_stat(fs, node, &st);
	if (timeout == 0)
		timeout = unseen_keep_size(fs, node, &st);
	known = request->wants_birth && btime_read(fd, &birth) == 0;
	reply_stat(request, &st, known ? &birth : NULL, timeout);
}

static struct timespec wanted_time(int to_set, int now, int set,
				   const struct timespec *time)
{
	if (to_set & now)
		return (struct timespec){.tv_nsec = UTIME_NOW};
	if (to_set & set)
		return *time;
	return (struct timespec){.tv_nsec = UTIME_OMIT};
}

static int set_times(int fd, const struct stat *st, int to_set)
{
	struct timespec times[2] = {
		wanted_time(to_set, FUSE_SET_ATTR_ATIME_NOW,
			    FUSE_SET_ATTR_ATIME, &st->st_atim),
		wanted_time(to_set, FUSE_SET_ATTR_MTIME_NOW,
			    FUSE_SET_ATTR_MTIME, &st->st_mtim),
	};

	return utimensat(fd, "", times, AT_EMPTY_PATH) < 0 ? -errno : 0;
}

/*
 * Set the size, as the caller: this and set_owner() take room, or charge
 * another user with it.
 */
static int set_size(struct request *request, const char *path, int file,
		    off_t size)
{
	int r;

	act_as_spender(request);
	do {
		r = file < 0 ? truncate(path, size) : ftruncate(file, size);
		r = r < 0 ? -errno : 0;
	} while (act_as_unlimited(request, r));
	act_as_root();
	return r;
}

static int set_owner(struct request *request, int fd, uid_t uid, gid_t gid)
{
	int r;

	do
		r = fchownat(fd, "", uid, gid,
			     AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW) < 0
			    ? -errno
			    : 0;
	while (act_as_unlimited(request, r));
	act_as_root();
	return r;
}

/* @fd may be O_PATH; @file: open for the truncation, or -1. */
static int set_attributes(struct request *request, int fd, int file,
			  const struct stat *st, int to_set)
{
	bool nothing = request->wants_nothing; /* chown to nobody */
	uid_t uid = to_set & FUSE_SET_ATTR_UID ? st->st_uid : (uid_t)-1;
	gid_t gid = to_set & FUSE_SET_ATTR_GID ? st->st_gid : (gid_t)-1;
	char path[PROC_PATH_MAX];
	int r = 0;

	proc_path(path, fd, "");
	if (to_set & FUSE_SET_ATTR_SIZE)
		r = set_size(request, path, file, st->st_size);
	/* A new owner clears setuid; the mode that is asked for stays. */
	if (r == 0 &&
	    (to_set & (FUSE_SET_ATTR_UID | FUSE_SET_ATTR_GID) || nothing))
		r = set_owner(request, fd, uid, gid);
	if (r < 0)
		return r;
	if (to_set & FUSE_SET_ATTR_MODE && chmod(path, st->st_mode & 07777) < 0)
		return -errno;
	if (to_set & (FUSE_SET_ATTR_ATIME | FUSE_SET_ATTR_MTIME |
		      FUSE_SET_ATTR_ATIME_NOW | FUSE_SET_ATTR_MTIME_NOW))
		return set_times(fd, st, to_set);
	return 0;
}

/*
 * May the caller clear setuid? A setattr that wants nothing comes before a
 * write that is passed through, and from a chown to no user and no group. The
 * kernel allows such a chown to everybody, though it clears setuid. So where
 * nobody writes the file, only the owner may.
 */
static int check_clearing(struct request *request, struct node *node, int fd)
{
	struct unionfs *fs = request->fs;
	uid_t uid = request->uid;
	bool writes;
	struct stat st;

	if (!request->wants_nothing || uid == 0)
		return 0;
	node_lock(&fs->nodes, node);
	writes = node_file(node)->writers > 0;
	node_unlock(&fs->nodes, node);
	if (writes)
		return 0;
	if (fstat(fd, &st) < 0)
		return -errno;
	return st.st_uid != uid && st.st_mode & (S_ISUID | S_ISGID) ? -EPERM
								    : 0;
}

/*
 * Is a setattr of root that wants nothing taken for one before a write? Before
 * root writes to a file with a capability, the kernel removes the capability,
 * and then wants nothing more: setuid stays. If none was removed, root changes
 * the owner to nobody, which clears setuid. If one was removed, and the file is
 * open for writing, the two cannot be told apart: true.
 */
static bool is_before_write(struct request *request, struct node *node)
{
	struct unionfs *fs = request->fs;
	struct reply_cache_noted noted;
	bool is;

	/* A killed server has looked already, and then cleared @uncapped as
	 * below. */
	if (reply_cache_noted(request, &noted))
		return noted.note == REPLY_CACHE_TAKEN;
	node_lock(&fs->nodes, node);
	is = request->wants_nothing && request->uid == 0 && node->uncapped &&
	     node_file(node)->writers > 0;
	if (is)
		reply_cache_note(request, REPLY_CACHE_TAKEN);
	node->uncapped = false;
	node_unlock(&fs->nodes, node);
	return is;
}

/*
 * @ret_fd  the file as it was changed, O_PATH, for the answer; untouched when
 *          it has moved meanwhile
 */
static int set_file(struct request *request, struct node *node,
		    const struct stat *st, int to_set,
		    const struct fuse_file_info *info, int *ret_fd)
{
	struct unionfs *fs = request->fs;
	struct copy *copy = node_first(node);
	auto_close int fd = -1;
	gid_t group = OP_GROUP_NOW;
	struct stat before;
	int open_fd = info ? open_file_fd(fs, request, node, info) : -1;
	int r = copy ? unionfs_writable(fs, copy) : -ESTALE;

	if (r == 0 && info && open_fd < 0)
		r = open_fd;
	if (r < 0)
		return r;
	fd = unionfs_open(fs, node, O_PATH | O_NOFOLLOW);
	if (fd < 0)
		return fd;
	if (is_before_write(request, node))
		return 0;
	r = check_clearing(request, node, fd);
	if (r < 0)
		return r;
	if (to_set & FUSE_SET_ATTR_GID && fstat(fd, &before) == 0)
		group = before.st_gid;
	r = branch_report(branch_of(fs, copy),
			  set_attributes(request, fd, open_fd, st, to_set));
	if (to_set & FUSE_SET_ATTR_SIZE)
		open_file_changed(fs, node, st->st_size, 0);
	/* A change of owner clears setuid by itself, on the branch, but does
	 * not know that the caller is not root. */
	if (r == 0 && request->kills_privileges &&
	    (!(request->wants_nothing ||
	       to_set & (FUSE_SET_ATTR_UID | FUSE_SET_ATTR_GID)) ||
	     request->uid != 0))
		r = op_kill_privileges(request, node->id, fd, group);
	if (r == 0 && node_first(node) == copy)
		*ret_fd = take_fd(&fd);
	return r;
}

/*
 * Accept that a copy other than the first was not changed, if it is no more or
 * has no room for its ACL. Such a copy becomes as the first when something is
 * to be made in it.
 */
static int missed_copy(struct copy *copy, int r)
{
	if (r == -ENOSPC || r == -EDQUOT)
		copy_set(copy, COPY_ALIGNED, false);
	return r == -ESTALE || r == -ENOSPC || r == -EDQUOT ? 0 : r;
}

/* Does the request set nothing but the present time? */
static bool sets_now(int to_set)
{
	const int now = FUSE_SET_ATTR_ATIME | FUSE_SET_ATTR_MTIME |
			FUSE_SET_ATTR_ATIME_NOW | FUSE_SET_ATTR_MTIME_NOW |
			FUSE_SET_ATTR_CTIME;
	bool atime = !(to_set & FUSE_SET_ATTR_ATIME) ||
		     to_set & FUSE_SET_ATTR_ATIME_NOW;
	bool mtime = !(to_set & FUSE_SET_ATTR_MTIME) ||
		     to_set & FUSE_SET_ATTR_MTIME_NOW;

	return !(to_set & ~now) && atime && mtime;
}

/*
 * Give all copies the same times: the present time of the first, @fd, is also
 * that of the others. Returns what is to be set there.
 */
static int same_times(int fd, struct stat *st, int to_set)
{
	struct stat now;

	if (!(to_set & (FUSE_SET_ATTR_ATIME_NOW | FUSE_SET_ATTR_MTIME_NOW)) ||
	    fstat(fd, &now) < 0)
		return to_set;
	if (to_set & FUSE_SET_ATTR_ATIME_NOW) {
		st->st_atim = now.st_atim;
		to_set |= FUSE_SET_ATTR_ATIME;
	}
	if (to_set & FUSE_SET_ATTR_MTIME_NOW) {
		st->st_mtim = now.st_mtim;
		to_set |= FUSE_SET_ATTR_MTIME;
	}
	return to_set & ~(FUSE_SET_ATTR_ATIME_NOW | FUSE_SET_ATTR_MTIME_NOW);
}

/* @to_set: the part of @asked to set here, and in the next copy on return. */
static int set_copy(struct request *request, struct dir_change *change,
		    struct copy *copy, struct stat *st, int asked, int *to_set)
{
	struct unionfs *fs = change->fs;
	auto_dir_fd struct dir_fd *dir = NULL;
	int r = unionfs_dir_fd(fs, copy, &dir);

	if (r == 0)
		r = dir_change_note(change, copy, dir->fd);
	if (r < 0)
		return r;
	r = set_attributes(request, dir->fd, -1, st, *to_set);
	/* An append-only directory takes no other time than now. */
	if (r == -EPERM && *to_set != asked)
		r = set_attributes(request, dir->fd, -1, st, asked);
	if (r == 0)
		*to_set = same_times(dir->fd, st, *to_set);
	return branch_report(branch_of(fs, copy), r);
}

/*
 * Set the attributes on every copy; the first is the one that is seen. Another
 * copy stays as it is if its branch is read-only.
 */
static int set_dir(struct request *request, const struct node *node,
		   struct stat *st, int to_set)
{
	struct unionfs *fs = request->fs;
	struct copy *first = node_first(node), *copy;
	struct dir_change change;
	const int asked = to_set;
	int r = first ? unionfs_writable(fs, first) : 0;

	if (!first) {
		r = atomic_load(&node->orphan_fd);
		return r < 0 ? -ESTALE
			     : set_attributes(request, r, -1, st, to_set);
	}
	if (r == 0)
		r = unionfs_changeable(node);
	if (r == 0)
		r = dir_change_begin(&change, fs, node, NULL, sets_now(to_set));
	if (r < 0)
		return r;
	for (copy = first; copy && r == 0; copy = copy_next(copy)) {
		if (copy != first && unionfs_writable(fs, copy) < 0)
			continue;
		r = set_copy(request, &change, copy, st, asked, &to_set);
		if (r < 0 && copy != first)
			r = missed_copy(copy, r);
	}
	dir_change_end(&change, r);
	return r;
}

static int set_dir_in_turn(struct request *request, const struct node *node,
			   struct stat *st, int to_set)
{
	struct dir_attr_lock turn;
	int r;

	dir_attr_lock_take(&turn, node->id);
	r = set_dir(request, node, st, to_set);
	dir_attr_lock_give(&turn);
	return r;
}

void op_setattr(fuse_req_t req, fuse_ino_t ino, struct stat *st, int to_set,
		struct fuse_file_info *info)
{
	struct request *request = request_of(req);
	struct node *node = op_node(request, ino);
	auto_close int fd = -1;
	int r;

	if (!node)
		return;
	if (S_ISDIR(node->type))
		r = set_dir_in_turn(request, node, st, to_set);
	else if (to_set == FUSE_SET_ATTR_ATIME && nudge_sets(&st->st_atim))
		r = 0;
	else
		r = set_file(request, node, st, to_set, info, &fd);
	if (r == 0)
		r = durable_request(request->fs, request);
	if (r < 0)
		op_reply(request, r);
	else
		reply_attr(request, node, fd, false);
}
