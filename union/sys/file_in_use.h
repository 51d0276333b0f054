/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Is a file of a branch open or mapped by a process, past the server? A file
 * that the kernel passes through is mapped from the branch. Such a mapping
 * outlives the open file of the union that it was made by. Only the close
 * of the open file is told to the server.
 */
#ifndef UNION_FILE_IN_USE_H
#define UNION_FILE_IN_USE_H

/*
 * Check that nobody has the regular file open or mapped, or runs it, but by
 * @fd, which may be open for reading or writing. A process that opens the file
 * in this moment waits for the server.
 *
 * 0; -EBUSY: a process has it; or -errno: that cannot be known (-EINVAL: its
 * file system has no leases, -EACCES: the server may have none).
 */
int file_in_use(int fd);

/*
 * Check that nobody has the file open for writing, or mapped it from such an
 * open file, but by @fd, which is open for reading. A process that opens the
 * file for writing in this moment waits for the server. Results as of
 * file_in_use().
 */
int file_is_written(int fd);

#endif
