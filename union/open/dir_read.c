/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading directories. A directory on one branch is read as the branch gives
 * it, in the branch's order. A directory on several is merged when it is read
 * from the start. There the offset of an entry is a hash of its name, so every
 * reader goes on rightly from any offset. A reader that has begun with one kind
 * of list goes on with it, whatever became of the directory.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "union/branch/atime.h"
#include "union/branch/branch_health.h"
#include "union/branch/submount.h"
#include "union/open/open_dir.h"
#include "union/state/thread_branches.h"
#include "union/sys/dir_offset.h"

#define STREAM_SIZE (32 << 10) /* bytes a getdents call */

/*
 * Forget the place in the branch's own list: where the descriptors stand is not
 * known any more.
 */
static void leave_stream(struct dir *dir)
{
	dir->used = dir->at = 0;
	dir->offset = 0;
}

/* Have data[] begin or go on at @offset. 1: end of the directory. */
static int stream_seek(struct dir *dir, int fd, int64_t offset)
{
	long n;

	if (!dir->data) {
		dir->data = calloc(1, STREAM_SIZE);
		if (!dir->data)
			return -ENOMEM;
	}
	if (offset == dir->offset && dir->at < dir->used)
		return 0;
	if ((offset != dir->offset || !offset) &&
	    lseek(fd, dir_offset_own(offset), SEEK_SET) < 0)
		return -errno;
	n = syscall(SYS_getdents64, fd, dir->data, STREAM_SIZE);
	dir->at = 0;
	dir->used = n > 0 ? (size_t)n : 0;
	dir->offset = offset;
	return n < 0 ? -errno : n == 0;
}

static int read_stream(struct dir_listing *list, struct dir *dir,
		       const struct dir_part *part, int64_t offset)
{
	const struct dirent_wire *entry;
	struct dir_item item = {.part = part};
	struct branch *branch = branch_of(list->request->fs, part->copy);
	enum mounted mounts = submount_inside(branch);
	int r;

	request_touches_branch(branch->id);
	if (dir->of != branch->id)
		leave_stream(dir);
	dir->of = branch->id;
	r = branch_report(branch, stream_seek(dir, part->fd, offset));

	while (r == 0) {
		entry = (const void *)(dir->data + dir->at);
		item.name = entry->name;
		item.type = dirent_type(part->fd, entry);
		item.ino = entry->ino;
		item.next = dir_offset_on(branch->id, entry->next);
		if (!submount_hides(mounts, part->fd, item.name, item.type))
			r = dir_listing_add(list, &item);
		if (r)
			break;
		dir->at += entry->length;
		dir->offset = item.next;
		if (dir->at == dir->used)
			r = branch_report(branch, stream_seek(dir, part->fd,
							      dir->offset));
	}
	return r;
}

static int make_merge(struct unionfs *fs, struct dir *dir, bool root)
{
	struct branch *branch;
	unsigned i;
	int r = 0;

	leave_stream(dir);
	merge_free(dir->merge);
	dir->merge = merge_new(root);
	if (!dir->merge)
		return -ENOMEM;
	for (i = 0; i < dir->count && r == 0; i++) {
		branch = branch_of(fs, dir->parts[i].copy);
		request_touches_branch(branch->id);
		r = lseek(dir->parts[i].fd, 0, SEEK_SET) < 0
			    ? -errno
			    : merge_read(dir->merge, dir->parts[i].fd,
					 branch->id, submount_inside(branch));
		/* The branch has failed, or its copy is damaged. */
		if (branch_is_failure(branch_report(branch, r)) ||
		    !branch_usable(branch->id)) {
			dir->lacking = dir->lacking || r < 0;
			r = 0;
		}
	}
	return r < 0 ? r : merge_sort(dir->merge);
}

static const struct dir_part *part_on(const struct dir *dir, unsigned branch)
{
	unsigned i;

	for (i = 0; i < dir->count; i++)
		if (dir->parts[i].copy->branch == branch)
			return &dir->parts[i];
	return NULL;
}

static int read_merge(struct dir_listing *list, struct dir *dir, int64_t offset)
{
	struct merge_entry entry;
	struct dir_item item;
	size_t place;
	int r = 0;

	if (!offset || !dir->merge)
		r = make_merge(list->request->fs, dir,
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

/* Go on with a branch's own list, which @offset is of. */
static int go_on_with_stream(struct dir_listing *list, struct dir *dir,
			     int64_t offset)
{
	unsigned branch = dir_offset_branch(offset);
	const struct dir_part *part = part_on(dir, branch);

	if (dir->count > 1 || !part)
		dir->outdated = true;
	if (part)
		return read_stream(list, dir, part, offset);
	if (branch >= list->request->fs->branches.count)
		return -EINVAL;
	/* Names of a branch that left are elsewhere now: better twice than not
	 * at all. */
	return branch_usable(branch) ? read_merge(list, dir, 0) : 1;
}

static void touch_atime(const struct dir *dir)
{
	unsigned i;

	for (i = 0; i < dir->count && !dir->quiet; i++) {
		const struct copy *copy = dir->parts[i].copy;
		struct handle handle = copy_handle(copy);

		atime_touch_dir(branch_of(dir->fs, copy), &handle);
	}
}

int dir_read(struct dir_listing *list, struct dir *dir, int64_t offset)
{
	if (!offset)
		touch_atime(dir);
	if (offset && !dir_offset_is_merged(offset))
		return go_on_with_stream(list, dir, offset);
	return offset || dir->count > 1
		       ? read_merge(list, dir, offset)
		       : read_stream(list, dir, &dir->parts[0], 0);
}
