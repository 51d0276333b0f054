/* SPDX-License-Identifier: Apache-2.0 */
/* An open directory, between the files that read it. */
#ifndef UNION_OPEN_DIR_H
#define UNION_OPEN_DIR_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "union/open/dir_listing.h"
#include "union/view/merge.h"
#include "union/view/unionfs.h"

struct dir {
	struct open_item item; /* first */
	struct unionfs *fs;
	struct node *node;    /* held */
	pthread_mutex_t lock; /* guards all below */
	struct merge *merge;  /* NULL: not read */
	size_t used, at;      /* of data[]: bytes read, bytes given out */
	int64_t offset;       /* of the entry at @at, as the kernel gets it */
	unsigned of;          /* the branch that data[] is of */
	char *data;           /* of getdents64; for one part */
	unsigned generation;  /* of the union when parts[] were opened */
	bool outdated;  /* the list that was given out lacks a new branch: the
			 * kernel is to drop it when this is closed */
	bool streaming; /* amid a branch's own list: see node.streams */
	bool quiet;     /* O_NOATIME */
	bool lacking;   /* the list lacks what is on failed branches */
	unsigned count;
	struct dir_part *parts;
};

/* Get the open directory; NULL: it is not open. */
static inline struct dir *open_dir_of(const struct unionfs *fs,
				      const struct fuse_file_info *info)
{
	return open_table_get(&fs->opened, info->fh);
}

/*
 * Make one with no parts open, and in no table. @flags: STATE_OPEN_. NULL:
 * ENOMEM.
 */
struct dir *open_dir_new(struct unionfs *fs, struct node *node, uint32_t flags);

/* Close it, if it is open. */
void open_dir_close(struct unionfs *fs, const struct fuse_file_info *info);

/*
 * Note whether @dir is read in the middle of a branch's own list. Such a reader
 * would miss a file that moves to another branch. So no file moves while there
 * is such a reader.
 */
void open_dir_note_stream(struct dir *dir, bool streaming);

/* Restore an open directory, as open_file_restore(). */
int open_dir_restore(struct unionfs *fs, uint64_t number, struct node *node,
		     unsigned flags);

/*
 * Open the parts of @dir, which has none open: all copies of @node, or the kept
 * copy of a directory that was removed. @dir: quiet is known; parts, count,
 * generation and lacking are set. 0 or -errno, then none is open.
 */
int dir_parts_open(struct unionfs *fs, const struct node *node,
		   struct dir *dir);

/*
 * Refresh @dir, as a branch was added since it was opened. The kernel makes one
 * list for all who read a directory, and keeps it. So this reader must not
 * leave the new names out. A reader in the middle of a branch's own list cannot
 * be told of the new names: it becomes outdated.
 *
 * @offset  that is read next
 *
 * 0 or -errno.
 */
int dir_parts_refresh(struct unionfs *fs, const struct node *node,
		      struct dir *dir, int64_t offset);

/*
 * Make the names in all copies of @node durable, those of copies made since
 * @dir was opened among them. A copy that was cloned to a branch is durable
 * with the path to it. Journals of ext4 and XFS, and the log of Btrfs, take
 * with a directory the names by which it was made. 0 or -errno.
 */
int dir_parts_sync(struct unionfs *fs, const struct node *node,
		   const struct dir *dir, bool datasync);

/* Close and free @parts. */
void dir_parts_close(struct dir_part *parts, unsigned count);

/*
 * Put the entries after @offset into @list, as far as they fit. 0; 1: the list
 * is full, or there is no more; -errno.
 */
int dir_read(struct dir_listing *list, struct dir *dir, int64_t offset);

#endif
