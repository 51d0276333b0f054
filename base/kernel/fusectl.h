/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel's FUSE connections, as fusectl (fuse.rst) has them. */
#ifndef BASE_KERNEL_FUSECTL_H
#define BASE_KERNEL_FUSECTL_H

/*
 * Tell the number of the connection that is mounted at @mount_point, an
 * absolute path without links: the minor number of the mount's device. No
 * request goes to its server. 0: nothing is mounted there.
 */
unsigned fusectl_number(const char *mount_point);

/*
 * Open the means to end a FUSE connection. fusectl need not be mounted
 * anywhere.
 *
 * @number  of the connection: the minor number of its mount's device
 *
 * Returns a descriptor, owned, or -errno. -ENOENT: there is no such connection.
 */
int fusectl_open(unsigned number);

/*
 * End the connection of @fd, by fusectl_open(), whatever process or mount
 * namespace has it. Requests that wait fail (ECONNABORTED). The mount is dead
 * (ENOTCONN), wherever it is. A connection that has ended since it was opened:
 * 0, and a later connection of the same number is left alone. Or -errno.
 */
int fusectl_abort(int fd);

#endif
