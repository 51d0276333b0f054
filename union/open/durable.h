/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A union that is mounted sync or dirsync (mount(8)): what a request changed is
 * on the branches' disks before it is answered. The kernel asks for neither of
 * a FUSE file system, so it is done here.
 */
#ifndef UNION_DURABLE_H
#define UNION_DURABLE_H

#include "union/view/unionfs.h"

/*
 * The request that this thread serves has changed names or attributes, if it is
 * one that does: before its answer, also when it comes again. 0 or -errno: then
 * that is its answer.
 */
int durable_request(struct unionfs *fs);

/* The data of the open file @fd was changed. The same. */
int durable_data(const struct unionfs *fs, int fd);

#endif
