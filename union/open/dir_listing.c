/* SPDX-License-Identifier: Apache-2.0 */
#include "union/open/dir_listing.h"
#include "union/sys/empty_dir.h"

#include <dirent.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "union/branch/ino_preserve.h"
#include "union/view/lookup.h"

/* Tell the st_ino that a stat of the entry would give. */
static uint64_t item_number(struct unionfs *fs, const struct dir_item *item)
{
	const struct branch *branch = branch_of(fs, item->part->copy);
	uint64_t number = branch_number(branch, item->ino), kept;

	if ((item->type == DT_DIR || atomic_load(&branch->has_numbers)) &&
	    !name_is_dot(item->name) &&
	    inode_number_read(item->part->fd, item->name, &kept) == 0)
		number = kept;
	return unionfs_number_at(fs, branch, item->part->fd, item->name,
				 number);
}

static int add_plain(struct dir_listing *list, const struct dir_item *item)
{
	struct stat st = {.st_ino = item_number(list->request->fs, item),
			  .st_mode = DTTOIF(item->type)};
	size_t n, room = list->size - list->used;

	if (strcmp(item->name, ".") == 0)
		st.st_ino = unionfs_number(list->request->fs, list->node);
	n = fuse_add_direntry(list->request->req, list->data + list->used, room,
			      item->name, &st, item->next);
	if (n > room)
		return 1;
	list->used += n;
	return 0;
}

static int add_plus(struct dir_listing *list, const struct dir_item *item)
{
	struct unionfs *fs = list->request->fs;
	size_t n, room = list->size - list->used;
	struct fuse_entry_param entry;
	int r;

	if (fuse_add_direntry_plus(list->request->req, NULL, 0, item->name,
				   NULL, 0) > room)
		return 1;
	memset(&entry, 0, sizeof(entry));
	entry.attr.st_ino = unionfs_number(fs, list->node);
	entry.attr.st_mode = S_IFDIR;
	if (!name_is_dot(item->name)) {
		r = lookup_entry(fs, list->request, list->node, item->name,
				 fs->shared ? NULL : item->part->copy, &entry);
		if (r == -ENOENT) /* or it moved to a lower branch */
			r = lookup_entry(fs, list->request, list->node,
					 item->name, NULL, &entry);
		if (r == -ENOENT)
			return 0; /* removed since it was read */
		if (r < 0) {
			/* Only the name: a later lookup tells the error. */
			memset(&entry, 0, sizeof(entry));
			entry.attr.st_ino = item_number(list->request->fs,
							item);
			entry.attr.st_mode = DTTOIF(item->type);
		}
	}
	n = fuse_add_direntry_plus(list->request->req, list->data + list->used,
				   room, item->name, &entry, item->next);
	list->used += n;
	return 0;
}

int dir_listing_add(struct dir_listing *list, const struct dir_item *item)
{
	if (unionfs_hidden(list->node, item->name))
		return 0;
	return list->plus ? add_plus(list, item) : add_plain(list, item);
}
