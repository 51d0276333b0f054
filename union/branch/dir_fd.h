/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Descriptors of the directories used lately, so that a request in
 * a directory does not open it anew. The least recently used are closed.
 *
 * With each its attributes, so that those of a directory with many copies,
 * which the kernel asks for after each name that is made in it, cost one stat
 * and not as many as there are copies. They are kept only while nobody has
 * the descriptor: who is to change the directory gets it. Whoever changes
 * directories in another way, or reads them (which changes the time of the
 * last access), says so by dir_fd_changes_begin() before and
 * dir_fd_changes_end() after; between them nothing is kept. A request is
 * taken to do that unless it is of a kind known not to: dir_fd_is_told().
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
 * The directory @copy, on the mount of @mount_fd. 0 and @ret, which is held
 * until dir_fd_put(); -ESTALE when it is no more; -EMFILE and the like.
 *
 * @access  O_PATH, or O_RDONLY; the same for all on a branch
 */
int dir_fd_get(struct copy *copy, int mount_fd, int access,
	       struct dir_fd **ret);
void dir_fd_put(struct dir_fd *dir); /* NULL is fine */

/*
 * stat of the directory @copy, on the mount of @mount_fd, as it was when it
 * was asked for last if nothing can have changed it since.
 *
 * @keeps  nobody but us changes it
 */
int dir_fd_stat(struct copy *copy, int mount_fd, int access, bool keeps,
		struct stat *ret);

/* Directories are changed or read by others than who has their dir_fd. */
void dir_fd_changes_begin(void);
void dir_fd_changes_end(void);

/* The same of directories on @branch (its id) alone. */
void dir_fd_changes_begin_on(unsigned branch);
void dir_fd_changes_end_on(unsigned branch);

/* Do requests of this kind (FUSE_*) change directories by dir_fd alone? */
bool dir_fd_is_told(uint32_t opcode);

/* Close those on @branch, as soon as nobody uses them. */
void dir_fd_drop_branch(unsigned branch);

/*
 * @copy, which may be one that never had any, is about to be freed, or its
 * directory was removed.
 */
void dir_fd_drop(struct copy *copy);

static inline void cleanup_dir_fd(struct dir_fd **dir)
{
	dir_fd_put(*dir);
}
#define auto_dir_fd auto_cleanup(cleanup_dir_fd)

#endif
