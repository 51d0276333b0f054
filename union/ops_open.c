/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opening files, and how the kernel may use them: passed through to the
 * branch, or through its page cache and us. One way for all open files of an
 * inode at a time; the kernel wants that.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "union/again.h"
#include "union/atime.h"
#include "union/dir_fd.h"
#include "union/durable.h"
#include "union/file_in_use.h"
#include "union/full.h"
#include "union/lookup.h"
#include "union/met.h"
#include "union/mounted.h"
#include "union/once.h"
#include "union/open_record.h"
#include "union/ops.h"
#include "union/passthrough.h"
#include "union/place.h"
#include "union/request.h"
#include "union/request_use.h"
#include "union/state.h"
#include "union/unseen.h"

/*
 * What a caller's open flags mean for our descriptor: offsets and lengths
 * come from the kernel (no O_APPEND), buffers are not aligned (no O_DIRECT),
 * and it syncs itself (no O_SYNC).
 */
#define KEPT_FLAGS (O_ACCMODE | O_NOATIME)

/* A file system that passes nothing through; known after the first try. */
static bool is_refusal(int r)
{
	return r == -ELOOP || r == -EPERM || r == -EOPNOTSUPP || r == -EINVAL ||
	       r == -ENOTTY;
}

/* So that it can move, when it is drained or full, or is just moving: */
static bool must_see(struct unionfs *fs, const struct node *node,
		     struct branch *branch, int fd, bool writes)
{
	const struct copy *copy = node_first(node);
	struct handle handle;

	if (branch->flags & BRANCH_DRAINING ||
	    (writes && full_is_near(fs, branch, fd)))
		return true;
	if (!copy)
		return false;
	handle = copy_handle(copy);
	return moving_has(&fs->moving, copy->branch, &handle);
}

/*
 * What is passed through is done as who was first, for all that open the file
 * meanwhile: that is to be nobody with more than they have. Root is that of a
 * file that only root may change; in others root is held to what they have.
 */
static void become_backer(fuse_req_t req, int fd)
{
	struct stat st;

	if (fuse_req_ctx(req)->uid != 0)
		place_become_spender(req);
	else if (fstat(fd, &st) < 0 || st.st_uid != 0 ||
		 st.st_mode & (S_IWGRP | S_IWOTH))
		place_become_nobody();
}

/* With the node locked, no file of it open: which way from now on? */
static int choose_way(fuse_req_t req, struct node *node, struct branch *branch,
		      int fd, bool writes)
{
	struct unionfs *fs = unionfs_of(req);
	int32_t id;
	int r;

	node->passthrough = false;
	node_file(node)->backing_id = 0;
	if (!fs->passthrough || atomic_load(&branch->no_passthrough))
		return 0;
	if (must_see(fs, node, branch, fd, writes)) {
		/* As long as it is open, who moves it cannot find out. */
		if (node->passed && file_in_use(fd) == 0)
			node->passed = false;
		return 0;
	}
	become_backer(req, fd);
	r = passthrough_open(fs, fd, &id);
	place_become_root();
	if (r == 0) {
		node->passed = true;
		node->passthrough = true;
		node_file(node)->backing_id = id;
	}
	if (!is_refusal(r))
		return r;
	if (!atomic_exchange(&branch->no_passthrough, true))
		log_warning("branch '%s': the kernel passes nothing through "
			    "to it; its data goes through this process",
			    branch->path);
	return 0;
}

static void free_file(struct request_use *use)
{
	struct file *file = (struct file *)use;

	fd_close(file->fd);
	free(file);
}

static void lose_file(struct unionfs *fs, struct node *node,
		      const struct fuse_file_info *info)
{
	struct node_file *use = node_file(node);
	struct file *file = op_file(fs, info);
	const struct copy *copy = node_first(node);
	uint64_t number = info->fh;
	bool read_write = file->read_write, writes = file->writes;
	struct branch *wrote = file->passed_writer;

	room_writer_end(fs->room, &file->writer);
	/* Closed before it counts no more: see file_in_use(). */
	request_use_drop(&file->use);
	node_lock(&fs->nodes, node);
	use->opens--;
	use->rw_opens -= read_write;
	use->writers -= writes;
	if (!use->opens && use->backing_id) {
		/* First: another server closes what nobody has open; but for
		 * who has it open it gives out the number again. */
		open_record_end(fs, number);
		passthrough_close(fs, use->backing_id);
		use->backing_id = 0;
	}
	node_unlock(&fs->nodes, node);
	if (wrote) {
		atomic_fetch_sub(&wrote->passed_writers, 1);
		full_wrote(wrote);
	}
	if (copy)
		room_closed(fs->room, branch_of(fs, copy));
	open_record_end(fs, number);
	/* Last: its place in the table is that of its record. */
	open_table_remove(&fs->opened, number);
}

/* With the node locked: one more, or it is known again. As unseen_begins(). */
static bool count_open(struct unionfs *fs, struct node *node, struct file *file)
{
	struct node_file *use = node_file(node);
	const struct copy *copy = node_first(node);

	use->opens++;
	use->rw_opens += file->read_write;
	use->writers += file->writes;
	file->passed_writer = node->passthrough && file->writes &&
					      !file->seen && copy
				      ? branch_of(fs, copy)
				      : NULL;
	file->writer.branch = NULL;
	if (file->passed_writer) {
		atomic_fetch_add(&file->passed_writer->passed_writers, 1);
		room_writer_begin(fs->room, file->passed_writer, node,
				  &file->writer);
	}
	return node->passthrough && unseen_begins(fs, node, file->read_write);
}

/* One that was made is open by the branch's own mount. Takes @fd. */
static int open_to_read(const struct branch *branch, const struct node *node,
			int fd, int flags)
{
	const struct copy *copy = node_first(node);
	struct handle handle;
	int own;

	if (!atime_is_own(branch) || !copy ||
	    request_current.opcode != FUSE_CREATE)
		return fd;
	handle = copy_handle(copy);
	own = atime_open(branch, &handle, (flags & KEPT_FLAGS) | O_NOFOLLOW);
	if (own < 0)
		return fd;
	fd_close(fd);
	return own;
}

/*
 * Count one more open file and fill @info; takes @fd, which only @appends or
 * not. The reply is to be sent with the backing id returned in @ret_backing.
 */
static int gain_file(fuse_req_t req, struct node *node, int fd, bool appends,
		     struct fuse_file_info *info, int32_t *ret_backing)
{
	struct unionfs *fs = unionfs_of(req);
	struct branch *branch = branch_of(fs, node_first(node));
	struct node_file *use = node_file(node);
	struct file *file = malloc(sizeof(*file));
	bool forgets = false;
	int r = 0;

	if (!file) {
		fd_close(fd);
		return -ENOMEM;
	}
	fd = open_to_read(branch, node, fd, info->flags);
	atomic_init(&file->use.references, 1);
	file->use.free = free_file;
	file->fd = fd;
	file->read_write = (info->flags & O_ACCMODE) == O_RDWR;
	file->writes = (info->flags & O_ACCMODE) != O_RDONLY;
	file->quiet = info->flags & O_NOATIME;
	file->root = fuse_req_ctx(req)->uid == 0;
	file->seen = file->writes && fs->syncs;
	file->writer.branch = NULL;
	file->appends = appends;
	file->moves = use->moves;
	info->fh = open_table_add(&fs->opened, file);
	once_gains_file(info->fh);
	if (!info->fh)
		r = -ENOMEM;
	node_lock(&fs->nodes, node);
	if (r == 0 && !use->opens)
		r = choose_way(req, node, branch, fd, file->writes);
	else if (r == 0 && node->passthrough && file->writes &&
		 full_is_near(fs, branch, fd))
		file->seen = true;
	if (r == 0) {
		forgets = count_open(fs, node, file);
		open_record_new(fs, info->fh, node,
				(file->read_write ? STATE_OPEN_READS : 0) |
					(file->writes ? STATE_OPEN_WRITES : 0) |
					(file->quiet ? STATE_OPEN_QUIET : 0) |
					(file->root ? STATE_OPEN_ROOT : 0) |
					(file->seen ? STATE_OPEN_SEEN : 0) |
					(appends ? STATE_OPEN_APPENDS : 0));
	}
	*ret_backing = use->backing_id;
	/* Beside those that are passed through; what is mapped is, too. */
	info->direct_io = node->passthrough && file->seen;
	info->keep_cache = !node->passthrough && !fs->shared;
	node_unlock(&fs->nodes, node);
	if (r < 0) {
		once_gains_file(0);
		open_table_remove(&fs->opened, info->fh);
		fd_close(fd);
		free(file);
		return r;
	}
	if (file->passed_writer)
		room_writer_waits(fs->room, branch);
	if (forgets)
		(void)fuse_lowlevel_notify_inval_inode(fs->session, node->id,
						       -1, 0);
	atomic_fetch_add(&fs->stats->opens, 1);
	if (*ret_backing)
		atomic_fetch_add(&fs->stats->passthrough_opens, 1);
	return 0;
}

/*
 * A move holds the node's gate alone, so nobody else opens or uses the file
 * meanwhile; those who use it now share its descriptor's number.
 */
static int reopen_file(struct unionfs *fs, const struct node *node,
		       struct file *file)
{
	int mode = !file->writes      ? O_RDONLY
		   : file->read_write ? O_RDWR
				      : O_WRONLY;
	auto_close int fd = -1;
	int r = 0;

	if (file->quiet)
		mode |= O_NOATIME;
	if (file->appends)
		mode |= O_APPEND;
	place_become_root();
	node_lock(&fs->nodes, node);
	if (file->moves != node_moves(node) || file->fd < 0) {
		r = fd = unionfs_open(fs, node, mode | O_NOFOLLOW);
		if (fd >= 0 && file->fd < 0)
			file->fd = take_fd(&fd);
		else if (fd >= 0 && dup3(fd, file->fd, O_CLOEXEC) < 0)
			r = -errno;
		if (r >= 0)
			file->moves = node_moves(node);
	}
	node_unlock(&fs->nodes, node);
	return r < 0 ? r : 0;
}

int op_restore_file(struct unionfs *fs, uint64_t number, struct node *node,
		    unsigned flags)
{
	struct file *file = malloc(sizeof(*file));
	int r = file ? open_table_add_at(&fs->opened, number, file) : -ENOMEM;

	if (r < 0) {
		free(file);
		return r;
	}
	atomic_init(&file->use.references, 1);
	file->use.free = free_file;
	file->fd = -1;
	file->read_write = flags & STATE_OPEN_READS;
	file->writes = flags & STATE_OPEN_WRITES;
	file->quiet = flags & STATE_OPEN_QUIET;
	file->root = flags & STATE_OPEN_ROOT;
	file->seen = flags & STATE_OPEN_SEEN;
	file->appends = flags & STATE_OPEN_APPENDS;
	file->moves = node_moves(node);
	(void)count_open(fs, node, file); /* nobody is told now */
	return 0;
}

void op_drop_file(struct unionfs *fs, uint64_t number, struct node *node)
{
	const struct fuse_file_info info = {.fh = number};

	if (op_file(fs, &info))
		lose_file(fs, node, &info);
}

int op_fd(struct unionfs *fs, const struct node *node,
	  const struct fuse_file_info *info)
{
	struct file *file = op_file(fs, info);
	const struct copy *copy = node_first(node);
	int r;

	if (!file) /* its caller was answered, and closed it meanwhile */
		return -EBADF;
	request_uses(&file->use);
	if (copy)
		met_branch(copy->branch);
	r = file->moves == node_moves(node) && file->fd >= 0
		    ? 0
		    : reopen_file(fs, node, file);
	return r < 0 ? r : file->fd;
}

void op_changed(struct unionfs *fs, const struct node *node, off_t offset,
		off_t length)
{
	const struct copy *copy;
	struct handle handle;

	if (!atomic_load(&fs->moving.count))
		return;
	copy = node_first(node);
	if (!copy)
		return;
	handle = copy_handle(copy);
	moving_note(&fs->moving, copy->branch, &handle, (uint64_t)offset,
		    (uint64_t)length);
}

static int truncate_open(fuse_req_t req, const struct node *node, int fd,
			 int flags)
{
	auto_close int writable = -1;
	int r;

	if ((flags & O_ACCMODE) == O_RDONLY) {
		fd = writable = unionfs_open(unionfs_of(req), node, O_WRONLY);
		if (fd < 0)
			return fd;
	}
	if (ftruncate(fd, 0) < 0)
		return -errno;
	op_changed(unionfs_of(req), node, 0, 0);
	r = request_current.kills_privileges
		    ? op_kill_privileges(req, node->id, fd, OP_GROUP_NOW)
		    : 0;
	return r < 0 ? r : durable_data(unionfs_of(req), fd);
}

/* Where it is append-only (chattr +a), that is all that its writers may do. */
static int open_node(fuse_req_t req, const struct node *node, int flags,
		     bool *ret_appends)
{
	struct unionfs *fs = unionfs_of(req);
	bool writes = (flags & O_ACCMODE) != O_RDONLY || flags & O_TRUNC;
	struct copy *copy = node_first(node);
	auto_close int fd = -1;
	int r = copy ? 0 : -ESTALE;

	if (r == 0 && writes)
		r = unionfs_writable(fs, copy);
	if (r < 0)
		return r;
	fd = unionfs_open(fs, node, (flags & KEPT_FLAGS) | O_NOFOLLOW);
	*ret_appends = fd == -EPERM && writes && flags & O_APPEND;
	if (*ret_appends)
		fd = unionfs_open(fs, node,
				  (flags & KEPT_FLAGS) | O_APPEND | O_NOFOLLOW);
	if (fd >= 0 && flags & O_TRUNC)
		r = truncate_open(req, node, fd, flags);
	return r < 0 ? r : take_fd(&fd);
}

void op_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *info)
{
	struct unionfs *fs = unionfs_of(req);
	struct node *node = op_node(req, ino);
	int32_t backing_id;
	bool appends;
	int fd, r;

	if (!node)
		return;
	fd = open_node(req, node, info->flags, &appends);
	r = fd < 0 ? fd : gain_file(req, node, fd, appends, info, &backing_id);
	if (r < 0)
		op_reply(req, r);
	else if (passthrough_reply(req, NULL, info, backing_id) < 0)
		lose_file(fs, node, info);
}

struct creation {
	const char *name;
	mode_t mode;
	int flags;
	bool unnamed; /* O_TMPFILE */
};

static int make_file(void *context, int dirfd)
{
	const struct creation *new = context;
	int fd;

	if (!new->unnamed) {
		fd = mounted_create_none(dirfd, new->name,
					 (new->flags &(KEPT_FLAGS | O_EXCL)) |
						 O_NOFOLLOW,
					 new->mode & 07777);
		return fd == -EXDEV ? -EBUSY : fd;
	}
	fd = openat(dirfd, ".",
		    (new->flags &KEPT_FLAGS) | O_TMPFILE | O_CLOEXEC,
		    new->mode & 07777);
	return fd < 0 ? -errno : fd;
}

/* It was made by a server that was killed then: it has no descriptor yet. */
static int open_made(const struct creation *new, struct placed *placed)
{
	int fd = openat(placed->dir->fd, new->name,
			(new->flags &KEPT_FLAGS) | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0) {
		dir_fd_put(placed->dir);
		return -errno;
	}
	placed->result = fd;
	return 0;
}

static int place_file(struct unionfs *fs, fuse_req_t req, struct node *dir,
		      struct creation *new, struct placed *ret)
{
	const struct to_place what = {POLICY_CREATE, make_file, new,
				      new->unnamed ? NULL : new->name};
	int r = again_place(fs, req, dir, &what, S_IFREG, ret);

	return r == 1 ? open_made(new, ret) : r;
}

/* No name will find it again: it is as one that was removed. */
static void keep_unnamed(struct unionfs *fs, const struct node *node)
{
	struct copy *copy = node_first(node);
	struct buried buried;
	struct handle handle;

	if (!fs->state || !copy)
		return;
	handle = copy_handle(copy);
	buried = node_buried(&fs->nodes, unionfs_open_copy(fs, copy, O_PATH));
	node_bury(&fs->nodes, copy->branch, &handle, &buried);
}

/* The new file is the union's: give it a node and an open file. */
static int adopt(fuse_req_t req, const struct placed *placed,
		 struct fuse_file_info *info, struct fuse_entry_param *entry,
		 int32_t *ret_backing)
{
	struct unionfs *fs = unionfs_of(req);
	bool unnamed = request_current.unnamed;
	struct node *node;
	int r = lookup_made(fs, placed->branch, placed->result, "", entry);

	if (r < 0) {
		fd_close(placed->result);
		return r;
	}
	node = node_get(&fs->nodes, entry->ino);
	if (unnamed)
		keep_unnamed(fs, node);
	r = gain_file(req, node, placed->result, false, info, ret_backing);
	if (r < 0) {
		once_gains_nothing();
		node_forget(&fs->nodes, entry->ino, 1);
	}
	return r;
}

void op_create(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode,
	       struct fuse_file_info *info)
{
	struct unionfs *fs = unionfs_of(req);
	struct node *dir = op_node(req, parent), *node;
	struct creation new = {name, mode, info->flags,
			       request_current.unnamed};
	struct fuse_entry_param entry;
	struct placed placed;
	int32_t backing_id;
	int r;

	if (!dir)
		return;
	r = !new.unnamed &&unionfs_hidden(dir, name) ? -EPERM : 0;
	if (r == 0)
		r = place_file(fs, req, dir, &new, &placed);
	if (r < 0) {
		op_reply(req, r);
		return;
	}
	atomic_fetch_add(&fs->stats->creates, 1);
	r = adopt(req, &placed, info, &entry, &backing_id);
	dir_fd_put(placed.dir);
	if (r < 0) {
		op_reply(req, r);
		return;
	}
	node = node_get(&fs->nodes, entry.ino);
	entry.attr_timeout = unionfs_attr_timeout(fs, node);
	if (entry.attr_timeout == 0)
		entry.attr_timeout = unseen_keep_new(fs);
	r = durable_request(fs);
	if (r < 0) {
		once_gains_nothing();
		lose_file(fs, node, info);
		node_forget(&fs->nodes, entry.ino, 1);
		op_reply(req, r);
		return;
	}
	if (passthrough_reply(req, &entry, info, backing_id) < 0) {
		lose_file(fs, node, info);
		node_forget(&fs->nodes, entry.ino, 1);
	}
}

void op_release(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *info)
{
	struct unionfs *fs = unionfs_of(req);
	struct node *node = node_get(&fs->nodes, ino); /* failed or not */

	if (!node) {
		fuse_reply_err(req, ESTALE);
		return;
	}
	if (op_file(fs, info))
		lose_file(fs, node, info);
	fuse_reply_err(req, 0);
}
