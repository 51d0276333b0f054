/* SPDX-License-Identifier: Apache-2.0 */
/* An open file: fuse_file_info.fh is its number in unionfs.opened. */
#ifndef UNION_OPEN_FILE_H
#define UNION_OPEN_FILE_H

#include <fcntl.h>

#include "union/migrate/room.h"
#include "union/view/unionfs.h"

/*
 * A caller's open flags that our descriptor gets, too. Offsets and lengths come
 * from the kernel (no O_APPEND). Buffers are not aligned (no O_DIRECT). The
 * caller syncs by itself (no O_SYNC).
 */
#define OPEN_FILE_FLAGS (O_ACCMODE | O_NOATIME)

struct open_file {
	struct open_item item; /* first */
	/* Open as the caller may use it; without O_DIRECT, and without O_APPEND
	 * unless STATE_OPEN_APPENDS. -1: opened by another server, to be opened
	 * again when needed. */
	atomic_int fd;
	unsigned moves; /* of the node when it was opened: see open_file_fd() */
	struct branch *passed_writer; /* branch of a writer past us; or NULL */
	struct room_writer writer;    /* the same, for the room */
};

static inline struct open_file *open_file_of(const struct unionfs *fs,
					     const struct fuse_file_info *info)
{
	return open_table_get(&fs->opened, info->fh);
}

/*
 * Count one more open file and fill @info; take @fd, which may only append if
 * @appends. The reply is to be sent with the backing id returned in
 * @ret_backing. 0 or -errno.
 */
int open_file_new(struct request *request, struct node *node, int fd,
		  bool appends, struct fuse_file_info *info,
		  int32_t *ret_backing);
/* Close it, if it is open. */
void open_file_close(struct unionfs *fs, struct node *node,
		     const struct fuse_file_info *info);

/*
 * Return the descriptor of the open file @info of @node; it is opened anew when
 * the file has moved to another branch since. Or -errno.
 */
int open_file_fd(struct unionfs *fs, struct request *request,
		 const struct node *node, const struct fuse_file_info *info);

/*
 * Note that bytes of the file @node have just changed; length 0: all from
 * @offset on. A migration that copies the file is told.
 */
void open_file_changed(struct unionfs *fs, const struct node *node,
		       off_t offset, off_t length);

/*
 * Restore, by the same number, a file that another server opened; @flags as in
 * struct state_open. 0 or -ENOMEM.
 */
int open_file_restore(struct unionfs *fs, uint64_t number, struct node *node,
		      unsigned flags);

#endif
