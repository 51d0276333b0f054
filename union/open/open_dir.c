/* SPDX-License-Identifier: Apache-2.0 */
/* An open directory, as long as it is open. */
#include "union/open/open_dir.h"

#include <errno.h>
#include <stdlib.h>

#include "union/state/state.h"

void open_dir_note_stream(struct dir *dir, bool streaming)
{
	if (dir->streaming == streaming)
		return;
	dir->streaming = streaming;
	node_lock(&dir->fs->nodes, dir->node);
	node_dir(dir->node)->streams += streaming ? 1u : -1u;
	node_unlock(&dir->fs->nodes, dir->node);
}

static void open_dir_free(struct open_item *item)
{
	struct dir *dir = (struct dir *)item;

	open_dir_note_stream(dir, false);
	if (dir->outdated)
		(void)fuse_lowlevel_notify_inval_inode(
			dir->fs->session, dir->node->id, 0,
			0); /* -ENOENT: it keeps nothing of it */
	dir_parts_close(dir->parts, dir->count);
	merge_free(dir->merge);
	free(dir->data);
	pthread_mutex_destroy(&dir->lock);
	node_let_go(&dir->fs->nodes, dir->node);
	free(dir);
}

struct dir *open_dir_new(struct unionfs *fs, struct node *node, uint32_t flags)
{
	struct dir *dir = calloc(1, sizeof(*dir));

	if (!dir)
		return NULL;
	atomic_init(&dir->item.references, 1);
	dir->item.flags = flags | STATE_OPEN_DIR;
	dir->item.free = open_dir_free;
	dir->quiet = flags & STATE_OPEN_QUIET;
	dir->fs = fs;
	dir->node = node;
	node_hold_id(&fs->nodes, node->id);
	pthread_mutex_init(&dir->lock, NULL);
	return dir;
}

void open_dir_close(struct unionfs *fs, const struct fuse_file_info *info)
{
	open_table_remove(&fs->opened, info->fh);
}

int open_dir_restore(struct unionfs *fs, uint64_t number, struct node *node,
		     unsigned flags)
{
	struct dir *dir = open_dir_new(fs, node, flags);
	int r = dir ? open_table_add_at(&fs->opened, number, &dir->item)
		    : -ENOMEM;

	if (r < 0 && dir)
		open_item_put(&dir->item);
	return r;
}
