/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNION_FUSE_CONNECTION_H
#define UNION_FUSE_CONNECTION_H

#include <stdint.h>

/*
 * End the connection to the kernel that @fuse_fd, a descriptor of /dev/fuse,
 * is of, whoever else has it: who waits for it is answered (ECONNABORTED), and
 * its mount, wherever that is, is dead (ENOTCONN).
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
