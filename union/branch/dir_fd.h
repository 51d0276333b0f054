/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Descriptors of the directories used lately, so that a request in
 * a directory does not open it anew. The least recently used are closed.
 *
 * Each has its attributes with it. The kernel asks for those of a directory
 * after each name made in it. So for a directory with many copies that costs
 * one stat, and not one for each copy. The attributes are kept only while
 * nobody has the descriptor, as a change of the directory needs it.
 *
 * A caller may change directories in another way, or read them, which changes
 * the access time. It calls dir_fd_changes_begin() before and
 * dir_fd_changes_end() after. Between them nothing is kept. All requests count
 * as such changes, but for the kinds of dir_fd_is_told().
 */
#ifndef UNION_DIR_FD_H
#define UNION_DIR_FD_H

#include <sys/stat.h>

#include "union/state/node_record.h"

#define DIR_FD_MAX 512 /* kept open, besides those in use */

struct dir_fd {
	int fd;
	unsigned users;
	unsigned gets;     /* how often anybody became one */
	struct copy *copy; /* NULL: to be closed with its last user */
	struct dir_fd *newer, *older;
	struct dir_fd *next; /* of those with the same hash */
	uint64_t since;      /* when @st was asked for; 0: never. See now() */
	struct stat st;
};

/*
 * Get the directory @copy, on the mount of @mount_fd. 0 and @ret, which is held
 * until dir_fd_put(); -ESTALE when the directory is no more; -EMFILE and the
 * like.
 *
 * @access  O_PATH, or O_RDONLY; the same for all on a branch
 */
int dir_fd_get(struct copy *copy, int mount_fd, int access,
	       struct dir_fd **ret);
void dir_fd_put(struct dir_fd *dir); /* NULL is fine */

/*
 * Get the stat of the directory @copy, on the mount of @mount_fd. A kept one is
 * used if nothing can have changed it since.
 *
 * @keeps  no other program changes it
 */
int dir_fd_stat(struct copy *copy, int mount_fd, int access, bool keeps,
		struct stat *ret);

/* Announce that directories are changed or read without their dir_fd. */
void dir_fd_changes_begin(void);
void dir_fd_changes_end(void);

/* Announce it for directories on @branch (its id) alone. */
void dir_fd_changes_begin_on(unsigned branch);
void dir_fd_changes_end_on(unsigned branch);

/* Do requests of this kind (FUSE_*) change directories by dir_fd alone? */
bool dir_fd_is_told(uint32_t opcode);

/* Close those on @branch, as soon as nobody uses them. */
void dir_fd_drop_branch(unsigned branch);

/*
 * Drop the descriptor of @copy, if there ever was one. @copy is about to be
 * freed, or its directory was removed.
 */
void dir_fd_drop(struct copy *copy);

static inline void cleanup_dir_fd(struct dir_fd **dir)
{
	dir_fd_put(*dir);
}
#define auto_dir_fd auto_cleanup(cleanup_dir_fd)

#endif
