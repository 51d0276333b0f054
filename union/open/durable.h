/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A union that is mounted sync or dirsync (mount(8)): the changes of a request
 * are on the branches' disks before it is answered. The kernel asks a FUSE file
 * system for neither, so it is done here.
 */
#ifndef UNION_DURABLE_H
#define UNION_DURABLE_H

#include "union/view/unionfs.h"

/*
 * Make durable the names or attributes that this thread's request changed, if
 * it is one that does. Called before its answer, also when the request comes
 * again. 0 or -errno: then that is its answer.
 */
int durable_sync(struct unionfs *fs, const struct request *request);
static inline int durable_request(struct unionfs *fs,
				  const struct request *request)
{
	return fs->syncs || fs->dirsyncs ? durable_sync(fs, request) : 0;
}

/* Make the data of the open file @fd durable likewise. */
int durable_data(const struct unionfs *fs, int fd);

#endif
