/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading directories. One that is on one branch is read as the branch gives
 * it, with the branch's offsets. One on several is merged when it is read
 * from the start; the offset of an entry is a hash of its name, so that who
 * read it before, or reads it as well, goes on rightly from any offset.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "union/branch_health.h"
#include "union/dir_open.h"
#include "union/mounted.h"

#define STREAM_SIZE (32 << 10) /* bytes a getdents call */

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

int dir_read_stream(struct dir_listing *list, struct dir *dir, int64_t offset)
{
	const struct dirent_wire *entry;
	struct dir_item item = {.part = &dir->parts[0]};
	struct branch *branch = branch_of(unionfs_of(list->req),
					  dir->parts[0].copy);
	bool mounts = mounted_inside(branch);
	int r;

	service_meets(branch->id);
	r = branch_report(branch, stream_seek(dir, offset));

	while (r == 0) {
		entry = (const void *)(dir->data + dir->at);
		item.name = entry->name;
		item.type = dirent_type(item.part->fd, entry);
		item.ino = entry->ino;
		item.next = entry->next;
		if (!mounts || !mounted_is_on(item.part->fd, item.name))
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
					 branch->id, mounted_inside(branch));
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

int dir_read_merge(struct dir_listing *list, struct dir *dir, int64_t offset)
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
