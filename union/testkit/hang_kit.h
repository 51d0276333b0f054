/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For tests: a file system in which who calls hangs when he is killed (state
 * D): of FUSE, and what serves it reads the requests and answers none. It needs
 * root and /dev/fuse.
 */
#ifndef UNION_HANG_KIT_H
#define UNION_HANG_KIT_H

#include <stdbool.h>
#include <sys/types.h>

struct hang_fs {
	char path[64];
	int fuse_fd;
	int root_fd; /* its root; an O_PATH descriptor */
	int mount_id;
	pid_t reader;
	struct hang_shared *shared;
};

bool hang_fs_can(void);
/* -1: it cannot be mounted. */
int hang_fs_start(struct hang_fs *ret);
/* All that hangs there comes back; the children that there are have ended. */
void hang_fs_end(struct hang_fs *fs);

/* Returns when so many calls wait there. */
void hang_fs_wait(const struct hang_fs *fs, unsigned calls);

/*
 * A process of which a thread other than the first does @call, and hangs. It is
 * killed; that thread alone is left.
 */
pid_t hang_process(const struct hang_fs *fs,
		   void (*call)(const struct hang_fs *fs), pid_t *ret_thread);

#endif
