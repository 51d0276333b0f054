/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An open file, and how the kernel may use it: passed through to the branch, or
 * through its page cache and us. One way for all open files of an inode at a
 * time; the kernel wants that.
 */
#include "union/open/open_file.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "union/branch/atime.h"
#include "union/change/act_as.h"
#include "union/open/branch_full.h"
#include "union/open/passthrough.h"
#include "union/state/request.h"
#include "union/state/state.h"
#include "union/state/thread_branches.h"
#include "union/sys/file_in_use.h"
#include "union/view/unseen.h"

/*
 * Does @r tell of a file system that passes nothing through? Known after the
 * first try.
 */
static bool is_passthrough_refusal(int r)
{
	return r == -ELOOP || r == -EPERM || r == -EOPNOTSUPP || r == -EINVAL ||
	       r == -ENOTTY;
}

/*
 * Must writes be seen, so that the file can move? It is drained or full, or is
 * just moving:
 */
static bool must_see(struct unionfs *fs, const struct copy *copy, int fd,
		     bool writes)
{
	struct branch *branch = branch_of(fs, copy);
	struct handle handle;

	if (branch->flags & BRANCH_DRAINING ||
	    (writes && branch_full_is_near(fs, branch, fd)))
		return true;
	if (!dirty_ranges_any(&fs->dirty))
		return false;
	handle = copy_handle(copy);
	return dirty_ranges_has(&fs->dirty, copy->branch, &handle);
}

/*
 * Become the user for passed-through I/O. The user of the first open counts for
 * all that open the file meanwhile, so that user must have no more rights than
 * they. Root remains root for a file that only root may change; in others root
 * is held to what they have.
 */
static void become_backer(struct request *request, int fd)
{
	struct stat st;

	if (request->uid != 0)
		act_as_spender(request);
	else if (fstat(fd, &st) < 0 || st.st_uid != 0 ||
		 st.st_mode & (S_IWGRP | S_IWOTH))
		act_as_nobody();
}

/*
 * Choose how the file is used from now on. With the node locked, no file of it
 * open.
 */
static int choose_way(struct request *request, struct node *node,
		      const struct copy *copy, int fd, bool writes)
{
	struct unionfs *fs = request->fs;
	struct branch *branch = branch_of(fs, copy);
	int32_t id;
	int r;

	node->passthrough = false;
	node_file(node)->backing_id = 0;
	if (!fs->passthrough || atomic_load(&branch->no_passthrough))
		return 0;
	if (must_see(fs, copy, fd, writes)) {
		/* As long as the file is open, a migration cannot find out. */
		if (node->passed && file_in_use(fd) == 0)
			node->passed = false;
		return 0;
	}
	become_backer(request, fd);
	r = passthrough_open(fs, fd, &id);
	act_as_root();
	if (r == 0) {
		node->passed = true;
		node->passthrough = true;
		node_file(node)->backing_id = id;
	}
	if (!is_passthrough_refusal(r))
		return r;
	if (!atomic_exchange(&branch->no_passthrough, true))
		log_warning("branch '%s': the kernel passes nothing through "
			    "to it; its data goes through this process",
			    branch->path);
	return 0;
}

static bool file_has(const struct open_file *file, uint32_t flag)
{
	return file->item.flags & flag;
}

static void free_file(struct open_item *item)
{
	struct open_file *file = (struct open_file *)item;

	fd_close(file->fd);
	free(file);
}

void open_file_close(struct unionfs *fs, struct node *node,
		     const struct fuse_file_info *info)
{
	struct node_file *use = node_file(node);
	struct open_file *file = open_file_of(fs, info);
	const struct copy *copy = node_first(node);
	bool read_write, writes;
	struct branch *wrote;

	if (!file)
		return;
	read_write = file_has(file, STATE_OPEN_READS);
	writes = file_has(file, STATE_OPEN_WRITES);
	wrote = file->passed_writer;
	room_writer_end(fs->room, &file->writer);
	/*
	 * The file is closed before it counts no more: see file_in_use(). Its
	 * record ends before its backing id: the next server gives back an id
	 * that no open file has, but would use again that of a file recorded as
	 * open.
	 */
	open_table_remove(&fs->opened, info->fh);
	node_lock(&fs->nodes, node);
	use->opens--;
	use->rw_opens -= read_write;
	use->writers -= writes;
	if (!use->opens && use->backing_id) {
		passthrough_close(fs, use->backing_id);
		use->backing_id = 0;
	}
	node_unlock(&fs->nodes, node);
	if (wrote) {
		atomic_fetch_sub(&wrote->passed_writers, 1);
		branch_full_wrote(wrote);
	}
	if (copy)
		room_closed(fs->room, branch_of(fs, copy));
}

/*
 * Count one more open file, new or known again. With the node locked. Returns
 * as unseen_begins().
 */
static bool count_open(struct unionfs *fs, const struct request *request,
		       struct node *node, struct open_file *file)
{
	bool read_write = file_has(file, STATE_OPEN_READS),
	     writes = file_has(file, STATE_OPEN_WRITES);
	struct node_file *use = node_file(node);
	const struct copy *copy = node_first(node);

	use->opens++;
	use->rw_opens += read_write;
	use->writers += writes;
	file->passed_writer = node->passthrough && writes &&
					      !file_has(file,
							STATE_OPEN_SEEN) &&
					      copy
				      ? branch_of(fs, copy)
				      : NULL;
	file->writer.branch = NULL;
	if (file->passed_writer) {
		atomic_fetch_add(&file->passed_writer->passed_writers, 1);
		room_writer_begin(fs->room, file->passed_writer, node,
				  &file->writer);
	}
	return node->passthrough &&
	       unseen_begins(fs, request, node, read_write);
}

/*
 * Open again, by the branch's own mount, a file that was just made. Takes @fd.
 */
static int open_to_read(const struct request *request, const struct copy *copy,
			int fd, int flags)
{
	const struct branch *branch = branch_of(request->fs, copy);
	struct handle handle;
	int own;

	if (!atime_is_own(branch) || request->opcode != FUSE_CREATE)
		return fd;
	handle = copy_handle(copy);
	own = atime_open(branch, &handle,
			 (flags & OPEN_FILE_FLAGS) | O_NOFOLLOW);
	if (own < 0)
		return fd;
	fd_close(fd);
	return own;
}

/*
 * Drop what the branch's page cache has of a file that is to be written with
 * O_DIRECT past us. Each such write drops the pages it meets, but an io_uring
 * does so only after 128 tries: the kernel says that a FUSE file can be polled,
 * and is always ready. The caller's own posix_fadvise() is for our inode, not
 * for the branch's.
 */
static void drop_cached(int fd)
{
	(void)posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED); /* is a hint */
}

/* Make an open file without a number; takes @fd. NULL: ENOMEM. */
static struct open_file *make_file(const struct node *node, int fd,
				   uint32_t flags)
{
	struct open_file *file = malloc(sizeof(*file));

	if (!file) {
		fd_close(fd);
		return NULL;
	}
	atomic_init(&file->item.references, 1);
	file->item.flags = flags;
	file->item.free = free_file;
	file->fd = fd;
	file->moves = node_moves(node);
	file->writer.branch = NULL;
	return file;
}

/* Get the flags of an open file, as STATE_OPEN_. */
static uint32_t flags_of(const struct request *request, int flags, bool appends)
{
	int mode = flags & O_ACCMODE;

	return (mode == O_RDWR ? STATE_OPEN_READS : 0) |
	       (mode != O_RDONLY ? STATE_OPEN_WRITES : 0) |
	       (mode != O_RDONLY && request->fs->syncs ? STATE_OPEN_SEEN : 0) |
	       (flags & O_NOATIME ? STATE_OPEN_QUIET : 0) |
	       (request->uid == 0 ? STATE_OPEN_ROOT : 0) |
	       (appends ? STATE_OPEN_APPENDS : 0);
}

/*
 * Choose how @file is used, and give it a number. With the node locked. 0 or
 * -errno.
 */
static int start_file(struct request *request, struct node *node,
		      struct open_file *file, uint64_t *ret_number)
{
	struct unionfs *fs = request->fs;
	const struct copy *copy = node_first(node);
	bool writes = file_has(file, STATE_OPEN_WRITES);
	struct node_file *use = node_file(node);
	int r = 0;

	if (!use->opens)
		r = choose_way(request, node, copy, file->fd, writes);
	else if (node->passthrough && writes &&
		 branch_full_is_near(fs, branch_of(fs, copy), file->fd))
		file->item.flags |= STATE_OPEN_SEEN;
	if (r < 0)
		return r;
	*ret_number = open_table_add(&fs->opened, request, &file->item, node);
	if (*ret_number)
		return 0;
	if (!use->opens && use->backing_id)
		passthrough_close(fs, atomic_exchange(&use->backing_id, 0));
	return -ENOMEM;
}

int open_file_new(struct request *request, struct node *node, int fd,
		  bool appends, struct fuse_file_info *info,
		  int32_t *ret_backing)
{
	struct unionfs *fs = request->fs;
	const struct copy *copy = node_first(node);
	struct branch *branch = branch_of(fs, copy);
	struct open_file *file = make_file(
		node, open_to_read(request, copy, fd, info->flags),
		flags_of(request, info->flags, appends));
	bool forgets;
	int r;

	if (!file)
		return -ENOMEM;
	node_lock(&fs->nodes, node);
	r = start_file(request, node, file, &info->fh);
	forgets = r == 0 && count_open(fs, request, node, file);
	*ret_backing = node_file(node)->backing_id;
	/* Used beside files that are passed through; its mappings are passed
	 * through, too. */
	info->direct_io = node->passthrough && file_has(file, STATE_OPEN_SEEN);
	info->keep_cache = !node->passthrough && !fs->shared;
	node_unlock(&fs->nodes, node);
	if (r < 0) {
		open_item_put(&file->item);
		return r;
	}
	if (file->passed_writer)
		room_writer_waits(fs->room, branch);
	if (file->passed_writer && info->flags & O_DIRECT)
		drop_cached(file->fd);
	if (forgets)
		(void)fuse_lowlevel_notify_inval_inode(fs->session, node->id,
						       -1, 0);
	atomic_fetch_add(&fs->stats->opens, 1);
	if (*ret_backing)
		atomic_fetch_add(&fs->stats->passthrough_opens, 1);
	return 0;
}

/*
 * Open a file anew after a move. A move holds the node's lock alone, so nobody
 * else opens or uses the file meanwhile; its present users share its
 * descriptor's number.
 */
static int reopen_file(struct unionfs *fs, const struct node *node,
		       struct open_file *file)
{
	int mode = !file_has(file, STATE_OPEN_WRITES) ? O_RDONLY
		   : file_has(file, STATE_OPEN_READS) ? O_RDWR
						      : O_WRONLY;
	auto_close int fd = -1;
	int r = 0;

	if (file_has(file, STATE_OPEN_QUIET))
		mode |= O_NOATIME;
	if (file_has(file, STATE_OPEN_APPENDS))
		mode |= O_APPEND;
	act_as_root();
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

int open_file_restore(struct unionfs *fs, uint64_t number, struct node *node,
		      unsigned flags)
{
	struct open_file *file = make_file(node, -1, flags);
	int r = file ? open_table_add_at(&fs->opened, number, &file->item)
		     : -ENOMEM;

	if (r == 0)
		(void)count_open(fs, NULL, node, file); /* nobody is told now */
	else if (file)
		open_item_put(&file->item);
	return r;
}

int open_file_fd(struct unionfs *fs, struct request *request,
		 const struct node *node, const struct fuse_file_info *info)
{
	struct open_file *file = open_file_of(fs, info);
	const struct copy *copy = node_first(node);
	int r;

	if (!file) /* its caller was answered, and closed it meanwhile */
		return -EBADF;
	open_item_use(request, &file->item);
	if (copy)
		request_touches_branch(copy->branch);
	r = file->moves == node_moves(node) && file->fd >= 0
		    ? 0
		    : reopen_file(fs, node, file);
	return r < 0 ? r : file->fd;
}

void open_file_changed(struct unionfs *fs, const struct node *node,
		       off_t offset, off_t length)
{
	const struct copy *copy;
	struct handle handle;

	if (!dirty_ranges_any(&fs->dirty))
		return;
	copy = node_first(node);
	if (!copy)
		return;
	handle = copy_handle(copy);
	dirty_ranges_note(&fs->dirty, copy->branch, &handle, (uint64_t)offset,
			  (uint64_t)length);
}
