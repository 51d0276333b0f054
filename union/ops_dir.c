/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading directories. One that is on one branch is read as the branch gives
 * it, with the branch's offsets. One on several is merged when it is read
 * from the start, and the offset of an entry is its place in that merge, so
 * that reading goes on rightly from any offset whatever comes and goes.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "union/dir_fd.h"
#include "union/inode_number.h"
#include "union/lookup.h"
#include "union/merge.h"
#include "union/ops.h"

#define STREAM_SIZE (32 << 10) /* bytes a getdents call */

struct dir_part {
	struct copy *copy;
	int fd; /* readable */
};

struct dir {
	pthread_mutex_t lock; /* guards all below */
	struct merge *merge;  /* NULL: one part, or not yet read */
	size_t used, at;      /* of data[]: bytes read, bytes given out */
	int64_t offset;       /* of the entry at @at */
	char *data;           /* of getdents64; for one part */
	unsigned generation;  /* of the union when parts[] were opened */
	bool outdated;        /* gave out a list that lacks a new branch */
	unsigned count;
	struct dir_part *parts;
};

/* An entry about to be given out. */
struct item {
	const char *name;
	unsigned char type;
	uint64_t ino; /* of the branch */
	int64_t next; /* offset after it */
	const struct dir_part *part;
};

/* A reply being filled. */
struct listing {
	fuse_req_t req;
	struct node *node;
	bool plus;
	char *data;
	size_t used, size;
};

static struct dir *dir_of(const struct fuse_file_info *info)
{
	return (struct dir *)(uintptr_t)info->fh;
}

static void close_parts(struct dir_part *parts, unsigned count)
{
	while (count)
		fd_close(parts[--count].fd);
	free(parts);
}

static void dir_free(struct dir *dir)
{
	close_parts(dir->parts, dir->count);
	merge_free(dir->merge);
	free(dir->data);
	pthread_mutex_destroy(&dir->lock);
	free(dir);
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
		fd = handle_open(branch_of(fs, copy)->root_fd, &copy->handle,
				 O_RDONLY | O_DIRECTORY);
		if (fd == -ESTALE)
			continue;
		if (fd < 0)
			return fd;
		dir->parts[dir->count++] = (struct dir_part){copy, fd};
	}
	return dir->count ? 0 : open_buried(node, dir);
}

void op_opendir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *info)
{
	struct unionfs *fs = unionfs_of(req);
	struct node *node = op_node(req, ino);
	struct dir *dir;
	int r;

	if (!node)
		return;
	dir = calloc(1, sizeof(*dir));
	if (!dir) {
		fuse_reply_err(req, ENOMEM);
		return;
	}
	pthread_mutex_init(&dir->lock, NULL);
	r = open_parts(fs, node, dir);
	if (r < 0) {
		dir_free(dir);
		op_reply(req, r);
		return;
	}
	info->fh = (uintptr_t)dir;
	/* The kernel may keep the list: it sees every change of it. */
	info->cache_readdir = !fs->shared;
	info->keep_cache = !fs->shared;
	if (fuse_reply_open(req, info) < 0)
		dir_free(dir);
}

void op_releasedir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *info)
{
	if (dir_of(info)->outdated)
		(void)fuse_lowlevel_notify_inval_inode(
			unionfs_of(req)->session, ino, 0,
			0); /* -ENOENT: it keeps nothing of it */
	dir_free(dir_of(info));
	fuse_reply_err(req, 0);
}

void op_fsyncdir(fuse_req_t req, fuse_ino_t ino, int datasync,
		 struct fuse_file_info *info)
{
	struct dir *dir = dir_of(info);
	unsigned i;
	int r = 0;

	(void)ino;
	pthread_mutex_lock(&dir->lock);
	for (i = 0; i < dir->count; i++)
		if ((datasync ? fdatasync(dir->parts[i].fd)
			      : fsync(dir->parts[i].fd)) < 0 &&
		    r == 0)
			r = -errno;
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
	merge_free(dir->merge);
	dir->merge = NULL;
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
		fd = handle_open(branch_of(fs, copy)->root_fd, &copy->handle,
				 O_RDONLY | O_DIRECTORY);
		if (fd == -ESTALE)
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
	if (dir->generation == fs->generation)
		return 0;
	if (offset && dir->count == 1) {
		dir->outdated = true;
		return 0;
	}
	return offset && dir->merge ? extend_merge(fs, node, dir)
				    : reopen_parts(fs, node, dir);
}

static bool is_dot(const char *name)
{
	return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

/* st_ino of the entry, as a stat of it would say. */
static uint64_t item_number(const struct item *item)
{
	uint64_t number;

	if (item->type == DT_DIR && !is_dot(item->name) &&
	    inode_number_read(item->part->fd, item->name, &number) == 0)
		return number;
	return inode_number(item->part->copy->branch, item->ino);
}

/* 0: added; 1: no room; or -errno. */
static int add_plain(struct listing *list, const struct item *item)
{
	struct stat st = {.st_ino = item_number(item),
			  .st_mode = DTTOIF(item->type)};
	size_t n, room = list->size - list->used;

	if (strcmp(item->name, ".") == 0)
		st.st_ino = list->node->ino;
	n = fuse_add_direntry(list->req, list->data + list->used, room,
			      item->name, &st, item->next);
	if (n > room)
		return 1;
	list->used += n;
	return 0;
}

static int add_plus(struct listing *list, const struct item *item)
{
	struct unionfs *fs = unionfs_of(list->req);
	size_t n, room = list->size - list->used;
	struct fuse_entry_param entry;
	int r;

	if (fuse_add_direntry_plus(list->req, NULL, 0, item->name, NULL, 0) >
	    room)
		return 1;
	memset(&entry, 0, sizeof(entry));
	entry.attr.st_ino = list->node->ino;
	entry.attr.st_mode = S_IFDIR;
	if (!is_dot(item->name)) {
		r = lookup_entry(fs, list->node, item->name,
				 fs->shared ? NULL : item->part->copy, &entry);
		if (r == -ENOENT)
			return 0; /* removed since it was read */
		if (r < 0)
			return r;
	}
	n = fuse_add_direntry_plus(list->req, list->data + list->used, room,
				   item->name, &entry, item->next);
	list->used += n;
	return 0;
}

static int add_item(struct listing *list, const struct item *item)
{
	if (unionfs_hidden(list->node, item->name))
		return 0;
	return list->plus ? add_plus(list, item) : add_plain(list, item);
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

static int list_stream(struct listing *list, struct dir *dir, int64_t offset)
{
	const struct dirent_wire *entry;
	struct item item = {.part = &dir->parts[0]};
	int r = stream_seek(dir, offset);

	while (r == 0) {
		entry = (const void *)(dir->data + dir->at);
		item.name = entry->name;
		item.type = dirent_type(item.part->fd, entry);
		item.ino = entry->ino;
		item.next = entry->next;
		r = add_item(list, &item);
		if (r)
			break;
		dir->at += entry->length;
		dir->offset = entry->next;
		if (dir->at == dir->used)
			r = stream_seek(dir, dir->offset);
	}
	return r;
}

static int read_merge(struct dir *dir, bool root)
{
	unsigned i;
	int r = 0;

	merge_free(dir->merge);
	dir->merge = merge_new(root);
	if (!dir->merge)
		return -ENOMEM;
	for (i = 0; i < dir->count && r == 0; i++) {
		if (lseek(dir->parts[i].fd, 0, SEEK_SET) < 0)
			return -errno;
		r = merge_read(dir->merge, dir->parts[i].fd,
			       dir->parts[i].copy->branch);
	}
	return r;
}

static const struct dir_part *part_on(const struct dir *dir, unsigned branch)
{
	unsigned i = 0;

	while (dir->parts[i].copy->branch != branch)
		i++;
	return &dir->parts[i];
}

static int list_merge(struct listing *list, struct dir *dir, int64_t offset)
{
	struct merge_entry entry;
	struct item item;
	int r = 0;

	if (!offset || !dir->merge)
		r = read_merge(dir, list->node->id == NODE_ROOT_ID);
	while (r == 0 && offset < (int64_t)merge_count(dir->merge)) {
		merge_get(dir->merge, (size_t)offset, &entry);
		item = (struct item){entry.name, entry.type, entry.ino,
				     ++offset, part_on(dir, entry.branch)};
		r = add_item(list, &item);
	}
	return r;
}

static void list_dir(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset,
		     const struct fuse_file_info *info, bool plus)
{
	struct dir *dir = dir_of(info);
	auto_free char *data = malloc(size);
	struct listing list = {.req = req,
			       .node = op_node(req, ino),
			       .plus = plus,
			       .data = data,
			       .size = size};
	int r;

	if (!list.node)
		return;
	if (!data || offset < 0) {
		fuse_reply_err(req, data ? EINVAL : ENOMEM);
		return;
	}
	pthread_mutex_lock(&dir->lock);
	r = refresh_parts(unionfs_of(req), list.node, dir, offset);
	if (r == 0)
		r = dir->count == 1 ? list_stream(&list, dir, offset)
				    : list_merge(&list, dir, offset);
	pthread_mutex_unlock(&dir->lock);
	/* An error after some entries comes back when they were taken. */
	if (r < 0 && !list.used)
		op_reply(req, r);
	else
		fuse_reply_buf(req, data, list.used);
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
