/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A file that one live process may have locked: flock(2), so the kernel drops
 * the lock with the last process that has the descriptor. After a kill -9 that
 * takes a moment. The kernel may still take the process down, or a child may
 * have a copy of the descriptor until it executes its program. O_CLOEXEC does
 * not help before that. So the file says whose the lock is, and a lock whose
 * owner has ended, or is ending, is waited for.
 */
#ifndef BASE_FILE_LOCK_H
#define BASE_FILE_LOCK_H

#define FILE_LOCK_MS      5000 /* longest wait for an owner that ends */
#define FILE_LOCK_WHO_MAX 96   /* bytes */

/*
 * Lock @fd. Returns at once where the owner is alive.
 *
 * @who  FILE_LOCK_WHO_MAX bytes; set on -EBUSY: "trib-csi (pid 4711)"
 *
 * Returns 0, -EBUSY, or flock(2)'s error. Closing @fd gives the lock up.
 */
int file_lock_take(int fd, char *who);

/* Write into the locked @fd that it is ours. Returns 0 or an error. */
int file_lock_sign(int fd);

#endif
