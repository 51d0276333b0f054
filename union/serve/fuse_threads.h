/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The threads that take requests from the kernel and serve them. A request is
 * whole in memory before libfuse decodes it, so that struct request can hold
 * what libfuse does not tell.
 */
#ifndef UNION_FUSE_THREADS_H
#define UNION_FUSE_THREADS_H

#include "union/view/unionfs.h"

struct fuse_threads;

/*
 * Start @threads of them, and later one for each that waits for a branch
 * (watchdog.h). The last thread to end calls @when_done, once the file system
 * is unmounted or the connection is lost.
 */
int fuse_threads_start(struct unionfs *fs, unsigned threads,
		       void (*when_done)(void *context), void *context,
		       struct fuse_threads **ret);

/* Free, after @when_done. 0, or -errno if a thread met an error. */
int fuse_threads_finish(struct fuse_threads *serve);

#endif
