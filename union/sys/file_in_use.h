/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Does somebody have a file of a branch open or mapped, past us? What the
 * kernel passes through it maps from the branch: such a mapping outlives the
 * open file of the union it was made by, of whose end we hear.
 */
#ifndef UNION_FILE_IN_USE_H
#define UNION_FILE_IN_USE_H

/*
 * 0: nobody has the regular file open (nor mapped, nor runs it) but by @fd,
 * which may be open for reading or writing. -EBUSY: somebody has; or -errno:
 * that cannot be known (-EINVAL: its file system has no leases, -EACCES: we
 * may have none). Who opens it in this moment waits for us.
 */
int file_in_use(int fd);

/*
 * 0: nobody has it open for writing, nor has mapped it from such a file; but
 * for @fd, which is open for reading. Else as file_in_use(). Who opens it for
 * writing in this moment waits for us.
 */
int file_is_written(int fd);

#endif
