/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Descriptors (O_PATH) of the directories used lately, so that a request in
 * a directory does not open it anew. The least recently used are closed.
 */
#ifndef UNION_DIR_FD_H
#define UNION_DIR_FD_H

#include "union/node.h"

#define DIR_FD_MAX 512 /* kept open, besides those in use */

struct dir_fd {
	int fd;
	unsigned users;
	struct copy *copy; /* NULL: to be closed with its last user */
	struct dir_fd *newer, *older;
};

/*
 * The directory @copy, on the mount of @mount_fd. 0 and @ret, which is held
 * until dir_fd_put(); -ESTALE when it is no more; -EMFILE and the like.
 */
int dir_fd_get(struct copy *copy, int mount_fd, struct dir_fd **ret);
void dir_fd_put(struct dir_fd *dir); /* NULL is fine */

/* @copy is about to be freed, or its directory was removed. */
void dir_fd_drop(struct copy *copy);

static inline void cleanup_dir_fd(struct dir_fd **dir)
{
	dir_fd_put(*dir);
}
#define auto_dir_fd auto_cleanup(cleanup_dir_fd)

#endif
