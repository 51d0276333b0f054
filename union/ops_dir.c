/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading directories. One that is on one branch is read as the branch gives
 * it, with the branch's offsets. One on several is merged when it is read
 * from the start; the offset of an entry is a hash of its name, so that who
 * read it before, or reads it as well, goes on rightly from any offset.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "union/branch_health.h"
#include "union/dir_fd.h"
#include "union/dir_listing.h"
#include "union/merge.h"
#include "union/once.h"
#include "union/open_record.h"
#include "union/ops.h"
#include "union/state.h"

#define STREAM_SIZE (32 << 10) /* bytes a getdents call */

struct dir {
	struct service_use use; /* first */
	struct unionfs *fs;
	struct node *node;    /* held */
	pthread_mutex_t lock; /* guards all below */
	struct merge *merge;  /* NULL: one part, or not yet read */
	size_t used, at;      /* of data[]: bytes read, bytes given out */
	int64_t offset;       /* of the entry at @at */
	char *data;           /* of getdents64; for one part */
	unsigned generation;  /* of the union when parts[] were opened */
	bool outdated;        /* gave out a list that lacks a new branch */
	bool streaming;       /* in the middle of one: see node.streams */
	bool merged;          /* offsets of a merge were given out */
	uint64_t number;      /* in the table of what is open */
	unsigned stream;      /* as its record has it */
	bool lacking;         /* and this one what is on failed branches */
	unsigned count;
	struct dir_part *parts;
};

static struct dir *dir_of(const struct unionfs *fs,
			  const struct fuse_file_info *info)
{
	return open_table_get(&fs->opened, info->fh);
}

static void close_parts(struct dir_part *parts, unsigned count)
{
	while (count)
		fd_close(parts[--count].fd);
	free(parts);
}

/*
 * Who is in the middle of a branch's own list misses a file that moves to
 * another branch: while there is anybody, none does.
 */
static void note_stream(struct dir *dir, bool streaming)
{
	if (dir->streaming == streaming)
		return;
	dir->streaming = streaming;
	node_lock(&dir->fs->nodes, dir->node);
	dir->node->streams += streaming ? 1u : -1u;
	node_unlock(&dir->fs->nodes, dir->node);
}

static void dir_free(struct service_use *use)
{
	struct dir *dir = (struct dir *)use;

	note_stream(dir, false);
	if (dir->outdated)
		(void)fuse_lowlevel_notify_inval_inode(
			dir->fs->session, dir->node->id, 0,
			0); /* -ENOENT: it keeps nothing of it */
	close_parts(dir->parts, dir->count);
	merge_free(dir->merge);
	free(dir->data);
	pthread_mutex_destroy(&dir->lock);
	node_let_go(&dir->fs->nodes, dir->node);
	free(dir);
}

static struct dir *dir_new(struct unionfs *fs, struct node *node)
{
	struct dir *dir = calloc(1, sizeof(*dir));

	if (!dir)
		return NULL;
	atomic_init(&dir->use.references, 1);
	dir->use.free = dir_free;
	dir->fs = fs;
	dir->node = node;
	node_hold_id(&fs->nodes, node->id);
	pthread_mutex_init(&dir->lock, NULL);
	return dir;
}

/* It was removed: it can be opened still, and the kernel lists nothing. */
static int open_buried(const struct node *node, struct dir *dir)
{
	int fd = atomic_load(&node->buried_fd);

	if (fd >= 0)
		fd = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return -ENOENT;
	dir->parts[dir->count++] = (struct dir_part){node->copies, fd};
	return 0;
}

static int open_parts(struct unionfs *fs, const struct node *node,
		      struct dir *dir)
{
	unsigned max = fs->branches.count; /* one may be added meanwhile */
	struct copy *copy;
	int fd;

	dir->generation = fs->generation;
	dir->parts = calloc(max, sizeof(*dir->parts));
	if (!dir->parts)
		return -ENOMEM;
	for (copy = node_first(node); copy; copy = copy_next(copy)) {
		if (dir->count == max)
			break;
		fd = unionfs_open_copy(fs, copy, O_RDONLY | O_DIRECTORY);
		if (fd == -ESTALE || (fd < 0 && !branch_usable(copy->branch)))
			continue;
		if (fd < 0)
			return fd;
		dir->parts[dir->count++] = (struct dir_part){copy, fd};
	}
	dir->lacking = unionfs_may_have(node, NULL);
	if (dir->count)
		return 0;
	return dir->lacking ? -EIO : open_buried(node, dir);
}

static void close_dir(struct unionfs *fs, const struct fuse_file_info *info)
{
	struct dir *dir = dir_of(fs, info);

	if (!dir)
		return;
	service_drop(&dir->use);
	open_record_end(fs, info->fh);
	/* Last: its place in the table is that of its record. */
	open_table_remove(&fs->opened, info->fh);
}

/* See struct state_open. */
static unsigned stream_of(const struct dir *dir)
{
	return dir->count == 1 && !dir->merged ? 1 + dir->parts[0].copy->branch
					       : 0;
}

/* Before offsets of another kind are given out. */
static void note_offsets(struct dir *dir)
{
	unsigned stream = stream_of(dir);

	if (stream == dir->stream)
		return;
	dir->stream = stream;
	open_record_stream(dir->fs, dir->number, stream);
}

int op_restore_dir(struct unionfs *fs, uint64_t number, struct node *node,
		   unsigned stream)
{
	struct dir *dir = dir_new(fs, node);
	int r = dir ? open_table_add_at(&fs->opened, number, dir) : -ENOMEM;

	if (r < 0) {
		if (dir)
			service_drop(&dir->use);
		return r;
	}
	dir->number = number;
	dir->stream = stream;
	dir->merged = !stream;
	return 0;
}

void op_drop_dir(struct unionfs *fs, uint64_t number)
{
	close_dir(fs, &(struct fuse_file_info){.fh = number});
}

/* What another server had opened. */
static int open_again(struct unionfs *fs, const struct node *node,
		      struct dir *dir)
{
	struct copy *copy = dir->stream ? node_copy_on(node, dir->stream - 1)
					: NULL;
	int fd;

	if (!copy)
		return open_parts(fs, node, dir);
	dir->generation = fs->generation;
	dir->parts = calloc(1, sizeof(*dir->parts));
	if (!dir->parts)
		return -ENOMEM;
	fd = unionfs_open_copy(fs, copy, O_RDONLY | O_DIRECTORY);
	if (fd < 0) {
		free(take_ptr(dir->parts));
		return fd;
	}
	dir->parts[dir->count++] = (struct dir_part){copy, fd};
	dir->lacking = unionfs_may_have(node, NULL);
	return 0;
}

void op_opendir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *info)
{
	struct unionfs *fs = unionfs_of(req);
	struct node *node = op_node(req, ino);
	struct dir *dir;
	int r;

	if (!node)
		return;
	dir = dir_new(fs, node);
	if (!dir) {
		fuse_reply_err(req, ENOMEM);
		return;
	}
	r = open_parts(fs, node, dir);
	if (r == 0) {
		info->fh = open_table_add(&fs->opened, dir);
		once_gains_file(info->fh);
		r = info->fh ? 0 : -ENOMEM;
	}
	if (r == 0) {
		dir->number = info->fh;
		dir->stream = stream_of(dir);
		open_record_new(fs, dir->number, node, STATE_OPEN_DIR,
				dir->stream);
	}
	if (r < 0) {
		service_drop(&dir->use);
		op_reply(req, r);
		return;
	}
	/* The kernel may keep the list: it sees every change of it. */
	info->cache_readdir = !fs->shared && !dir->lacking;
	info->keep_cache = !fs->shared;
	if (fuse_reply_open(req, info) < 0)
		close_dir(fs, info);
}

void op_releasedir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *info)
{
	(void)ino; /* failed or not */
	close_dir(unionfs_of(req), info);
	fuse_reply_err(req, 0);
}

void op_fsyncdir(fuse_req_t req, fuse_ino_t ino, int datasync,
		 struct fuse_file_info *info)
{
	struct dir *dir = dir_of(unionfs_of(req), info);
	unsigned i;
	int r = 0;

	(void)ino;
	if (!dir) {
		fuse_reply_err(req, EBADF);
		return;
	}
	service_uses(&dir->use);
	pthread_mutex_lock(&dir->lock);
	if (!dir->count)
		r = open_again(dir->fs, dir->node, dir);
	for (i = 0; i < dir->count; i++) {
		service_meets(dir->parts[i].copy->branch);
		if ((datasync ? fdatasync(dir->parts[i].fd)
			      : fsync(dir->parts[i].fd)) < 0 &&
		    r == 0)
			r = -errno;
	}
	pthread_mutex_unlock(&dir->lock);
	op_reply(req, r);
}

/* Read anew from the start. */
static int reopen_parts(struct unionfs *fs, const struct node *node,
			struct dir *dir)
{
	struct dir fresh = {0}; /* only what open_parts() fills in */
	int r = open_parts(fs, node, &fresh);

	if (r < 0) {
		close_parts(fresh.parts, fresh.count);
		return r;
	}
	close_parts(dir->parts, dir->count);
	dir->parts = fresh.parts;
	dir->count = fresh.count;
	dir->generation = fresh.generation;
	dir->lacking = fresh.lacking;
	merge_free(dir->merge);
	dir->merge = NULL;
	dir->merged = false;
	dir->used = dir->at = 0;
	return 0;
}

static bool has_part(const struct dir *dir, unsigned branch)
{
	unsigned i;

	for (i = 0; i < dir->count; i++)
		if (dir->parts[i].copy->branch == branch)
			return true;
	return false;
}

/* Files may have moved to a copy that was made since. */
static bool has_all_parts(const struct node *node, const struct dir *dir)
{
	const struct copy *copy;

	for (copy = node_first(node); copy; copy = copy_next(copy))
		if (!has_part(dir, copy->branch))
			return false;
	return true;
}

/* What new branches have comes after all that is in the merge. */
static int extend_merge(struct unionfs *fs, const struct node *node,
			struct dir *dir)
{
	unsigned generation = fs->generation, max = fs->branches.count;
	struct dir_part *parts = reallocarray(dir->parts, max,
					      sizeof(*dir->parts));
	struct copy *copy;
	int fd, r = 0;

	if (!parts)
		return -ENOMEM;
	dir->parts = parts;
	for (copy = node_first(node); copy && r == 0; copy = copy_next(copy)) {
		if (dir->count == max)
			break;
		if (has_part(dir, copy->branch))
			continue;
		fd = unionfs_open_copy(fs, copy, O_RDONLY | O_DIRECTORY);
		if (fd == -ESTALE || (fd < 0 && !branch_usable(copy->branch)))
			continue;
		if (fd < 0)
			return fd;
		dir->parts[dir->count++] = (struct dir_part){copy, fd};
		r = merge_read(dir->merge, fd, copy->branch);
	}
	if (r == 0)
		dir->generation = generation;
	return r;
}

/*
 * A branch was added since this was opened. The kernel makes one list of
 * what all who read a directory are given, and keeps it: so this reader must
 * not leave the new names out. One in the middle of a branch's own list
 * cannot be told of them; the kernel drops what it kept when that is closed.
 */
static int refresh_parts(struct unionfs *fs, const struct node *node,
			 struct dir *dir, int64_t offset)
{
	if (dir->generation == fs->generation &&
	    (offset || has_all_parts(node, dir)))
		return 0;
	if (offset && dir->count == 1) {
		dir->outdated = true;
		return 0;
	}
	return offset && dir->merge ? extend_merge(fs, node, dir)
				    : reopen_parts(fs, node, dir);
}

/* Have data[] begin or go on at @offset. 1: end of the directory. */
static int stream_seek(struct dir *dir, int64_t offset)
{
	int fd = dir->parts[0].fd;
	long n;

	if (!dir->data) {
		dir->data = calloc(1, STREAM_SIZE);
		if (!dir->data)
			return -ENOMEM;
	}
	if (offset == dir->offset && dir->at < dir->used)
		return 0;
	if ((offset != dir->offset || !offset) &&
	    lseek(fd, offset, SEEK_SET) < 0)
		return -errno;
	n = syscall(SYS_getdents64, fd, dir->data, STREAM_SIZE);
	dir->at = 0;
	dir->used = n > 0 ? (size_t)n : 0;
	dir->offset = offset;
	return n < 0 ? -errno : n == 0;
}

static int list_stream(struct dir_listing *list, struct dir *dir,
		       int64_t offset)
{
	const struct dirent_wire *entry;
	struct dir_item item = {.part = &dir->parts[0]};
	struct branch *branch = branch_of(unionfs_of(list->req),
					  dir->parts[0].copy);
	int r;

	service_meets(branch->id);
	r = branch_report(branch, stream_seek(dir, offset));

	while (r == 0) {
		entry = (const void *)(dir->data + dir->at);
		item.name = entry->name;
		item.type = dirent_type(item.part->fd, entry);
		item.ino = entry->ino;
		item.next = entry->next;
		r = dir_listing_add(list, &item);
		if (r)
			break;
		dir->at += entry->length;
		dir->offset = entry->next;
		if (dir->at == dir->used)
			r = branch_report(branch,
					  stream_seek(dir, dir->offset));
	}
	return r;
}

static int read_merge(struct unionfs *fs, struct dir *dir, bool root)
{
	struct branch *branch;
	unsigned i;
	int r = 0;

	merge_free(dir->merge);
	dir->merge = merge_new(root);
	if (!dir->merge)
		return -ENOMEM;
	for (i = 0; i < dir->count && r == 0; i++) {
		branch = branch_of(fs, dir->parts[i].copy);
		service_meets(branch->id);
		r = lseek(dir->parts[i].fd, 0, SEEK_SET) < 0
			    ? -errno
			    : merge_read(dir->merge, dir->parts[i].fd,
					 branch->id);
		if (branch_report(branch, r) < 0 && !branch_usable(branch->id))
			dir->lacking = true;
		if (!branch_usable(branch->id))
			r = 0;
	}
	return r < 0 ? r : merge_sort(dir->merge);
}

static const struct dir_part *part_on(const struct dir *dir, unsigned branch)
{
	unsigned i = 0;

	while (dir->parts[i].copy->branch != branch)
		i++;
	return &dir->parts[i];
}

static int list_merge(struct dir_listing *list, struct dir *dir, int64_t offset)
{
	struct merge_entry entry;
	struct dir_item item;
	size_t place;
	int r = 0;

	if (!offset || !dir->merge)
		r = read_merge(unionfs_of(list->req), dir,
			       list->node->id == NODE_ROOT_ID);
	place = r < 0 ? 0 : merge_place(dir->merge, offset);
	while (r == 0 && place < merge_count(dir->merge)) {
		merge_get(dir->merge, place++, &entry);
		item = (struct dir_item){entry.name, entry.type, entry.ino,
					 entry.next,
					 part_on(dir, entry.branch)};
		r = dir_listing_add(list, &item);
	}
	return r;
}

static int list_parts(struct dir_listing *list, struct dir *dir, int64_t offset)
{
	struct unionfs *fs = unionfs_of(list->req);
	int r = dir->count ? 0 : open_again(fs, list->node, dir);

	if (r == 0)
		r = refresh_parts(fs, list->node, dir, offset);
	if (r < 0)
		return r;
	note_offsets(dir);
	r = dir->count > 1 || dir->merged ? list_merge(list, dir, offset)
					  : list_stream(list, dir, offset);
	/* Who removes what is not in a list must not believe this one. */
	if (r >= 0 && !list->used && dir->lacking && !fs->lists_quietly)
		r = -EIO;
	return r;
}

static void reply_list(struct dir_listing *list, struct dir *dir, off_t offset)
{
	fuse_req_t req = list->req;
	int r;

	if (!list->data || offset < 0) {
		fuse_reply_err(req, list->data ? EINVAL : ENOMEM);
		return;
	}
	pthread_mutex_lock(&dir->lock);
	r = list_parts(list, dir, offset);
	note_stream(dir, dir->count == 1 && dir->at < dir->used);
	pthread_mutex_unlock(&dir->lock);
	/* An error after some entries comes back when they were taken. */
	if (r < 0 && !list->used)
		op_reply(req, r);
	else
		fuse_reply_buf(req, list->data, list->used);
}

static void list_dir(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset,
		     const struct fuse_file_info *info, bool plus)
{
	struct dir_listing list = {.req = req,
				   .node = op_node(req, ino),
				   .plus = plus,
				   .size = size};
	struct dir *dir;

	if (!list.node)
		return;
	dir = dir_of(unionfs_of(req), info);
	if (!dir) {
		fuse_reply_err(req, EBADF);
		return;
	}
	service_uses(&dir->use);
	list.data = malloc(size);
	reply_list(&list, dir, offset);
	free(list.data);
}

void op_readdir(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset,
		struct fuse_file_info *info)
{
	list_dir(req, ino, size, offset, info, false);
}

void op_readdirplus(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset,
		    struct fuse_file_info *info)
{
	list_dir(req, ino, size, offset, info, true);
}
