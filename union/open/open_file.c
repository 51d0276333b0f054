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
#include "union/open/open_record.h"
#include "union/open/passthrough.h"
#include "union/state/reply_cache.h"
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
static bool must_see(struct unionfs *fs, const struct node *node,
		     struct branch *branch, int fd, bool writes)
{
	const struct copy *copy = node_first(node);
	struct handle handle;

	if (branch->flags & BRANCH_DRAINING ||
	    (writes && branch_full_is_near(fs, branch, fd)))
		return true;
	if (!copy)
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
		      struct branch *branch, int fd, bool writes)
{
	struct unionfs *fs = request->fs;
	int32_t id;
	int r;

	node->passthrough = false;
	node_file(node)->backing_id = 0;
	if (!fs->passthrough || atomic_load(&branch->no_passthrough))
		return 0;
	if (must_see(fs, node, branch, fd, writes)) {
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

static void free_file(struct request_use *use)
{
	struct open_file *file = (struct open_file *)use;

	fd_close(file->fd);
	free(file);
}

void open_file_close(struct unionfs *fs, struct node *node,
		     const struct fuse_file_info *info)
{
	struct node_file *use = node_file(node);
	struct open_file *file = open_file_of(fs, info);
	const struct copy *copy = node_first(node);
	uint64_t number = info->fh;
	bool read_write = file->read_write, writes = file->writes;
	struct branch *wrote = file->passed_writer;

	room_writer_end(fs->room, &file->writer);
	/* Close it before it counts no more: see file_in_use(). */
	request_use_drop(&file->use);
	node_lock(&fs->nodes, node);
	use->opens--;
	use->rw_opens -= read_write;
	use->writers -= writes;
	if (!use->opens && use->backing_id) {
		/* First the record: the next server gives back an id that no
		 * open file has, but would use again that of a file recorded as
		 * open. */
		open_record_end(fs, number);
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
	open_record_end(fs, number);
	/* Last: the place in the table is that of the record. */
	open_table_remove(&fs->opened, number);
}

/*
 * Count one more open file, new or known again. With the node locked. Returns
 * as unseen_begins().
 */
static bool count_open(struct unionfs *fs, const struct request *request,
		       struct node *node, struct open_file *file)
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
	return node->passthrough &&
	       unseen_begins(fs, request, node, file->read_write);
}

/*
 * Open again, by the branch's own mount, a file that was just made. Takes @fd.
 */
static int open_to_read(const struct request *request,
			const struct branch *branch, const struct node *node,
			int fd, int flags)
{
	const struct copy *copy = node_first(node);
	struct handle handle;
	int own;

	if (!atime_is_own(branch) || !copy || request->opcode != FUSE_CREATE)
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

/* Get the flags of struct state_open. */
static unsigned record_flags(const struct open_file *file)
{
	return (file->read_write ? STATE_OPEN_READS : 0) |
	       (file->writes ? STATE_OPEN_WRITES : 0) |
	       (file->quiet ? STATE_OPEN_QUIET : 0) |
	       (file->root ? STATE_OPEN_ROOT : 0) |
	       (file->seen ? STATE_OPEN_SEEN : 0) |
	       (file->appends ? STATE_OPEN_APPENDS : 0);
}

int open_file_new(struct request *request, struct node *node, int fd,
		  bool appends, struct fuse_file_info *info,
		  int32_t *ret_backing)
{
	struct unionfs *fs = request->fs;
	struct branch *branch = branch_of(fs, node_first(node));
	struct node_file *use = node_file(node);
	struct open_file *file = malloc(sizeof(*file));
	bool forgets = false;
	int r = 0;

	if (!file) {
		fd_close(fd);
		return -ENOMEM;
	}
	fd = open_to_read(request, branch, node, fd, info->flags);
	atomic_init(&file->use.references, 1);
	file->use.free = free_file;
	file->fd = fd;
	file->read_write = (info->flags & O_ACCMODE) == O_RDWR;
	file->writes = (info->flags & O_ACCMODE) != O_RDONLY;
	file->quiet = info->flags & O_NOATIME;
	file->root = request->uid == 0;
	file->seen = file->writes && fs->syncs;
	file->writer.branch = NULL;
	file->appends = appends;
	file->moves = use->moves;
	info->fh = open_table_add(&fs->opened, file);
	reply_cache_gains_file(request, info->fh);
	if (!info->fh)
		r = -ENOMEM;
	node_lock(&fs->nodes, node);
	if (r == 0 && !use->opens)
		r = choose_way(request, node, branch, fd, file->writes);
	else if (r == 0 && node->passthrough && file->writes &&
		 branch_full_is_near(fs, branch, fd))
		file->seen = true;
	if (r == 0) {
		forgets = count_open(fs, request, node, file);
		open_record_new(fs, info->fh, node, record_flags(file));
	}
	*ret_backing = use->backing_id;
	/* Used beside files that are passed through; its mappings are passed
	 * through, too. */
	info->direct_io = node->passthrough && file->seen;
	info->keep_cache = !node->passthrough && !fs->shared;
	node_unlock(&fs->nodes, node);
	if (r < 0) {
		reply_cache_gains_file(request, 0);
		open_table_remove(&fs->opened, info->fh);
		fd_close(fd);
		free(file);
		return r;
	}
	if (file->passed_writer)
		room_writer_waits(fs->room, branch);
	if (file->passed_writer && info->flags & O_DIRECT)
		drop_cached(fd);
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
	int mode = !file->writes      ? O_RDONLY
		   : file->read_write ? O_RDWR
				      : O_WRONLY;
	auto_close int fd = -1;
	int r = 0;

	if (file->quiet)
		mode |= O_NOATIME;
	if (file->appends)
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
	struct open_file *file = malloc(sizeof(*file));
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
	(void)count_open(fs, NULL, node, file); /* nobody is told now */
	return 0;
}

void open_file_drop(struct unionfs *fs, uint64_t number, struct node *node)
{
	const struct fuse_file_info info = {.fh = number};

	if (open_file_of(fs, &info))
		open_file_close(fs, node, &info);
}

int open_file_fd(struct unionfs *fs, struct request *request,
		 const struct node *node, const struct fuse_file_info *info)
{
	struct open_file *file = open_file_of(fs, info);
	const struct copy *copy = node_first(node);
	int r;

	if (!file) /* its caller was answered, and closed it meanwhile */
		return -EBADF;
	request_uses(request, &file->use);
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

	if (!atomic_load(&fs->dirty.count))
		return;
	copy = node_first(node);
	if (!copy)
		return;
	handle = copy_handle(copy);
	dirty_ranges_note(&fs->dirty, copy->branch, &handle, (uint64_t)offset,
			  (uint64_t)length);
}
