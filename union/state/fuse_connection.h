/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNION_FUSE_CONNECTION_H
#define UNION_FUSE_CONNECTION_H

#include <stdint.h>

/*
 * End the connection to the kernel of @fuse_fd, a descriptor of /dev/fuse, even
 * if other processes have it. Requests that wait fail (ECONNABORTED). The mount
 * is dead (ENOTCONN), wherever it is.
 *
 * 0, or -errno: -EOPNOTSUPP where the kernel does not say which one it is
 * ("fuse_connection" in /proc/self/fdinfo; Linux 6.18 does).
 */
int fuse_connection_abort(int fuse_fd);

/*
 * Answer the request @unique with @error (negative). The kernel refuses the
 * answer to a request that it has ended, or that was answered before: nobody
 * waits for that.
 */
void fuse_connection_answer(int fuse_fd, uint64_t unique, int error);

#endif
