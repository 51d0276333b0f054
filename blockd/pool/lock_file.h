/* SPDX-License-Identifier: Apache-2.0 */
/* A file that one live process may hold. The kernel drops it with the process.
 */
#ifndef BLOCKD_LOCK_FILE_H
#define BLOCKD_LOCK_FILE_H

#include "base/error.h"

/*
 * Make @name if it is missing, lock it (base/file_lock.h) and write into it
 * whose it is.
 *
 * @what    "pool a at /srv/a": what the error says is in use
 * @ret_fd  owned; closing it gives the lock up
 *
 * Returns 0, or -EBUSY "WHAT is in use by blockd (pid N)".
 */
int lock_file_take(int dirfd, const char *name, const char *what, int *ret_fd,
		   struct error *err);

#endif
