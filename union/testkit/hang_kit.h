/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For tests: a FUSE file system in which a caller hangs when it is killed
 * (state D). Its server reads the requests and answers none. Needs root and
 * /dev/fuse.
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
/* Mount and serve it. -1: it cannot be mounted. */
int hang_fs_start(struct hang_fs *ret);
/*
 * End it. All calls that hang there come back; the children that there are have
 * ended.
 */
void hang_fs_end(struct hang_fs *fs);

/* Wait until so many calls wait there. */
void hang_fs_wait(const struct hang_fs *fs, unsigned calls);

/*
 * Start a process of which a thread other than the first does @call, and hangs.
 * The process is killed; that thread alone is left.
 */
pid_t hang_process(const struct hang_fs *fs,
		   void (*call)(const struct hang_fs *fs), pid_t *ret_thread);

#endif
