/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptors of other processes (proc(5), /proc/PID/fd). */
#ifndef BASE_PROCESS_FD_H
#define BASE_PROCESS_FD_H

#include <stdbool.h>
#include <sys/types.h>

/*
 * Tell whether @name in @fds, which is /proc/PID/fd, is the block device
 * @device. Only a file in /dev is asked what it is. Another one may be on a
 * server that does not answer, or be unmounted meanwhile, which would fail.
 */
bool process_fd_is_device(int fds, const char *name, dev_t device);

#endif
