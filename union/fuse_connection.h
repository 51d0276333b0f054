/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNION_FUSE_CONNECTION_H
#define UNION_FUSE_CONNECTION_H

/*
 * End the connection to the kernel that @fuse_fd, a descriptor of /dev/fuse,
 * is of, whoever else has it: who waits for it is answered (ECONNABORTED), and
 * its mount, wherever that is, is dead (ENOTCONN).
 *
 * 0, or -errno: -EOPNOTSUPP where the kernel does not say which one it is
 * ("fuse_connection" in /proc/self/fdinfo; Linux 6.18 does).
 */
int fuse_connection_abort(int fuse_fd);

#endif
